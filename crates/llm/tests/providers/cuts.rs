//! Answers that break off.

use serde_json::json;
use toolwire_contract::{ModelError, ModelEvent};
use toolwire_testkit::provider::{Api, Delivery, ModelOutput, ScriptedResponse, render};

use crate::setting::{Setting, question, text_of};

/// Breaks the connection after each event of a stream in turn.
///
/// Before anything was shown the endpoint asks again, as often as it may; after that it never does, and says that the answer
/// broke off, or has it whole because only words about it were missing.
async fn check(api: Api) {
    let said = ModelOutput::text("Some words before the call. ").call(
        "call00001",
        "get_weather",
        r#"{"location":"Bern"}"#,
    );
    let whole = Setting::repeating(api, ScriptedResponse::Output(said.clone()), json!({})).await;
    let (_, whole) = whole.ask(question("hi")).await;
    let whole = whole.unwrap_or_else(|error| panic!("{api:?}: {error:?}"));
    let events = render(api, &said, true).len();
    let mut broken = 0;
    let mut is_over = false;
    for count in 0..=events {
        let delivery = Delivery { cut_after_events: Some(count), ..Delivery::default() };
        let setting = Setting::repeating(
            api,
            ScriptedResponse::Delivered(said.clone(), delivery),
            json!({"retries": 2}),
        )
        .await;
        let (shown, ended) = setting.ask(question("hi")).await;
        let label = format!("{api:?} after {count} of {events}");
        let asked = setting.provider.requests().len();
        assert!(said.text.clone().unwrap_or_default().starts_with(&text_of(&shown)), "{label}");
        match ended {
            Ok(answer) => {
                is_over = true;
                assert_eq!(answer.message, whole.message, "{label}");
                assert_eq!(asked, 1, "{label}");
            }
            Err(error) => {
                assert!(!is_over, "{label}: it was whole with fewer events");
                // Without an event there may be no headers either.
                let is_told = match error {
                    ModelError::Broken { .. } => true,
                    ModelError::Unreachable { .. } => shown.is_empty(),
                    _ => false,
                };
                assert!(is_told, "{label}: {error:?}");
                assert_eq!(asked, if shown.is_empty() { 3 } else { 1 }, "{label}");
                broken += usize::from(!shown.is_empty());
            }
        }
    }
    assert!(is_over, "{api:?}: with all its events it is whole");
    assert!(broken > 3, "{api:?}: it broke off {broken} times with something shown");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    for api in Api::ALL {
        check(api).await;
    }
}

#[tokio::test]
async fn an_error_after_the_first_words_is_kept_whole_and_not_asked_again() {
    for api in Api::ALL {
        let kind = match api {
            Api::Anthropic => "overloaded_error",
            Api::Gemini => "UNAVAILABLE",
            Api::Bedrock => "internalServerException",
            _ => "server_error",
        };
        let said = ModelOutput::text("Some words").stream_error(kind, "the machine is on fire");
        let setting = Setting::repeating(api, ScriptedResponse::Output(said), json!({})).await;
        let (shown, ended) = setting.ask(question("hi")).await;
        let error = ended.expect_err("it ends with an error");
        let ModelError::Refused { message, body, .. } = &error else { panic!("{api:?}: {error:?}") };
        assert_eq!(text_of(&shown), "Some words", "{api:?}");
        assert!(message.contains("on fire") && body.to_string().contains("on fire"), "{api:?}: {error:?}");
        assert_eq!(setting.provider.requests().len(), 1, "{api:?}");
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    use futures::StreamExt;
    use toolwire_contract::Model;

    let said = ModelOutput::text("Some words that nobody waits for");
    let gate = toolwire_testkit::provider::Gate::new();
    let delivery = Delivery { gates: vec![(3, gate.clone())], ..Delivery::default() };
    let setting =
        Setting::repeating(Api::OpenAiChat, ScriptedResponse::Delivered(said, delivery), json!({})).await;
    let mut events = setting.endpoint.ask(question("hi"));
    let first = events.next().await;
    assert!(matches!(first, Some(Ok(ModelEvent::Text(_)))), "{first:?}");
    drop(events);
    setting.provider.abandoned().await;
}

#[tokio::test]
async fn nothing_is_asked_before_the_stream_is_polled() {
    use toolwire_contract::Model;

    let setting =
        Setting::repeating(Api::OpenAiChat, ScriptedResponse::Output(ModelOutput::text("hi")), json!({}))
            .await;
    drop(setting.endpoint.ask(question("hi")));
    let (_, answer) = setting.ask(question("hi")).await;
    assert!(answer.is_ok());
    assert_eq!(setting.provider.requests().len(), 1);
}
