//! Whole Responses requests.
//!
//! Nothing is kept at the provider (`store: false`), so reasoning is asked for in its encrypted form and sent back in it.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn};
use crate::results::Piece;

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut input = Vec::new();
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => {
                let content: Vec<Value> = pieces.iter().map(part).collect();
                input.push(json!({"type": "message", "role": "user", "content": content}));
            }
            Turn::Assistant(said) => input.extend(said.iter().flat_map(|block| items(draft, block))),
            Turn::Results(results) => input.extend(draft.results(results)?),
        }
    }
    let mut body = draft.head();
    if let Some(instructions) = draft.instructions {
        body.insert("instructions".to_owned(), json!(instructions));
    }
    body.insert("input".to_owned(), Value::Array(input));
    if !draft.tools.is_empty() {
        body.insert("tools".to_owned(), draft.listed());
        let choice = match draft.choice {
            Choice::Auto => None,
            Choice::None => Some(json!("none")),
            Choice::Required => Some(json!("required")),
            Choice::Tool(name) => Some(json!({"type": "function", "name": name})),
        };
        body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        let parallel = draft.options.parallel_calls;
        body.extend(parallel.map(|parallel| ("parallel_tool_calls".to_owned(), json!(parallel))));
    }
    if let Some(limit) = draft.max_output_tokens {
        body.insert("max_output_tokens".to_owned(), json!(limit));
    }
    if let Some(temperature) = draft.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if draft.options.stream {
        body.insert("stream".to_owned(), json!(true));
    }
    body.insert("store".to_owned(), json!(false));
    if draft.options.encrypted_reasoning {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    Ok(body)
}

/// A part of a message, or of a result.
pub(super) fn part(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image(media) => {
            json!({"type": "input_image", "image_url": media.data_url(), "detail": "auto"})
        }
        Piece::File(media) => {
            json!({"type": "input_file", "filename": media.name, "file_data": media.data_url()})
        }
    }
}

fn items(draft: &RequestDraft<'_>, block: &Said<'_>) -> Vec<Value> {
    match block {
        Said::Call(call) => write_calls(draft.dialect, std::slice::from_ref(call)),
        Said::Text { text, own } => {
            let is_refusal = own.is_some_and(|own| own["type"] == "refusal");
            let part = match is_refusal {
                true => json!({"type": "refusal", "refusal": text}),
                false => json!({"type": "output_text", "text": text}),
            };
            let mut message = json!({"type": "message", "role": "assistant", "content": [part]});
            if let Some(phase) = own.and_then(|own| own.get("phase")) {
                message["phase"] = phase.clone();
            }
            vec![message]
        }
        // What the provider did not keep and cannot read back would be looked for in vain.
        Said::Own { value, is_thinking: true } if !is_encrypted(value) => Vec::new(),
        Said::Own { value, is_thinking } => {
            let mut item = (*value).clone();
            if *is_thinking && let Value::Object(fields) = &mut item {
                // It is told and not taken.
                fields.shift_remove("status");
            }
            vec![item]
        }
        Said::Media { .. } => Vec::new(),
    }
}

fn is_encrypted(item: &Value) -> bool {
    item.get("encrypted_content").is_some_and(|content| content.as_str().is_some_and(|text| !text.is_empty()))
}
