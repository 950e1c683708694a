//! Tests of forwarded streams.

use std::time::Duration;

use futures::future::BoxFuture;

use super::*;
use crate::catalog::{ForwardedRequest, ForwardedResponse};

struct Provider;

impl Upstream for Provider {
    fn model_id(&self) -> &str {
        "m"
    }

    fn forward(&self, _: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        Box::pin(std::future::pending())
    }

    fn redact(&self, error: Value) -> Value {
        serde_json::from_str(&error.to_string().replace("sk-secret", "…")).expect("JSON")
    }
}

type Parts = Vec<Result<&'static str, ModelError>>;

async fn passed(parts: Parts, family: Option<Family>) -> (String, bool) {
    let parts = stream::iter(parts.into_iter().map(|part| part.map(Bytes::from))).boxed();
    let deadline = Instant::now() + Duration::from_secs(60);
    let events = |family| Events::new(family, "req_1".to_owned(), "m".to_owned(), Arc::new(Provider));
    let mut passed = Box::pin(pass_on(parts, deadline, family.map(events)));
    let mut text = String::new();
    while let Some(part) = passed.next().await {
        match part {
            Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
            Err(Interrupted) => return (text, true),
        }
    }
    (text, false)
}

fn broken() -> ModelError {
    ModelError::Broken { model: "m".to_owned(), problem: "the connection was reset".to_owned() }
}

#[tokio::test]
async fn an_error_follows_the_last_complete_event() {
    let parts = vec![Ok("data: 1\n\ndata: "), Ok("2\n"), Ok("\nda"), Err(broken())];
    let (text, is_interrupted) = passed(parts, Some(Family::Anthropic)).await;
    let (events, error) = text.split_at("data: 1\n\ndata: 2\n\n".len());
    assert_eq!((events, is_interrupted), ("data: 1\n\ndata: 2\n\n", false));
    assert!(error.starts_with("event: error\ndata: {\"type\":\"error\""), "{error}");
    assert!(error.contains("\"request_id\":\"req_1\"") && error.ends_with("\n\n"), "{error}");
}

#[tokio::test]
async fn bytes_stay_as_they_are() {
    for end in ["\n\n", "\r\n\r\n", ""] {
        let whole = format!(
            "event: a\ndata: {{\"text\":\"error\"}}{end}: b\n\ndata: {{\"type\":\"message_stop\"}}{end}"
        );
        let bytes: &'static str = whole.clone().leak();
        let parts = (0..bytes.len()).map(|index| Ok(&bytes[index..=index])).collect();
        assert_eq!(passed(parts, Some(Family::Anthropic)).await, (whole.clone(), false));
        assert_eq!(passed(vec![Ok(bytes)], Some(Family::Anthropic)).await, (whole, false));
    }
    assert_eq!(passed(vec![Ok("abc"), Err(broken())], None).await, ("abc".to_owned(), true));
    assert_eq!(passed(vec![Ok("abc")], None).await, ("abc".to_owned(), false));
}

