//! Writes Converse requests, calls and results. The model, and whether to stream, are in the URL.

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::ids::fingerprint;
use crate::output::OutputField;
use crate::request::wire_id;
use crate::request::{
    AssistantBlock, Choice, PreparedRequest, SetFields, Turn, UNAVAILABLE_TOOL, add_content,
    last_user_messages,
};
use crate::response::ReceivedCall;
use crate::result::ResultOptions;
use crate::result::{
    ContentLimits, ContentPart, Media, NO_OUTPUT, PreparedResult, ResultTurn, StructuredContent,
};

pub(super) const LIMITS: ContentLimits = ContentLimits {
    image_types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
    max_image_bytes: 3_750_000,
    max_image_side: 8_000,
    file_types: &["application/pdf"],
    max_file_bytes: 4_500_000,
    structured: StructuredContent::Value,
    ..ContentLimits::TEXT
};

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let mut messages: Vec<Value> = Vec::new();
    for (number, turn) in request.turns.iter().enumerate() {
        let (role, blocks) = match turn {
            Turn::User(parts) => ("user", user_blocks(number, parts)),
            Turn::Assistant(blocks) => {
                ("assistant", blocks.iter().filter_map(|block| assistant_block(request, block)).collect())
            }
            Turn::Results(calls) => ("user", request.write_results(calls, result_blocks)),
        };
        add_content(&mut messages, role, "content", blocks);
    }
    let mut system: Vec<Value> = request.instructions.iter().map(|text| json!({"text": text})).collect();
    let mut tool_config = tool_config(request);
    if request.options.prompt_cache {
        // At most four: the tools, the instructions, and two in the history.
        let tools = tool_config.as_mut().and_then(|config| config["tools"].as_array_mut());
        let instructions = (!system.is_empty()).then_some(&mut system);
        let histories = last_user_messages(&mut messages);
        let histories = histories.filter_map(|message| message["content"].as_array_mut());
        for blocks in tools.into_iter().chain(instructions).chain(histories) {
            blocks.push(json!({"cachePoint": {"type": "default"}}));
        }
    }
    let mut body = Map::new();
    body.set_some("system", (!system.is_empty()).then_some(system));
    body.set("messages", messages);
    body.set_some("toolConfig", tool_config);
    let mut inference = Map::new();
    inference.set_some("maxTokens", request.max_output_tokens);
    inference.set_some("temperature", request.temperature);
    if !inference.is_empty() {
        body.set("inferenceConfig", inference);
    }
    if let Some(OutputField::Schema(output)) = request.output {
        // The schema is JSON text here.
        let mut schema = json!({"name": output.name, "schema": output.schema.to_string()});
        if let Some(description) = &output.description {
            schema["description"] = json!(description);
        }
        let format = json!({"type": "json_schema", "structure": {"jsonSchema": schema}});
        body.set("outputConfig", json!({"textFormat": format}));
    }
    body
}

fn user_blocks(number: usize, parts: &[ContentPart]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::with_capacity(parts.len() + 1);
    let mut has_text = parts.iter().any(|part| part.as_text().is_some());
    for (position, part) in parts.iter().enumerate() {
        // The API rejects a document in a message without text.
        if let ContentPart::File(media) = part
            && !std::mem::replace(&mut has_text, true)
        {
            blocks.push(json!({"text": media.name}));
        }
        blocks.push(content_block(part, &format!("user {number} {position}")));
    }
    blocks
}

fn assistant_block(request: &PreparedRequest<'_>, block: &AssistantBlock<'_>) -> Option<Value> {
    match block {
        AssistantBlock::Text { text, .. } => Some(json!({"text": text})),
        AssistantBlock::Opaque { provider_data, .. } => Some((*provider_data).clone()),
        AssistantBlock::Call(call) => Some(call_block(request.dialect, &call.received)),
        AssistantBlock::Media { .. } => None,
    }
}

