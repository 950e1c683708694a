//! What Ollama answers: one object, or a line of JSON for each piece.

use serde_json::{Value, json};

use crate::provider::Said;
use crate::provider::said::{Call, Stop, pieces};

/// One `ChatResponse`.
pub(in crate::provider) fn whole(said: &Said) -> Value {
    let text: String = texts(said).collect();
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(thinking) = &said.thinking {
        message["thinking"] = thinking.as_str().into();
    }
    if !said.calls.is_empty() {
        message["tool_calls"] = said.calls.iter().enumerate().map(call).collect();
    }
    last(said, message)
}

/// The lines of a stream. A call comes whole (3.9).
pub(in crate::provider) fn stream(said: &Said) -> Vec<Vec<u8>> {
    let mut messages: Vec<Value> = Vec::new();
    for piece in pieces(said.thinking.as_deref().unwrap_or_default()) {
        messages.push(json!({"role": "assistant", "content": "", "thinking": piece}));
    }
    for piece in texts(said).flat_map(pieces) {
        messages.push(json!({"role": "assistant", "content": piece}));
    }
    for numbered in said.calls.iter().enumerate() {
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [call(numbered)]}));
    }
    let mut lines: Vec<Value> = messages.into_iter().map(|message| response(message, false)).collect();
    lines.push(match &said.fault {
        Some(fault) => json!({"error": fault.message}),
        None => last(said, json!({"role": "assistant", "content": ""})),
    });
    lines.iter().map(|line| format!("{line}\n").into_bytes()).collect()
}

fn response(message: Value, is_done: bool) -> Value {
    json!({"model": "scripted", "created_at": "2026-11-15T12:00:00Z", "message": message, "done": is_done})
}

fn last(said: &Said, message: Value) -> Value {
    let mut last = response(message, true);
    last["done_reason"] = match said.why() {
        Stop::End | Stop::Calls | Stop::Refusal => "stop".into(),
        Stop::Length => "length".into(),
        Stop::Other(word) => word.into(),
    };
    last["total_duration"] = 1_000_000.into();
    last["prompt_eval_count"] = said.usage.input.into();
    last["eval_count"] = said.usage.output.into();
    last
}

fn call((index, call): (usize, &Call)) -> Value {
    let mut written = json!({"function": {"index": index, "name": call.name, "arguments": call.object()}});
    if !call.id.is_empty() {
        written["id"] = call.id.as_str().into();
    }
    written
}

fn texts(said: &Said) -> impl Iterator<Item = &str> {
    said.text.iter().chain(&said.refusal).map(String::as_str)
}
