//! Writes Responses requests, calls and results.
//!
//! The provider stores nothing (`store: false`), so reasoning is requested and sent back in its encrypted
//! form.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::native_tools::NativeTool;
use crate::output::OutputField;
use crate::request::wire_id;
use crate::request::{AssistantBlock, Choice, PreparedRequest, SetFields, Turn};
use crate::response::{CallKind, ReceivedCall};
use crate::result::{ContentLimits, ContentPart, Media, NO_OUTPUT, PreparedResult, ResultTurn, error_text};
use crate::verbatim::VerbatimBody;

pub(super) const LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    max_image_bytes: 20_000_000,
    file_types: &["application/pdf"],
    max_file_bytes: 20_000_000,
    ..ContentLimits::TEXT
};

/// An image of one pixel: the result of a call of `computer` must be an image, even if there is none.
const BLANK_IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut input = Vec::new();
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => {
                let content: Vec<Value> = parts.iter().map(input_part).collect();
                input.push(json!({"type": "message", "role": "user", "content": content}));
            }
            Turn::Assistant(blocks) => {
                input.extend(blocks.iter().filter_map(|block| assistant_item(request.dialect, block)));
            }
            Turn::Results(calls) => input.extend(request.write_results(calls, write_results)),
        }
    }
    let mut body = request.body();
    body.set_some("instructions", request.instructions);
    body.set("input", input);
    if !request.tools.is_empty() {
        body.set("tools", request.definitions());
        let choice = match request.choice {
            Choice::Auto => None,
            Choice::None => Some(json!("none")),
            Choice::Required => Some(json!("required")),
            Choice::Tool(name) => Some(json!({"type": "function", "name": name})),
        };
        body.set_some("tool_choice", choice);
        body.set_some("parallel_tool_calls", request.parallel_calls);
    }
    request.set_common(&mut body, "max_output_tokens");
    let format = request.output.map(|output| match output {
        OutputField::Json => json!({"type": "json_object"}),
        OutputField::Schema(schema) => {
            let mut format = schema.fields();
            format.shift_insert(0, "type".to_owned(), json!("json_schema"));
            Value::Object(format)
        }
    });
    body.set_some("text", format.map(|format| json!({"format": format})));
    body.set("store", false);
    if request.options.encrypted_reasoning {
        body.set("include", vec!["reasoning.encrypted_content"]);
    }
    body
}

/// Adds a paragraph to the client's instructions.
pub(super) fn add_instructions(body: &mut VerbatimBody<'_>, text: &str) {
    let client = body.take("instructions").and_then(|raw| serde_json::from_str::<String>(&raw).ok());
    let instructions = client.map_or_else(|| text.to_owned(), |client| format!("{client}\n\n{text}"));
    body.set("instructions", json!(instructions));
}

/// Writes a part of a message, or of a result.
fn input_part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text(text) => json!({"type": "input_text", "text": text}),
        ContentPart::Native(part) => part.clone(),
        ContentPart::Image(media) => {
            let detail = media.detail.as_deref().unwrap_or("auto");
            json!({"type": "input_image", "image_url": media.data_url(), "detail": detail})
        }
        ContentPart::File(media) => {
            json!({"type": "input_file", "filename": media.name, "file_data": media.data_url()})
        }
    }
}

fn assistant_item(dialect: Dialect, block: &AssistantBlock<'_>) -> Option<Value> {
    match block {
        AssistantBlock::Call(call) => Some(call_item(dialect, &call.received)),
        AssistantBlock::Text { text, provider_data } => {
            let is_refusal = provider_data.is_some_and(|data| data["type"] == "refusal");
            let part = match is_refusal {
                true => json!({"type": "refusal", "refusal": text}),
                false => json!({"type": "output_text", "text": text}),
            };
            let mut message = json!({"type": "message", "role": "assistant", "content": [part]});
            if let Some(phase) = provider_data.and_then(|data| data.get("phase")) {
                message["phase"] = phase.clone();
            }
            Some(message)
        }
        // The provider stored nothing, so it cannot find reasoning that is not encrypted.
        AssistantBlock::Opaque { provider_data, is_thinking: true } if !is_encrypted(provider_data) => None,
        AssistantBlock::Opaque { provider_data, is_thinking } => {
            let mut item = (*provider_data).clone();
            if *is_thinking && let Value::Object(fields) = &mut item {
                // The API sends a status but does not accept one.
                fields.shift_remove("status");
            }
            Some(item)
        }
        AssistantBlock::Media { .. } => None,
    }
}

