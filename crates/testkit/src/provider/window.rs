//! The context window of a fake provider: a request that is longer is refused with the error of the API.
//!
//! Three bytes of the body of a request are one token, with the names of fields and the quotation marks; an
//! escaped character counts as one byte. The count does not depend on the estimates of the client. An output
//! limit in the request counts as well where the API counts it. The real Ollama silently truncates the start
//! of a longer conversation, unless `truncate` is false; the fake one then responds with an error that no
//! client understands, so that tests fail.
//!
//! Rules in `docs/providers.md`: `context-window/errors`, `context-window/lookups`.

use serde_json::{Value, json};

use super::check::Rejection;
use super::{Api, ReceivedRequest};

/// The window of Ollama if the request has no `num_ctx`.
const OLLAMA_DEFAULT: u64 = 4_096;

/// Refuses a request that is longer than the window.
pub(super) fn check(api: Api, window: u64, request: &ReceivedRequest) -> Result<(), Rejection> {
    let number = |path: &str| request.body.pointer(path).and_then(Value::as_u64);
    let window = match api {
        Api::Ollama => number("/options/num_ctx").unwrap_or(OLLAMA_DEFAULT).min(window),
        _ => window,
    };
    let escapes = request.bytes.iter().filter(|byte| **byte == b'\\').count();
    let input = (request.bytes.len() - escapes).div_ceil(3) as u64;
    let output = match api {
        Api::Anthropic => number("/max_tokens"),
        Api::OpenAiChat | Api::Azure | Api::Vllm | Api::DeepSeek => {
            number("/max_completion_tokens").or_else(|| number("/max_tokens"))
        }
        _ => None,
    };
    let total = input + output.unwrap_or(0);
    let truncates = api == Api::Ollama && request.body.get("truncate") != Some(&Value::Bool(false));
    match (total <= window, truncates) {
        (true, _) => Ok(()),
        (false, true) => Err(Rejection::new(500, json!({"error": "the conversation would be truncated"}))),
        (false, false) => Err(refusal(api, window, input, output.unwrap_or(0))),
    }
}

fn refusal(api: Api, window: u64, input: u64, output: u64) -> Rejection {
    let total = input + output;
    let openai = |message: String, parameter: &str| {
        json!({"error": {
            "message": message, "type": "invalid_request_error", "param": parameter, "code": "context_length_exceeded",
        }})
    };
    let body = match api {
        Api::OpenAiChat | Api::Azure | Api::Dial => {
            let message = format!(
                "This model's maximum context length is {window} tokens. However, your messages resulted in {total} tokens. \
                 Please reduce the length of the messages."
            );
            openai(message, "messages")
        }
        Api::Groq => openai("Please reduce the length of the messages or completion.".to_owned(), "messages"),
        Api::Responses => {
            let message = "Your input exceeds the context window of this model. Please adjust your input and try again.";
            openai(message.to_owned(), "input")
        }
        Api::DeepSeek => json!({"error": {
            "message": format!(
                "This model's maximum context length is {window} tokens. However, you requested {total} tokens ({input} in the \
                 messages, {output} in the completion). Please reduce the length of the messages or completion."
            ),
            "type": "invalid_request_error", "param": null, "code": "invalid_request_error",
        }}),
        Api::Vllm => json!({
            "object": "error",
            "message": format!(
                "This model's maximum context length is {window} tokens. However, you requested {total} tokens ({input} in the \
                 messages, {output} in the completion). Please reduce the length of the messages or completion."
            ),
            "type": "BadRequestError", "param": null, "code": 400,
        }),
        Api::LlamaCpp => json!({"error": {
            "code": 400, "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error", "n_prompt_tokens": input, "n_ctx": window,
        }}),
        Api::Mistral => json!({
            "object": "error",
            "message": format!(
                "Prompt contains {input} tokens and 0 draft tokens, too large for model with {window} maximum context length"
            ),
            "type": "invalid_request_prompt", "param": null, "code": "3051",
        }),
        Api::Xai => json!({
            "code": "Client specified an invalid argument",
            "error": format!(
                "This model's maximum prompt length is {window} but the request contains {input} tokens."
            ),
        }),
        Api::Anthropic => {
            let message = if input > window {
                format!("prompt is too long: {input} tokens > {window} maximum")
            } else {
                format!(
                    "input length and `max_tokens` exceed context limit: {input} + {output} > {window}, decrease input \
                     length or `max_tokens` and try again"
                )
            };
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        }
        Api::Gemini => json!({"error": {
            "code": 400, "status": "INVALID_ARGUMENT",
            "message": format!("The input token count ({input}) exceeds the maximum number of tokens allowed ({window})."),
        }}),
        Api::Bedrock => json!({"message": "Input is too long for requested model."}),
        Api::Cohere => json!({"message": format!(
            "too many tokens: total number of tokens in the prompt cannot exceed {window} - received {input}. Try using a \
             shorter prompt, or a model with a longer context."
        )}),
        // The error of its llama.cpp, as a text.
        Api::Ollama => {
            let inner = json!({"error": {
                "code": 400,
                "message": format!(
                    "request ({input} tokens) exceeds the available context size ({window} tokens), try increasing it"
                ),
                "type": "exceed_context_size_error", "n_prompt_tokens": input, "n_ctx": window,
            }});
            json!({"error": inner.to_string()})
        }
    };
    Rejection::new(400, body)
}

/// Whether a request asks for the description of a model or for a list of models.
pub(super) fn is_lookup(request: &ReceivedRequest) -> bool {
    request.method == "GET" || request.path == "/api/show"
}

/// Returns the description of the model `m` with its window; `None` if the API does not state it.
pub(super) fn description(api: Api, path: &str, window: u64) -> Option<Value> {
    let list = |entry: Value| json!({"object": "list", "data": [{"id": "another"}, entry]});
    Some(match (api, path) {
        (Api::Vllm | Api::OpenAiChat, "/v1/models") => list(json!({"id": "m", "max_model_len": window})),
        (Api::Mistral, "/v1/models") => list(json!({"id": "m", "max_context_length": window})),
        (Api::Groq, "/openai/v1/models") => list(json!({"id": "m", "context_window": window})),
        (Api::LlamaCpp, "/props") => {
            json!({"default_generation_settings": {"n_ctx": window}, "total_slots": 1})
        }
        (Api::Anthropic, path) if path.starts_with("/v1/models/") => {
            json!({"type": "model", "id": "m", "max_input_tokens": window})
        }
        (Api::Gemini, path) if path.starts_with("/v1beta/models/") => {
            json!({"name": "models/m", "inputTokenLimit": window, "outputTokenLimit": window})
        }
        (Api::Cohere, "/v1/models/m") => json!({"name": "m", "context_length": window}),
        (Api::Ollama, "/api/show") => {
            json!({"model_info": {"general.architecture": "llama", "llama.context_length": window}})
        }
        _ => return None,
    })
}
