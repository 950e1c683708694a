//! Providers that say no, and when they are asked again.

use std::time::Duration;

use serde_json::{Value, json};
use toolwire_contract::ModelError;
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{Api, Delivery, ModelOutput, Script, ScriptedResponse};

use crate::setting::{Paced, Setting, question};

fn refusal(status: u16, headers: &[(&str, &str)], body: Value) -> ScriptedResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ScriptedResponse::Error { status, headers, body }
}

/// These replies and then an answer: how long was waited, and whether the answer was reached.
async fn check(replies: Vec<ScriptedResponse>, waits: &[u64], is_answered: bool) -> Option<ModelError> {
    let count = replies.len();
    let script = Script::new(replies.into_iter().chain([ScriptedResponse::Output(ModelOutput::text("hi"))]));
    let setting = Setting::new(Api::OpenAiChat, script, json!({})).await;
    let (_, ended) = setting.ask(question("hi")).await;
    let waited: Vec<u64> = setting.waits.waits().iter().map(|wait| wait.as_millis() as u64).collect();
    assert_eq!(waited, waits, "{ended:?}");
    assert_eq!(ended.is_ok(), is_answered, "{ended:?}");
    assert_eq!(setting.provider.requests().len(), waits.len() + 1);
    assert!(setting.provider.responses_left() <= count);
    ended.err()
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message, "type": "x", "code": null}})
}

#[tokio::test]
async fn what_may_pass_is_asked_again_with_growing_waits() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        check(vec![refusal(status, &[], error("later"))], &[250], true).await;
    }
    let all = vec![
        ScriptedResponse::CloseBeforeHeaders,
        refusal(500, &[], error("x")),
        refusal(503, &[], json!("<html>")),
    ];
    check(all, &[250, 500, 1000], true).await;
}

#[tokio::test]
async fn the_wait_that_is_asked_for_is_kept() {
    let soon = httpdate::fmt_http_date(std::time::SystemTime::now() - Duration::from_secs(60));
    let retry_info = json!({"error": {"code": 429, "details": [{"retryDelay": "3s"}]}});
    let replies = vec![
        refusal(429, &[("retry-after", "7")], error("slow down")),
        refusal(503, &[("retry-after", "9"), ("retry-after-ms", "20")], error("slow down")),
        refusal(429, &[("retry-after", &soon)], error("slow down")),
    ];
    check(replies, &[7000, 20, 0], true).await;
    check(vec![refusal(429, &[], retry_info)], &[3000], true).await;
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited() {
    let refused = check(vec![refusal(429, &[("retry-after", "3600")], error("tomorrow"))], &[], false).await;
    let refused = refused.expect("it is refused");
    assert_eq!(refused.to_string(), "`openai/m` answered with an error (429): tomorrow");
    assert_eq!(refused.hint(), Some("wait, or ask the provider for a higher limit"));
}

#[tokio::test]
async fn what_stays_wrong_is_told_at_once() {
    for status in [400, 401, 403, 404, 413, 422] {
        check(vec![refusal(status, &[], error("no"))], &[], false).await;
    }
    let quota = json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota",
        "param": null, "code": "insufficient_quota"}});
    let refused = check(vec![refusal(429, &[("retry-after", "1")], quota.clone())], &[], false).await;
    assert_eq!(
        refused,
        Some(ModelError::Refused {
            model: "openai/m".to_owned(),
            status: Some(429),
            message: "You exceeded your current quota".to_owned(),
            hint: Some("the account is used up; add credit or wait for its next period".to_owned()),
            body: quota,
        })
    );
}

#[tokio::test]
async fn the_last_error_is_told_when_the_attempts_are_used_up() {
    let replies = (1..=4).map(|number| refusal(503, &[], error(&format!("busy {number}")))).collect();
    let refused = check(replies, &[250, 500, 1000], false).await;
    assert_eq!(
        refused.map(|error| error.to_string()).as_deref(),
        Some("`openai/m` answered with an error (503): busy 4")
    );
}

