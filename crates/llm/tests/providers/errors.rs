//! Errors of providers, and retries.

use std::time::Duration;

use serde_json::{Value, json};
use toolwire_contract::model::ModelError;
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{Api, Delivery, ModelOutput, Script, ScriptedResponse};

use crate::harness::{FakeClock, TestEndpoint, question};

fn error_response(status: u16, headers: &[(&str, &str)], body: Value) -> ScriptedResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ScriptedResponse::Error { status, headers, body }
}

/// Sends a request to a provider with these responses and then a successful one. Checks the delays in
/// milliseconds, and whether the request succeeds.
async fn check(responses: Vec<ScriptedResponse>, delays: &[u64], succeeds: bool) -> Option<ModelError> {
    let count = responses.len();
    let script =
        Script::new(responses.into_iter().chain([ScriptedResponse::Output(ModelOutput::text("hi"))]));
    let endpoint = TestEndpoint::new(Api::OpenAiChat, script, json!({})).await;
    let (_, outcome) = endpoint.ask(question("hi")).await;
    let actual_delays: Vec<u64> =
        endpoint.clock.delays().iter().map(|delay| delay.as_millis() as u64).collect();
    assert_eq!(actual_delays, delays, "{outcome:?}");
    assert_eq!(outcome.is_ok(), succeeds, "{outcome:?}");
    assert_eq!(endpoint.provider.requests().len(), delays.len() + 1);
    assert!(endpoint.provider.responses_left() <= count);
    outcome.err()
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message, "type": "x", "code": null}})
}

#[tokio::test]
async fn transient_errors_are_retried_with_growing_delays() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        check(vec![error_response(status, &[], error("later"))], &[250], true).await;
    }
    let all = vec![
        ScriptedResponse::CloseBeforeHeaders,
        error_response(500, &[], error("x")),
        error_response(503, &[], json!("<html>")),
    ];
    check(all, &[250, 500, 1000], true).await;
}

#[tokio::test]
async fn the_requested_delay_is_used() {
    let past_date = httpdate::fmt_http_date(std::time::SystemTime::now() - Duration::from_secs(60));
    let retry_info = json!({"error": {"code": 429, "details": [{"retryDelay": "3s"}]}});
    let responses = vec![
        error_response(429, &[("retry-after", "7")], error("slow down")),
        error_response(503, &[("retry-after", "9"), ("retry-after-ms", "20")], error("slow down")),
        error_response(429, &[("retry-after", &past_date)], error("slow down")),
    ];
    check(responses, &[7000, 20, 0], true).await;
    check(vec![error_response(429, &[], retry_info)], &[3000], true).await;
}

#[tokio::test]
async fn a_requested_delay_that_is_too_long_ends_the_retries() {
    let failure =
        check(vec![error_response(429, &[("retry-after", "3600")], error("tomorrow"))], &[], false).await;
    let failure = failure.expect("the request fails");
    assert_eq!(failure.to_string(), "`openai/m` returned an error (429): tomorrow");
    assert_eq!(failure.hint(), Some("wait, or request a higher rate limit from the provider"));
}

#[tokio::test]
async fn permanent_errors_are_returned_at_once() {
    for status in [400, 401, 403, 404, 413, 422] {
        check(vec![error_response(status, &[], error("no"))], &[], false).await;
    }
    let quota = json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
        "param": null, "code": "insufficient_quota"}});
    let failure = check(vec![error_response(429, &[("retry-after", "1")], quota.clone())], &[], false).await;
    assert_eq!(
        failure,
        Some(ModelError::Refused {
            model: "openai/m".to_owned(),
            status: Some(429),
            message: "You exceeded your current quota".to_owned(),
            hint: Some(
                "the account has no credit or quota left; add credit or wait until the quota resets"
                    .to_owned()
            ),
            retry_after: Some(Duration::from_secs(1)),
            body: quota,
        })
    );
}

#[tokio::test]
async fn the_last_error_is_returned_after_all_retries() {
    let responses =
        (1..=4).map(|number| error_response(503, &[], error(&format!("busy {number}")))).collect();
    let failure = check(responses, &[250, 500, 1000], false).await;
    assert_eq!(
        failure.map(|error| error.to_string()).as_deref(),
        Some("`openai/m` returned an error (503): busy 4")
    );
}

