//! OpenAI's Responses.

mod items;
mod render;

pub(super) use render::{stream, whole};

use serde_json::{Value, json};

use super::json::{flag, is_name, kind, list, present, stranger, text};
use super::judge::{Refusal, Request};
use super::{KEY, schema};

/// The rules of a request as a whole and of its tools.
///
/// | rule | source |
/// |---|---|
/// | key, path, unknown and missing parameters | 3.3 [S] |
/// | flat definitions with `parameters` and `strict` both there | 3.3: left out, strict mode is tried |
/// | names of at most 128 characters | 3.3 [S `FunctionToolParam`] |
/// | schemas | 2.1: as Chat; see `schema` |
/// | forms of `tool_choice` | 3.3 |
pub(super) fn judge(request: &Request<'_>) -> Result<(), Refusal> {
    admit(request)?;
    let body = request.body;
    if !body.is_object() {
        return Err(refuse("We could not parse the JSON body of your request.", None, None));
    }
    if let Some(key) = stranger(body, &REQUEST_KEYS) {
        return Err(unknown(key));
    }
    if text(body, "model").is_none() {
        return Err(missing("model"));
    }
    if present(body, "stream_options").is_some() && !flag(body, "stream") {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(refuse(message, Some("stream_options"), None));
    }
    match body.get("input") {
        Some(Value::String(_)) => {}
        Some(Value::Array(_)) => items::judge(body)?,
        Some(other) => return Err(wrong_type("input", "one of a string or an array of input items", other)),
        None if present(body, "previous_response_id").is_some() => {}
        None => return Err(missing("input")),
    }
    list(body, "tools")
        .iter()
        .enumerate()
        .try_for_each(|(index, one)| tool(&format!("tools[{index}]"), one))?;
    choice(body)
}

fn admit(request: &Request<'_>) -> Result<(), Refusal> {
    match request.bearer() {
        Some(KEY) => {}
        None => {
            let message = "Missing bearer or basic authentication in header";
            return Err(Refusal { status: 401, ..refuse(message, None, None) });
        }
        Some(key) => {
            let message = format!(
                "Incorrect API key provided: {key}. You can find your API key at https://platform.openai.com/account/api-keys."
            );
            return Err(Refusal { status: 401, ..refuse(&message, None, Some("invalid_api_key")) });
        }
    }
    if request.target.path != "/v1/responses" {
        let message = format!("Invalid URL (POST {})", request.target.path);
        return Err(Refusal { status: 404, ..refuse(&message, None, None) });
    }
    if !request.is_json() {
        let kind = request.header("content-type").unwrap_or_default();
        let message = format!(
            "Unsupported content type: '{kind}'. This API method only accepts 'application/json' requests."
        );
        return Err(refuse(&message, None, Some("unsupported_content_type")));
    }
    Ok(())
}

fn tool(way: &str, tool: &Value) -> Result<(), Refusal> {
    let kind = text(tool, "type").ok_or_else(|| missing(&format!("{way}.type")))?;
    if kind != "function" {
        // The provider's own tools have their own forms.
        return Ok(());
    }
    let known = [
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "defer_loading",
        "output_schema",
        "allowed_callers",
        "async",
    ];
    if let Some(key) = stranger(tool, &known) {
        return Err(unknown(&format!("{way}.{key}")));
    }
    let name_way = format!("{way}.name");
    let name = text(tool, "name").ok_or_else(|| missing(&name_way))?;
    name_fits(&name_way, name)?;
    let strict = tool.get("strict").ok_or_else(|| missing(&format!("{way}.strict")))?;
    let parameters = tool.get("parameters").ok_or_else(|| missing(&format!("{way}.parameters")))?;
    if parameters.is_null() {
        return Ok(());
    }
    let problem = if strict == &Value::Bool(true) {
        schema::openai_strict(parameters)
    } else {
        schema::openai(parameters)
    };
    problem.map_or(Ok(()), |problem| {
        let message = format!("Invalid schema for function '{name}': {problem}");
        Err(refuse(&message, Some(&format!("{way}.parameters")), Some("invalid_function_parameters")))
    })
}

fn name_fits(way: &str, name: &str) -> Result<(), Refusal> {
    if !is_name(name, usize::MAX, "_-") {
        let message = format!(
            "Invalid '{way}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(refuse(&message, Some(way), Some("invalid_value")));
    }
    if name.len() > 128 {
        return Err(too_long(way, 128, name.len()));
    }
    Ok(())
}

fn choice(body: &Value) -> Result<(), Refusal> {
    let Some(choice) = present(body, "tool_choice") else { return Ok(()) };
    let tools = list(body, "tools");
    match choice.as_str() {
        Some("auto" | "none") => return Ok(()),
        Some("required") if !tools.is_empty() => return Ok(()),
        Some("required") => {
            let message = "Tool choice 'required' must be specified with 'tools' parameter.";
            return Err(refuse(message, Some("tool_choice"), None));
        }
        Some(other) => {
            let message =
                format!("Invalid value: '{other}'. Supported values are: 'none', 'auto', and 'required'.");
            return Err(refuse(&message, Some("tool_choice"), Some("invalid_value")));
        }
        None => {}
    }
    match text(choice, "type") {
        Some("function") => {}
        Some(_) => return Ok(()),
        None => return Err(missing("tool_choice.type")),
    }
    if let Some(key) = stranger(choice, &["type", "name"]) {
        return Err(unknown(&format!("tool_choice.{key}")));
    }
    let name = text(choice, "name").ok_or_else(|| missing("tool_choice.name"))?;
    if tools.iter().any(|tool| text(tool, "name") == Some(name)) {
        return Ok(());
    }
    let message = "Tool choice 'function' not found in 'tools' parameter.";
    Err(refuse(message, Some("tool_choice"), None))
}

fn refuse(message: &str, parameter: Option<&str>, code: Option<&str>) -> Refusal {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": parameter, "code": code});
    Refusal::new(400, json!({"error": error}))
}

fn unknown(way: &str) -> Refusal {
    refuse(&format!("Unknown parameter: '{way}'."), Some(way), Some("unknown_parameter"))
}

fn missing(way: &str) -> Refusal {
    let message = format!("Missing required parameter: '{way}'.");
    refuse(&message, Some(way), Some("missing_required_parameter"))
}

fn wrong_type(way: &str, expected: &str, got: &Value) -> Refusal {
    let got = kind(got);
    let article = if got.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    let message = format!("Invalid type for '{way}': expected {expected}, but got {article} {got} instead.");
    refuse(&message, Some(way), Some("invalid_type"))
}

fn too_long(way: &str, most: usize, length: usize) -> Refusal {
    let message = format!(
        "Invalid '{way}': string too long. Expected a string with maximum length {most}, but got a string with length \
         {length} instead."
    );
    refuse(&message, Some(way), Some("string_above_max_length"))
}

const REQUEST_KEYS: [&str; 29] = [
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
