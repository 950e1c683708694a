//! Whole Messages requests.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use super::results::block;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn, add_content};

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut messages: Vec<Value> = Vec::new();
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => add_content(&mut messages, "user", pieces.iter().map(block).collect()),
            Turn::Assistant(said) => {
                add_content(
                    &mut messages,
                    "assistant",
                    said.iter().filter_map(|said| written(draft, said)).collect(),
                );
            }
            Turn::Results(results) => {
                for message in draft.results(results)? {
                    add_content(
                        &mut messages,
                        "user",
                        message["content"].as_array().cloned().unwrap_or_default(),
                    );
                }
            }
        }
    }
    let mut body = draft.head();
    let limit = draft.max_output_tokens.unwrap_or(draft.options.default_output_tokens);
    body.insert("max_tokens".to_owned(), json!(limit));
    if let Some(instructions) = draft.instructions {
        body.insert("system".to_owned(), json!(instructions));
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    write_tools(draft, &mut body);
    if let Some(temperature) = draft.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if draft.options.stream {
        body.insert("stream".to_owned(), json!(true));
    }
    Ok(body)
}

fn written(draft: &RequestDraft<'_>, said: &Said<'_>) -> Option<Value> {
    match said {
        Said::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Said::Own { value, .. } => Some((*value).clone()),
        Said::Call(call) => {
            let mut message = write_calls(draft.dialect, std::slice::from_ref(call)).pop()?;
            message["content"].get_mut(0).map(Value::take)
        }
        Said::Media { .. } => None,
    }
}

fn write_tools(draft: &RequestDraft<'_>, body: &mut Map<String, Value>) {
    let called = draft.called();
    if draft.tools.is_empty() {
        // A history with calls is refused without tools, so the called ones are listed and forbidden.
        if !called.is_empty() {
            let tools: Vec<Value> = called
                .iter()
                .map(|name| json!({"name": name, "description": GONE, "input_schema": {"type": "object", "properties": {}}}))
                .collect();
            body.insert("tools".to_owned(), Value::Array(tools));
            body.insert("tool_choice".to_owned(), json!({"type": "none"}));
        }
        return;
    }
    body.insert("tools".to_owned(), draft.listed());
    let mut choice = match draft.choice {
        Choice::Auto => json!({"type": "auto"}),
        Choice::Required => json!({"type": "any"}),
        Choice::None => json!({"type": "none"}),
        Choice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if draft.options.parallel_calls == Some(false) && draft.choice != Choice::None {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    if choice != json!({"type": "auto"}) {
        body.insert("tool_choice".to_owned(), choice);
    }
}

/// What stands for a tool that the history calls and the request does not offer.
pub(crate) const GONE: &str = "No longer available. Do not call it.";
