//! Writes Chat Completions requests and calls, with the differences between the APIs of this format.

use serde_json::{Map, Value, json};
use toolwire_contract::model::Effort;

use super::results::{image_part, result_limits, write_results};
use crate::Dialect;
use crate::families::function_calls::write_call;
use crate::output::{OutputField, OutputMethod, OutputRules};
use crate::request::{
    AssistantBlock, Choice, EffortFormat, GenerationFormat, PreparedRequest, SetFields, Turn, UserFormat,
    calls,
};
use crate::request::{OutputLimit, RequestOptions};
use crate::response::ReceivedCall;
use crate::result::{ContentLimits, ContentPart, Media};
use crate::verbatim::VerbatimBody;

pub(super) fn user_limits(dialect: Dialect, options: &RequestOptions) -> ContentLimits {
    let limits = result_limits(dialect);
    if !is_openai(dialect) {
        return limits;
    }
    let file_types: &[&str] = match options.audio {
        true => &["application/pdf", "audio/wav", "audio/mpeg", "audio/mp3"],
        false => &["application/pdf"],
    };
    ContentLimits { file_types, max_file_bytes: 20_000_000, ..limits }
}

/// The APIs of this family have most parameters in common. A server that does not know one rejects the
/// request or ignores it, so what an API does not document is not sent.
pub(super) fn generation(dialect: Dialect) -> GenerationFormat {
    const ALL: &[Effort] = Effort::ALL;
    const LOW_TO_HIGH: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High];
    let common = GenerationFormat {
        stop: Some("stop"),
        top_p: Some("top_p"),
        seed: Some("seed"),
        frequency_penalty: Some("frequency_penalty"),
        presence_penalty: Some("presence_penalty"),
        effort: EffortFormat::Level(ALL),
        has_parallel_calls: true,
        user: UserFormat::Key,
        ..GenerationFormat::NONE
    };
    match dialect {
        Dialect::Mistral => GenerationFormat {
            seed: Some("random_seed"),
            effort: EffortFormat::Level(&[Effort::None, Effort::High]),
            user: UserFormat::None,
            ..common
        },
        Dialect::DeepSeek => GenerationFormat {
            seed: None,
            effort: EffortFormat::None,
            has_parallel_calls: false,
            user: UserFormat::None,
            ..common
        },
        Dialect::Xai => {
            GenerationFormat { effort: EffortFormat::Level(&[Effort::Low, Effort::High]), ..common }
        }
        Dialect::Groq => GenerationFormat { effort: EffortFormat::Level(LOW_TO_HIGH), ..common },
        _ => common,
    }
}

pub(super) fn output(dialect: Dialect) -> OutputRules {
    let openai =
        OutputRules { method: OutputMethod::Schema, has_json: true, ..OutputRules::none(Dialect::OpenAi) };
    match dialect {
        Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure => openai,
        Dialect::Xai => OutputRules { schema: dialect, ..openai },
        // It has only a mode for any JSON object.
        Dialect::DeepSeek => OutputRules { method: OutputMethod::Tool, schema: dialect, ..openai },
        _ => OutputRules { allows_tools: false, ..openai },
    }
}

/// Whether OpenAI itself is behind the API.
fn is_openai(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAi | Dialect::OpenAiStrict | Dialect::Azure)
}

pub(super) fn write_request(request: &PreparedRequest<'_>) -> Map<String, Value> {
    let (dialect, options) = (request.dialect, request.options);
    let mut messages = Vec::new();
    messages.extend(request.instructions.map(|text| json!({"role": "system", "content": text})));
    for turn in &request.turns {
        match turn {
            Turn::User(parts) => add_user_message(&mut messages, user_message(dialect, parts)),
            Turn::Assistant(blocks) => messages.extend(assistant_message(request, blocks)),
            Turn::Results(calls) => messages.extend(request.write_results(calls, write_results)),
        }
    }
    let mut body = request.body();
    body.set("messages", messages);
    if !request.tools.is_empty() {
        body.set("tools", request.definitions());
        body.set_some("tool_choice", tool_choice(dialect, request.choice));
        body.set_some("parallel_tool_calls", request.parallel_calls);
    }
    let default_limit =
        if is_openai(dialect) { OutputLimit::MaxCompletionTokens } else { OutputLimit::MaxTokens };
    let output_limit_key = match options.output_limit.unwrap_or(default_limit) {
        OutputLimit::MaxTokens => "max_tokens",
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
    };
    request.set_common(&mut body, output_limit_key);
    // Mistral and DIAL always report the usage, and may reject the option.
    let requests_usage = options.stream_usage.unwrap_or(!matches!(dialect, Dialect::Mistral | Dialect::Dial));
    if options.stream && requests_usage {
        body.set("stream_options", json!({"include_usage": true}));
    }
    if let Some(output) = request.output {
        body.set("response_format", response_format(output));
        if dialect == Dialect::Groq {
            // Groq cannot stream a response of a required format.
            body.shift_remove("stream");
            body.shift_remove("stream_options");
        }
    }
    body
}

/// Adds a message after the client's instructions.
pub(super) fn add_instructions(body: &mut VerbatimBody<'_>, text: &str) {
    body.items.push(json!({"role": "system", "content": text}).to_string().into());
}

fn response_format(output: OutputField<'_>) -> Value {
    match output {
        OutputField::Json => json!({"type": "json_object"}),
        OutputField::Schema(schema) => json!({"type": "json_schema", "json_schema": schema.fields()}),
    }
}

fn tool_choice(dialect: Dialect, choice: Choice<'_>) -> Option<Value> {
    Some(match choice {
        // This is the default, and some servers accept tools only if it is left out.
        Choice::Auto => return None,
        Choice::None => json!("none"),
        Choice::Required if dialect == Dialect::Mistral => json!("any"),
        Choice::Required => json!("required"),
        Choice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    })
}