#[tokio::test]
async fn an_error_at_the_head_of_a_stream_is_one_as_any_other() {
    let head = |kind: &str| {
        let event = format!("data: {}\n\n", json!({"error": {"message": "oh", "type": kind, "code": null}}));
        ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: vec![event.into_bytes()],
            delivery: Delivery::default(),
        }
    };
    check(vec![head("server_error"), head("rate_limit_exceeded")], &[250, 500], true).await;
    check(vec![head("invalid_request_error")], &[], false).await;
}

#[tokio::test]
async fn a_refused_tool_is_named_by_its_own_name() {
    let message = "Invalid schema for function 'get_weather': In context=('properties', 'units'), array schema missing items.";
    let refused = check(vec![refusal(400, &[], error(message))], &[], false).await.expect("it is refused");
    assert!(refused.to_string().contains("`get_weather`"), "{refused}");
    assert!(refused.to_string().contains("/properties/units"), "{refused}");
    assert!(refused.hint().is_some());
    let ModelError::Refused { body, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(body, error(message));
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_told() {
    for kind in ["text/html", "text/plain"] {
        let page = ScriptedResponse::Raw {
            status: 200,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: vec![b"\n<HTML>Log in".to_vec()],
            delivery: Delivery::default(),
        };
        let refused = check(vec![page], &[], false).await.expect("it is no answer");
        assert_eq!(refused.to_string(), "the answer of `openai/m` cannot be read: it is a web page");
    }
    let moved = refusal(308, &[("location", "https://elsewhere.example/v1")], json!(""));
    let refused = check(vec![moved], &[], false).await.expect("it has moved");
    assert_eq!(refused.hint(), Some("it has moved to https://elsewhere.example/v1; set its `baseUrl`"));
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_told_after_all_attempts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    let config =
        EndpointConfig { base_url: Some(format!("http://{address}/v1")), ..EndpointConfig::default() };
    let waits = std::sync::Arc::new(Paced::default());
    let endpoint =
        Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_pacing(waits.clone());
    let refused = toolwire_llm::collect(toolwire_contract::Model::ask(&endpoint, question("hi"))).await;
    let refused = refused.expect_err("nobody is there");
    assert!(matches!(refused, ModelError::Unreachable { .. }), "{refused:?}");
    let told = refused.to_string();
    assert!(told.to_lowercase().contains("refused"), "{told}");
    assert!(told.ends_with(&format!("at http://{address}")), "{told}");
    assert_eq!(waits.waits().len(), 3);
}

#[tokio::test]
async fn a_provider_without_tls_is_told_from_one_that_is_not_there() {
    let setting =
        Setting::repeating(Api::OpenAiChat, ScriptedResponse::Output(ModelOutput::text("hi")), json!({}))
            .await;
    let base_url = setting.provider.base_url().replace("http://", "https://");
    let config = EndpointConfig { base_url: Some(base_url), ..EndpointConfig::default() };
    let waits = std::sync::Arc::new(Paced::default());
    let endpoint = Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_pacing(waits);
    let refused = toolwire_llm::collect(toolwire_contract::Model::ask(&endpoint, question("hi"))).await;
    let told = refused.expect_err("it speaks no TLS").to_string();
    assert!(told.contains("speaks no TLS; perhaps its address begins with `http://`"), "{told}");
}

#[tokio::test]
async fn every_provider_refuses_another_key_and_the_hint_says_where_it_is() {
    for api in Api::ALL {
        let config = json!({"apiKey": "another-key"});
        let setting =
            Setting::repeating(api, ScriptedResponse::Output(ModelOutput::text("hi")), config).await;
        let (_, ended) = setting.ask(question("hi")).await;
        // Servers that one runs oneself may take any key.
        let Err(refused) = ended else { continue };
        let name = crate::setting::model_name(api);
        let hint = format!("`apiKey` of `{name}` in the configuration");
        assert!(refused.hint().is_some_and(|said| said.contains(&hint)), "{api:?}: {refused:?}");
        assert!(setting.waits.waits().is_empty(), "{api:?}");
    }
}
