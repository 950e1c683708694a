//! Writing what a model says as an API does.

use serde_json::Value;

use super::json::{flag, list};
use super::{Api, Received, Said, anthropic, bedrock, chat, cohere, gemini, ollama, responses};

/// What is said in the API's own JSON: one element for a whole answer, one for each event of a stream.
///
/// What a request must ask for is in it: the usage of a chat's stream, the encrypted content of reasoning. The stream of
/// Gemini is that of `alt=sse`.
///
/// # Panics
///
/// When the API has no way to say it: arguments that are no object where it carries an object.
pub fn render(api: Api, said: &Said, streamed: bool) -> Vec<Vec<u8>> {
    if streamed { stream(api, said, &Asked::all()) } else { vec![whole(api, said, &Asked::all())] }
}

/// The content type and the events of an answer to this request.
pub(super) fn answer(api: Api, said: &Said, request: &Received) -> (&'static str, Vec<Vec<u8>>) {
    let asked = Asked::of(api, request);
    if !asked.is_streamed {
        return ("application/json", vec![whole(api, said, &asked)]);
    }
    let kind = match api {
        Api::Bedrock => "application/vnd.amazon.eventstream",
        Api::Ollama => "application/x-ndjson",
        Api::Gemini if !asked.as_events => "application/json; charset=UTF-8",
        _ => "text/event-stream; charset=utf-8",
    };
    (kind, stream(api, said, &asked))
}

/// What a request asks of the form of its answer.
struct Asked {
    is_streamed: bool,
    with_usage: bool,
    with_encrypted: bool,
    as_events: bool,
}

impl Asked {
    fn all() -> Asked {
        Asked { is_streamed: true, with_usage: true, with_encrypted: true, as_events: true }
    }

    fn of(api: Api, request: &Received) -> Asked {
        let body = &request.body;
        let is_streamed = match api {
            Api::Gemini => request.path.ends_with(":streamGenerateContent"),
            Api::Bedrock => request.path.ends_with("/converse-stream"),
            Api::Ollama => body.get("stream") != Some(&Value::Bool(false)),
            _ => flag(body, "stream"),
        };
        Asked {
            is_streamed,
            with_usage: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
            with_encrypted: list(body, "include").iter().any(|field| field == "reasoning.encrypted_content"),
            as_events: request.query("alt").as_deref() == Some("sse"),
        }
    }
}

fn whole(api: Api, said: &Said, asked: &Asked) -> Vec<u8> {
    let value = match api {
        Api::Responses => responses::whole(said, asked.with_encrypted),
        Api::Anthropic => anthropic::whole(said),
        Api::Gemini => gemini::whole(said),
        Api::Bedrock => bedrock::whole(said),
        Api::Cohere => cohere::whole(said),
        Api::Ollama => ollama::whole(said),
        of_the_chat_family => chat::whole(of_the_chat_family, said),
    };
    value.to_string().into_bytes()
}

fn stream(api: Api, said: &Said, asked: &Asked) -> Vec<Vec<u8>> {
    match api {
        Api::Responses => responses::stream(said, asked.with_encrypted),
        Api::Anthropic => anthropic::stream(said),
        Api::Gemini if asked.as_events => gemini::stream(said),
        Api::Gemini => gemini::listed(said),
        Api::Bedrock => bedrock::stream(said),
        Api::Cohere => cohere::stream(said),
        Api::Ollama => ollama::stream(said),
        of_the_chat_family => chat::stream(of_the_chat_family, said, asked.with_usage),
    }
}
