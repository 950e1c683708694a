//! Recognizes the error for a request that is longer than the context window.

use serde_json::Value;

use crate::retry::error_object;

/// Codes and types that mean this error and no other.
const CODES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];

/// Parts of the messages of providers that send no such code. `{}` is the size of the window.
const PHRASES: [&str; 13] = [
    "maximum context length is {}",         // OpenAI, vLLM, DeepSeek
    "maximum prompt length is {}",          // xAI
    "maximum number of tokens allowed ({}", // Gemini
    "exceed context limit: … > {}",         // Anthropic
    "prompt is too long: … > {}",           // Anthropic, Bedrock
    "too large for model with {}",          // Mistral
    "total number of tokens in the prompt cannot exceed {}", // Cohere
    "tokens per minute (tpm): limit {}",    // Groq, for a request that can never be accepted
    "exceeds the context window",           // Responses
    "exceeds the available context size",   // llama.cpp
    "input is too long for requested model", // Bedrock
    "context length exceeded",
    "exceeds the context length", // earlier versions of Ollama
];

/// Returns the size of the window if the provider states it; the outer `None` if this is another error.
pub(crate) fn exceeded_window(status: Option<u16>, message: &str, body: &Value) -> Option<Option<u64>> {
    let error = error_object(body);
    let field = |key: &str| error.and_then(|error| error.get(key));
    let has_code =
        ["code", "type"].iter().filter_map(|key| field(key)?.as_str()).any(|code| CODES.contains(&code));
    let message = message.to_lowercase();
    let matching = PHRASES.iter().find_map(|phrase| stated_window(&message, phrase));
    // Status 429 means a rate limit, which ends after some time. It is not the limit of the model.
    if status == Some(429) || (!has_code && matching.is_none()) {
        return None;
    }
    Some(field("n_ctx").and_then(Value::as_u64).or(matching.flatten()).filter(|tokens| *tokens > 0))
}

/// Matches a message with one of the phrases, in which `…` is any text.
fn stated_window(message: &str, phrase: &str) -> Option<Option<u64>> {
    let mut rest = message;
    for part in phrase.split("{}").next().unwrap_or(phrase).split('…') {
        rest = &rest[rest.find(part)? + part.len()..];
    }
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|char| char.is_ascii_digit() || *char == ',' || *char == '_')
        .filter(char::is_ascii_digit)
        .collect();
    Some(digits.parse().ok().filter(|_| phrase.contains("{}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(status: u16, message: &str, body: Value, expected: Option<Option<u64>>) {
        assert_eq!(exceeded_window(Some(status), message, &body), expected, "{message}");
    }

    #[test]
    fn the_error_of_every_provider_is_recognized_with_the_window_it_states() {
        for (message, window) in [
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the \
                 messages, 1000 in the completion).",
                Some(8_192),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
                Some(131_072),
            ),
            (
                "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(200_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
                Some(200_000),
            ),
            (
                "The model returned the following errors: prompt is too long: 205,000 tokens > 200,000 maximum",
                Some(200_000),
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                Some(32_768),
            ),
            (
                "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 140000.",
                Some(128_000),
            ),
            (
                "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
                Some(6_000),
            ),
            ("the input length exceeds the context length", None),
            ("Your input exceeds the context window of this model.", None),
            ("Input is too long for requested model.", None),
            ("the request exceeds the available context size. try increasing it", None),
        ] {
            check(400, message, json!({}), Some(window));
        }
        check(400, "no", json!({"error": {"code": "context_length_exceeded"}}), Some(None));
        let llama =
            json!({"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4_096}});
        check(400, "no", llama, Some(Some(4_096)));
    }

    #[test]
    fn other_errors_are_not() {
        check(429, "tokens per minute (TPM): Limit 6000, Used 5900, Requested 300", json!({}), None);
        check(400, "max_tokens is too large: 99999", json!({"error": {"code": "invalid_value"}}), None);
        check(400, "the context of the image is missing", json!({}), None);
        check(400, "", json!("maximum"), None);
    }
}
