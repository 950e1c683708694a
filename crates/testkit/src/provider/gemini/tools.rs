//! The tools of a Gemini request.
//!
//! | rule | source |
//! |---|---|
//! | fields; `parameters` or `parametersJsonSchema`, not both | 3.5 |
//! | names, unique names, at most 512 | 3.5, 8 Gemini |
//! | schemas | 3.5, 8 Gemini; see `parameters` |
//! | `toolConfig`: modes, names only with `ANY` and `VALIDATED`, not without declarations | 3.5 |

use std::collections::HashSet;

use serde_json::Value;

use super::{field, items, known, parameters, refuse, word};
use crate::provider::json::is_name;
use crate::provider::judge::Refusal;

pub(super) fn judge(body: &Value) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for (index, tool) in items(body, "tools").iter().enumerate() {
        let way = format!("tools[{index}]");
        known(tool, &way, &TOOL_KEYS)?;
        let declarations = items(tool, "functionDeclarations");
        let way = format!("{way}.function_declarations");
        if declarations.len() > 512 {
            return Err(refuse(&format!(
                "{way}: [FIELD_INVALID] At most 512 function declarations can be specified."
            )));
        }
        for (number, declaration) in declarations.iter().enumerate() {
            self::declaration(&format!("{way}[{number}]"), declaration)?;
            let name = word(declaration, "name").unwrap_or_default();
            if !names.insert(name) {
                return Err(refuse(&format!("Duplicate function declaration found: {name}")));
            }
        }
    }
    config(body, &names)
}

fn declaration(way: &str, declaration: &Value) -> Result<(), Refusal> {
    known(declaration, way, &DECLARATION_KEYS)?;
    let name = word(declaration, "name").unwrap_or_default();
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !starts || !is_name(name, 64, "_.:-") {
        return Err(refuse(&format!(
            "* GenerateContentRequest.{way}.name: Invalid function name. Must start with a letter or an underscore. Must be a-z, \
             A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n"
        )));
    }
    for (open, json) in [("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")] {
        if field(declaration, open).is_some() && field(declaration, json).is_some() {
            return Err(refuse(&format!(
                "* GenerateContentRequest.{way}: only one of `{open}` and `{json}` may be set.\n"
            )));
        }
    }
    if let Some(schema) = field(declaration, "parameters") {
        parameters::openapi(&format!("{way}.parameters"), schema, true)?;
    }
    field(declaration, "parametersJsonSchema")
        .map_or(Ok(()), |schema| parameters::json_schema(&format!("{way}.parameters_json_schema"), schema))
}

fn config(body: &Value, names: &HashSet<&str>) -> Result<(), Refusal> {
    let Some(config) = field(body, "toolConfig") else { return Ok(()) };
    known(
        config,
        "tool_config",
        &["functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"],
    )?;
    let Some(calling) = field(config, "functionCallingConfig") else { return Ok(()) };
    let way = "tool_config.function_calling_config";
    known(calling, way, &["mode", "allowedFunctionNames", "streamFunctionCallArguments"])?;
    let mode = word(calling, "mode").unwrap_or("AUTO");
    if !["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"].contains(&mode) {
        return Err(refuse(&format!(
            "Invalid value at '{way}.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \
             \"{mode}\""
        )));
    }
    if names.is_empty() {
        return Err(refuse("Function calling config is set without function_declarations."));
    }
    let allowed = items(calling, "allowedFunctionNames");
    if !allowed.is_empty() && !["ANY", "VALIDATED"].contains(&mode) {
        return Err(refuse(
            "Allowed function names should only be set when function calling mode is ANY or VALIDATED.",
        ));
    }
    match allowed.iter().filter_map(Value::as_str).find(|name| !names.contains(name)) {
        Some(name) => {
            Err(refuse(&format!("Allowed function name `{name}` is not one of the function declarations.")))
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
