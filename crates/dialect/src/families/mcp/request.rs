//! Writes the parameters of `sampling/createMessage`, calls and results. The client chooses the model.

use serde_json::{Map, Value, json};
use toolwire_contract::{Block, Content, Message, Role, ToolCall};

use crate::Dialect;
use crate::request::{AssistantBlock, Choice, PreparedRequest, SetFields, Turn};
use crate::response::ReceivedCall;
use crate::result::CallOutcome;
use crate::result::{ContentLimits, ContentPart, ResultTurn, missing_result};

/// Messages accept text, images and audio; all other content becomes text.
pub(super) const LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"],
    max_image_bytes: usize::MAX,
    file_types: &[
        "audio/wav",
        "audio/mpeg",
        "audio/mp3",
        "audio/ogg",
        "audio/flac",
        "audio/aac",
        "audio/aiff",
    ],
    max_file_bytes: usize::MAX,
    ..ContentLimits::TEXT
};

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut messages: Vec<Value> = Vec::new();
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => {
                let content: Vec<Value> = parts.iter().map(|part| content(part).into()).collect();
                messages.push(json!({"role": "user", "content": content}));
            }
            Turn::Assistant(blocks) => {
                let content: Vec<Value> = blocks.iter().map(assistant_block).collect();
                messages.push(json!({"role": "assistant", "content": content}));
            }
            // A message with results must not contain anything else.
            Turn::Results(calls) => messages.extend(request.write_results(calls, write_results)),
        }
    }
    let mut body = Map::new();
    body.set("messages", messages);
    body.set_some("systemPrompt", request.instructions);
    body.set("maxTokens", request.max_output_tokens.unwrap_or(request.options.default_output_tokens));
    body.set_some("temperature", request.temperature);
    if !request.tools.is_empty() {
        body.set("tools", request.definitions());
        let mode = match request.choice {
            Choice::Auto | Choice::Tool(_) => None,
            Choice::Required => Some("required"),
            Choice::None => Some("none"),
        };
        body.set_some("toolChoice", mode.map(|mode| json!({"mode": mode})));
    }
    body
}

fn content(part: &ContentPart) -> Content {
    match part {
        ContentPart::Text(text) => Content::text(text),
        ContentPart::Native(part) => Content::Other(part.clone()),
        ContentPart::Image(media) => Content::image(&media.data, &media.media_type),
        ContentPart::File(media) => Content::audio(&media.data, &media.media_type),
    }
}

fn assistant_block(block: &AssistantBlock<'_>) -> Value {
    match block {
        AssistantBlock::Text { text, .. } => Content::text(text).into(),
        AssistantBlock::Media { part, .. } => content(part).into(),
        AssistantBlock::Opaque { provider_data, .. } => (*provider_data).clone(),
        AssistantBlock::Call(call) => call_block(&call.received).into(),
    }
}

fn call_block(call: &ReceivedCall) -> Block {
    let id = call.id.as_str().to_owned();
    Block::Call { id, call: ToolCall::new(&call.name, call.arguments_object()) }
}

pub(super) fn write_calls(_: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    vec![Message::new(Role::Assistant, calls.iter().map(|call| call_block(call)).collect()).into()]
}

/// Writes results unchanged.
pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    let block = |outcome: &CallOutcome<'_>| Block::Result {
        id: outcome.call.id.as_str().to_owned(),
        result: outcome.result.cloned().unwrap_or_else(missing_result),
    };
    vec![Message::new(Role::User, turn.outcomes.iter().map(block).collect()).into()]
}
