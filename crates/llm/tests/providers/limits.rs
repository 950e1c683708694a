//! The limits of models, as providers state them, and the windows and output limits in requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;
use toolwire_contract::Message;
use toolwire_contract::model::{Model, ModelError};
use toolwire_testkit::provider::{
    Api, Delivery, Gate, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

use crate::harness::{TestEndpoint, question};

/// Generous, because the machine may be busy; a passing test never waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

fn script() -> Script {
    Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text("Hello.")))
}

/// Asks each provider that states the window, once and before the first request only.
#[tokio::test]
async fn the_window_is_learned_from_the_provider() {
    for api in Api::ALL {
        let provider = TestEndpoint::new(api, script().with_window(9_000, true), json!({})).await;
        assert_eq!(provider.endpoint.limits().context_tokens, None, "{api:?}");
        provider.endpoint.prepare().await;
        provider.endpoint.clone().prepare().await;
        let states =
            !matches!(api, Api::Azure | Api::Dial | Api::DeepSeek | Api::Xai | Api::Responses | Api::Bedrock);
        let expected = states.then_some(9_000);
        assert_eq!(provider.endpoint.limits().context_tokens, expected, "{api:?}");
        assert_eq!(provider.provider.lookups().len(), usize::from(states), "{api:?}");
        assert_eq!(provider.provider.requests(), [], "{api:?}");
    }
}

#[tokio::test]
async fn a_provider_that_does_not_state_the_window_is_no_problem() {
    for api in Api::ALL {
        let provider = TestEndpoint::new(api, script(), json!({})).await;
        provider.endpoint.prepare().await;
        assert_eq!(provider.endpoint.limits().context_tokens, None, "{api:?}");
        assert!(provider.ask(question("Hi")).await.1.is_ok(), "{api:?}");
    }
}

/// The table may be outdated. The provider is asked while the model responds, so that nothing waits for the
/// reply.
#[tokio::test]
async fn the_window_of_a_known_model_is_updated_while_it_responds() {
    for (api, model, window) in [
        (Api::Anthropic, "claude-sonnet-4-5-20250929", 200_000),
        (Api::Gemini, "models/gemini-2.5-pro", 1_048_576),
    ] {
        let gate = Gate::new();
        let delivery = Delivery { gates: vec![(1, gate.clone())], ..Delivery::default() };
        let response = ScriptedResponse::Delivered(ModelOutput::text("Hello."), delivery);
        let script = script().starting_with([response]).with_window(100_000, true);
        let provider = TestEndpoint::new(api, script, json!({"model": model})).await;
        let limit = || provider.endpoint.limits().context_tokens;
        provider.endpoint.prepare().await;
        assert_eq!((limit(), provider.provider.lookups().len()), (Some(window), 0), "{model}");
        let learned = async {
            gate.reached().await;
            while limit() == Some(window) {
                tokio::task::yield_now().await;
            }
            gate.open();
        };
        let asked = async { tokio::join!(provider.ask(question("Hi")), learned) };
        let ((_, response), ()) = timeout(TIMEOUT, asked).await.expect("the window is learned");
        assert!(response.is_ok(), "{response:?}");
        assert_eq!((limit(), provider.provider.lookups().len()), (Some(100_000), 1), "{model}");
        assert!(provider.ask(question("Hi")).await.1.is_ok());
        assert_eq!(provider.provider.lookups().len(), 1, "{model}");
    }
}

#[tokio::test]
async fn a_configured_window_is_not_requested_from_the_provider() {
    for (api, model) in [(Api::Vllm, "m"), (Api::Anthropic, "claude-sonnet-4-5")] {
        let config = json!({"contextTokens": 5_000, "model": model});
        let provider = TestEndpoint::new(api, script().with_window(9_000, true), config).await;
        provider.endpoint.prepare().await;
        assert!(provider.ask(question("Hi")).await.1.is_ok());
        assert_eq!(provider.endpoint.limits().context_tokens, Some(5_000));
        assert_eq!(provider.provider.lookups(), [""; 0]);
    }
}

