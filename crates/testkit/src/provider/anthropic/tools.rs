//! The tools of an Anthropic request.
//!
//! Rules in `docs/providers.md`: `anthropic/tool-definition`, `anthropic/tool-names`, `anthropic/schema`,
//! `anthropic/tool-choice`, `anthropic-strict/closed-objects`, `anthropic-strict/limits`.

use std::collections::HashSet;

use serde_json::Value;

use super::{check_keys, reject, required};
use crate::provider::check::Rejection;
use crate::provider::json::{flag, is_name, list, object, present, text};
use crate::provider::schema;

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let tools = list(body, "tools");
    tools.iter().enumerate().try_for_each(|(index, tool)| check_tool(index, tool))?;
    let mut names = HashSet::new();
    if tools.iter().filter_map(|tool| text(tool, "name")).any(|name| !names.insert(name)) {
        return Err(reject("tools: Tool names must be unique."));
    }
    let strict = tools.iter().filter(|tool| flag(tool, "strict")).count();
    if strict > 20 {
        let message =
            format!("Too many strict tools ({strict}). The maximum number of strict tools supported is 20.");
        return Err(reject(&message));
    }
    check_choice(body, &names)
}

fn check_tool(index: usize, tool: &Value) -> Result<(), Rejection> {
    // The provider's own tools have other types and other fields.
    if text(tool, "type").is_some_and(|kind| kind != "custom") {
        return Ok(());
    }
    let path = format!("tools.{index}.custom");
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
    check_keys(tool, &known, Some(&path))?;
    let name = text(tool, "name").ok_or_else(|| required(&format!("{path}.name")))?;
    check_name(&path, name)?;
    if tool.get("description").is_some_and(|description| !description.is_string()) {
        return Err(reject(&format!("{path}.description: Input should be a valid string")));
    }
    let input = tool.get("input_schema").ok_or_else(|| required(&format!("{path}.input_schema")))?;
    if let Some(problem) = schema::anthropic_problem(input) {
        return Err(reject(&format!("{path}.{problem}")));
    }
    if flag(tool, "strict") && is_open(input) {
        let message =
            format!("{path}: For 'object' type, 'additionalProperties' must be explicitly set to false");
        return Err(reject(&message));
    }
    Ok(())
}

pub(super) fn check_name(path: &str, name: &str) -> Result<(), Rejection> {
    if is_name(name, 128, "_-") {
        return Ok(());
    }
    Err(reject(&format!("{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")))
}

/// Whether a schema contains an object that allows undeclared properties.
pub(super) fn is_open(schema: &Value) -> bool {
    let is_object = text(schema, "type") == Some("object");
    let is_open_itself = is_object && schema.get("additionalProperties") != Some(&Value::Bool(false));
    let named = object(schema, "properties").into_iter().flat_map(|properties| properties.values());
    let listed = ["anyOf", "allOf"].into_iter().flat_map(|key| list(schema, key));
    let defined = object(schema, "$defs").into_iter().flat_map(|definitions| definitions.values());
    is_open_itself || named.chain(listed).chain(defined).chain(schema.get("items")).any(is_open)
}

fn check_choice(body: &Value, names: &HashSet<&str>) -> Result<(), Rejection> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    let kind = text(choice, "type").ok_or_else(|| required("tool_choice.type"))?;
    let known: &[&str] = match kind {
        "auto" | "any" => &["type", "disable_parallel_tool_use"],
        "tool" => &["type", "name", "disable_parallel_tool_use"],
        "none" => &["type"],
        other => {
            return Err(reject(&format!(
                "tool_choice: Input tag '{other}' found using 'type' does not match any of the expected tags: 'any', 'auto', \
                 'none', 'tool'"
            )));
        }
    };
    check_keys(choice, known, Some(&format!("tool_choice.{kind}")))?;
    if names.is_empty() {
        return Err(reject("tool_choice: tool_choice may only be specified while providing tools"));
    }
    if kind == "tool" {
        let name = text(choice, "name").ok_or_else(|| required("tool_choice.tool.name"))?;
        if !names.contains(name) {
            return Err(reject(&format!("tool_choice: Tool '{name}' not found in provided tools")));
        }
    }
    Ok(())
}
