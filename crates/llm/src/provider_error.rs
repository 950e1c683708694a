//! Explains the errors of providers and suggests what the user can change.

use serde_json::{Map, Value};
use toolwire_contract::model::ModelError;
use toolwire_contract::text::truncate;
use toolwire_dialect::{Toolset, explain};

use crate::context_limit::exceeded_window;
use crate::retry::{error_object, is_permanent};
use crate::settings::{Credentials, EndpointSettings};

/// The maximum length of a provider's message. Some quote a complete schema, and proxies return complete
/// pages.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Shorter values are not replaced in messages.
const MIN_SECRET_BYTES: usize = 6;

/// Headers of the configuration that contain no secrets.
const PUBLIC_HEADERS: [&str; 10] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-title",
];

/// Parts of the names of query parameters that contain secrets.
const SECRET_NAMES: [&str; 8] = ["key", "token", "secret", "sig", "auth", "pass", "code", "cred"];

const NO_REASON: &str = "the provider gave no reason";

/// Returns the error for a provider's error body. The body is retained completely, except for keys in it.
pub(crate) fn provider_error(
    settings: &EndpointSettings,
    toolset: &Toolset,
    status: Option<u16>,
    body: Value,
) -> ModelError {
    let body = redact_secrets(body, settings);
    let inner = inner_body(&body);
    let described = inner.as_ref().unwrap_or(&body);
    let provider_message = provider_message(described);
    if let Some(window) = exceeded_window(status, provider_message.as_deref().unwrap_or_default(), described)
    {
        let message = provider_message.unwrap_or_else(|| NO_REASON.to_owned());
        return ModelError::ContextExceeded { model: settings.name.clone(), status, message, window, body };
    }
    let explanation =
        provider_message.as_deref().and_then(|message| explain(settings.dialect, toolset, message));
    let (message, hint) = match explanation {
        Some(explanation) => {
            let cause = explanation.cause;
            let message = match (explanation.tool, explanation.pointer) {
                (Some(tool), Some(pointer)) if !pointer.is_empty() => {
                    format!("the tool `{tool}` was rejected at `{pointer}` of its schema: {cause}")
                }
                (Some(tool), _) => format!("the tool `{tool}` was rejected: {cause}"),
                (None, _) => cause,
            };
            (message, Some(explanation.hint))
        }
        None => {
            let hint = hint(settings, status, &body);
            (provider_message.unwrap_or_else(|| NO_REASON.to_owned()), hint)
        }
    };
    ModelError::Refused { model: settings.name.clone(), status, message, hint, retry_after: None, body }
}

/// Returns the error body that the `error` of another one contains as a text: Ollama passes on that of its
/// llama.cpp.
fn inner_body(body: &Value) -> Option<Value> {
    let text = body.get("error")?.as_str()?;
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// Returns the provider's message in one line.
fn provider_message(body: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let text_of_body = match body {
        Value::String(text) => text.clone(),
        _ => {
            let error = error_object(body)?;
            // FastAPI servers use `detail`; AWS uses `Message` for some errors.
            let keys = ["message", "Message", "error", "detail", "error_msg"];
            let message = keys.iter().find_map(|key| error.get(key).and_then(text));
            // OpenRouter adds the error of the provider behind it.
            let upstream =
                error.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
            match (message, upstream) {
                (Some(message), Some(upstream)) => format!("{message}: {upstream}"),
                (Some(message), None) => message,
                (None, _) => error.to_string(),
            }
        }
    };
    let line = text_of_body.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| truncate(&line, MAX_MESSAGE_CHARS).into_owned())
}

fn hint(settings: &EndpointSettings, status: Option<u16>, body: &Value) -> Option<String> {
    if is_permanent(body) {
        return Some(
            "the account has no credit or quota left; add credit or wait until the quota resets".to_owned(),
        );
    }
    let key = &settings.key_source;
    let status = match status? {
        400 if has_invalid_key_reason(body) => 401,
        status => status,
    };
    Some(match status {
        401 if matches!(settings.credentials, Credentials::None) => {
            format!("an API key is required: set {}", if key.is_empty() { "`apiKey`" } else { key })
        }
        401 => format!("check the key in {key}"),
        402 => "the account has no credit left; add credit".to_owned(),
        403 => format!("check that the key in {key} has access to this model"),
        404 | 405 => {
            let mut url = settings.url.clone();
            url.set_query(None);
            format!(
                "check that the provider has a model named `{}`, and that the URL is correct: {url}",
                settings.options.model
            )
        }
        413 => "shorten the conversation, or remove large files".to_owned(),
        429 => "wait, or request a higher rate limit from the provider".to_owned(),
        500.. => "the provider has a problem; try again later, or use another model".to_owned(),
        _ => return None,
    })
}

