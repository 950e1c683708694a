//! Writes Cohere requests, calls and results.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::families::function_calls::write_call;
use crate::output::OutputField;
use crate::request::{AssistantBlock, Choice, PreparedRequest, SetFields, Turn, calls};
use crate::response::ReceivedCall;
use crate::result::{ContentLimits, ContentPart, PreparedResult, ResultTurn};

pub(super) const USER_LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    max_image_bytes: 20_000_000,
    ..ContentLimits::TEXT
};

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut messages = Vec::new();
    messages.extend(request.instructions.map(|text| json!({"role": "system", "content": text})));
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => messages.push(json!({"role": "user", "content": user_content(parts)})),
            Turn::Assistant(blocks) => messages.extend(assistant_message(request.dialect, blocks)),
            Turn::Results(calls) => messages.extend(request.write_results(calls, write_results)),
        }
    }
    let mut body = request.body();
    body.set("messages", messages);
    if !request.tools.is_empty() {
        body.set("tools", request.definitions());
        let choice = match request.choice {
            Choice::Auto | Choice::Tool(_) => None,
            Choice::Required => Some("REQUIRED"),
            Choice::None => Some("NONE"),
        };
        body.set_some("tool_choice", choice);
    }
    request.set_common(&mut body, "max_tokens");
    let format = request.output.map(|output| match output {
        OutputField::Json => json!({"type": "json_object"}),
        OutputField::Schema(output) => json!({"type": "json_object", "json_schema": output.schema}),
    });
    body.set_some("response_format", format);
    body
}

fn user_content(parts: &[ContentPart]) -> Value {
    if let [ContentPart::Text(text)] = parts {
        return json!(text);
    }
    let part = |part: &ContentPart| match part {
        ContentPart::Text(text) => Some(json!({"type": "text", "text": text})),
        ContentPart::Image(media) => {
            Some(json!({"type": "image_url", "image_url": {"url": media.data_url()}}))
        }
        ContentPart::Native(part) => Some(part.clone()),
        ContentPart::File(_) => None,
    };
    parts.iter().filter_map(part).collect()
}

/// Returns `None` for an empty turn.
fn assistant_message(dialect: Dialect, blocks: &[AssistantBlock<'_>]) -> Option<Value> {
    let calls = calls(blocks);
    let mut message = match calls.is_empty() {
        true => json!({"role": "assistant"}),
        false => call_message(dialect, &calls),
    };
    let mut content = Vec::new();
    for block in blocks {
        match block {
            AssistantBlock::Text { text, .. } => content.push(json!({"type": "text", "text": text})),
            // A plan is only sent with its calls.
            AssistantBlock::Opaque { provider_data, .. } => match provider_data.get("tool_plan") {
                Some(plan) if !calls.is_empty() => message["tool_plan"] = plan.clone(),
                Some(_) => {}
                None => content.push((*provider_data).clone()),
            },
            AssistantBlock::Media { .. } | AssistantBlock::Call(_) => {}
        }
    }
    if content.is_empty() && calls.is_empty() {
        return None;
    }
    if !content.is_empty() {
        message["content"] = Value::Array(content);
    }
    Some(message)
}

/// Writes a message with calls and without `content`: null is rejected here.
fn call_message(dialect: Dialect, calls: &[&ReceivedCall]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|call| write_call(dialect, call)).collect();
    json!({"role": "assistant", "tool_calls": calls})
}

pub(super) fn write_calls(dialect: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    vec![call_message(dialect, calls)]
}

/// Writes each result as a message of documents, which the model can cite.
pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    let message = |result: &PreparedResult<'_>| {
        let texts = result.texts_with_error("omitted").into_iter();
        let documents: Vec<Value> =
            texts.map(|text| json!({"type": "document", "document": {"data": text}})).collect();
        json!({"role": "tool", "tool_call_id": result.id, "content": documents})
    };
    turn.prepare(ContentLimits::TEXT).iter().map(message).collect()
}
