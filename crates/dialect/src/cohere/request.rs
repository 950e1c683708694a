//! Whole Cohere requests.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use crate::openai_chat::calls_of;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn};
use crate::results::{Carrier, Piece};

/// What a message of the user's may hold.
pub(crate) const USER_CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    image_bytes: 20_000_000,
    ..Carrier::TEXT
};

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut messages = Vec::new();
    if let Some(instructions) = draft.instructions {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => messages.push(json!({"role": "user", "content": content(pieces)})),
            Turn::Assistant(said) => messages.extend(assistant_message(draft, said)),
            Turn::Results(results) => messages.extend(draft.results(results)?),
        }
    }
    let mut body = draft.head();
    body.insert("messages".to_owned(), Value::Array(messages));
    if !draft.tools.is_empty() {
        body.insert("tools".to_owned(), draft.listed());
        let choice = match draft.choice {
            Choice::Auto | Choice::Tool(_) => None,
            Choice::Required => Some(json!("REQUIRED")),
            Choice::None => Some(json!("NONE")),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    if let Some(limit) = draft.max_output_tokens {
        body.insert("max_tokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = draft.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if draft.options.stream {
        body.insert("stream".to_owned(), json!(true));
    }
    Ok(body)
}

fn content(pieces: &[Piece]) -> Value {
    if let [Piece::Text(text)] = pieces {
        return json!(text);
    }
    pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(json!({"type": "text", "text": text})),
            Piece::Image(media) => Some(json!({"type": "image_url", "image_url": {"url": media.data_url()}})),
            Piece::File(_) => None,
        })
        .collect()
}

/// `None` for a turn that holds nothing.
fn assistant_message(draft: &RequestDraft<'_>, said: &[Said<'_>]) -> Option<Value> {
    let calls = calls_of(said);
    let mut message = match write_calls(draft.dialect, &calls).pop() {
        Some(Value::Object(message)) if !calls.is_empty() => message,
        _ => Map::from_iter([("role".to_owned(), json!("assistant"))]),
    };
    let mut content = Vec::new();
    for block in said {
        match block {
            Said::Text { text, .. } => content.push(json!({"type": "text", "text": text})),
            // The plan belongs to its calls.
            Said::Own { value, .. } => match value.get("tool_plan") {
                Some(plan) if !calls.is_empty() => {
                    message.insert("tool_plan".to_owned(), plan.clone());
                }
                Some(_) => {}
                None => content.push((*value).clone()),
            },
            Said::Media { .. } | Said::Call(_) => {}
        }
    }
    if content.is_empty() && calls.is_empty() {
        return None;
    }
    if !content.is_empty() {
        message.insert("content".to_owned(), Value::Array(content));
    }
    Some(Value::Object(message))
}
