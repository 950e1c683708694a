//! The tools of a Chat Completions request.
//!
//! Rules in `docs/providers.md`: `openai-chat/tool-definition`, `openai-chat/tool-count`,
//! `openai-chat/tool-names`, `openai-chat/tool-choice`, `openai-chat/schema`, `openai-strict/*`,
//! `mistral/tool-names`, `mistral/schema`, `mistral/tool-choice`, `groq/tools`, `deepseek/tools`,
//! `deepseek/thinking`, `xai/tools`, `vllm/requests`, `llama-cpp/requests`, `dial/tools`.

use serde_json::Value;

use super::flavour::ChatFlavour;
use super::messages::is_thinking;
use crate::provider::check::Rejection;
use crate::provider::json::{flag, is_name, present, text, unknown_key};
use crate::provider::{Api, openai_errors, schema};

pub(super) fn check(flavour: &ChatFlavour, body: &Value) -> Result<(), Rejection> {
    let Some(tools) = present(body, "tools") else { return check_without_tools(flavour, body) };
    let tools = tools.as_array().ok_or_else(|| flavour.wrong_type("tools", "an array", tools))?;
    if tools.is_empty() {
        return match flavour.api {
            Api::LlamaCpp | Api::Mistral | Api::Xai | Api::DeepSeek => Ok(()),
            _ => Err(flavour.empty_array("tools")),
        };
    }
    if let Some(max) = flavour.max_tools.filter(|&max| tools.len() > max) {
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {max}, but got an array with length {} \
             instead.",
            tools.len()
        );
        return Err(flavour.reject(&message, Some("tools"), Some("array_above_max_length")));
    }
    for (index, tool) in tools.iter().enumerate() {
        check_tool(flavour, &format!("tools[{index}]"), tool)?;
    }
    check_choice(flavour, body, tools)
}

fn check_without_tools(flavour: &ChatFlavour, body: &Value) -> Result<(), Rejection> {
    for key in ["tool_choice", "parallel_tool_calls"] {
        if present(body, key).is_none() {
            continue;
        }
        return Err(match flavour.api {
            Api::OpenAiChat | Api::Azure | Api::Dial => {
                let message =
                    format!("Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.");
                flavour.reject(&message, Some(key), None)
            }
            Api::Vllm if key == "tool_choice" => {
                flavour.reject("When using `tool_choice`, `tools` must be set.", Some(key), None)
            }
            _ => continue,
        });
    }
    Ok(())
}

fn check_tool(flavour: &ChatFlavour, path: &str, tool: &Value) -> Result<(), Rejection> {
    let type_path = format!("{path}.type");
    match text(tool, "type").ok_or_else(|| flavour.missing(&type_path))? {
        "function" => {}
        "custom" if flavour.is_openai() => return Ok(()),
        "static_function" if flavour.api == Api::Dial => return Ok(()),
        other => {
            let second = if flavour.api == Api::Dial { "static_function" } else { "custom" };
            return Err(flavour.unsupported_value(&type_path, other, &["function", second]));
        }
    }
    let additional: &[&str] = if flavour.api == Api::Dial { &["custom_fields"] } else { &[] };
    flavour.check_keys(tool, &["type", "function"], additional, Some(path))?;
    let path = format!("{path}.function");
    let function = tool.get("function").ok_or_else(|| flavour.missing(&path))?;
    flavour.check_keys(function, &["name", "description", "parameters", "strict"], &[], Some(&path))?;
    let name_path = format!("{path}.name");
    let name = text(function, "name").ok_or_else(|| flavour.missing(&name_path))?;
    check_name(flavour, &name_path, name)?;
    if let Some(description) = present(function, "description").filter(|description| !description.is_string())
    {
        return Err(flavour.wrong_type(&format!("{path}.description"), "a string", description));
    }
    check_parameters(flavour, &format!("{path}.parameters"), name, function)
}

