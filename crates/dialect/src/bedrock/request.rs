//! Whole Converse requests. The model, and whether to stream, stand in the URL.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use super::results::{document, image};
use crate::anthropic::GONE;
use crate::requests::{Choice, RequestDraft, RequestError, Said, Turn, add_content};
use crate::results::Piece;

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let mut messages: Vec<Value> = Vec::new();
    for (number, turn) in draft.turns.iter().enumerate() {
        match turn {
            Turn::User(pieces) => add_content(&mut messages, "user", user_blocks(number, pieces)),
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
    let mut body = Map::new();
    if let Some(instructions) = draft.instructions {
        body.insert("system".to_owned(), json!([{"text": instructions}]));
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    if let Some(config) = tool_config(draft) {
        body.insert("toolConfig".to_owned(), config);
    }
    let mut inference = Map::new();
    inference.extend(draft.max_output_tokens.map(|limit| ("maxTokens".to_owned(), json!(limit))));
    inference.extend(draft.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    if !inference.is_empty() {
        body.insert("inferenceConfig".to_owned(), Value::Object(inference));
    }
    Ok(body)
}

fn user_blocks(number: usize, pieces: &[Piece]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::with_capacity(pieces.len());
    let has_text = pieces.iter().any(|piece| matches!(piece, Piece::Text(_)));
    for (place, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => blocks.push(json!({"text": text})),
            Piece::Image(media) => blocks.push(image(media)),
            Piece::File(media) => {
                // A document is refused in a message without a text.
                if !has_text && blocks.iter().all(|block| block.get("text").is_none()) {
                    blocks.push(json!({"text": media.name}));
                }
                blocks.push(document(media, &format!("user {number} {place}")));
            }
        }
    }
    blocks
}

fn written(draft: &RequestDraft<'_>, said: &Said<'_>) -> Option<Value> {
    match said {
        Said::Text { text, .. } => Some(json!({"text": text})),
        Said::Own { value, .. } => Some((*value).clone()),
        Said::Call(call) => {
            let mut message = write_calls(draft.dialect, std::slice::from_ref(call)).pop()?;
            message["content"].get_mut(0).map(Value::take)
        }
        Said::Media { .. } => None,
    }
}

fn tool_config(draft: &RequestDraft<'_>) -> Option<Value> {
    if draft.tools.is_empty() {
        // A history with calls is refused without tools, and there is no word that forbids calls.
        let tools: Vec<Value> = draft
            .called()
            .iter()
            .map(|name| {
                let schema = json!({"json": {"type": "object", "properties": {}}});
                json!({"toolSpec": {"name": name, "description": GONE, "inputSchema": schema}})
            })
            .collect();
        return (!tools.is_empty()).then(|| json!({"tools": tools}));
    }
    let mut config = json!({});
    config["tools"] = draft.listed();
    match draft.choice {
        Choice::Auto | Choice::None => {}
        Choice::Required => config["toolChoice"] = json!({"any": {}}),
        Choice::Tool(name) => config["toolChoice"] = json!({"tool": {"name": name}}),
    }
    Some(config)
}
