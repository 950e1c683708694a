//! Asks a provider for the limits of its model, once per endpoint and only if they are not configured.
//!
//! If the table of models does not have the model, this happens before the first request. Otherwise it
//! happens while the model responds: the table may be outdated, but that is not worth a delay.

use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt, poll_fn};
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::Endpoint;
use crate::stream::{headers, read_body, with_login};

/// The maximum wait. The limits are useful, but not worth a long delay of the first request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The lists of some gateways have thousands of models.
const MAX_BODY_BYTES: usize = 16 << 20;

/// The request for the limits of a model. The path is relative to the base URL, and `{model}` in it is
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitsQuery {
    /// The provider does not state them.
    None,
    /// `GET` a description of the model, or a list of models.
    Get(&'static str),
    /// Ollama's `POST /api/show`.
    OllamaShow,
    /// llama.cpp's `GET /props`, which is not below `/v1`.
    LlamaProps,
}

/// Asks the provider and records the reply. A failure is ignored: the first request then shows what is wrong.
pub(crate) async fn discover(endpoint: &Endpoint) {
    let settings = &endpoint.settings;
    let Some(url) = settings.limits_url.clone() else { return };
    let reply = ask(endpoint, url).await;
    let (context_tokens, output_tokens) =
        reply.map_or((None, None), |reply| read_limits(&reply, &settings.options.model));
    tracing::debug!(model = settings.name, context_tokens, output_tokens, "limits of the model");
    endpoint.learned.record(context_tokens, output_tokens);
}

/// Runs the query while a response streams, if the limits are those of the table. If the response ends first,
/// the query is dropped, and the next request repeats it.
pub(crate) fn discover_during<'e, T: 'e>(
    endpoint: &'e Endpoint,
    events: BoxStream<'e, T>,
) -> BoxStream<'e, T> {
    let settings = &endpoint.settings;
    let is_in_table = settings.limits.context_tokens.is_some() && settings.limits_url.is_some();
    if !is_in_table || endpoint.learned.asked.initialized() {
        return events;
    }
    with_background(events, endpoint.learned.asked.get_or_init(move || discover(endpoint))).boxed()
}

/// Polls a future together with a stream. The stream does not wait for it.
fn with_background<'e, T: 'e>(
    mut events: BoxStream<'e, T>,
    background: impl Future + Send + 'e,
) -> impl Stream<Item = T> + Send + 'e {
    let mut background = Some(Box::pin(background));
    poll_fn(move |context| {
        if background.as_mut().is_some_and(|future| future.as_mut().poll(context).is_ready()) {
            background = None;
        }
        events.poll_next_unpin(context)
    })
}

async fn ask(endpoint: &Endpoint, url: Url) -> Option<Value> {
    let deadline = Instant::now() + TIMEOUT;
    let settings = &endpoint.settings;
    let mut headers = headers(settings, b"", endpoint.clock.now()).ok()?;
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = match url.path().ends_with("/api/show") {
        true => endpoint.client.post(url).json(&json!({"model": settings.options.model})),
        false => endpoint.client.get(url),
    };
    let request = with_login(request, settings).headers(headers);
    let response = timeout_at(deadline, request.send()).await.ok()?.ok()?;
    if !response.status().is_success() {
        return None;
    }
    serde_json::from_slice(&read_body(response, MAX_BODY_BYTES, deadline).await).ok()
}

/// Returns the context window and the output limit.
fn read_limits(reply: &Value, model: &str) -> (Option<u64>, Option<u64>) {
    const CONTEXT: [&str; 8] = [
        "/top_provider/context_length",       // OpenRouter
        "/max_model_len",                     // vLLM
        "/max_context_length",                // Mistral
        "/context_window",                    // Groq
        "/context_length",                    // Cohere, OpenRouter
        "/inputTokenLimit",                   // Gemini
        "/max_input_tokens",                  // Anthropic
        "/default_generation_settings/n_ctx", // llama.cpp
    ];
    const OUTPUT: [&str; 2] = ["/outputTokenLimit", "/max_tokens"];
    let description = match reply.get("data").and_then(Value::as_array) {
        Some(models) => {
            let found = models.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(model));
            found.or_else(|| models.first().filter(|_| models.len() == 1))
        }
        None => Some(reply),
    };
    let Some(description) = description else { return (None, None) };
    let number = |path: &&str| description.pointer(path).and_then(Value::as_u64).filter(|tokens| *tokens > 0);
    let context = CONTEXT.iter().find_map(number).or_else(|| ollama_window(description));
    (context, OUTPUT.iter().find_map(number))
}

/// Returns the window of a model of Ollama: that of its Modelfile, or else that of the model itself.
fn ollama_window(description: &Value) -> Option<u64> {
    let mut parameters = description.get("parameters").and_then(Value::as_str).unwrap_or_default().lines();
    let in_modelfile = parameters.find_map(|line| line.strip_prefix("num_ctx")?.trim().parse().ok());
    let details = description.get("model_info").and_then(Value::as_object);
    let of_model = || {
        let mut details = details.into_iter().flatten();
        details.find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, tokens)| tokens.as_u64())
    };
    in_modelfile.or_else(of_model)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_stream_does_not_wait_for_its_background_future() {
        let events = || stream::iter([1, 2]).boxed();
        let received: Vec<i32> = with_background(events(), std::future::pending::<()>()).collect().await;
        assert_eq!(received, [1, 2]);
        let mut is_done = false;
        let background = async {
            tokio::task::yield_now().await;
            is_done = true;
        };
        let received: Vec<i32> = with_background(events(), background).collect().await;
        assert_eq!((received, is_done), (vec![1, 2], true));
    }

    #[track_caller]
    fn check(reply: Value, expected: (Option<u64>, Option<u64>)) {
        assert_eq!(read_limits(&reply, "m"), expected, "{reply}");
    }

    #[test]
    fn the_limits_are_found_in_every_format() {
        let list =
            |entry: Value| json!({"object": "list", "data": [{"id": "other", "max_model_len": 1}, entry]});
        check(list(json!({"id": "m", "max_model_len": 8_192})), (Some(8_192), None));
        check(list(json!({"id": "m", "max_context_length": 32_768})), (Some(32_768), None));
        check(list(json!({"id": "m", "context_window": 131_072, "active": true})), (Some(131_072), None));
        let routed = json!({"id": "m", "context_length": 9, "top_provider": {"context_length": 7}});
        check(list(routed), (Some(7), None));
        check(list(json!({"id": "m"})), (None, None));
        check(json!({"data": [{"id": "x", "max_model_len": 4_096}]}), (Some(4_096), None));
        check(json!({"data": []}), (None, None));
        check(json!({"inputTokenLimit": 1_000, "outputTokenLimit": 100}), (Some(1_000), Some(100)));
        check(json!({"max_input_tokens": 200_000, "max_tokens": 64_000}), (Some(200_000), Some(64_000)));
        check(json!({"name": "command-a", "context_length": 256_000}), (Some(256_000), None));
        check(json!({"default_generation_settings": {"n_ctx": 2_048}}), (Some(2_048), None));
        let info = json!({"general.architecture": "llama", "llama.context_length": 131_072});
        check(json!({"model_info": info}), (Some(131_072), None));
        let parameters = "temperature 0.7\nnum_ctx                        16384";
        check(json!({"model_info": info, "parameters": parameters}), (Some(16_384), None));
        for invalid in [json!(null), json!("no"), json!({"data": 1}), json!({"max_model_len": -1})] {
            check(invalid, (None, None));
        }
    }
}
