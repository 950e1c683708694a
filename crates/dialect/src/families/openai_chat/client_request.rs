//! Reads Chat Completions requests of clients.

use serde_json::Value;
use toolwire_contract::Content;
use toolwire_contract::model::{Generation, OutputFormat};

use super::functions::{ConvertedFunctions, convert_functions};
use crate::client::{
    ClientRequest, ConversationReader, ReadRequest, RequestFields, expected, from_data_url, joined_text,
    native, read_audio, read_effort, read_file, read_output_format, read_parts, read_result, read_tools,
    remote_image, with_detail,
};
use crate::{Dialect, Family};

const DIALECT: Dialect = Dialect::OpenAi;

pub(super) fn read_request(mut body: Value) -> ReadRequest<ClientRequest> {
    let converted = convert_functions(&mut body)?;
    read_converted(body, &converted).map_err(|error| converted.with_original_path(error))
}

fn read_converted(body: Value, converted: &ConvertedFunctions) -> ReadRequest<ClientRequest> {
    let mut body = RequestFields::new("", body)?;
    let mut client = ClientRequest::begin(Family::OpenAiChat, &mut body)?;
    client.has_functions = converted.has_functions;
    if let Some(mut options) = body.object("stream_options")? {
        client.stream_usage = options.flag("include_usage")?.unwrap_or(false);
    }
    let mut conversation = ConversationReader::new(DIALECT);
    for (position, (path, message)) in body.required_list("messages")?.enumerate() {
        let is_rewritten =
            has_reasoning(&message) || lacks_content(&message) || converted.messages.contains(&position);
        conversation.begin_item(Some(position).filter(|_| !is_rewritten));
        read_message(&mut conversation, &path, message)?;
    }
    conversation.finish(&mut client);
    read_tools(&mut client, &mut body, true)?;
    if client.has_functions {
        // The definitions are not in `tools` of the client's text, and a message has one call at most.
        client.sources.tools.clear();
        client.request.generation.parallel_calls = Some(false);
    }
    for name in ["max_completion_tokens", "max_tokens"] {
        let limit = body.count(name)?;
        if limit == Some(0) {
            return Err(body.invalid(name, "must be at least 1"));
        }
        client.request.max_output_tokens = client.request.max_output_tokens.into_iter().chain(limit).min();
    }
    if body.integer("n")?.is_some_and(|n| n != 1) {
        return Err(body.unsupported("n", "only one response per request is possible"));
    }
    if let Some(format) = body.object("response_format")? {
        client.request.output = read_output_format(format, true)?;
        client.output_parameter = match client.request.output {
            OutputFormat::Schema { .. } => "response_format.json_schema.schema",
            _ => "response_format",
        };
    }
    read_generation(&mut body, &mut client.request.generation)?;
    client.finish(Family::OpenAiChat, body)
}

fn read_generation(body: &mut RequestFields, generation: &mut Generation) -> ReadRequest<()> {
    generation.stop = match body.take("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => {
            let text = |text: Value| text.as_str().map(str::to_owned);
            let texts: Option<Vec<String>> = texts.into_iter().map(text).collect();
            texts.ok_or_else(|| body.invalid("stop", "must contain strings only"))?
        }
        Some(other) => return Err(expected(body.path("stop"), "a string or an array", &other)),
    };
    generation.top_k = body.count("top_k")?;
    generation.seed = body.integer("seed")?;
    generation.frequency_penalty = body.number("frequency_penalty")?;
    generation.presence_penalty = body.number("presence_penalty")?;
    generation.user = body.text("user")?;
    generation.effort = read_effort(body, "reasoning_effort")?;
    Ok(())
}

/// Whether a message has reasoning, which is not part of OpenAI's API. Most providers reject it, so the
/// message is converted for the provider instead of sent unchanged.
fn has_reasoning(message: &Value) -> bool {
    ["reasoning_content", "reasoning", "reasoning_details"].iter().any(|key| message.get(key).is_some())
}

/// Whether a message of the assistant has neither content nor calls, such as a refusal. OpenAI's API rejects
/// it, although its own responses contain such messages.
fn lacks_content(message: &Value) -> bool {
    const CONTENTS: [&str; 4] = ["content", "tool_calls", "function_call", "audio"];
    let is_absent = |key: &str| message.get(key).is_none_or(Value::is_null);
    message["role"] == "assistant" && CONTENTS.into_iter().all(is_absent)
}

fn read_message(conversation: &mut ConversationReader, path: &str, message: Value) -> ReadRequest<()> {
    let role = message.get("role").and_then(Value::as_str).map(str::to_owned);
    if role.as_deref() == Some("assistant") {
        return conversation.add_assistant(path, &message);
    }
    let mut fields = RequestFields::new(path, message)?;
    let role = role.ok_or_else(|| fields.missing("role"))?;
    match role.as_str() {
        "system" | "developer" => {
            let text = joined_text(read_parts(&mut fields, "content", read_part)?);
            conversation.add_instructions(text);
        }
        "user" => conversation.add_user_message(read_parts(&mut fields, "content", read_part)?),
        "tool" => {
            let id = fields.required_text("tool_call_id")?;
            let result = read_result(&mut fields, "content", read_part)?;
            conversation.add_result(path, id, result)?;
        }
        other => {
            let problem =
                format!("must be `system`, `developer`, `user`, `assistant` or `tool`, not `{other}`");
            return Err(fields.invalid("role", problem));
        }
    }
    Ok(())
}

fn read_part(path: &str, part: Value) -> ReadRequest<Option<Content>> {
    let mut fields = RequestFields::new(path, part.clone())?;
    let type_name = fields.required_text("type")?;
    Ok(match type_name.as_str() {
        "text" => Some(fields.required_text("text")?).filter(|text| !text.is_empty()).map(Content::text),
        "image_url" => {
            let mut image = fields.object("image_url")?.ok_or_else(|| fields.missing("image_url"))?;
            let (url, detail) = (image.required_text("url")?, image.text("detail")?);
            let known = from_data_url(&url, None).map(|image| with_detail(image, detail.as_deref()));
            Some(known.unwrap_or_else(|| remote_image(DIALECT, part, &url, detail.as_deref())))
        }
        "input_audio" => Some(read_audio(&mut fields)?),
        "file" => {
            let mut file = fields.object("file")?.ok_or_else(|| fields.missing("file"))?;
            Some(read_file(DIALECT, &mut file, part)?)
        }
        // Parts of later versions can only be sent to the same API.
        _ => Some(native(DIALECT, part)),
    })
}
