//! Responses that are interrupted.

use serde_json::json;
use toolwire_contract::Message;
use toolwire_contract::model::{ModelError, ModelEvent, StopReason};
use toolwire_testkit::provider::{Api, Delivery, Gate, ModelOutput, ScriptedResponse, render};

use crate::harness::{TestEndpoint, question, text_of};

/// Interrupts the connection after each event of a stream in turn.
///
/// Before the first event, the endpoint retries. After it, the endpoint never retries: it returns an error,
/// or the complete response if only metadata was missing.
async fn check(api: Api) {
    let output = ModelOutput::text("Some words before the call. ").call(
        "call00001",
        "get_weather",
        r#"{"location":"Bern"}"#,
    );
    let complete = TestEndpoint::repeating(api, ScriptedResponse::Output(output.clone()), json!({})).await;
    let (_, complete) = complete.ask(question("hi")).await;
    let complete = complete.unwrap_or_else(|error| panic!("{api:?}: {error:?}"));
    let events = render(api, &output, true).len();
    let mut interrupted = 0;
    let mut is_complete = false;
    for count in 0..=events {
        let delivery = Delivery { cut_after_events: Some(count), ..Delivery::default() };
        let endpoint = TestEndpoint::repeating(
            api,
            ScriptedResponse::Delivered(output.clone(), delivery),
            json!({"retries": 2}),
        )
        .await;
        let (received, outcome) = endpoint.ask(question("hi")).await;
        let label = format!("{api:?} after {count} of {events}");
        let requests = endpoint.provider.requests().len();
        assert!(output.text.clone().unwrap_or_default().starts_with(&text_of(&received)), "{label}");
        match outcome {
            Ok(response) => {
                is_complete = true;
                assert_eq!(response.message, complete.message, "{label}");
                assert_eq!(requests, 1, "{label}");
            }
            Err(error) => {
                assert!(!is_complete, "{label}: the response was complete with fewer events");
                // Without an event, the headers may be missing too.
                let is_expected = match error {
                    ModelError::Broken { .. } => true,
                    ModelError::Unreachable { .. } => received.is_empty(),
                    _ => false,
                };
                assert!(is_expected, "{label}: {error:?}");
                assert_eq!(requests, if received.is_empty() { 3 } else { 1 }, "{label}");
                interrupted += usize::from(!received.is_empty());
            }
        }
    }
    assert!(is_complete, "{api:?}: the response is incomplete after all events");
    assert!(interrupted > 3, "{api:?}: only {interrupted} interruptions after the first event");
}

#[tokio::test]
async fn an_interrupted_response_is_not_requested_again() {
    for api in Api::ALL {
        check(api).await;
    }
}

#[tokio::test]
async fn an_error_after_the_first_event_is_not_retried() {
    for api in Api::ALL {
        let kind = match api {
            Api::Anthropic => "overloaded_error",
            Api::Gemini => "UNAVAILABLE",
            Api::Bedrock => "internalServerException",
            _ => "server_error",
        };
        let output = ModelOutput::text("Some words").stream_error(kind, "the machine is on fire");
        let endpoint = TestEndpoint::repeating(api, ScriptedResponse::Output(output), json!({})).await;
        let (received, outcome) = endpoint.ask(question("hi")).await;
        let error = outcome.expect_err("a stream error");
        let ModelError::Refused { message, body, .. } = &error else { panic!("{api:?}: {error:?}") };
        assert_eq!(text_of(&received), "Some words", "{api:?}");
        assert!(message.contains("on fire") && body.to_string().contains("on fire"), "{api:?}: {error:?}");
        assert_eq!(endpoint.provider.requests().len(), 1, "{api:?}");
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    use futures::StreamExt;
    use toolwire_contract::model::Model;

    let output = ModelOutput::text("Some words that are not read");
    let gate = toolwire_testkit::provider::Gate::new();
    let delivery = Delivery { gates: vec![(3, gate.clone())], ..Delivery::default() };
    let endpoint =
        TestEndpoint::repeating(Api::OpenAiChat, ScriptedResponse::Delivered(output, delivery), json!({}))
            .await;
    let mut events = endpoint.endpoint.ask(question("hi"));
    let first = events.next().await;
    assert!(matches!(first, Some(Ok(ModelEvent::Text(_)))), "{first:?}");
    drop(events);
    endpoint.provider.abandoned().await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    use toolwire_contract::model::Model;

    let endpoint = TestEndpoint::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Output(ModelOutput::text("hi")),
        json!({}),
    )
    .await;
    drop(endpoint.endpoint.ask(question("hi")));
    let (_, response) = endpoint.ask(question("hi")).await;
    assert!(response.is_ok());
    assert_eq!(endpoint.provider.requests().len(), 1);
}

/// The Responses API has no stop sequences. The endpoint does not wait for the rest of the response.
#[tokio::test]
async fn a_response_ends_at_a_stop_sequence_of_an_api_that_has_none() {
    let output = ModelOutput::text("one END two");
    let events = render(Api::Responses, &output, true).len();
    let delivery = Delivery { gates: vec![(events - 1, Gate::default())], ..Delivery::default() };
    let response = ScriptedResponse::Delivered(output, delivery);
    let endpoint = TestEndpoint::repeating(Api::Responses, response, json!({})).await;
    let mut request = question("hi");
    request.generation.stop = vec!["END".to_owned()];
    let (received, outcome) = endpoint.ask(request).await;
    assert_eq!(text_of(&received), "one ");
    let response = outcome.expect("the model responds");
    assert_eq!(response.message, Message::assistant("one "));
    assert_eq!(response.stop, StopReason::Sequence("END".to_owned()));
}
