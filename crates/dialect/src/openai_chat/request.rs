//! Whole Chat Completions requests, and what the APIs of this shape differ in.

use serde_json::{Map, Value, json};

use super::calls::write_calls;
use super::results::carrier;
use crate::requests::{Choice, OutputLimit, RequestDraft, RequestError, Said, Turn};
use crate::results::{Carrier, Media, Piece};
use crate::{Dialect, ReceivedCall};

/// What a message of the user's may hold.
pub(crate) fn user_carrier(dialect: Dialect, hears: bool) -> Carrier {
    let carrier = carrier(dialect);
    let (file_types, file_bytes): (&'static [&'static str], usize) = match (dialect, hears) {
        (Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure, true) => {
            (&["application/pdf", "audio/wav", "audio/mpeg", "audio/mp3"], 20_000_000)
        }
        (Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure, false) => {
            (&["application/pdf"], 20_000_000)
        }
        _ => (carrier.file_types, carrier.file_bytes),
    };
    Carrier { file_types, file_bytes, ..carrier }
}

pub(crate) fn write_request(draft: &RequestDraft<'_>) -> Result<Map<String, Value>, RequestError> {
    let dialect = draft.dialect;
    let mut messages = Vec::new();
    if let Some(instructions) = draft.instructions {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    for turn in &draft.turns {
        match turn {
            Turn::User(pieces) => push_user(&mut messages, user_message(dialect, pieces)),
            Turn::Assistant(said) => messages.extend(assistant_message(draft, said)),
            Turn::Results(results) => messages.extend(draft.results(results)?),
        }
    }
    let mut body = draft.head();
    body.insert("messages".to_owned(), Value::Array(messages));
    if !draft.tools.is_empty() {
        body.insert("tools".to_owned(), draft.listed());
        if let Some(choice) = choice(dialect, draft.choice) {
            body.insert("tool_choice".to_owned(), choice);
        }
        if let Some(parallel) = draft.options.parallel_calls {
            body.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
    }
    if let Some(limit) = draft.max_output_tokens {
        let newer = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure);
        let usual = if newer { OutputLimit::MaxCompletionTokens } else { OutputLimit::MaxTokens };
        let key = match draft.options.output_limit.unwrap_or(usual) {
            OutputLimit::MaxTokens => "max_tokens",
            OutputLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        body.insert(key.to_owned(), json!(limit));
    }
    if let Some(temperature) = draft.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if draft.options.stream {
        body.insert("stream".to_owned(), json!(true));
        // Mistral and DIAL always tell the usage, and may refuse to be asked for it.
        let is_asked = !matches!(dialect, Dialect::Mistral | Dialect::Dial);
        if draft.options.stream_usage.unwrap_or(is_asked) {
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
    }
    Ok(body)
}

fn choice(dialect: Dialect, choice: Choice<'_>) -> Option<Value> {
    Some(match choice {
        // It is the default, and some servers take tools only while it is left unsaid.
        Choice::Auto => return None,
        Choice::None => json!("none"),
        Choice::Required if dialect == Dialect::Mistral => json!("any"),
        Choice::Required => json!("required"),
        Choice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    })
}

/// Texts alone are one text: not every server reads lists of parts.
fn user_message(dialect: Dialect, pieces: &[Piece]) -> Value {
    let is_attached = |piece: &&Piece| dialect == Dialect::Dial && !matches!(piece, Piece::Text(_));
    let attachments: Vec<Value> = pieces
        .iter()
        .filter(is_attached)
        .filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Image(media) | Piece::File(media) => {
                Some(json!({"type": media.media_type, "title": media.name, "data": media.data}))
            }
        })
        .collect();
    let rest: Vec<&Piece> = pieces.iter().filter(|piece| !is_attached(piece)).collect();
    let texts: Vec<&str> = rest
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let content = if texts.len() == rest.len() {
        json!(texts.join("\n"))
    } else {
        rest.into_iter().map(part).collect()
    };
    let mut message = json!({"role": "user", "content": content});
    if !attachments.is_empty() {
        message["custom_content"] = json!({"attachments": attachments});
    }
    message
}

fn part(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image(media) => json!({"type": "image_url", "image_url": {"url": media.data_url()}}),
        Piece::File(media) => match audio_format(media) {
            Some(format) => {
                json!({"type": "input_audio", "input_audio": {"data": media.data, "format": format}})
            }
            None => json!({"type": "file", "file": {"filename": media.name, "file_data": media.data_url()}}),
        },
    }
}