fn check_parameters(
    flavour: &ChatFlavour,
    path: &str,
    name: &str,
    function: &Value,
) -> Result<(), Rejection> {
    let Some(parameters) = present(function, "parameters") else {
        // Without parameters the tool takes none; only Mistral requires the field.
        return if flavour.api == Api::Mistral { Err(flavour.missing(path)) } else { Ok(()) };
    };
    if !parameters.is_object() {
        return Err(flavour.wrong_type(path, "an object", parameters));
    }
    let is_object = text(parameters, "type") == Some("object");
    let problem = match flavour.api {
        Api::OpenAiChat | Api::Azure | Api::Dial if flag(function, "strict") => {
            schema::openai_strict_problem(parameters)
        }
        Api::OpenAiChat | Api::Azure | Api::Dial => schema::openai_problem(parameters),
        Api::Groq | Api::DeepSeek if !is_object => {
            let kind = text(parameters, "type").unwrap_or("None");
            Some(format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."))
        }
        Api::Xai if !is_object => {
            return Err(flavour.reject("Invalid request content: Invalid function schema.", None, None));
        }
        Api::Mistral if !schema::is_draft7(parameters) => {
            let message = format!("Invalid tool schema: {parameters} is not a valid JSON schema");
            return Err(flavour.mistral_error(&message, "invalid_request_tool", "3290"));
        }
        _ => None,
    };
    match problem {
        Some(problem) => Err(flavour.reject_at(path, openai_errors::invalid_schema(name, &problem))),
        None => Ok(()),
    }
}

pub(super) fn check_name(flavour: &ChatFlavour, path: &str, name: &str) -> Result<(), Rejection> {
    match flavour.api {
        Api::Vllm | Api::LlamaCpp | Api::Xai => Ok(()),
        Api::Mistral if !is_name(name, 64, "_-") => {
            let message = format!(
                "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum \
                 length of 64."
            );
            Err(flavour.mistral_error(&message, "invalid_request_function_call", "3280"))
        }
        Api::Mistral => Ok(()),
        _ if name.is_empty() => {
            let message = format!(
                "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
            );
            Err(flavour.reject(&message, Some(path), Some("empty_string")))
        }
        _ if !is_name(name, usize::MAX, "_-") => {
            Err(flavour.reject_at(path, openai_errors::name_mismatch(path)))
        }
        _ if name.len() > 64 => {
            Err(flavour.reject_at(path, openai_errors::string_too_long(path, 64, name.len())))
        }
        _ => Ok(()),
    }
}

fn check_choice(flavour: &ChatFlavour, body: &Value, tools: &[Value]) -> Result<(), Rejection> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    if choice != "auto" && choice != "none" && is_thinking(flavour, body) {
        return Err(flavour.reject("Thinking mode does not support this tool_choice", None, None));
    }
    let modes: &[&str] = match flavour.api {
        Api::Mistral => &["auto", "any", "none", "required"],
        _ => &["none", "auto", "required"],
    };
    match choice {
        Value::String(mode) if modes.contains(&mode.as_str()) => Ok(()),
        Value::String(mode) => Err(flavour.unsupported_value("tool_choice", mode, modes)),
        // llama.cpp treats an object as `auto`.
        Value::Object(_) if flavour.api == Api::LlamaCpp => Ok(()),
        Value::Object(_) => check_named_choice(flavour, choice, tools),
        other => Err(flavour.wrong_type("tool_choice", "a string", other)),
    }
}

fn check_named_choice(flavour: &ChatFlavour, choice: &Value, tools: &[Value]) -> Result<(), Rejection> {
    let kind = text(choice, "type").ok_or_else(|| flavour.missing("tool_choice.type"))?;
    match kind {
        "allowed_tools" | "custom" if flavour.is_openai() => return Ok(()),
        "function" => {}
        other => {
            let kinds = ["allowed_tools", "function", "custom"];
            return Err(flavour.unsupported_value("tool_choice.type", other, &kinds));
        }
    }
    if let Some(key) = unknown_key(choice, &["type", "function"]) {
        return Err(flavour.unknown_field(key, Some("tool_choice")));
    }
    let name = function_name(choice).ok_or_else(|| flavour.missing("tool_choice.function.name"))?;
    if tools.iter().any(|tool| function_name(tool) == Some(name)) {
        return Ok(());
    }
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    Err(flavour.reject(message, Some("tool_choice"), None))
}

fn function_name(value: &Value) -> Option<&str> {
    value.pointer("/function/name").and_then(Value::as_str)
}