#[tokio::test]
async fn an_error_at_the_start_of_a_stream_is_handled_like_an_error_response() {
    let stream_error = |kind: &str| {
        let event = format!("data: {}\n\n", json!({"error": {"message": "oh", "type": kind, "code": null}}));
        ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: vec![event.into_bytes()],
            delivery: Delivery::default(),
        }
    };
    check(vec![stream_error("server_error"), stream_error("rate_limit_exceeded")], &[250, 500], true).await;
    check(vec![stream_error("invalid_request_error")], &[], false).await;
}

#[tokio::test]
async fn a_rejected_tool_is_reported_by_its_mcp_name() {
    let message = "Invalid schema for function 'get_weather': In context=('properties', 'units'), array schema missing items.";
    let failure =
        check(vec![error_response(400, &[], error(message))], &[], false).await.expect("the request fails");
    assert!(failure.to_string().contains("`get_weather`"), "{failure}");
    assert!(failure.to_string().contains("/properties/units"), "{failure}");
    assert!(failure.hint().is_some());
    let ModelError::Refused { body, .. } = failure else { panic!("{failure:?}") };
    assert_eq!(body, error(message));
}

#[tokio::test]
async fn a_web_page_and_a_redirect_are_errors() {
    for kind in ["text/html", "text/plain"] {
        let page = ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: vec![b"\n<HTML>Log in".to_vec()],
            delivery: Delivery::default(),
        };
        let failure = check(vec![page], &[], false).await.expect("an error");
        assert_eq!(failure.to_string(), "the response of `openai/m` is malformed: received a web page");
    }
    let redirect = error_response(308, &[("location", "https://elsewhere.example/v1")], json!(""));
    let failure = check(vec![redirect], &[], false).await.expect("an error");
    assert_eq!(
        failure.hint(),
        Some("the endpoint has moved to https://elsewhere.example/v1; update `baseUrl`")
    );
}

#[tokio::test]
async fn an_unreachable_provider_is_an_error_after_all_retries() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a local address");
    drop(listener);
    let config: EndpointConfig =
        serde_json::from_value(json!({"baseUrl": format!("http://{address}/v1")})).expect("a configuration");
    let clock = std::sync::Arc::new(FakeClock::default());
    let endpoint =
        Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_clock(clock.clone());
    let failure =
        toolwire_llm::collect(toolwire_contract::model::Model::ask(&endpoint, question("hi"))).await;
    let failure = failure.expect_err("no server is running");
    assert!(matches!(failure, ModelError::Unreachable { .. }), "{failure:?}");
    let message = failure.to_string();
    assert!(message.to_lowercase().contains("refused"), "{message}");
    assert!(
        !message.contains(&address.port().to_string()),
        "clients of a gateway get the message: {message}"
    );
    let hint = failure.hint().unwrap_or_default();
    assert_eq!(hint, format!("check the base URL http://{address} and the network"));
    assert_eq!(clock.delays().len(), 3);
}

#[tokio::test]
async fn a_provider_without_tls_is_a_distinct_error() {
    let endpoint = TestEndpoint::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Output(ModelOutput::text("hi")),
        json!({}),
    )
    .await;
    let base_url = endpoint.provider.base_url().replace("http://", "https://");
    let config: EndpointConfig =
        serde_json::from_value(json!({"baseUrl": base_url})).expect("a configuration");
    let clock = std::sync::Arc::new(FakeClock::default());
    let endpoint = Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_clock(clock);
    let failure =
        toolwire_llm::collect(toolwire_contract::model::Model::ask(&endpoint, question("hi"))).await;
    let message = failure.expect_err("the server has no TLS").to_string();
    assert!(message.contains("does not support TLS; its URL probably starts with `http://`"), "{message}");
}

#[tokio::test]
async fn the_hint_for_an_invalid_key_names_its_source() {
    for api in Api::ALL {
        let config = json!({"apiKey": "another-key"});
        let endpoint =
            TestEndpoint::repeating(api, ScriptedResponse::Output(ModelOutput::text("hi")), config).await;
        let (_, outcome) = endpoint.ask(question("hi")).await;
        // Self-hosted servers may accept any key.
        let Err(failure) = outcome else { continue };
        let name = crate::harness::model_name(api);
        let hint = format!("`apiKey` of `{name}` in the configuration");
        assert!(failure.hint().is_some_and(|actual| actual.contains(&hint)), "{api:?}: {failure:?}");
        assert!(endpoint.clock.delays().is_empty(), "{api:?}");
    }
}
