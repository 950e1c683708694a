//! Chooses the tools of an Anthropic request that are strict, because a request may have only some.
//!
//! Tools that were used come first, then tools with more required arguments: they gain most from strict mode.

use std::cmp::Reverse;

use crate::json::Node;
use crate::schema::{Converted, SchemaSize};

/// Whether a tool is strict, although not all tools can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Strict(String),
    NotStrict(String),
}

/// The counts of one Anthropic request that are limited for its strict tools.
#[derive(Clone, Copy, Default)]
struct StrictUsage {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl StrictUsage {
    const MAX_TOOLS: usize = 20;
    const MAX_OPTIONAL: usize = 24;
    const MAX_UNIONS: usize = 16;

    fn with(self, size: &SchemaSize) -> StrictUsage {
        StrictUsage {
            tools: self.tools + 1,
            optional: self.optional + size.optional,
            unions: self.unions + size.unions,
        }
    }

    /// Returns the first limit that is exceeded, in words.
    fn exceeded(&self) -> Option<String> {
        let counts = [
            (self.tools, Self::MAX_TOOLS, "strict tools"),
            (self.optional, Self::MAX_OPTIONAL, "optional properties in strict tools"),
            (self.unions, Self::MAX_UNIONS, "unions in strict tools"),
        ];
        let (count, limit, what) = counts.into_iter().find(|(count, limit, _)| count > limit)?;
        Some(format!("with this tool, the request would have {count} {what}; the limit is {limit}"))
    }
}

/// Chooses the strict tools of a request. An entry of `tools` is `None` if the tool cannot be strict; a
/// choice is `None` if there was nothing to choose. `recent_tools` are the names of tools that were used, the
/// most recent first.
pub(crate) fn choose(
    tools: &[Option<(&str, &Converted<'_>)>],
    recent_tools: &[String],
) -> Vec<Option<Choice>> {
    let required = |converted: &Converted<'_>| {
        converted.schema.member("required").and_then(Node::list).map_or(0, <[Node<'_>]>::len)
    };
    let use_of = |name: &str| recent_tools.iter().position(|recent| recent == name);
    let mut candidates: Vec<(usize, &str, &Converted<'_>)> = tools
        .iter()
        .enumerate()
        .filter_map(|(index, tool)| tool.map(|(name, converted)| (index, name, converted)))
        .collect();
    candidates.sort_by_cached_key(|(_, name, converted)| {
        let SchemaSize { optional, unions, .. } = converted.size;
        (use_of(name).unwrap_or(usize::MAX), Reverse(required(converted)), optional + unions)
    });
    let mut choices = vec![None; tools.len()];
    let mut usage = StrictUsage::default();
    for (index, name, converted) in &candidates {
        let total = usage.with(&converted.size);
        choices[*index] = Some(match total.exceeded() {
            Some(reason) => Choice::NotStrict(format!(
                "{reason}, and tools that were used before or have more required arguments come first"
            )),
            None => {
                usage = total;
                Choice::Strict(match (use_of(name), required(converted)) {
                    (Some(_), _) => "it was used before".to_owned(),
                    (None, 1) => "it has 1 required argument".to_owned(),
                    (None, count) => format!("it has {count} required arguments"),
                })
            }
        });
    }
    if choices.iter().flatten().all(|choice| matches!(choice, Choice::Strict(_))) {
        choices.fill(None);
    }
    choices
}