/// The connection may be closed properly in the middle of a response.
#[tokio::test]
async fn a_stream_without_its_last_event_ends_with_an_error() {
    let choice = r#"{"choices":[{"index":0,"delta":{"content":"[DONE]"},"finish_reason":null}]}"#;
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"choices":[],"usage":{"total_tokens":1}}"#;
    let delta = r#"{"type":"content_block_delta","delta":{"text":"message_stop"}}"#;
    for (family, data, is_complete) in [
        (Family::OpenAiChat, "[DONE]", true),
        (Family::OpenAiChat, finish, true),
        (Family::OpenAiChat, usage, true),
        (Family::OpenAiChat, r#"{"error":{"message":"no"}}"#, true),
        (Family::OpenAiChat, choice, false),
        (Family::Anthropic, r#"{"type":"message_stop"}"#, true),
        (Family::Anthropic, r#"{"type":"error","error":{}}"#, true),
        (Family::Anthropic, delta, false),
        (Family::OpenAiResponses, r#"{"type":"response.completed"}"#, true),
        (Family::OpenAiResponses, r#"{"type":"response.incomplete"}"#, true),
        (Family::OpenAiResponses, r#"{"type":"response.failed"}"#, true),
        (Family::OpenAiResponses, r#"{"type":"response.output_text.done"}"#, false),
    ] {
        let sent: &'static str = format!("data: {{}}\n\ndata: {data}\n\n: ping\n\n").leak();
        let (text, _) = passed(vec![Ok(sent)], Some(family)).await;
        let end = text.strip_prefix(sent).unwrap_or_else(|| panic!("{family:?}: {text}"));
        let is_error = end.contains("\"error\"") && end.contains("interrupted") && end.ends_with("\n\n");
        assert_eq!((end.is_empty(), is_error), (is_complete, !is_complete), "{family:?}: {text}");
        let (text, _) = passed(vec![Ok(sent), Err(broken())], Some(family)).await;
        assert_eq!(text == sent, is_complete, "{family:?}: {text}");
    }
    // Half an event is not passed on.
    let (text, _) = passed(vec![Ok("data: {}\n\ndata: {\"a"), Ok("b")], Some(Family::Anthropic)).await;
    assert!(text.starts_with("data: {}\n\nevent: error\n"), "{text}");
}

#[tokio::test]
async fn errors_contain_no_keys() {
    let text = "data: {\"text\":\"sk-secret is not an error\"}\n\n";
    for (name, error) in [
        ("", r#"{"error":{"message":"the key sk-secret is wrong"}}"#),
        ("event: error\n", r#"{"type":"error","error":{"message":"the key sk-secret is wrong"}}"#),
        ("event: error\n", r#"{"type":"error","message":"the key sk-secret is wrong"}"#),
        (
            "event: response.failed\n",
            r#"{"type":"response.failed","response":{"error":{"message":"the key sk-secret is wrong"}}}"#,
        ),
    ] {
        for family in [Family::OpenAiChat, Family::OpenAiResponses, Family::Anthropic] {
            let sent: &'static str = format!("{text}{name}data: {error}\n\ndata: [DONE]\n\n").leak();
            let expected = sent.replace("the key sk-secret", "the key …");
            assert_eq!(passed(vec![Ok(sent)], Some(family)).await, (expected.clone(), false));
            let parts = (0..sent.len()).map(|index| Ok(&sent[index..=index])).collect();
            assert_eq!(passed(parts, Some(family)).await, (expected, false));
        }
    }
}

#[tokio::test]
async fn a_very_long_event_is_not_held() {
    let long: &'static str = "x".repeat(MAX_HELD_BYTES + 1).leak();
    let (text, _) = passed(vec![Ok(long), Err(broken())], Some(Family::Anthropic)).await;
    assert!(text.starts_with(&format!("{long}\n\nevent: error\n")));
    let last: &'static str = format!("event: response.completed\ndata: {long}").leak();
    let parts = vec![Ok(last), Ok("x\n"), Ok("\n")];
    let (text, _) = passed(parts, Some(Family::OpenAiResponses)).await;
    assert_eq!(text, format!("{last}x\n\n"));
}

/// With `n`, a response is complete when all alternatives have ended.
#[tokio::test]
async fn one_of_several_alternatives_does_not_end_a_response() {
    let end = |index: u64| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n")
    };
    for (ended, is_complete) in [(vec![0], false), (vec![1, 1], false), (vec![1, 0], true)] {
        let sent: String = ended.iter().map(|index| end(*index)).collect();
        let parts = stream::iter([Ok(Bytes::from(sent.clone())), Err(broken())]).boxed();
        let mut events =
            Events::new(Family::OpenAiChat, "req_1".to_owned(), "m".to_owned(), Arc::new(Provider));
        events.choices = 2;
        let passed = pass_on(parts, Instant::now() + Duration::from_secs(60), Some(events));
        let passed: Vec<Bytes> = passed.map(|part| part.expect("no interruption")).collect().await;
        assert_eq!(passed.concat() == sent.as_bytes(), is_complete, "{ended:?}");
    }
}

/// Some servers send further events after the last one of the API.
#[tokio::test]
async fn the_end_of_a_response_stays_known() {
    for (family, end) in [
        (Family::OpenAiChat, r#"{"choices":[{"delta":{},"finish_reason" : "stop"}]}"#),
        (Family::OpenAiChat, "[DONE]"),
        (Family::Anthropic, r#"{"type":"message_stop"}"#),
        (Family::OpenAiResponses, r#"{"type":"response.completed"}"#),
    ] {
        let later = r#"data: {"timings":{"choices":[]}}"#;
        let [first, second]: [&'static str; 2] =
            [format!("data: {{}}\n\ndata: {end}\n\n"), format!("{later}\n\n")].map(|text| &*text.leak());
        let whole: &'static str = format!("{first}{second}").leak();
        for parts in [vec![Ok(first), Ok(second)], vec![Ok(whole)]] {
            let parts: Parts = parts;
            let broken_parts = parts.iter().map(|part| part.as_ref().map(|text| *text).map_err(|_| broken()));
            let broken_parts = broken_parts.chain([Err(broken())]).collect();
            assert_eq!(passed(broken_parts, Some(family)).await.0, whole, "{family:?}: {end}");
            assert_eq!(passed(parts, Some(family)).await.0, whole, "{family:?}: {end}");
        }
    }
    let unfinished =
        r#"data: {"choices":[{"delta":{"content":"finish_reason\": \"stop"},"finish_reason": null}]}"#;
    let sent: &'static str = format!("{unfinished}\n\n").leak();
    assert!(passed(vec![Ok(sent)], Some(Family::OpenAiChat)).await.0.contains("interrupted"));
}

/// The error is the next event of a stream with numbers.
#[tokio::test]
async fn an_error_has_the_number_of_its_event() {
    let events = "data: {\"type\":\"response.created\",\"sequence_number\":0}\n\n\
                  data: {\"type\":\"response.in_progress\",\"sequence_number\":1}\n\n: comment\n\ndata: {";
    for (parts, number) in [(vec![Ok(events), Err(broken())], 2), (vec![Err(broken())], 0)] {
        let (text, _) = passed(parts, Some(Family::OpenAiResponses)).await;
        let (_, data) = text.rsplit_once("data: ").expect("an error");
        let error: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!((&error["type"], &error["sequence_number"]), (&"error".into(), &number.into()), "{text}");
    }
}
