//! Keeps the JSON text of a client's request, for endpoints that have the same API.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use toolwire_contract::model::{ProviderTool, VerbatimRequest};

use super::ClientRequest;
use crate::Family;
use crate::native_tools::{NativeTool, qualified_name};

/// Fields that every request replaces.
const REPLACED: [&str; 8] = [
    "model",
    "stream",
    "stream_options",
    "tools",
    "mcp_servers",
    "functions",
    "function_call",
    // The agent applies it to the calls that it makes; the provider makes none.
    "max_tool_calls",
];

/// The types of items that define tools.
const ITEMS_WITH_TOOLS: [&str; 2] = [ADDITIONAL_TOOLS, "tool_search_output"];

const ADDITIONAL_TOOLS: &str = "additional_tools";

/// The positions in a body from which the parts of a request were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sources {
    /// Items that contain instructions.
    pub(crate) instruction_items: Vec<usize>,
    /// The items of each message; `None` if the message is not what the client sent.
    pub(crate) messages: Vec<Option<Vec<usize>>>,
    pub(crate) tools: Vec<ToolSource>,
    /// The definitions of tools in items of the conversation, with their paths.
    pub(crate) item_tools: Vec<(String, Value)>,
    /// The names of tools that only this API has.
    pub(crate) native_tools: Vec<String>,
    /// The tools that the provider runs.
    pub(crate) provider_tools: Vec<ProviderToolSource>,
    /// Whether the choice restricts the client's tools, so that another one is sent.
    pub(crate) restricts_tools: bool,
}

/// The position of a tool's definition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolSource {
    pub(crate) name: String,
    /// The position in `tools`, which several tools of one namespace share; `None` if an item of the
    /// conversation contains the definition.
    pub(crate) position: Option<usize>,
}

/// The position of the definition of a tool that the provider runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProviderToolSource {
    pub(crate) name: String,
    /// The position in `tools`; `None` if an item of the conversation contains the definition.
    pub(crate) position: Option<usize>,
    /// The number of [`Sources::tools`] before it.
    pub(crate) tools_before: usize,
}

impl ClientRequest {
    /// Returns the parts of the body that this request was read from; `None` if the body is not a request of
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
        // `allowed_tools` may have removed tools of the client, so that servers' tools can have their names.
        let offered: HashSet<&str> = self.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let offered_everywhere: HashSet<&str> =
            offered.iter().copied().chain(self.provider_tools()).collect();
        let item_text = |position: &usize| {
            let text = item(position)?;
            Some(match self.sources.restricts_tools {
                true => restricted_item(text, &offered_everywhere),
                false => text.clone(),
            })
        };
        let at = |positions: &[usize]| -> Option<Vec<String>> {
            let texts: Option<Vec<String>> = positions.iter().map(item_text).collect();
            texts.map(|texts| texts.into_iter().filter(|text| !text.is_empty()).collect())
        };
        let messages = self.request.messages.iter().zip(&self.sources.messages);
        Some(VerbatimRequest {
            family: family.meta_key(),
            fields: fields.into_iter().map(|(name, text)| (name, text.get().to_owned())).collect(),
            preceding_instructions: None,
            instructions: self.request.instructions.clone(),
            instruction_items: at(&self.sources.instruction_items)?,
            messages: messages
                .filter_map(|(message, source)| Some((message.clone(), at(source.as_deref()?)?)))
                .collect(),
            tools: definitions(&self.sources.tools, &tools, &offered)?,
            native_tools: self.sources.native_tools.clone(),
            provider_tools: self.provider_definitions(&tools, &offered)?,
            tool_choice: self.request.tool_choice.clone(),
            headers: Vec::new(),
        })
    }

    /// Returns the definitions of the tools that the provider runs, with their positions among the offered
    /// tools.
    fn provider_definitions(&self, texts: &[String], offered: &HashSet<&str>) -> Option<Vec<ProviderTool>> {
        let definition = |tool: &ProviderToolSource| {
            let before = self.sources.tools.iter().take(tool.tools_before);
            let position = before.filter(|source| offered.contains(source.name.as_str())).count();
            let definition = texts.get(tool.position?)?.clone();
            Some(ProviderTool { name: tool.name.clone(), definition, position })
        };
        let in_tools = self.sources.provider_tools.iter().filter(|tool| tool.position.is_some());
        in_tools.map(definition).collect()
    }
}

/// Returns the names and the definitions of the offered tools. A definition of several tools belongs to the
/// first of them, and the others have an empty text.
fn definitions(
    sources: &[ToolSource],
    texts: &[String],
    offered: &HashSet<&str>,
) -> Option<Vec<(String, String)>> {
    let is_offered = |source: &&ToolSource| offered.contains(source.name.as_str());
    let mut used = HashSet::new();
    let definition = |source: &ToolSource| {
        let Some(position) = source.position.filter(|position| used.insert(*position)) else {
            return Some((source.name.clone(), String::new()));
        };
        let text = texts.get(position)?;
        let is_here = |source: &&ToolSource| source.position == Some(position);
        let is_complete = sources.iter().filter(is_here).all(|source| is_offered(&source));
        let text = if is_complete { text.clone() } else { restricted(text, offered)? };
        Some((source.name.clone(), text))
    };
    sources.iter().filter(is_offered).map(definition).collect()
}

/// Returns the definition of a namespace with only the offered tools.
fn restricted(definition: &str, offered: &HashSet<&str>) -> Option<String> {
    let mut definition: Value = serde_json::from_str(definition).ok()?;
    restrict_namespace(&mut definition, offered)?;
    Some(definition.to_string())
}

/// Removes the tools of a namespace that are not offered, and returns the number of the others.
fn restrict_namespace(definition: &mut Value, offered: &HashSet<&str>) -> Option<usize> {
    let namespace = definition.get("name")?.as_str()?.to_owned();
    let tools = definition.get_mut("tools")?.as_array_mut()?;
    tools.retain(|tool| {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        offered.contains(qualified_name(&namespace, name).as_str())
    });
    Some(tools.len())
}

/// Returns the text of an item of the conversation with only those of its tools that are offered. An item
/// `additional_tools` without such a tool becomes an empty text.
fn restricted_item(text: &str, offered: &HashSet<&str>) -> String {
    let mut item: Value = match ITEMS_WITH_TOOLS.iter().any(|type_name| text.contains(type_name)) {
        true => serde_json::from_str(text).unwrap_or_default(),
        false => Value::Null,
    };
    let type_name = item.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let tools = item.get_mut("tools").and_then(Value::as_array_mut);
    let Some(tools) = tools.filter(|_| ITEMS_WITH_TOOLS.contains(&&*type_name)) else {
        return text.to_owned();
    };
    let before = tools.clone();
    tools.retain_mut(|tool| is_offered(tool, offered));
    match (*tools == before, tools.is_empty() && type_name == ADDITIONAL_TOOLS) {
        (true, _) => text.to_owned(),
        (false, true) => String::new(),
        (false, false) => item.to_string(),
    }
}

/// Whether a definition in an item is offered. Tools of a namespace that are not offered are removed from it.
fn is_offered(definition: &mut Value, offered: &HashSet<&str>) -> bool {
    let kind = definition.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "namespace" {
        return restrict_namespace(definition, offered).is_some_and(|count| count > 0);
    }
    let native = NativeTool::of_definition(definition).map(|native| native.name);
    let name = native.or_else(|| definition.get("name")?.as_str()).unwrap_or(kind);
    offered.contains(name)
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
