//! Chat Completions: OpenAI's, and the APIs that are like it but for some points.

mod flavour;
mod messages;
mod render;
mod tools;

pub(super) use render::{stream, whole};

use serde_json::Value;

use super::json::{flag, list, present, stranger};
use super::judge::{Refusal, Request};
use super::{Api, KEY};
use flavour::{Door, Flavour, flavour};

/// The rules of a request as a whole.
///
/// | rule | source |
/// |---|---|
/// | key and path | 3.1, 3.15 (`api-version`), 3.16 (`Api-Key`) |
/// | unknown and missing parameters | 3.1 [S]: the request of the OpenAPI specification is closed |
/// | `stream_options` only with `stream` | 3.1 [S] |
pub(super) fn judge(api: Api, request: &Request<'_>) -> Result<(), Refusal> {
    let flavour = flavour(api);
    admit(&flavour, request)?;
    let body = request.body;
    if !body.is_object() {
        let message = "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your \
                       HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)";
        return Err(flavour.refuse(message, None, None));
    }
    if flavour.is_closed
        && let Some(key) = stranger(body, &REQUEST_KEYS).filter(|key| !flavour.request_keys.contains(key))
    {
        return Err(flavour.unknown(key, None));
    }
    if present(body, "model").and_then(Value::as_str).is_none() && !flavour.model_in_path(request) {
        return Err(flavour.refuse("you must provide a model parameter", None, None));
    }
    if !body.get("messages").is_some_and(Value::is_array) {
        return Err(flavour.missing("messages"));
    }
    if list(body, "messages").is_empty() {
        return Err(flavour.empty("messages"));
    }
    if present(body, "stream_options").is_some() && !flag(body, "stream") && flavour.is_closed {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(flavour.refuse(message, Some("stream_options"), None));
    }
    messages::judge(&flavour, body)?;
    tools::judge(&flavour, body)
}

/// Key and path.
fn admit(flavour: &Flavour, request: &Request<'_>) -> Result<(), Refusal> {
    let key = match flavour.door {
        Door::Bearer => request.bearer(),
        Door::AzureKey => request.header("api-key").or_else(|| request.bearer()),
        Door::DialKey => request.header("api-key"),
        Door::Open => Some(KEY),
    };
    if key != Some(KEY) {
        return Err(flavour.locked(key));
    }
    if !flavour.is_path(request) {
        return Err(flavour.nowhere(request.target.path));
    }
    if !request.is_json() {
        let message = "you must provide a model parameter";
        return Err(flavour.refuse(message, None, None));
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
