//! Writing a model's output in the format of an API.

use serde_json::{Value, json};

use super::json::{extended, flag, list};
use super::{Api, ModelOutput, ReceivedRequest, anthropic, bedrock, chat, cohere, gemini, ollama, responses};

/// Renders an output in the API's own JSON: one element for a complete response, or one for each event of a
/// stream.
///
/// Includes the parts that an API sends only on request: the usage in a chat stream, the encrypted content of
/// reasoning. The stream of Gemini is that of `alt=sse`.
///
/// # Panics
///
/// When the API carries arguments as an object and the arguments are not one.
pub fn render(api: Api, output: &ModelOutput, streamed: bool) -> Vec<Vec<u8>> {
    let format =
        ResponseFormat { is_streamed: streamed, with_usage: true, with_encrypted: true, as_events: true };
    format.render(api, output)
}

/// Returns the content type and the events of the response to a request.
pub(super) fn response(
    api: Api,
    output: &ModelOutput,
    request: &ReceivedRequest,
) -> (&'static str, Vec<Vec<u8>>) {
    let format = ResponseFormat::requested(api, request);
    let content_type = match api {
        _ if !format.is_streamed => "application/json",
        Api::Bedrock => "application/vnd.amazon.eventstream",
        Api::Ollama => "application/x-ndjson",
        Api::Gemini if !format.as_events => "application/json; charset=UTF-8",
        _ => "text/event-stream; charset=utf-8",
    };
    (content_type, format.render(api, output))
}

/// A server-sent event with a name; its data repeats the name as `type`.
pub(super) fn named_event(name: &str, fields: Value) -> Vec<u8> {
    let data = extended(json!({"type": name}), fields);
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

/// The format of the response that a request asks for.
struct ResponseFormat {
    is_streamed: bool,
    with_usage: bool,
    /// Whether the encrypted content of reasoning is included.
    with_encrypted: bool,
    /// Whether a stream of Gemini has server-sent events; otherwise it is a JSON array.
    as_events: bool,
}

impl ResponseFormat {
    fn requested(api: Api, request: &ReceivedRequest) -> ResponseFormat {
        let body = &request.body;
        let is_streamed = match api {
            Api::Gemini => request.path.ends_with(":streamGenerateContent"),
            Api::Bedrock => request.path.ends_with("/converse-stream"),
            Api::Ollama => body.get("stream") != Some(&Value::Bool(false)),
            _ => flag(body, "stream"),
        };
        ResponseFormat {
            is_streamed,
            with_usage: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
            with_encrypted: list(body, "include").iter().any(|field| field == "reasoning.encrypted_content"),
            as_events: request.query("alt").as_deref() == Some("sse"),
        }
    }

    fn render(&self, api: Api, output: &ModelOutput) -> Vec<Vec<u8>> {
        if self.is_streamed { self.stream_events(api, output) } else { vec![self.complete_body(api, output)] }
    }

    fn complete_body(&self, api: Api, output: &ModelOutput) -> Vec<u8> {
        let body = match api {
            Api::Responses => responses::complete_body(output, self.with_encrypted),
            Api::Anthropic => anthropic::complete_body(output),
            Api::Gemini => gemini::complete_body(output),
            Api::Bedrock => bedrock::complete_body(output),
            Api::Cohere => cohere::complete_body(output),
            Api::Ollama => ollama::complete_body(output),
            chat_flavour => chat::complete_body(chat_flavour, output),
        };
        body.to_string().into_bytes()
    }

    fn stream_events(&self, api: Api, output: &ModelOutput) -> Vec<Vec<u8>> {
        match api {
            Api::Responses => responses::stream_events(output, self.with_encrypted),
            Api::Anthropic => anthropic::stream_events(output),
            Api::Gemini if self.as_events => gemini::stream_events(output),
            Api::Gemini => gemini::stream_array(output),
            Api::Bedrock => bedrock::stream_events(output),
            Api::Cohere => cohere::stream_events(output),
            Api::Ollama => ollama::stream_events(output),
            chat_flavour => chat::stream_events(chat_flavour, output, self.with_usage),
        }
    }
}
