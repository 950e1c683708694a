//! Chat Completions: OpenAI's, and the APIs that follow it with some differences.
//!
//! Rules in `docs/providers.md`: `openai-chat/endpoint`, `openai-chat/unknown-fields`,
//! `openai-chat/stream-options`.

mod flavour;
mod messages;
mod render;
mod response_format;
mod tools;

pub(super) use render::{complete_body, stream_events};

use serde_json::Value;

use super::check::{ApiRequest, Rejection};
use super::json::{flag, list, present};
use super::{API_KEY, Api};
use flavour::{ChatFlavour, KeyHeader};

pub(super) fn check(api: Api, request: &ApiRequest<'_>) -> Result<(), Rejection> {
    let flavour = ChatFlavour::of(api);
    check_access(&flavour, request)?;
    let body = request.body;
    if !body.is_object() {
        let message = "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your \
                       HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)";
        return Err(flavour.reject(message, None, None));
    }
    flavour.check_keys(body, &REQUEST_KEYS, flavour.request_keys, None)?;
    if present(body, "model").and_then(Value::as_str).is_none() && !ChatFlavour::has_model_in_path(request) {
        return Err(flavour.reject("you must provide a model parameter", None, None));
    }
    if !body.get("messages").is_some_and(Value::is_array) {
        return Err(flavour.missing("messages"));
    }
    if list(body, "messages").is_empty() {
        return Err(flavour.empty_array("messages"));
    }
    if present(body, "stream_options").is_some() && !flag(body, "stream") && flavour.rejects_unknown_fields {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(flavour.reject(message, Some("stream_options"), None));
    }
    messages::check(&flavour, body)?;
    tools::check(&flavour, body)?;
    response_format::check(&flavour, body)
}

/// Checks the key, the path and the content type.
fn check_access(flavour: &ChatFlavour, request: &ApiRequest<'_>) -> Result<(), Rejection> {
    let key = match flavour.key_header {
        KeyHeader::Bearer => request.bearer(),
        KeyHeader::ApiKeyOrBearer => request.header("api-key").or_else(|| request.bearer()),
        KeyHeader::ApiKey => request.header("api-key"),
        KeyHeader::None => Some(API_KEY),
    };
    if key != Some(API_KEY) {
        return Err(flavour.unauthorized(key));
    }
    if !flavour.accepts_path(request) {
        return Err(flavour.not_found(request.target.path));
    }
    if !request.is_json() {
        let message = "you must provide a model parameter";
        return Err(flavour.reject(message, None, None));
    }
    Ok(())
}

const REQUEST_KEYS: [&str; 36] = [
    "model",
    "messages",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
    "prompt_cache_options",
];
