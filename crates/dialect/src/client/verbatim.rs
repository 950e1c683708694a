//! Keeps the JSON text of a client's request, for endpoints that have the same API.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use toolwire_contract::VerbatimRequest;

use super::ClientRequest;
use crate::Family;

/// Fields that every request replaces.
const REPLACED: [&str; 7] =
    ["model", "stream", "stream_options", "tools", "mcp_servers", "functions", "function_call"];

/// The positions in a body from which the parts of a request were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sources {
    /// Items that contain instructions.
    pub(crate) instruction_items: Vec<usize>,
    /// The items of each message; `None` if the message is not what the client sent.
    pub(crate) messages: Vec<Option<Vec<usize>>>,
    /// The name of each tool, and its position.
    pub(crate) tools: Vec<(String, usize)>,
    /// The names of tools that only this API has.
    pub(crate) native_tools: Vec<String>,
    /// Whether the choice restricts the client's tools, so that another one is sent.
    pub(crate) restricts_tools: bool,
}

impl ClientRequest {
    /// Returns the parts of the body that this request was read from. `None`: the body is not a request of
    /// this family.
    pub fn verbatim(&self, family: Family, body: &str) -> Option<VerbatimRequest> {
        let format = family.format().verbatim?;
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(body).ok()?;
        let items = fields.remove(format.items)?.get();
        let items = match items.starts_with('"') {
            true => vec![format!(r#"{{"role":"user","content":{items}}}"#)],
            false => texts(items)?,
        };
        let tools = fields.get("tools").and_then(|tools| texts(tools.get())).unwrap_or_default();
        let names_servers = self.sources.restricts_tools || self.required_tool.is_some();
        let is_kept = |name: &str| !(REPLACED.contains(&name) || name == "tool_choice" && names_servers);
        // `null` means absent, so it must not replace a value of the configuration.
        fields.retain(|name, value| is_kept(name) && value.get() != "null");
        let has_references = family == Family::OpenAiResponses;
        let is_complete = |text: &&String| !(has_references && is_reference(text));
        let item = |position: &usize| items.get(*position).filter(is_complete);
        let at = |positions: &[usize]| -> Option<Vec<String>> {
            positions.iter().map(|position| item(position).cloned()).collect()
        };
        let messages = self.request.messages.iter().zip(&self.sources.messages);
        // `allowed_tools` may have removed tools of the client, so that servers' tools can have their names.
        let offered: HashSet<&str> = self.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let tool = |(name, position): &(String, usize)| {
            offered.contains(name.as_str()).then_some(())?;
            Some((name.clone(), tools.get(*position)?.clone()))
        };
        Some(VerbatimRequest {
            family: family.meta_key(),
            fields: fields.into_iter().map(|(name, text)| (name, text.get().to_owned())).collect(),
            preceding_instructions: None,
            instructions: self.request.instructions.clone(),
            instruction_items: at(&self.sources.instruction_items)?,
            messages: messages
                .filter_map(|(message, source)| Some((message.clone(), at(source.as_deref()?)?)))
                .collect(),
            tools: self.sources.tools.iter().filter_map(tool).collect(),
            native_tools: self.sources.native_tools.clone(),
            tool_choice: self.request.tool_choice.clone(),
            headers: Vec::new(),
        })
    }
}

/// The fields of an item that determine what it is.
#[derive(Deserialize)]
struct ItemKind<'t> {
    #[serde(borrow, default, rename = "type")]
    type_name: Option<Cow<'t, str>>,
    #[serde(default)]
    role: Option<IgnoredAny>,
}

/// Whether an item may be only a reference to the item that was read. It may have no type.
fn is_reference(item: &str) -> bool {
    let Ok(kind) = serde_json::from_str::<ItemKind<'_>>(item) else { return true };
    match kind.type_name {
        Some(name) => name == "item_reference",
        None => kind.role.is_none(),
    }
}

/// Returns the texts of the elements of an array.
fn texts(array: &str) -> Option<Vec<String>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    Some(elements.into_iter().map(|element| element.get().to_owned()).collect())
}