/// Every provider's own error for a request that is too long, with the window if the provider states it.
#[tokio::test]
async fn a_request_that_is_too_long_has_its_own_error() {
    for api in Api::ALL {
        for stream in [true, false] {
            let script = script().with_window(3_000, false);
            let provider = TestEndpoint::new(api, script, json!({"stream": stream})).await;
            let (_, result) = provider.ask(question(&"long ".repeat(3_000))).await;
            let Err(error @ ModelError::ContextExceeded { window, .. }) = result else {
                panic!("{api:?}: {result:?}");
            };
            let omits_window = matches!(api, Api::Groq | Api::Responses | Api::Bedrock);
            assert_eq!(window, (!omits_window).then_some(3_000), "{api:?}");
            // A window that the error does not state is assumed to be smaller than the request.
            let known = provider.endpoint.limits().context_tokens;
            let is_known = known.is_some_and(|known| window.map_or(known < 6_000, |window| known == window));
            assert!(is_known, "{api:?}: {known:?}");
            assert_eq!(error.code(), "context_exceeded");
            assert!(error.hint().is_some());
            assert_eq!(provider.provider.requests().len(), 1, "{api:?}: it is not retried");
        }
    }
}

/// Without a size, Ollama silently drops the start of a conversation that is longer than its default.
#[tokio::test]
async fn ollama_gets_the_size_of_the_window() {
    let provider = TestEndpoint::new(Api::Ollama, script().with_window(40_000, true), json!({})).await;
    provider.endpoint.prepare().await;
    let mut sizes = Vec::new();
    for words in [10, 9_000, 10, 22_000, 10] {
        let (_, result) = provider.ask(question(&"word ".repeat(words))).await;
        result.unwrap_or_else(|error| panic!("{words} words: {error}"));
        sizes
            .push(provider.provider.requests().last().expect("a request").body["options"]["num_ctx"].clone());
    }
    assert_eq!(sizes, [8_192, 32_768, 32_768, 40_000, 40_000].map(Value::from));
}

/// A window that is too small for a request is enlarged before anything is trimmed, even if the size of the
/// model's own window is unknown.
#[tokio::test]
async fn ollama_gets_a_larger_window_if_it_counts_more_tokens_than_estimated() {
    for (is_stated, learned) in [(true, Some(40_000)), (false, None)] {
        let script = script().with_window(40_000, is_stated);
        let provider = TestEndpoint::new(Api::Ollama, script, json!({"maxOutputTokens": 1})).await;
        provider.endpoint.prepare().await;
        // The largest request that is estimated to fit. The fake provider also counts the names of fields.
        let fits = |words: &usize| question(&"word ".repeat(*words)).estimated_tokens() < 8_192;
        let words = (1..6_000).rev().find(fits).expect("some request fits");
        let (_, result) = provider.ask(question(&"word ".repeat(words))).await;
        assert!(result.is_ok(), "{result:?}");
        let sizes = |provider: &TestEndpoint| -> Vec<Value> {
            let requests = provider.provider.requests();
            requests.iter().map(|request| request.body["options"]["num_ctx"].clone()).collect()
        };
        assert_eq!(sizes(&provider), [8_192, 16_384].map(Value::from));
        assert_eq!(provider.endpoint.limits().context_tokens, learned);
        // Later requests use the same size.
        assert!(provider.ask(question("Hi")).await.1.is_ok());
        assert_eq!(sizes(&provider)[2..], [Value::from(16_384)]);
        // This one does not fit into any window of the model.
        let (_, result) = provider.ask(question(&"word ".repeat(40_000))).await;
        let Err(ModelError::ContextExceeded { window, .. }) = result else { panic!("{result:?}") };
        assert_eq!(window, Some(40_000));
        assert_eq!(provider.endpoint.limits().context_tokens, Some(40_000));
    }
}

