//! Writes Ollama requests, calls and results.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::output::OutputField;
use crate::request::{AssistantBlock, PreparedRequest, SetFields, Turn, calls};
use crate::response::ReceivedCall;
use crate::result::{ContentLimits, ContentPart, ResultTurn};

pub(super) const LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/webp"],
    max_image_bytes: 20_000_000,
    ..ContentLimits::TEXT
};

/// There is no tool choice: a required call is not sent, and forbidden tools are not listed.
pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut messages = Vec::new();
    messages.extend(request.instructions.map(|text| json!({"role": "system", "content": text})));
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => add_user_message(&mut messages, parts),
            Turn::Assistant(blocks) => messages.extend(assistant_message(blocks)),
            Turn::Results(calls) => messages.extend(request.write_results(calls, write_results)),
        }
    }
    let mut body = request.body();
    body.set("messages", messages);
    if !request.tools.is_empty() {
        body.set("tools", request.definitions());
    }
    let format = request.output.map(|output| match output {
        OutputField::Json => json!("json"),
        OutputField::Schema(output) => output.schema.clone(),
    });
    body.set_some("format", format);
    // The default is to stream.
    body.set("stream", request.options.stream);
    // The default is to drop the start of a conversation that is longer than the window, without an error.
    body.set("truncate", false);
    let mut options = Map::new();
    options.set_some("num_ctx", request.options.context_tokens);
    options.set_some("num_predict", request.max_output_tokens);
    options.set_some("temperature", request.temperature);
    if !options.is_empty() {
        body.set("options", options);
    }
    body
}

/// Images of results are in a user message, and chat templates reject two user messages in a row, so they are
/// joined.
fn add_user_message(messages: &mut Vec<Value>, parts: &[ContentPart]) {
    let texts: Vec<&str> = parts.iter().filter_map(ContentPart::as_text).collect();
    let text = texts.join("\n");
    let images = parts.iter().filter_map(|part| match part {
        ContentPart::Image(media) => Some(json!(media.data)),
        _ => None,
    });
    let images: Vec<Value> = images.collect();
    match messages.last_mut().filter(|last| last["role"] == "user") {
        Some(last) => {
            last["content"] = json!(format!("{}\n{text}", last["content"].as_str().unwrap_or_default()));
            match last.get_mut("images").and_then(Value::as_array_mut) {
                Some(known) => known.extend(images),
                None if images.is_empty() => {}
                None => last["images"] = Value::Array(images),
            }
        }
        None => messages.push(user_message(text, images)),
    }
}

fn user_message(text: String, images: Vec<Value>) -> Value {
    let mut message = json!({"role": "user", "content": text});
    if !images.is_empty() {
        message["images"] = Value::Array(images);
    }
    message
}

/// Returns `None` for an empty turn.
fn assistant_message(blocks: &[AssistantBlock<'_>]) -> Option<Value> {
    let calls = calls(blocks);
    let mut texts: Vec<&str> = Vec::new();
    let mut thinking = None;
    for block in blocks {
        match block {
            AssistantBlock::Text { text, .. } => texts.push(text),
            AssistantBlock::Opaque { provider_data, .. } => thinking = provider_data.get("thinking"),
            AssistantBlock::Media { .. } | AssistantBlock::Call(_) => {}
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = json!({"role": "assistant", "content": texts.join("\n")});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into_iter().map(write_call).collect();
    }
    if let Some(thinking) = thinking {
        message["thinking"] = thinking.clone();
    }
    Some(message)
}

pub(super) fn write_calls(_: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    let calls: Vec<Value> = calls.iter().map(|call| write_call(call)).collect();
    vec![json!({"role": "assistant", "content": "", "tool_calls": calls})]
}

fn write_call(call: &ReceivedCall) -> Value {
    let mut written = json!({"function": {"name": call.name, "arguments": call.arguments_object()}});
    if let Some(id) = call.id.given() {
        written["id"] = json!(id);
    }
    written
}

/// Writes tool messages by name, then all images in one user message.
pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    let mut messages = Vec::with_capacity(turn.outcomes.len() + 1);
    let mut labels = Vec::new();
    let mut images = Vec::new();
    for result in turn.prepare(LIMITS) {
        let texts = result.texts_with_error("in the next user message");
        let mut message = json!({"role": "tool", "tool_name": result.call.name, "content": texts.join("\n")});
        if result.call.id.given().is_some() {
            message["tool_call_id"] = json!(result.id);
        }
        messages.push(message);
        for media in result.media() {
            labels.push(result.label(media));
            images.push(json!(media.data));
        }
    }
    if !images.is_empty() {
        messages.push(user_message(labels.join("\n"), images));
    }
    messages
}
