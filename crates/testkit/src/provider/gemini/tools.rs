//! The tools of a Gemini request.
//!
//! Rules in `docs/providers.md`: `gemini/tool-definition`, `gemini/tool-names`, `gemini/tool-count`,
//! `gemini/tool-choice`.

use std::collections::HashSet;

use serde_json::Value;

use super::{array_field, check_keys, field, parameters, reject, string_field};
use crate::provider::check::Rejection;
use crate::provider::json::is_name;

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let mut names = HashSet::new();
    for (index, tool) in array_field(body, "tools").iter().enumerate() {
        let path = format!("tools[{index}]");
        check_keys(tool, &path, &TOOL_KEYS)?;
        let declarations = array_field(tool, "functionDeclarations");
        let path = format!("{path}.function_declarations");
        if declarations.len() > 512 {
            return Err(reject(&format!(
                "{path}: [FIELD_INVALID] At most 512 function declarations can be specified."
            )));
        }
        for (number, declaration) in declarations.iter().enumerate() {
            check_declaration(&format!("{path}[{number}]"), declaration)?;
            let name = string_field(declaration, "name").unwrap_or_default();
            if !names.insert(name) {
                return Err(reject(&format!("Duplicate function declaration found: {name}")));
            }
        }
    }
    check_config(body, &names)
}

fn check_declaration(path: &str, declaration: &Value) -> Result<(), Rejection> {
    check_keys(declaration, path, &DECLARATION_KEYS)?;
    let name = string_field(declaration, "name").unwrap_or_default();
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !has_valid_start || !is_name(name, 64, "_.:-") {
        return Err(reject(&format!(
            "* GenerateContentRequest.{path}.name: Invalid function name. Must start with a letter or an underscore. Must be a-z, \
             A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n"
        )));
    }
    for (openapi, json_schema) in [("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")]
    {
        if field(declaration, openapi).is_some() && field(declaration, json_schema).is_some() {
            return Err(reject(&format!(
                "* GenerateContentRequest.{path}: only one of `{openapi}` and `{json_schema}` may be set.\n"
            )));
        }
    }
    if let Some(schema) = field(declaration, "parameters") {
        parameters::check_openapi(&format!("{path}.parameters"), schema, true)?;
    }
    match field(declaration, "parametersJsonSchema") {
        Some(schema) => parameters::check_json_schema(&format!("{path}.parameters_json_schema"), schema),
        None => Ok(()),
    }
}

fn check_config(body: &Value, names: &HashSet<&str>) -> Result<(), Rejection> {
    let Some(config) = field(body, "toolConfig") else { return Ok(()) };
    check_keys(
        config,
        "tool_config",
        &["functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"],
    )?;
    let Some(calling) = field(config, "functionCallingConfig") else { return Ok(()) };
    let path = "tool_config.function_calling_config";
    check_keys(calling, path, &["mode", "allowedFunctionNames", "streamFunctionCallArguments"])?;
    let mode = string_field(calling, "mode").unwrap_or("AUTO");
    if !["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"].contains(&mode) {
        return Err(reject(&format!(
            "Invalid value at '{path}.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \
             \"{mode}\""
        )));
    }
    if names.is_empty() {
        return Err(reject("Function calling config is set without function_declarations."));
    }
    let allowed = array_field(calling, "allowedFunctionNames");
    if !allowed.is_empty() && !["ANY", "VALIDATED"].contains(&mode) {
        return Err(reject(
            "Allowed function names should only be set when function calling mode is ANY or VALIDATED.",
        ));
    }
    match allowed.iter().filter_map(Value::as_str).find(|name| !names.contains(name)) {
        Some(name) => {
            Err(reject(&format!("Allowed function name `{name}` is not one of the function declarations.")))
        }
        None => Ok(()),
    }
}

const TOOL_KEYS: [&str; 9] = [
    "functionDeclarations",
    "googleSearch",
    "googleSearchRetrieval",
    "codeExecution",
    "urlContext",
    "computerUse",
    "fileSearch",
    "googleMaps",
    "mcpServers",
];
const DECLARATION_KEYS: [&str; 7] = [
    "name",
    "description",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
    "behavior",
];