fn audio_format(media: &Media) -> Option<&'static str> {
    match media.media_type.as_str() {
        "audio/wav" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

/// Images of results stand in a message of the user's, and chat templates want no two of those in a row.
fn push_user(messages: &mut Vec<Value>, message: Value) {
    let is_plain = |message: &Value| message["role"] == "user" && message.get("custom_content").is_none();
    match messages.last_mut() {
        Some(last) if is_plain(last) && is_plain(&message) => {
            last["content"] = joined(&last["content"], &message["content"]);
        }
        _ => messages.push(message),
    }
}

fn joined(one: &Value, other: &Value) -> Value {
    if let (Value::String(one), Value::String(other)) = (one, other) {
        return json!(format!("{one}\n{other}"));
    }
    let parts = |content: &Value| match content {
        Value::Array(parts) => parts.clone(),
        text => vec![json!({"type": "text", "text": text})],
    };
    Value::Array([parts(one), parts(other)].concat())
}

/// `None` for a turn that holds nothing this server reads.
fn assistant_message(draft: &RequestDraft<'_>, said: &[Said<'_>]) -> Option<Value> {
    let dialect = draft.dialect;
    let tells_refusals = matches!(dialect, Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure);
    let mut texts: Vec<&str> = Vec::new();
    let mut refusal: Option<&Value> = None;
    let mut thinking: Vec<Value> = Vec::new();
    let mut own: Map<String, Value> = Map::new();
    let calls: Vec<ReceivedCall> = calls_of(said);
    for block in said {
        match block {
            Said::Text { own: Some(own), .. } if tells_refusals && own.get("refusal").is_some() => {
                refusal = own.get("refusal");
            }
            Said::Text { text, .. } => texts.push(text),
            Said::Own { value, .. } => take_own(draft, value, !calls.is_empty(), &mut thinking, &mut own),
            Said::Media { .. } | Said::Call(_) => {}
        }
    }
    if texts.is_empty() && refusal.is_none() && calls.is_empty() && own.is_empty() {
        return None;
    }
    let text = texts.join("\n");
    let content = match (text.is_empty(), thinking.is_empty()) {
        (_, false) => {
            thinking.extend((!text.is_empty()).then(|| json!({"type": "text", "text": text})));
            Value::Array(thinking)
        }
        (false, true) => json!(text),
        (true, true) if refusal.is_some() || !calls.is_empty() => Value::Null,
        (true, true) => json!(""),
    };
    let mut message = match write_calls(dialect, &calls).pop() {
        Some(Value::Object(message)) if !calls.is_empty() => message,
        _ => Map::from_iter([("role".to_owned(), json!("assistant"))]),
    };
    message.insert("content".to_owned(), content);
    if let Some(refusal) = refusal {
        message.insert("refusal".to_owned(), refusal.clone());
    }
    message.extend(own);
    Some(Value::Object(message))
}

/// What a server of this shape sent, back to one that reads it: they share a family and refuse each other's keys.
fn take_own(
    draft: &RequestDraft<'_>,
    value: &Value,
    has_calls: bool,
    thinking: &mut Vec<Value>,
    own: &mut Map<String, Value>,
) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        match key.as_str() {
            "thinking" if draft.dialect == Dialect::Mistral => {
                thinking.push(json!({"type": "thinking", "thinking": value}));
            }
            "custom_content" if draft.dialect == Dialect::Dial => {
                own.insert(key.clone(), value.clone());
            }
            "reasoning_content" | "reasoning" | "reasoning_details" => {
                // DeepSeek wants it back within a turn of calls.
                let usual = draft.dialect == Dialect::DeepSeek && has_calls && key == "reasoning_content";
                if draft.options.reasoning.unwrap_or(usual) {
                    own.insert(key.clone(), value.clone());
                }
            }
            _ => {}
        }
    }
}

/// The calls of a turn.
pub(crate) fn calls_of(said: &[Said<'_>]) -> Vec<ReceivedCall> {
    said.iter()
        .filter_map(|block| match block {
            Said::Call(call) => Some(call.clone()),
            _ => None,
        })
        .collect()
}
