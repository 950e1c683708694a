//! The tools of an Anthropic request.
//!
//! | rule | source |
//! |---|---|
//! | fields, names, unique names | 3.4, 8 Anthropic |
//! | schemas | 3.4, 8 Anthropic; see `schema` |
//! | strict: closed objects, at most 20 tools | 3.4, 8 AS |
//! | forms of `tool_choice`, only with tools | 3.4 |

use std::collections::HashSet;

use serde_json::Value;

use super::{extra, refuse, required};
use crate::provider::json::{flag, is_name, list, object, present, stranger, text};
use crate::provider::judge::Refusal;
use crate::provider::schema;

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    tools.iter().enumerate().try_for_each(|(index, one)| tool(index, one))?;
    let mut names = HashSet::new();
    if tools.iter().filter_map(|tool| text(tool, "name")).any(|name| !names.insert(name)) {
        return Err(refuse("tools: Tool names must be unique."));
    }
    let strict = tools.iter().filter(|tool| flag(tool, "strict")).count();
    if strict > 20 {
        let message =
            format!("Too many strict tools ({strict}). The maximum number of strict tools supported is 20.");
        return Err(refuse(&message));
    }
    choice(body, &names)
}

fn tool(index: usize, tool: &Value) -> Result<(), Refusal> {
    // The provider's own tools have other types and their own forms.
    if text(tool, "type").is_some_and(|kind| kind != "custom") {
        return Ok(());
    }
    let way = format!("tools.{index}.custom");
    let known = [
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "input_examples",
        "defer_loading",
        "allowed_callers",
        "eager_input_streaming",
    ];
    if let Some(key) = stranger(tool, &known) {
        return Err(extra(&format!("{way}.{key}")));
    }
    let name = text(tool, "name").ok_or_else(|| required(&format!("{way}.name")))?;
    if !is_name(name, 128, "_-") {
        let message = format!("{way}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'");
        return Err(refuse(&message));
    }
    if tool.get("description").is_some_and(|description| !description.is_string()) {
        return Err(refuse(&format!("{way}.description: Input should be a valid string")));
    }
    let input = tool.get("input_schema").ok_or_else(|| required(&format!("{way}.input_schema")))?;
    if let Some(problem) = schema::anthropic(input) {
        return Err(refuse(&format!("{way}.{problem}")));
    }
    if flag(tool, "strict") && is_open(input) {
        let message =
            format!("{way}: For 'object' type, 'additionalProperties' must be explicitly set to false");
        return Err(refuse(&message));
    }
    Ok(())
}

/// Whether an object in a schema may have other keys than it names.
fn is_open(schema: &Value) -> bool {
    let is_object = text(schema, "type") == Some("object");
    let open = is_object && schema.get("additionalProperties") != Some(&Value::Bool(false));
    let named = object(schema, "properties").into_iter().flat_map(|properties| properties.values());
    let listed = ["anyOf", "allOf"].into_iter().flat_map(|key| list(schema, key));
    let defined = object(schema, "$defs").into_iter().flat_map(|definitions| definitions.values());
    open || named.chain(listed).chain(defined).chain(schema.get("items")).any(is_open)
}

fn choice(body: &Value, names: &HashSet<&str>) -> Result<(), Refusal> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    let kind = text(choice, "type").ok_or_else(|| required("tool_choice.type"))?;
    let known: &[&str] = match kind {
        "auto" | "any" => &["type", "disable_parallel_tool_use"],
        "tool" => &["type", "name", "disable_parallel_tool_use"],
        "none" => &["type"],
        other => {
            return Err(refuse(&format!(
                "tool_choice: Input tag '{other}' found using 'type' does not match any of the expected tags: 'any', 'auto', \
                 'none', 'tool'"
            )));
        }
    };
    if let Some(key) = stranger(choice, known) {
        return Err(extra(&format!("tool_choice.{kind}.{key}")));
    }
    if names.is_empty() {
        return Err(refuse("tool_choice: tool_choice may only be specified while providing tools"));
    }
    if kind == "tool" {
        let name = text(choice, "name").ok_or_else(|| required("tool_choice.tool.name"))?;
        if !names.contains(name) {
            return Err(refuse(&format!("tool_choice: Tool '{name}' not found in provided tools")));
        }
    }
    Ok(())
}
