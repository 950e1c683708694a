//! The tools of the chat family.
//!
//! | rule | source |
//! |---|---|
//! | at least one tool, at most 128 (xAI 350) | 3.1, 3.11, 3.12, 3.13, 8 OpenAI |
//! | names | 2.1, 3.1, 3.7, 8 OpenAI and Mistral |
//! | schemas | 3.1, 3.2, 3.7, 3.11; see `schema` |
//! | forms of `tool_choice` | 3.1, 3.7, 3.10 (thinking), 3.16 |
//! | `tool_choice` and `parallel_tool_calls` only with tools | 3.1 [S] |

use serde_json::Value;

use super::flavour::Flavour;
use super::messages::is_thinking;
use crate::provider::json::{flag, is_name, present, stranger, text};
use crate::provider::judge::Refusal;
use crate::provider::{Api, schema};

pub(super) fn judge(flavour: &Flavour, body: &Value) -> Result<(), Refusal> {
    let Some(tools) = present(body, "tools") else { return without(flavour, body) };
    let tools = tools.as_array().ok_or_else(|| flavour.wrong_type("tools", "array", tools))?;
    if tools.is_empty() {
        return match flavour.api {
            Api::LlamaCpp | Api::Mistral | Api::Xai | Api::DeepSeek => Ok(()),
            _ => Err(flavour.empty("tools")),
        };
    }
    if let Some(most) = flavour.most_tools.filter(|&most| tools.len() > most) {
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {most}, but got an array with length {} \
             instead.",
            tools.len()
        );
        return Err(flavour.refuse(&message, Some("tools"), Some("array_above_max_length")));
    }
    tools.iter().enumerate().try_for_each(|(index, one)| tool(flavour, &format!("tools[{index}]"), one))?;
    choice(flavour, body, tools)
}

fn without(flavour: &Flavour, body: &Value) -> Result<(), Refusal> {
    for key in ["tool_choice", "parallel_tool_calls"] {
        if present(body, key).is_none() {
            continue;
        }
        return Err(match flavour.api {
            Api::OpenAiChat | Api::Azure | Api::Dial => {
                let message =
                    format!("Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.");
                flavour.refuse(&message, Some(key), None)
            }
            Api::Vllm if key == "tool_choice" => {
                flavour.refuse("When using `tool_choice`, `tools` must be set.", Some(key), None)
            }
            _ => continue,
        });
    }
    Ok(())
}

fn tool(flavour: &Flavour, way: &str, tool: &Value) -> Result<(), Refusal> {
    let kind = text(tool, "type").ok_or_else(|| flavour.missing(&format!("{way}.type")))?;
    match (kind, flavour.api) {
        ("function", _) => {}
        ("custom", Api::OpenAiChat | Api::Azure) | ("static_function", Api::Dial) => return Ok(()),
        (other, Api::Dial) => {
            return Err(flavour.wrong_value(&format!("{way}.type"), other, &["function", "static_function"]));
        }
        (other, _) => {
            return Err(flavour.wrong_value(&format!("{way}.type"), other, &["function", "custom"]));
        }
    }
    let own = matches!(flavour.api, Api::Dial).then_some("custom_fields");
    if flavour.is_closed
        && let Some(key) = stranger(tool, &["type", "function"]).filter(|key| own != Some(*key))
    {
        return Err(flavour.unknown(key, Some(way)));
    }
    let way = format!("{way}.function");
    let function = tool.get("function").ok_or_else(|| flavour.missing(&way))?;
    if flavour.is_closed
        && let Some(key) = stranger(function, &["name", "description", "parameters", "strict"])
    {
        return Err(flavour.unknown(key, Some(&way)));
    }
    let name_way = format!("{way}.name");
    let name = text(function, "name").ok_or_else(|| flavour.missing(&name_way))?;
    name_fits(flavour, &name_way, name)?;
    if let Some(description) = present(function, "description").filter(|description| !description.is_string())
    {
        return Err(flavour.wrong_type(&format!("{way}.description"), "string", description));
    }
    parameters(flavour, &way, name, function)
}

