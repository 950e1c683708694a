//! OpenAI's `/v1/embeddings`, as OpenAI, Mistral, Gemini, Cohere, Ollama and others implement it.
//!
//! Each word of a text counts for one number of its vector, so texts with the same words are similar.
//!
//! Rules in `docs/providers.md`: `embeddings/endpoint`, `embeddings/input`.

use serde_json::{Value, json};

use super::json::unknown_key;
use super::{API_KEY, Api, ReceivedRequest, Rejection, ScriptedResponse};

const KEYS: [&str; 5] = ["model", "input", "encoding_format", "dimensions", "user"];
const DIMENSIONS: usize = 64;
/// The maximum length of one text. Three bytes are one token.
const MAX_TEXT_TOKENS: usize = 8_192;

/// Whether this is a request for embeddings.
pub(super) fn is_request(received: &ReceivedRequest) -> bool {
    received.path.ends_with("/embeddings")
}

/// Checks a request as the API does.
pub(super) fn check(api: Api, received: &ReceivedRequest) -> Result<(), Rejection> {
    let header = |name: &str| received.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let (path, key) = match api {
        Api::Gemini => ("/v1beta/openai/embeddings", bearer),
        Api::Cohere => ("/compatibility/v1/embeddings", bearer),
        Api::Azure | Api::Dial => ("/openai/deployments/m/embeddings", header("api-key")),
        Api::Ollama | Api::Vllm | Api::LlamaCpp => ("/v1/embeddings", Some(API_KEY)),
        Api::OpenAiChat | Api::Responses | Api::Mistral | Api::Xai => ("/v1/embeddings", bearer),
        Api::Groq | Api::DeepSeek | Api::Anthropic | Api::Bedrock => ("", None),
    };
    if received.path != path {
        return Err(reject(404, "Not found"));
    }
    if key != Some(API_KEY) {
        return Err(reject(401, &format!("Incorrect API key provided: {}", key.unwrap_or_default())));
    }
    if received.method != "POST" || header("content-type") != Some("application/json") {
        return Err(reject(400, "you must provide a model parameter"));
    }
    check_body(api, &received.body).map_err(|message| reject(400, &message))
}

fn check_body(api: Api, body: &Value) -> Result<(), String> {
    if let Some(key) = unknown_key(body, &KEYS) {
        return Err(format!("Unknown request argument: {key}"));
    }
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("you must provide a model parameter".to_owned());
    }
    let texts: Option<Vec<&str>> = match &body["input"] {
        Value::String(text) => Some(vec![text]),
        Value::Array(texts) => texts.iter().map(Value::as_str).collect(),
        _ => None,
    };
    let texts = texts.ok_or("'$.input' is invalid. Please check the API reference.")?;
    if texts.is_empty() {
        return Err("[] is too short - 'input'".to_owned());
    }
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err("'$.input' is invalid: input cannot be an empty string".to_owned());
    }
    let (max_texts, max_tokens) = match api {
        Api::Gemini => (100, usize::MAX),
        Api::Cohere => (96, usize::MAX),
        Api::Mistral => (2_048, 16_384),
        _ => (2_048, 300_000),
    };
    if texts.len() > max_texts {
        return Err(format!("'input' array too long. Expected an array with maximum length {max_texts}"));
    }
    let tokens = |text: &&str| text.len().div_ceil(3);
    if let Some(tokens) = texts.iter().map(tokens).find(|tokens| *tokens > MAX_TEXT_TOKENS) {
        return Err(format!(
            "This model's maximum context length is {MAX_TEXT_TOKENS} tokens, however you requested {tokens} tokens. \
             Please reduce your prompt"
        ));
    }
    let total: usize = texts.iter().map(tokens).sum();
    if total > max_tokens {
        return Err(format!("Requested {total} tokens, max {max_tokens} tokens per request"));
    }
    Ok(())
}

fn reject(status: u16, message: &str) -> Rejection {
    let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": null});
    Rejection::new(status, json!({"error": error}))
}

/// Returns the vectors of the texts, the last one first: a client must use the indexes.
pub(super) fn response(received: &ReceivedRequest) -> ScriptedResponse {
    let texts = match &received.body["input"] {
        Value::Array(texts) => texts.clone(),
        text => vec![text.clone()],
    };
    let entry = |(index, text): (usize, &Value)| {
        let vector = vector(text.as_str().unwrap_or_default());
        json!({"object": "embedding", "index": index, "embedding": vector})
    };
    let data: Vec<Value> = texts.iter().enumerate().rev().map(entry).collect();
    let usage = json!({"prompt_tokens": texts.len(), "total_tokens": texts.len()});
    let body = json!({"object": "list", "model": received.body["model"], "data": data, "usage": usage});
    ScriptedResponse::error(200, body)
}

fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01_f32; DIMENSIONS];
    for word in text.to_lowercase().split(|character: char| !character.is_alphanumeric()) {
        let hash = word.bytes().fold(5_381_usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(byte));
        vector[hash % DIMENSIONS] += 1.0;
    }
    vector
}