/// Whether this is Google's error for an invalid key, which has the status 400.
fn has_invalid_key_reason(body: &Value) -> bool {
    let details = error_object(body).and_then(|error| error.get("details")).and_then(Value::as_array);
    details.is_some_and(|details| details.iter().any(|detail| detail["reason"] == "API_KEY_INVALID"))
}

/// Replaces our keys in all texts of the body.
pub(crate) fn redact_secrets(body: Value, settings: &EndpointSettings) -> Value {
    let headers = settings.headers.iter().filter(|(name, _)| !PUBLIC_HEADERS.contains(&name.as_str()));
    let values = headers.map(|(_, value)| value).filter(|value| value.is_sensitive());
    // `Bearer KEY` is a secret as a whole, and its last word is one too.
    let words = |value: &str| [value.len(), value.rfind(' ').map_or(0, |space| value.len() - space - 1)];
    let mut keys: Vec<&str> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| words(value).map(|length| &value[value.len() - length..]))
        .collect();
    let query: Vec<_> = settings.url.query_pairs().filter(|(name, _)| is_secret_name(name)).collect();
    keys.extend(query.iter().map(|(_, value)| &**value));
    let encoded = settings.url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    keys.extend(encoded.filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value));
    keys.extend(settings.login.iter().map(|(_, password)| password.expose()));
    match &settings.credentials {
        Credentials::None => {}
        Credentials::Bearer(key) | Credentials::Header(_, key) => keys.push(key.expose()),
        Credentials::Aws { secret_key, session_token, .. } => {
            keys.push(secret_key.expose());
            keys.extend(session_token.iter().map(|token| token.expose()));
        }
    }
    // A short key could be part of ordinary words.
    keys.retain(|key| key.len() >= MIN_SECRET_BYTES);
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    if keys.is_empty() { body } else { redact(body, &keys) }
}

/// Whether a query parameter contains a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn redact(value: Value, keys: &[&str]) -> Value {
    let redact_text = |text: String| keys.iter().fold(text, |text, key| text.replace(key, "…"));
    match value {
        Value::String(text) => Value::String(redact_text(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| redact(item, keys)).collect()),
        Value::Object(fields) => {
            let redacted: Map<String, Value> =
                fields.into_iter().map(|(key, value)| (redact_text(key), redact(value, keys))).collect();
            Value::Object(redacted)
        }
        other => other,
    }
}