fn parameters(flavour: &Flavour, way: &str, name: &str, function: &Value) -> Result<(), Refusal> {
    let Some(parameters) = present(function, "parameters") else {
        // Absent means no parameters, but for Mistral.
        return match flavour.api {
            Api::Mistral => Err(flavour.missing(&format!("{way}.parameters"))),
            _ => Ok(()),
        };
    };
    if !parameters.is_object() {
        return Err(flavour.wrong_type(&format!("{way}.parameters"), "object", parameters));
    }
    let is_object = text(parameters, "type") == Some("object");
    let problem = match flavour.api {
        Api::OpenAiChat | Api::Azure | Api::Dial if flag(function, "strict") => {
            schema::openai_strict(parameters)
        }
        Api::OpenAiChat | Api::Azure | Api::Dial => schema::openai(parameters),
        Api::Groq | Api::DeepSeek if !is_object => {
            let kind = text(parameters, "type").unwrap_or("None");
            Some(format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."))
        }
        Api::Xai if !is_object => {
            return Err(flavour.refuse("Invalid request content: Invalid function schema.", None, None));
        }
        Api::Mistral if !schema::is_draft7(parameters) => {
            let message = format!("Invalid tool schema: {parameters} is not a valid JSON schema");
            return Err(flavour.mistral(&message, "invalid_request_tool", "3290"));
        }
        _ => None,
    };
    problem.map_or(Ok(()), |problem| {
        let message = format!("Invalid schema for function '{name}': {problem}");
        Err(flavour.refuse(&message, Some(&format!("{way}.parameters")), Some("invalid_function_parameters")))
    })
}

pub(super) fn name_fits(flavour: &Flavour, way: &str, name: &str) -> Result<(), Refusal> {
    match flavour.api {
        Api::Vllm | Api::LlamaCpp | Api::Xai => Ok(()),
        Api::Mistral if !is_name(name, 64, "_-") => {
            let message = format!(
                "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum \
                 length of 64."
            );
            Err(flavour.mistral(&message, "invalid_request_function_call", "3280"))
        }
        Api::Mistral => Ok(()),
        _ if name.is_empty() => {
            let message = format!(
                "Invalid '{way}': empty string. Expected a string with minimum length 1, but got an empty string instead."
            );
            Err(flavour.refuse(&message, Some(way), Some("empty_string")))
        }
        _ if !is_name(name, usize::MAX, "_-") => {
            let message = format!(
                "Invalid '{way}': string does not match pattern. Expected a string that matches the pattern \
                 '^[a-zA-Z0-9_-]+$'."
            );
            Err(flavour.refuse(&message, Some(way), Some("invalid_value")))
        }
        _ if name.len() > 64 => {
            let message = format!(
                "Invalid '{way}': string too long. Expected a string with maximum length 64, but got a string with length {} \
                 instead.",
                name.len()
            );
            Err(flavour.refuse(&message, Some(way), Some("string_above_max_length")))
        }
        _ => Ok(()),
    }
}

fn choice(flavour: &Flavour, body: &Value, tools: &[Value]) -> Result<(), Refusal> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    if choice != "auto" && choice != "none" && is_thinking(flavour, body) {
        return Err(flavour.refuse("Thinking mode does not support this tool_choice", None, None));
    }
    let words: &[&str] = match flavour.api {
        Api::Mistral => &["auto", "any", "none", "required"],
        _ => &["none", "auto", "required"],
    };
    match choice {
        Value::String(word) if words.contains(&word.as_str()) => Ok(()),
        Value::String(word) => Err(flavour.wrong_value("tool_choice", word, words)),
        // llama.cpp reads an object as `auto`.
        Value::Object(_) if matches!(flavour.api, Api::LlamaCpp) => Ok(()),
        Value::Object(_) => named(flavour, choice, tools),
        other => Err(flavour.wrong_type("tool_choice", "string", other)),
    }
}

fn named(flavour: &Flavour, choice: &Value, tools: &[Value]) -> Result<(), Refusal> {
    let kind = text(choice, "type").ok_or_else(|| flavour.missing("tool_choice.type"))?;
    match kind {
        "allowed_tools" | "custom" if matches!(flavour.api, Api::OpenAiChat | Api::Azure) => return Ok(()),
        "function" => {}
        other => {
            return Err(flavour.wrong_value(
                "tool_choice.type",
                other,
                &["allowed_tools", "function", "custom"],
            ));
        }
    }
    if let Some(key) = stranger(choice, &["type", "function"]) {
        return Err(flavour.unknown(key, Some("tool_choice")));
    }
    let name = choice.pointer("/function/name").and_then(Value::as_str);
    let name = name.ok_or_else(|| flavour.missing("tool_choice.function.name"))?;
    let offered = |tool: &Value| tool.pointer("/function/name").and_then(Value::as_str) == Some(name);
    if tools.iter().any(offered) {
        return Ok(());
    }
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    Err(flavour.refuse(message, Some("tool_choice"), None))
}
