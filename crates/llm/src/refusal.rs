//! What a provider's error means, in words about what the user can change.

use serde_json::{Map, Value};
use toolwire_contract::ModelError;
use toolwire_dialect::{Toolset, explain};

use crate::retry::{error_object, is_lasting};
use crate::settings::{Credentials, Settings};

/// The error for what a provider said. The body is kept whole, but for keys that it repeats.
pub(crate) fn refused(
    settings: &Settings,
    toolset: &Toolset,
    status: Option<u16>,
    body: Value,
) -> ModelError {
    let body = without_keys(body, settings);
    let said = message(&body).unwrap_or_else(|| "it does not say why".to_owned());
    let (message, hint) = match explain(settings.dialect, toolset, &said) {
        Some(explanation) => {
            let cause = explanation.cause;
            let message = match (explanation.tool, explanation.pointer) {
                (Some(tool), Some(pointer)) if !pointer.is_empty() => {
                    format!("the tool `{tool}` is not taken, at `{pointer}` of its schema: {cause}")
                }
                (Some(tool), _) => format!("the tool `{tool}` is not taken: {cause}"),
                (None, _) => cause,
            };
            (message, Some(explanation.hint))
        }
        None => {
            let hint = hint(settings, status, &said, &body);
            (said, hint)
        }
    };
    ModelError::Refused { model: settings.name.clone(), status, message, hint, body }
}

/// The provider's own words, in one line.
fn message(body: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let words = match body {
        Value::String(whole) => whole.clone(),
        _ => {
            let error = error_object(body)?;
            // FastAPI servers say `detail`, AWS says `Message` for some.
            let named = ["message", "Message", "error", "detail", "error_msg"];
            let said = named.iter().find_map(|key| error.get(key).and_then(text));
            let beside =
                error.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str);
            match (said, beside) {
                (Some(said), Some(raw)) => format!("{said}: {raw}"),
                (Some(said), None) => said,
                (None, _) => error.to_string(),
            }
        }
    };
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { None } else { Some(shorten(line)) }
}

/// At most 1,000 characters: a message quotes a whole schema now and then, and a proxy answers with a page.
fn shorten(mut line: String) -> String {
    if let Some((cut, _)) = line.char_indices().nth(1000) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

fn hint(settings: &Settings, status: Option<u16>, message: &str, body: &Value) -> Option<String> {
    if is_too_long(message, body) {
        return Some(
            "shorten the conversation, offer fewer tools, or take a model with a larger window".to_owned(),
        );
    }
    if is_lasting(body) {
        return Some("the account is used up; add credit or wait for its next period".to_owned());
    }
    let key = &settings.key_place;
    Some(match status? {
        401 if matches!(settings.credentials, Credentials::None) => {
            format!("it wants a key: set {}", if key.is_empty() { "`apiKey`" } else { key })
        }
        401 => format!("check the key in {key}"),
        402 => "the account is used up; add credit".to_owned(),
        403 => format!("the key in {key} may not use this model; check what it is allowed"),
        404 | 405 => {
            let mut address = settings.url.clone();
            address.set_query(None);
            format!(
                "check that the provider has a model called `{}`, and the address {address}",
                settings.options.model
            )
        }
        413 => "shorten the conversation, or leave out large files".to_owned(),
        429 => "wait, or ask the provider for a higher limit".to_owned(),
        500.. => "the provider has trouble; ask again later, or take another model".to_owned(),
        _ => return None,
    })
}

/// Whether the conversation is longer than the model's window.
fn is_too_long(message: &str, body: &Value) -> bool {
    const WORDS: [&str; 10] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "input token count",
        "too many tokens",
        "maximum number of tokens",
        "too large for model",
    ];
    let code = error_object(body).and_then(|error| error.get("code")?.as_str());
    let message = message.to_lowercase();
    code == Some("context_length_exceeded") || WORDS.iter().any(|words| message.contains(words))
}