fn tool_config(request: &PreparedRequest<'_>) -> Option<Value> {
    if request.tools.is_empty() {
        // The API rejects a history with calls if there are no tools, and it has no choice that forbids
        // calls.
        let tool = |name| {
            let schema = json!({"json": {"type": "object", "properties": {}}});
            json!({"toolSpec": {"name": name, "description": UNAVAILABLE_TOOL, "inputSchema": schema}})
        };
        let tools: Vec<Value> = request.called_tools().into_iter().map(tool).collect();
        return (!tools.is_empty()).then(|| json!({"tools": tools}));
    }
    let mut config = Map::new();
    config.set("tools", request.definitions());
    let choice = match request.choice {
        Choice::Auto | Choice::None => None,
        Choice::Required => Some(json!({"any": {}})),
        Choice::Tool(name) => Some(json!({"tool": {"name": name}})),
    };
    config.set_some("toolChoice", choice);
    Some(Value::Object(config))
}

fn call_block(dialect: Dialect, call: &ReceivedCall) -> Value {
    let id = wire_id(dialect, call.id.as_str());
    json!({"toolUse": {"toolUseId": id, "name": call.name, "input": call.arguments_object()}})
}

pub(super) fn write_calls(dialect: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    let blocks: Vec<Value> = calls.iter().map(|call| call_block(dialect, call)).collect();
    vec![json!({"role": "assistant", "content": blocks})]
}

/// Writes a message that contains only results: some models reject anything else in it.
pub(super) fn write_results(turn: &ResultTurn<'_>) -> Vec<Value> {
    vec![json!({"role": "user", "content": result_blocks(turn)})]
}

fn result_blocks(turn: &ResultTurn<'_>) -> Vec<Value> {
    let results = turn.prepare(LIMITS);
    results.iter().map(|result| result_block(result, turn.options)).collect()
}

fn result_block(result: &PreparedResult<'_>, options: &ResultOptions) -> Value {
    let mut content: Vec<Value> = if result.is_error {
        // Some models reject media in an error result, and media cannot follow the results either.
        let has_only_structured = result.parts.is_empty() && result.structured.is_some();
        let texts = match (has_only_structured, options.error_flag) {
            (true, true) => Vec::new(),
            (true, false) => vec!["Error:".to_owned()],
            (false, true) => result.texts("omitted"),
            (false, false) => result.texts_with_error("omitted"),
        };
        texts.into_iter().map(|text| json!({"text": text})).collect()
    } else {
        let parts = result.parts.iter().enumerate();
        parts.map(|(position, part)| content_block(part, &format!("{}\n{position}", result.id))).collect()
    };
    if let Some(value) = &result.structured {
        // Most models accept only an object here.
        let value = if value.is_object() { value.clone() } else { json!({"output": value}) };
        content.push(json!({"json": value}));
    }
    if content.is_empty() {
        content.push(json!({"text": NO_OUTPUT}));
    }
    let mut block = json!({"toolUseId": result.id, "content": content});
    if options.error_flag {
        block["status"] = json!(if result.is_error { "error" } else { "success" });
    }
    json!({"toolResult": block})
}

/// Writes a part. `location` is its position in the conversation and makes the name of a document unique.
fn content_block(part: &ContentPart, location: &str) -> Value {
    match part {
        ContentPart::Text(text) => json!({"text": text}),
        ContentPart::Native(part) => part.clone(),
        ContentPart::Image(media) => {
            json!({"image": {"format": format_name(media), "source": {"bytes": media.data}}})
        }
        ContentPart::File(media) => json!({"document": {
            "format": format_name(media),
            "name": document_name(location, media),
            "source": {"bytes": media.data},
        }}),
    }
}

/// Bedrock's name for a type is the subtype.
fn format_name(media: &Media) -> &str {
    media.media_type.rsplit('/').next().unwrap_or_default()
}

/// Returns a name of letters, digits and hyphens. The API rejects a conversation in which two documents have
/// the same name.
fn document_name(location: &str, media: &Media) -> String {
    let stem = media.name.rsplit_once('.').map_or(media.name.as_str(), |(stem, _)| stem);
    let stem: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{stem}-{}", &fingerprint(location)[..8])
}
