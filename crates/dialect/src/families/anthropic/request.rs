//! Writes Messages requests, calls and results.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::output::OutputField;
use crate::request::wire_id;
use crate::request::{
    AssistantBlock, Choice, PreparedRequest, SetFields, Turn, UNAVAILABLE_TOOL, add_content,
    last_user_messages,
};
use crate::response::{CONTAINER, ReceivedCall};
use crate::result::{ContentLimits, ContentPart, NO_OUTPUT, PreparedResult, ResultTurn};
use crate::verbatim::VerbatimBody;

pub(super) const LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/jpeg", "image/png", "image/gif", "image/webp"],
    max_image_bytes: 5_242_880,
    max_image_side: 8_000,
    file_types: &["application/pdf"],
    max_file_bytes: 24_000_000,
    ..ContentLimits::TEXT
};

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut messages: Vec<Value> = Vec::new();
    for turn in &request.turns {
        let (role, blocks) = match turn {
            Turn::User(parts) => ("user", parts.iter().map(content_block).collect()),
            Turn::Assistant(blocks) => {
                ("assistant", blocks.iter().filter_map(|block| assistant_block(request, block)).collect())
            }
            Turn::Results(calls) => ("user", request.write_results(calls, result_blocks)),
        };
        add_content(&mut messages, role, "content", blocks);
    }
    let mut body = request.body();
    body.set("max_tokens", request.max_output_tokens.unwrap_or(request.options.default_output_tokens));
    let is_cached = request.options.prompt_cache;
    let system = request.instructions.map(|text| match is_cached {
        true => json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]),
        false => json!(text),
    });
    body.set_some("system", system);
    if is_cached {
        for message in last_user_messages(&mut messages) {
            if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
                mark_cached(block);
            }
        }
    }
    body.set("messages", messages);
    set_tools(request, &mut body);
    if is_cached && let Some(tool) = body.get_mut("tools").and_then(|tools| tools.as_array_mut()?.last_mut())
    {
        mark_cached(tool);
    }
    body.set_some("temperature", request.temperature);
    body.set_some("stream", request.options.stream.then_some(true));
    if let Some(OutputField::Schema(output)) = request.output {
        let format = json!({"type": "json_schema", "schema": output.schema});
        body.set("output_config", json!({"format": format}));
    }
    body
}

/// Adds a block after those of the client, because the provider may identify the client by the first block.
pub(super) fn add_instructions(body: &mut VerbatimBody<'_>, text: &str) {
    let text = json!({"type": "text", "text": text});
    let client = body.take("system").unwrap_or_default();
    let client = match client.strip_prefix('[').and_then(|blocks| blocks.strip_suffix(']')) {
        Some(blocks) => blocks.trim().to_owned(),
        None if client.starts_with('"') && !is_blank(&client) => {
            format!(r#"{{"type":"text","text":{client}}}"#)
        }
        None => String::new(),
    };
    let separator = if client.is_empty() { "" } else { "," };
    body.set("system", format!("[{client}{separator}{text}]"));
}

/// Sets the container of the response that this request continues. Otherwise, the provider would run code in
/// a new one, without the files of the first.
pub(super) fn continue_response(body: &mut VerbatimBody<'_>, data: &Value) {
    let Some(id) = data.get(CONTAINER).and_then(|container| container.get("id")) else { return };
    let client: Value =
        body.take(CONTAINER).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    body.set(
        CONTAINER,
        match client {
            Value::Null => id.clone(),
            Value::Object(mut fields) => {
                // The client names skills to load, and perhaps no container.
                if fields.get("id").is_none_or(Value::is_null) {
                    fields.insert("id".to_owned(), id.clone());
                }
                Value::Object(fields)
            }
            other => other,
        },
    );
}

/// Whether the JSON text of a string has no visible character. The API refuses such text.
fn is_blank(json: &str) -> bool {
    serde_json::from_str::<String>(json).is_ok_and(|text| text.trim().is_empty())
}

/// Marks the end of a prefix that the provider caches. A request can have four such marks: the tools, the
/// instructions, and two in the history, so that the next request finds the prefix of this one.
fn mark_cached(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn assistant_block(request: &PreparedRequest<'_>, block: &AssistantBlock<'_>) -> Option<Value> {
    match block {
        AssistantBlock::Text { text, provider_data } => {
            let mut block = json!({"type": "text", "text": text});
            if let Some(citations) = provider_data.and_then(|data| data.get("citations")) {
                block["citations"] = citations.clone();
            }
            Some(block)
        }
        AssistantBlock::Opaque { provider_data, .. } => Some((*provider_data).clone()),
        AssistantBlock::Call(call) => Some(call_block(request.dialect, &call.received)),
        AssistantBlock::Media { .. } => None,
    }
}

fn set_tools(request: &PreparedRequest<'_>, body: &mut Map<String, Value>) {
    if request.tools.is_empty() {
        // The API rejects a history with calls if there are no tools, so the called tools are listed and
        // forbidden.
        let tool = |name| {
            let schema = json!({"type": "object", "properties": {}});
            json!({"name": name, "description": UNAVAILABLE_TOOL, "input_schema": schema})
        };
        let tools: Vec<Value> = request.called_tools().into_iter().map(tool).collect();
        if !tools.is_empty() {
            body.set("tools", tools);
            body.set("tool_choice", json!({"type": "none"}));
        }
        return;
    }
    body.set("tools", request.definitions());
    let mut choice = match request.choice {
        Choice::Auto => json!({"type": "auto"}),
        Choice::Required => json!({"type": "any"}),
        Choice::None => json!({"type": "none"}),
        Choice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if request.parallel_calls == Some(false) && request.choice != Choice::None {
        choice["disable_parallel_tool_use"] = json!(true);
    }
    if choice != json!({"type": "auto"}) {
        body.set("tool_choice", choice);
    }
}

fn call_block(dialect: Dialect, call: &ReceivedCall) -> Value {
    let id = wire_id(dialect, call.id.as_str());
    json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments_object()})
}

pub(super) fn write_calls(dialect: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    let blocks: Vec<Value> = calls.iter().map(|call| call_block(dialect, call)).collect();
    vec![json!({"role": "assistant", "content": blocks})]
}

pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    vec![json!({"role": "user", "content": result_blocks(turn)})]
}

/// Writes the results of a turn, which must come first in the next user message. A result that is an error
/// can contain only text, so its media follows after the last result.
fn result_blocks(turn: &ResultTurn<'_>) -> Vec<Value> {
    let results = turn.prepare(LIMITS);
    let mut blocks: Vec<Value> = results.iter().map(result_block).collect();
    for result in results.iter().filter(|result| result.is_error) {
        for (label, part) in result.separate_media() {
            blocks.push(json!({"type": "text", "text": label}));
            blocks.push(content_block(part));
        }
    }
    blocks
}

fn result_block(result: &PreparedResult<'_>) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let content: Vec<Value> = if result.is_error {
        let texts = result.texts("after the results");
        texts.iter().map(|line| text(line)).collect()
    } else if result.parts.is_empty() {
        vec![text(NO_OUTPUT)]
    } else {
        result.parts.iter().map(content_block).collect()
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

fn content_block(part: &ContentPart) -> Value {
    let (block_type, media) = match part {
        ContentPart::Text(text) => return json!({"type": "text", "text": text}),
        ContentPart::Native(part) => return part.clone(),
        ContentPart::Image(media) => ("image", media),
        ContentPart::File(media) => ("document", media),
    };
    json!({
        "type": block_type,
        "source": {"type": "base64", "media_type": media.media_type, "data": media.data},
    })
}