/// The body with every text that repeats a key of ours mended.
fn without_keys(body: Value, settings: &Settings) -> Value {
    let mut keys: Vec<&str> = settings
        .headers
        .values()
        .filter(|value| value.is_sensitive())
        .filter_map(|value| value.to_str().ok())
        .collect();
    match &settings.credentials {
        Credentials::None => {}
        Credentials::Bearer(key) | Credentials::Header(_, key) => keys.push(key.expose()),
        Credentials::Aws { secret_key, session_token, .. } => {
            keys.push(secret_key.expose());
            keys.extend(session_token.iter().map(|token| token.expose()));
        }
    }
    // Replacing a very short text would spoil the words around it.
    keys.retain(|key| key.len() >= 6);
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    if keys.is_empty() { body } else { mend(body, &keys) }
}

fn mend(value: Value, keys: &[&str]) -> Value {
    let hide = |text: String| keys.iter().fold(text, |text, key| text.replace(key, "…"));
    match value {
        Value::String(text) => Value::String(hide(text)),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| mend(item, keys)).collect()),
        Value::Object(fields) => {
            let mended: Map<String, Value> =
                fields.into_iter().map(|(key, value)| (hide(key), mend(value, keys))).collect();
            Value::Object(mended)
        }
        other => other,
    }
}

/// The status that an error in the middle of a stream would have had as a response, as far as its name tells.
pub(crate) fn status_of(body: &Value) -> Option<u16> {
    let named = |name: &str| {
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
    let words = ["type", "code", "status"].iter().filter_map(|key| error.get(key)?.as_str());
    // Bedrock's errors are events that are named for them.
    let events = body.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    numbered.or_else(|| words.chain(events).find_map(named))
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
        let settings = Settings::new("openai/gpt-x", &config, &lookup).expect("an endpoint");
        let toolset = Toolset::new(&[], Dialect::OpenAi, &Options::default());
        let error = refused(&settings, &toolset, Some(status), body);
        let ModelError::Refused { message: said, hint: next, body, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((said.as_str(), next.as_deref()), (message, hint));
        assert!(!format!("{error:?} {error} {body}").contains("sk-secret"));
    }

    #[test]
    fn the_message_is_found_wherever_it_stands() {
        let later = Some("the provider has trouble; ask again later, or take another model");
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
        check(502, json!("<html>\n <h1>Bad\tGateway</h1>"), "<html> <h1>Bad Gateway</h1>", later);
        check(503, json!(""), "it does not say why", later);
        check(
            502,
            json!({"error": {"message": "Provider returned error", "metadata": {"raw": "upstream"}}}),
            "Provider returned error: upstream",
            later,
        );
    }

    #[test]
    fn the_hint_names_what_to_change() {
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
                "check that the provider has a model called `gpt-x`, and the address https://api.openai.com/v1/chat/completions",
            ),
        );
        check(
            400,
            json!({"error": {"message": "too big", "code": "context_length_exceeded"}}),
            "too big",
            Some("shorten the conversation, offer fewer tools, or take a model with a larger window"),
        );
        check(
            429,
            json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
            "You exceeded your current quota",
            Some("the account is used up; add credit or wait for its next period"),
        );
        check(
            429,
            json!({"error": {"message": "slow down"}}),
            "slow down",
            Some("wait, or ask the provider for a higher limit"),
        );
        check(400, json!({"error": {"message": "what?"}}), "what?", None);
    }

    #[test]
    fn an_error_in_a_stream_has_the_status_its_name_tells() {
        for (body, status) in [
            (json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), Some(529)),
            (json!({"throttlingException": {"message": "x"}}), Some(429)),
            (json!({"error": {"code": 503, "status": "UNAVAILABLE"}}), Some(503)),
            (json!({"error": {"code": "502", "message": "x"}}), Some(502)),
            (json!({"error": {"message": "x"}}), None),
            (json!({"error": "x"}), None),
        ] {
            assert_eq!(status_of(&body), status, "{body}");
        }
    }
}
