//! Responses of Ollama: one object, or one line of JSON for each piece.
//!
//! Rules in `docs/providers.md`: `ollama/stream`.

use serde_json::{Value, json};

use crate::provider::ModelOutput;
use crate::provider::output::{FinishReason, OutputCall, pieces};

/// Renders a `ChatResponse`.
pub(in crate::provider) fn complete_body(output: &ModelOutput) -> Value {
    let text: String = output.texts().collect();
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(thinking) = &output.thinking {
        message["thinking"] = thinking.as_str().into();
    }
    if !output.calls.is_empty() {
        message["tool_calls"] = output.calls.iter().enumerate().map(call).collect();
    }
    last(output, message)
}

/// Renders the lines of a stream. A call is in one line.
pub(in crate::provider) fn stream_events(output: &ModelOutput) -> Vec<Vec<u8>> {
    let mut messages: Vec<Value> = Vec::new();
    for piece in pieces(output.thinking.as_deref().unwrap_or_default()) {
        messages.push(json!({"role": "assistant", "content": "", "thinking": piece}));
    }
    for piece in output.texts().flat_map(pieces) {
        messages.push(json!({"role": "assistant", "content": piece}));
    }
    for numbered in output.calls.iter().enumerate() {
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [call(numbered)]}));
    }
    let mut lines: Vec<Value> = messages.into_iter().map(|message| response(message, false)).collect();
    lines.push(match &output.stream_error {
        Some(error) => json!({"error": error.message}),
        None => last(output, json!({"role": "assistant", "content": ""})),
    });
    lines.iter().map(|line| format!("{line}\n").into_bytes()).collect()
}

fn response(message: Value, is_done: bool) -> Value {
    json!({"model": "scripted", "created_at": "2026-11-15T12:00:00Z", "message": message, "done": is_done})
}

fn last(output: &ModelOutput, message: Value) -> Value {
    let mut last = response(message, true);
    last["done_reason"] = match output.finish_reason() {
        FinishReason::End | FinishReason::Calls | FinishReason::Refusal => "stop".into(),
        FinishReason::Length => "length".into(),
        FinishReason::Other(reason) => reason.into(),
    };
    last["total_duration"] = 1_000_000.into();
    last["prompt_eval_count"] = output.usage.input.into();
    last["eval_count"] = output.usage.output.into();
    last
}

fn call((index, call): (usize, &OutputCall)) -> Value {
    let mut rendered = json!({"function": {"index": index, "name": call.name, "arguments": call.object()}});
    if !call.id.is_empty() {
        rendered["id"] = call.id.as_str().into();
    }
    rendered
}