pub(super) fn is_encrypted(item: &Value) -> bool {
    item.get("encrypted_content").is_some_and(|content| content.as_str().is_some_and(|text| !text.is_empty()))
}

pub(super) fn write_calls(dialect: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    calls.iter().map(|call| call_item(dialect, call)).collect()
}

/// Writes a call without the item's own `id`, which belongs to another response and may be rejected. Only
/// `call_id` pairs a call with its result.
fn call_item(dialect: Dialect, call: &ReceivedCall) -> Value {
    if let (CallKind::Native, Value::Object(known)) = (call.kind, &call.arguments) {
        // These items need their id and a status.
        let mut item = known.clone();
        item.set("call_id", wire_id(dialect, call.id.as_str()));
        item.set("status", "completed");
        return Value::Object(item);
    }
    let (item_type, key, arguments) = match (call.kind, &call.arguments) {
        (CallKind::Custom, Value::String(input)) => ("custom_tool_call", "input", input.clone()),
        _ => ("function_call", "arguments", call.arguments_text()),
    };
    let mut item = Map::new();
    item.set("type", item_type);
    item.set("call_id", wire_id(dialect, call.id.as_str()));
    item.set_some("namespace", call.namespace.as_deref());
    item.set("name", call.name.as_str());
    item.set(key, arguments);
    Value::Object(item)
}

pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    let item = |result: PreparedResult<'_>| {
        let item_type = match result.call.kind {
            CallKind::Function => "function_call_output",
            CallKind::Custom => "custom_tool_call_output",
            CallKind::Native => return native_output(result),
        };
        json!({"type": item_type, "call_id": result.id, "output": output(result.parts, result.is_error)})
    };
    turn.prepare(LIMITS).into_iter().map(item).collect()
}

/// Writes the result of a call of a tool that OpenAI defines: the client's item, or one with the same text.
fn native_output(result: PreparedResult<'_>) -> Value {
    let mut item = Map::new();
    match result.client_item.and_then(Value::as_object) {
        Some(known) => item.clone_from(known),
        None => {
            let tool = NativeTool::named(&result.call.name);
            item.set("type", tool.map_or("function_call_output", |tool| tool.output));
            item.extend(output_fields(&result));
        }
    }
    item.set("call_id", result.id);
    Value::Object(item)
}

/// Returns the fields of a result of a native tool that the client did not return in the tool's format.
fn output_fields(result: &PreparedResult<'_>) -> Map<String, Value> {
    let text = result.texts("attached").join("\n");
    let fields = match result.call.name.as_str() {
        "shell" => {
            let (stdout, stderr) = if result.is_error { ("", &*text) } else { (&*text, "") };
            let outcome = json!({"type": "exit", "exit_code": u8::from(result.is_error)});
            json!({"output": [{"stdout": stdout, "stderr": stderr, "outcome": outcome}]})
        }
        "apply_patch" => {
            let status = if result.is_error { "failed" } else { "completed" };
            json!({"status": status, "output": text})
        }
        "computer" => {
            let image = result.media().next().map_or_else(|| BLANK_IMAGE.to_owned(), Media::data_url);
            json!({"output": {"type": "computer_screenshot", "image_url": image}})
        }
        "tool_search" => json!({"execution": "client", "status": "completed", "tools": []}),
        _ => json!({"output": text}),
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// Writes a single text as a string, and everything else as an array of parts.
fn output(mut parts: Vec<ContentPart>, is_error: bool) -> Value {
    if parts.is_empty() {
        parts.push(ContentPart::Text(NO_OUTPUT.to_owned()));
    }
    if is_error {
        // There is no error flag, so the first text is marked as an error.
        match &mut parts[0] {
            ContentPart::Text(text) => *text = error_text(text),
            _ => parts.insert(0, ContentPart::Text("Error:".to_owned())),
        }
    }
    if let [ContentPart::Text(text)] = parts.as_slice() {
        return json!(text);
    }
    parts.iter().map(input_part).collect()
}