/// Texts without media become one string: not every server accepts an array of parts.
fn user_message(dialect: Dialect, parts: &[ContentPart]) -> Value {
    let (attached, inline): (Vec<&ContentPart>, Vec<&ContentPart>) =
        parts.iter().partition(|part| dialect == Dialect::Dial && part.as_media().is_some());
    let texts: Option<Vec<&str>> = inline.iter().map(|part| part.as_text()).collect();
    let content = match texts {
        Some(texts) => json!(texts.join("\n")),
        None => inline.into_iter().map(user_part).collect(),
    };
    let mut message = json!({"role": "user", "content": content});
    if !attached.is_empty() {
        let attachments: Vec<Value> =
            attached.into_iter().filter_map(ContentPart::as_media).map(attachment).collect();
        message["custom_content"] = json!({"attachments": attachments});
    }
    message
}

fn user_part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text(text) => json!({"type": "text", "text": text}),
        ContentPart::Native(part) => part.clone(),
        ContentPart::Image(media) => image_part(media),
        ContentPart::File(media) => match audio_format(media) {
            Some(format) => {
                json!({"type": "input_audio", "input_audio": {"data": media.data, "format": format}})
            }
            None => json!({"type": "file", "file": {"filename": media.name, "file_data": media.data_url()}}),
        },
    }
}

/// Writes media of any type in DIAL's form.
pub(super) fn attachment(media: &Media) -> Value {
    json!({"type": media.media_type, "title": media.name, "data": media.data})
}

fn audio_format(media: &Media) -> Option<&'static str> {
    match media.media_type.as_str() {
        "audio/wav" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

/// Images of results are in a user message, and chat templates reject two user messages in a row, so they are
/// joined.
fn add_user_message(messages: &mut Vec<Value>, message: Value) {
    let is_plain = |message: &Value| message["role"] == "user" && message.get("custom_content").is_none();
    match messages.last_mut() {
        Some(last) if is_plain(last) && is_plain(&message) => {
            last["content"] = joined_content(&last["content"], &message["content"]);
        }
        _ => messages.push(message),
    }
}

fn joined_content(first: &Value, second: &Value) -> Value {
    if let (Value::String(first), Value::String(second)) = (first, second) {
        return json!(format!("{first}\n{second}"));
    }
    let parts = |content: &Value| match content {
        Value::Array(parts) => parts.clone(),
        text => vec![json!({"type": "text", "text": text})],
    };
    Value::Array([parts(first), parts(second)].concat())
}

/// Returns `None` for a turn without anything that this server accepts.
fn assistant_message(request: &PreparedRequest<'_>, blocks: &[AssistantBlock<'_>]) -> Option<Value> {
    let calls = calls(blocks);
    let mut texts: Vec<&str> = Vec::new();
    let mut refusal: Option<&Value> = None;
    let mut thinking: Vec<Value> = Vec::new();
    let mut fields: Map<String, Value> = Map::new();
    for block in blocks {
        match block {
            AssistantBlock::Text { text, provider_data } => {
                match provider_data.and_then(|data| data.get("refusal")) {
                    Some(text) if is_openai(request.dialect) => refusal = Some(text),
                    _ => texts.push(text),
                }
            }
            AssistantBlock::Opaque { provider_data, .. } => {
                read_provider_data(request, provider_data, !calls.is_empty(), &mut thinking, &mut fields);
            }
            AssistantBlock::Media { .. } | AssistantBlock::Call(_) => {}
        }
    }
    if texts.is_empty() && refusal.is_none() && calls.is_empty() && fields.is_empty() {
        return None;
    }
    let text = texts.join("\n");
    let content = match (text.is_empty(), thinking.is_empty()) {
        (_, false) => {
            thinking.extend((!text.is_empty()).then(|| json!({"type": "text", "text": text})));
            Value::Array(thinking)
        }
        (false, true) => json!(text),
        (true, true) if !calls.is_empty() => Value::Null,
        // A message without calls must have content.
        (true, true) => refusal.cloned().unwrap_or_else(|| json!("")),
    };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into_iter().map(|call| write_call(request.dialect, call)).collect();
    }
    if let Some(refusal) = refusal {
        message["refusal"] = refusal.clone();
    }
    for (key, value) in fields {
        message[key] = value;
    }
    Some(message)
}

/// Selects the provider data that this server accepts: the servers of this family reject each other's keys.
fn read_provider_data(
    request: &PreparedRequest<'_>,
    provider_data: &Value,
    has_calls: bool,
    thinking: &mut Vec<Value>,
    fields: &mut Map<String, Value>,
) {
    for (key, value) in provider_data.as_object().into_iter().flatten() {
        match key.as_str() {
            "thinking" if request.dialect == Dialect::Mistral => {
                thinking.push(json!({"type": "thinking", "thinking": value}));
            }
            "custom_content" if request.dialect == Dialect::Dial => fields.set(key, value.clone()),
            "reasoning_content" | "reasoning" | "reasoning_details" => {
                // DeepSeek requires it in a turn with calls.
                let is_required =
                    request.dialect == Dialect::DeepSeek && has_calls && key == "reasoning_content";
                if request.options.reasoning.unwrap_or(is_required) {
                    fields.set(key, value.clone());
                }
            }
            _ => {}
        }
    }
}

pub(super) fn write_calls(dialect: Dialect, calls: &[&ReceivedCall]) -> Vec<Value> {
    let calls: Vec<Value> = calls.iter().map(|call| write_call(dialect, call)).collect();
    vec![json!({"role": "assistant", "content": null, "tool_calls": calls})]
}
