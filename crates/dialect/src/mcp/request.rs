//! The parameters of `sampling/createMessage`. Which model answers is the client's to choose.

use serde_json::{Map, Value, json};
use toolwire_contract::{Block, Content, Message, Role};

use super::calls::write_calls;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn};
use crate::results::{Carrier, Piece};

/// A message holds text, images and sounds; what else there is becomes text.
pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"],
    image_bytes: usize::MAX,
    file_types: &[
        "audio/wav",
        "audio/mpeg",
        "audio/mp3",
        "audio/ogg",
        "audio/flac",
        "audio/aac",
        "audio/aiff",
    ],
    file_bytes: usize::MAX,
    ..Carrier::TEXT
};

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut messages: Vec<Value> = Vec::new();
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => {
                let blocks = pieces.iter().map(|piece| Block::Content(content(piece))).collect();
                messages.push(Message::new(Role::User, blocks).into());
            }
            Turn::Assistant(said) => {
                let blocks: Vec<Value> = said.iter().filter_map(written).collect();
                messages.push(json!({"role": "assistant", "content": blocks}));
            }
            // Nothing but results stands in their message.
            Turn::Results(results) => messages.extend(draft.results(results)?),
        }
    }
    let mut body = Map::from_iter([("messages".to_owned(), Value::Array(messages))]);
    if let Some(instructions) = draft.instructions {
        body.insert("systemPrompt".to_owned(), json!(instructions));
    }
    let limit = draft.max_output_tokens.unwrap_or(draft.options.default_output_tokens);
    body.insert("maxTokens".to_owned(), json!(limit));
    if let Some(temperature) = draft.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !draft.tools.is_empty() {
        body.insert("tools".to_owned(), draft.listed());
        let mode = match draft.choice {
            Choice::Auto | Choice::Tool(_) => None,
            Choice::Required => Some("required"),
            Choice::None => Some("none"),
        };
        body.extend(mode.map(|mode| ("toolChoice".to_owned(), json!({"mode": mode}))));
    }
    Ok(body)
}

fn content(piece: &Piece) -> Content {
    match piece {
        Piece::Text(text) => Content::text(text),
        Piece::Image(media) => Content::image(&media.data, &media.media_type),
        Piece::File(media) => Content::audio(&media.data, &media.media_type),
    }
}

fn written(said: &Said<'_>) -> Option<Value> {
    match said {
        Said::Text { text, .. } => Some(Content::text(text).into()),
        Said::Media { piece, .. } => Some(content(piece).into()),
        Said::Own { value, .. } => Some((*value).clone()),
        Said::Call(call) => {
            let mut message = write_calls(std::slice::from_ref(call)).pop()?;
            message["content"].get_mut(0).map(Value::take)
        }
    }
}