/// The earlier messages, the tools and the instructions have the same bytes in the next request, apart from
/// the marks.
#[tokio::test]
async fn consecutive_requests_have_the_same_prefix_and_at_most_four_marks() {
    for (api, model) in [
        (Api::Anthropic, "claude-sonnet-4-5"),
        (Api::Bedrock, "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ] {
        let call = |number: usize| {
            ModelOutput::text("Let me look.").call(
                &format!("toolu_{number}"),
                "get_weather",
                r#"{"location":"Bern"}"#,
            )
        };
        let script = [call(1), call(2), ModelOutput::text("Fine."), ModelOutput::text("Indeed.")];
        let provider = TestEndpoint::new(api, script.into(), json!({"model": model})).await;
        let mut request = question("What is the weather?");
        for _ in 0..4 {
            let (_, response) = provider.ask(request.clone()).await;
            let response = response.unwrap_or_else(|error| panic!("{error:?}"));
            let results: Vec<_> = response.message.calls().map(|(id, _)| id.to_owned()).collect();
            request.messages.push(response.message.into());
            let next = match results.first() {
                Some(id) => Message::new(
                    toolwire_contract::Role::User,
                    vec![toolwire_contract::Block::Result {
                        id: id.clone(),
                        result: toolwire_contract::ToolResult::text("sunny"),
                    }],
                ),
                None => Message::user("And now?"),
            };
            request.messages.push(next.into());
        }
        let requests: Vec<String> = provider.provider.requests().into_iter().map(text).collect();
        assert_eq!(requests.len(), 4);
        for body in &requests {
            let marks = MARKS.iter().map(|mark| body.matches(mark).count()).sum::<usize>();
            assert!((3..=4).contains(&marks), "{marks} marks in {body}");
        }
        for pair in requests.windows(2) {
            let (first, second) = (unmarked(&pair[0]), unmarked(&pair[1]));
            for part in ["tools", "toolConfig", "system"] {
                assert_eq!(raw_value(&first, part), raw_value(&second, part), "{api:?}");
            }
            let (first, second) = (raw_value(&first, "messages"), raw_value(&second, "messages"));
            let (first, second) = (first.expect("messages"), second.expect("messages"));
            let first = first.strip_suffix(']').expect("an array");
            assert!(second.starts_with(&format!("{first},")), "{first}\n{second}");
        }
    }
}

/// The marks for the prompt cache, as Anthropic and Bedrock get them.
const MARKS: [&str; 2] =
    [r#","cache_control":{"type":"ephemeral"}"#, r#",{"cachePoint":{"type":"default"}}"#];

fn text(request: ReceivedRequest) -> String {
    String::from_utf8(request.bytes.to_vec()).expect("UTF-8")
}

/// Removes the marks from the bytes of a request.
fn unmarked(body: &str) -> String {
    MARKS.iter().fold(body.to_owned(), |body, mark| body.replace(mark, ""))
}

/// Returns the bytes of the value of a top-level key.
fn raw_value(body: &str, key: &str) -> Option<String> {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).expect("an object");
    fields.get(key).map(|value| value.get().to_owned())
}

/// The output limit of the model itself, not a small default.
#[tokio::test]
async fn anthropic_gets_the_output_limit_of_the_model() {
    for (config, expected) in [
        (json!({"model": "claude-sonnet-4-5"}), 64_000),
        (json!({"model": "claude-opus-4-1-20250805"}), 32_000),
        (json!({"model": "claude-sonnet-4-5", "maxOutputTokens": 500}), 500),
        (json!({"model": "unknown"}), 8_192),
    ] {
        let provider = TestEndpoint::new(Api::Anthropic, script(), config).await;
        let (_, result) = provider.ask(question("Hi")).await;
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(provider.provider.requests()[0].body["max_tokens"], expected);
    }
}

/// Cached tokens are part of the input, and are reported.
#[tokio::test]
async fn cached_tokens_are_in_the_usage() {
    let counts = toolwire_testkit::provider::TokenCounts {
        input: 100,
        cached: 60,
        written: 30,
        output: 5,
        thinking: 0,
    };
    for api in [Api::OpenAiChat, Api::Responses, Api::Anthropic, Api::Gemini, Api::Bedrock, Api::DeepSeek] {
        for stream in [true, false] {
            let script = [ModelOutput::text("Hello.").usage(counts)];
            let provider = TestEndpoint::new(api, script.into(), json!({"stream": stream})).await;
            let usage = provider.ask(question("Hi")).await.1.expect("a response").usage.expect("a usage");
            assert_eq!((usage.input_tokens, usage.cached_tokens), (100, 60), "{api:?}");
            let written = if matches!(api, Api::Gemini | Api::DeepSeek) { 0 } else { 30 };
            assert_eq!(usage.cache_write_tokens, written, "{api:?}");
        }
    }
}