/// Returns the HTTP status that corresponds to an error inside a stream, if its name is known.
pub(crate) fn status_from_error(body: &Value) -> Option<u16> {
    let status_for = |name: &str| {
        Some(match name {
            "overloaded_error" => 529,
            "rate_limit_error" | "rate_limit_exceeded" | "throttlingException" | "RESOURCE_EXHAUSTED" => 429,
            "api_error" | "server_error" | "internalServerException" | "InternalError" | "INTERNAL" => 500,
            "serviceUnavailableException" | "UNAVAILABLE" | "modelStreamErrorException" => 503,
            "timeout_error" | "modelTimeoutException" | "DEADLINE_EXCEEDED" => 504,
            "invalid_request_error" | "validationException" | "INVALID_ARGUMENT" => 400,
            "authentication_error" => 401,
            "permission_error" | "accessDeniedException" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            _ => return None,
        })
    };
    let error = error_object(body)?;
    let number = |key: &str| {
        let code = error.get(key)?;
        code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|code| u16::try_from(code).ok())
    };
    let numbered =
        ["code", "status"].iter().find_map(|key| number(key)).filter(|code| (400..600).contains(code));
    let names = ["type", "code", "status"].iter().filter_map(|key| error.get(key)?.as_str());
    // In Bedrock streams, the name of the event is the name of the error.
    let events = body.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    numbered.or_else(|| names.chain(events).find_map(status_for))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwire_dialect::{Dialect, Options};

    use super::*;
    use crate::EndpointConfig;

    #[track_caller]
    fn check(status: u16, body: Value, message: &str, hint: Option<&str>) {
        let config = EndpointConfig::default();
        let lookup = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-secret".to_owned());
        let settings = EndpointSettings::new("openai/gpt-x", &config, &lookup).expect("an endpoint");
        let toolset = Toolset::new(&[], Dialect::OpenAi, &Options::default());
        let error = provider_error(&settings, &toolset, Some(status), body);
        let (ModelError::Refused { message: actual_message, body, .. }
        | ModelError::ContextExceeded { message: actual_message, body, .. }) = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!((actual_message.as_str(), error.hint()), (message, hint));
        assert!(!format!("{error:?} {error} {body}").contains("sk-secret"));
    }

    #[test]
    fn the_message_is_found_in_every_format() {
        let later = Some("the provider has a problem; try again later, or use another model");
        check(500, json!({"error": {"message": "oh", "type": "server_error"}}), "oh", later);
        check(500, json!({"message": "oh"}), "oh", later);
        check(500, json!({"error": "oh"}), "oh", later);
        check(
            500,
            json!({"detail": [{"loc": ["body"], "msg": "oh"}]}),
            r#"[{"loc":["body"],"msg":"oh"}]"#,
            later,
        );
        check(500, json!([{"error": {"message": "oh"}}]), "oh", later);
        check(500, json!({"error": r#"{"error":{"code":500,"message":"oh"}}"#}), "oh", later);
        check(500, json!({"error": "[1]"}), "[1]", later);
        check(502, json!("<html>\n <h1>Bad\tGateway</h1>"), "<html> <h1>Bad Gateway</h1>", later);
        check(503, json!(""), "the provider gave no reason", later);
        check(
            502,
            json!({"error": {"message": "Provider returned error", "metadata": {"raw": "upstream"}}}),
            "Provider returned error: upstream",
            later,
        );
    }

    #[test]
    fn the_hint_suggests_a_change() {
        check(
            401,
            json!({"error": {"message": "Incorrect API key provided: sk-secret"}}),
            "Incorrect API key provided: …",
            Some("check the key in `OPENAI_API_KEY`"),
        );
        check(
            404,
            json!({"error": {"message": "The model `gpt-x` does not exist"}}),
            "The model `gpt-x` does not exist",
            Some(
                "check that the provider has a model named `gpt-x`, and that the URL is correct: https://api.openai.com/v1/chat/completions",
            ),
        );
        check(
            400,
            json!({"error": {"message": "too big", "code": "context_length_exceeded"}}),
            "too big",
            Some("shorten the conversation, offer fewer tools, or use a model with a larger context window"),
        );
        check(
            429,
            json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
            "You exceeded your current quota",
            Some("the account has no credit or quota left; add credit or wait until the quota resets"),
        );
        check(
            429,
            json!({"error": {"message": "slow down"}}),
            "slow down",
            Some("wait, or request a higher rate limit from the provider"),
        );
        check(400, json!({"error": {"message": "what?"}}), "what?", None);
        check(
            400,
            json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            ]}}),
            "API key not valid.",
            Some("check the key in `OPENAI_API_KEY`"),
        );
        // The message alone decides nothing.
        check(
            400,
            json!({"error": {"code": 400, "message": "`API key` is not a tool.", "status": "INVALID_ARGUMENT"}}),
            "`API key` is not a tool.",
            None,
        );
    }

    #[test]
    fn only_secrets_of_the_url_and_the_headers_are_removed() {
        let config = json!({
            "baseUrl": "https://a.example/v1?deployment=preview&subscription-key=s3cr3t%2Fkey&code=123",
            "headers": {"x-title": "Assistant", "x-team": "secret-team"},
        });
        let config: EndpointConfig = serde_json::from_value(config).expect("a configuration");
        let settings = EndpointSettings::new("vllm/m", &config, &|_| None).expect("an endpoint");
        let body = json!({"error": "preview 123 Assistant s3cr3t/key s3cr3t%2Fkey secret-team"});
        let expected = json!({"error": "preview 123 Assistant … … …"});
        assert_eq!(redact_secrets(body, &settings), expected);
    }

    #[test]
    fn an_error_in_a_stream_has_the_status_of_its_name() {
        for (body, status) in [
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), Some(529)),
            (json!({"throttlingException": {"message": "x"}}), Some(429)),
            (json!({"error": {"code": 503, "status": "UNAVAILABLE"}}), Some(503)),
            (json!({"error": {"code": "502", "message": "x"}}), Some(502)),
            (json!({"error": {"message": "x"}}), None),
            (json!({"error": "x"}), None),
        ] {
            assert_eq!(status_from_error(&body), status, "{body}");
        }
    }
}
