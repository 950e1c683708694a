//! Providers that take too long. Nothing here depends on how fast the machine is: what is waited for never comes.

use std::time::Duration;

use serde_json::json;
use toolwire_contract::{ModelError, WaitPhase};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{Api, Delivery, Gate, ModelOutput, ScriptedResponse};

use crate::setting::{Setting, question, text_of};

const SHORT: Duration = Duration::from_millis(50);

fn timed_out(waiting_for: WaitPhase) -> ModelError {
    ModelError::TimedOut { model: "openai/m".to_owned(), waiting_for, after: SHORT }
}

#[tokio::test]
async fn an_answer_that_does_not_begin() {
    let setting = Setting::repeating(
        Api::OpenAiChat,
        ScriptedResponse::Hang,
        json!({"timeouts": {"firstToken": "50ms"}}),
    )
    .await;
    let (shown, ended) = setting.ask(question("hi")).await;
    assert_eq!((shown, ended), (vec![], Err(timed_out(WaitPhase::FirstToken))));
    assert_eq!(setting.provider.requests().len(), 1, "a slow model is not asked twice");
}

#[tokio::test]
async fn an_answer_that_begins_with_headers_alone() {
    let delivery = Delivery { gates: vec![(0, Gate::new())], ..Delivery::default() };
    let reply = ScriptedResponse::Delivered(ModelOutput::text("hi"), delivery);
    for stream in [true, false] {
        let config = json!({"stream": stream, "timeouts": {"firstToken": "50ms"}});
        let setting = Setting::repeating(Api::OpenAiChat, reply.clone(), config).await;
        let (shown, ended) = setting.ask(question("hi")).await;
        assert_eq!((shown, ended), (vec![], Err(timed_out(WaitPhase::FirstToken))), "stream: {stream}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_go_on() {
    let delivery = Delivery { gates: vec![(4, Gate::new())], ..Delivery::default() };
    let reply = ScriptedResponse::Delivered(ModelOutput::text("Some words and no more"), delivery);
    let setting = Setting::repeating(Api::OpenAiChat, reply, json!({"timeouts": {"silence": "50ms"}})).await;
    let (shown, ended) = setting.ask(question("hi")).await;
    assert_eq!(ended, Err(timed_out(WaitPhase::NextToken)));
    assert!(!text_of(&shown).is_empty());
    assert_eq!(setting.provider.requests().len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_not_taken() {
    // It listens and never says a word, so the handshake of TLS does not end.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
    let address = listener.local_addr().expect("it has an address");
    let config: EndpointConfig = serde_json::from_value(
        json!({"baseUrl": format!("https://{address}/v1"), "retries": 1, "timeouts": {"connect": "50ms"}}),
    )
    .expect("a configuration");
    let waits = std::sync::Arc::new(crate::setting::Paced::default());
    let endpoint =
        Endpoint::new("openai/m", &config, |_| None).expect("an endpoint").with_pacing(waits.clone());
    let ended = toolwire_llm::collect(toolwire_contract::Model::ask(&endpoint, question("hi"))).await;
    assert_eq!(ended, Err(timed_out(WaitPhase::Connection)));
    assert_eq!(waits.waits().len(), 1, "it is asked again");
}

#[tokio::test]
async fn a_provider_that_holds_the_connection_after_its_last_word_is_not_waited_for() {
    let said = ModelOutput::text("hi");
    let events = toolwire_testkit::provider::render(Api::OpenAiChat, &said, true).len();
    let delivery = Delivery { gates: vec![(events, Gate::new())], ..Delivery::default() };
    let config = json!({"timeouts": {"silence": "50ms"}});
    let setting =
        Setting::repeating(Api::OpenAiChat, ScriptedResponse::Delivered(said, delivery), config).await;
    let (shown, ended) = setting.ask(question("hi")).await;
    assert_eq!(text_of(&shown), "hi");
    assert!(ended.is_ok(), "{ended:?}");
}
