//! Lowers strings, numbers, booleans and null.

use super::types::{applies_to, implied_type};
use super::{LowerResult, Lowered, Lowering, MergedSchema};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Decimal, Member, Node, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::excerpt;
use crate::schema::is_annotation;
use crate::schema::pattern;
use crate::schema::profile::{FormatSupport, PatternSupport};

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn scalar(&mut self, name: &'static str, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text(name));
        let keeps_pattern = !self.grammar.lengths_beside_pattern
            && get(members, "pattern").is_some_and(|pattern| self.accepts_pattern(pattern));
        for member in members {
            if keeps_pattern && matches!(member.key, "minLength" | "maxLength") {
                self.describe_rules(&mut output, &[*member], place);
            } else if !is_annotation(member.key) && !matches!(member.key, "type" | "enum" | "const") {
                self.lower_keyword(name, &mut output, *member, place);
            }
        }
        self.describe_rules(&mut output, leftover, place);
        Ok(Lowered { node: self.typed(output.members()), plan: Plan::Same })
    }

    /// Keeps, replaces or describes one keyword of a schema of type `name`.
    pub(super) fn lower_keyword(
        &mut self,
        name: &str,
        output: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        let Member { key, value } = member;
        if !applies_to(key, name) {
            return match implied_type(key) {
                Some(_) => {
                    let detail = format!("{key} removed; it has no effect on type {name}");
                    self.record(place, key, Effect::Rewritten, detail);
                }
                None => self.describe_rules(output, &[member], place),
            };
        }
        let supported = match (key, value) {
            ("format", _) => return self.format(output, value, place),
            ("pattern", _) => self.accepts_pattern(value),
            ("minItems", Node::Number(digits)) if self.grammar.small_min_items => matches!(digits, "0" | "1"),
            _ => self.grammar.has_bound(key),
        };
        if supported {
            return output.put(key, value);
        }
        if name == "integer"
            && let Some((bound, digits)) = inclusive_bound(key, value)
            && self.grammar.has_bound(bound)
        {
            let existing_is_tighter = match output.get(bound) {
                Some(Node::Number(existing)) => {
                    (Decimal::of(existing) > Decimal::of(&digits)) == (bound == "minimum")
                }
                _ => false,
            };
            if !existing_is_tighter {
                output.put(bound, Node::Number(self.context.arena.alloc_str(&digits)));
            }
            let detail = format!("{key} replaced by {bound} {digits}");
            return self.record(place, key, Effect::Rewritten, detail);
        }
        self.describe_rules(output, &[member], place);
    }

    fn accepts_pattern(&self, pattern: Node<'a>) -> bool {
        let Some(text) = pattern.text(self.context.arena) else { return false };
        match self.grammar.patterns {
            PatternSupport::Any => true,
            PatternSupport::None => false,
            PatternSupport::Simple => pattern::is_simple(text),
            PatternSupport::WithoutLookaround => pattern::is_without_lookaround(text),
        }
    }

    fn format(&mut self, output: &mut ObjectEdit<'a>, value: Node<'a>, place: &Place<'_>) {
        let name = value.text(self.context.arena).unwrap_or_default();
        let supported = match self.grammar.formats {
            FormatSupport::Any => true,
            FormatSupport::Only(groups) => groups.iter().any(|names| names.contains(&name)),
        };
        if supported {
            return output.put("format", value);
        }
        self.context.describe(output, &format!("Format: {name}"));
        let detail = format!("format {} moved to the description", excerpt(value));
        self.record(place, "format", Effect::Dropped, detail);
    }
}

/// Returns an exclusive bound on integers as an inclusive one.
fn inclusive_bound(key: &str, value: Node<'_>) -> Option<(&'static str, String)> {
    let Node::Number(digits) = value else { return None };
    let number: i128 = digits.parse().ok()?;
    match key {
        "exclusiveMinimum" => Some(("minimum", (number.checked_add(1)?).to_string())),
        "exclusiveMaximum" => Some(("maximum", (number.checked_sub(1)?).to_string())),
        _ => None,
    }
}
