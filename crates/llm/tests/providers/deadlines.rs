//! Timeouts. The tests do not depend on the speed of the machine: the awaited data never arrives.

use std::time::Duration;

use serde_json::json;
use toolwire_contract::model::{ModelError, WaitPhase};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{Api, Delivery, Gate, ModelOutput, ScriptedResponse};

use crate::harness::{TestEndpoint, question, text_of};

const TIMEOUT: Duration = Duration::from_millis(50);

fn timed_out(waiting_for: WaitPhase) -> ModelError {
    ModelError::TimedOut { model: "openai/m".to_owned(), waiting_for, after: TIMEOUT }
}

#[tokio::test]
async fn a_response_that_does_not_begin_times_out() {
    let endpoint = TestEndpoint::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Hang,
        json!({"timeouts": {"firstToken": "50ms"}}),
    )
    .await;
    let (events, outcome) = endpoint.ask(question("hi")).await;
    assert_eq!((events, outcome), (vec![], Err(timed_out(WaitPhase::FirstToken))));
    assert_eq!(endpoint.provider.requests().len(), 1, "a timeout is not retried");
}

#[tokio::test]
async fn a_response_with_only_headers_times_out() {
    let delivery = Delivery { gates: vec![(0, Gate::new())], ..Delivery::default() };
    let response = ScriptedResponse::Delivered(ModelOutput::text("hi"), delivery);
    for stream in [true, false] {
        let config = json!({"stream": stream, "timeouts": {"firstToken": "50ms"}});
        let endpoint = TestEndpoint::repeating(Api::OpenAiChat, response.clone(), config).await;
        let (events, outcome) = endpoint.ask(question("hi")).await;
        assert_eq!((events, outcome), (vec![], Err(timed_out(WaitPhase::FirstToken))), "stream: {stream}");
    }
}

#[tokio::test]
async fn a_response_that_stalls_times_out() {
    let delivery = Delivery { gates: vec![(4, Gate::new())], ..Delivery::default() };
    let response = ScriptedResponse::Delivered(ModelOutput::text("Some words and no more"), delivery);
    let endpoint =
        TestEndpoint::repeating(Api::OpenAiChat, response, json!({"timeouts": {"silence": "50ms"}})).await;
    let (events, outcome) = endpoint.ask(question("hi")).await;
    assert_eq!(outcome, Err(timed_out(WaitPhase::NextToken)));
    assert!(!text_of(&events).is_empty());
    assert_eq!(endpoint.provider.requests().len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_not_established_times_out() {
    // The server accepts connections and sends nothing, so the TLS handshake does not complete.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a local address");
    let config: EndpointConfig = serde_json::from_value(
        json!({"baseUrl": format!("https://{address}/v1"), "retries": 1, "timeouts": {"connect": "50ms"}}),
    )
    .expect("a configuration");
    let clock = std::sync::Arc::new(crate::harness::FakeClock::default());
    let endpoint =
        Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_clock(clock.clone());
    let outcome =
        toolwire_llm::collect(toolwire_contract::model::Model::ask(&endpoint, question("hi"))).await;
    assert_eq!(outcome, Err(timed_out(WaitPhase::Connection)));
    assert_eq!(clock.delays().len(), 1, "the request is retried");
}

#[tokio::test]
async fn a_connection_that_stays_open_after_the_last_event_does_not_delay_the_response() {
    let output = ModelOutput::text("hi");
    let events = toolwire_testkit::provider::render(Api::OpenAiChat, &output, true).len();
    let delivery = Delivery { gates: vec![(events, Gate::new())], ..Delivery::default() };
    let config = json!({"timeouts": {"silence": "50ms"}});
    let endpoint =
        TestEndpoint::repeating(Api::OpenAiChat, ScriptedResponse::Delivered(output, delivery), config).await;
    let (events, outcome) = endpoint.ask(question("hi")).await;
    assert_eq!(text_of(&events), "hi");
    assert!(outcome.is_ok(), "{outcome:?}");
}
