//! Whole requests of Ollama's own API.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use crate::openai_chat::calls_of;
use crate::requests::{RequestDraft, RequestError, Said, Turn};
use crate::results::Piece;

/// There is no word for whether the model calls: a demand goes unsaid, and tools that are forbidden are not listed.
pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut messages = Vec::new();
    if let Some(instructions) = draft.instructions {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => push_user(&mut messages, user_message(pieces)),
            Turn::Assistant(said) => messages.extend(assistant_message(said)),
            Turn::Results(results) => messages.extend(draft.results(results)?),
        }
    }
    let mut body = draft.head();
    body.insert("messages".to_owned(), Value::Array(messages));
    if !draft.tools.is_empty() {
        body.insert("tools".to_owned(), draft.listed());
    }
    // Left out, it would mean a stream.
    body.insert("stream".to_owned(), json!(draft.options.stream));
    let mut options = Map::new();
    options.extend(draft.max_output_tokens.map(|limit| ("num_predict".to_owned(), json!(limit))));
    options.extend(draft.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    if !options.is_empty() {
        body.insert("options".to_owned(), Value::Object(options));
    }
    Ok(body)
}

/// Images of results stand in a message of the user's, and chat templates want no two of those in a row.
fn push_user(messages: &mut Vec<Value>, message: Value) {
    let Some(last) = messages.last_mut().filter(|last| last["role"] == "user") else {
        return messages.push(message);
    };
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    last["content"] = json!(format!("{}\n{}", text(last), text(&message)));
    let images = [last.get("images"), message.get("images")];
    let images: Vec<&Value> = images.into_iter().flatten().filter_map(Value::as_array).flatten().collect();
    if !images.is_empty() {
        last["images"] = json!(images);
    }
}

fn user_message(pieces: &[Piece]) -> Value {
    let mut texts: Vec<&str> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Image(media) => images.push(&media.data),
            Piece::File(_) => {}
        }
    }
    let mut message = json!({"role": "user", "content": texts.join("\n")});
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

/// `None` for a turn that holds nothing.
fn assistant_message(said: &[Said<'_>]) -> Option<Value> {
    let calls = calls_of(said);
    let mut texts: Vec<&str> = Vec::new();
    let mut thinking = None;
    for block in said {
        match block {
            Said::Text { text, .. } => texts.push(text),
            Said::Own { value, .. } => thinking = value.get("thinking"),
            Said::Media { .. } | Said::Call(_) => {}
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = match write_calls(&calls).pop() {
        Some(Value::Object(message)) if !calls.is_empty() => message,
        _ => Map::from_iter([("role".to_owned(), json!("assistant"))]),
    };
    message.insert("content".to_owned(), json!(texts.join("\n")));
    if let Some(thinking) = thinking {
        message.insert("thinking".to_owned(), thinking.clone());
    }
    Some(Value::Object(message))
}
