//! Signed requests to Bedrock.

use std::sync::Arc;

use serde_json::json;
use toolwire_contract::Message;
use toolwire_contract::model::{Model, ModelError};
use toolwire_llm::{Endpoint, EndpointConfig, collect};
use toolwire_testkit::provider::{
    ACCESS_KEY, Api, FakeProvider, ModelOutput, SECRET_KEY, Script, ScriptedResponse,
};

use crate::harness::{FakeClock, question};

async fn ask(secret_key: &'static str, stream: bool) -> (FakeProvider, Result<Message, ModelError>) {
    let script = Script::from_fn(|_| ScriptedResponse::Output(ModelOutput::text("hi")));
    let provider = FakeProvider::start(Api::Bedrock, script).await;
    let config = json!({"baseUrl": provider.base_url(), "stream": stream});
    let config: EndpointConfig = serde_json::from_value(config).expect("a configuration");
    let lookup = move |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(ACCESS_KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret_key.to_owned()),
        "AWS_REGION" => Some("eu-central-1".to_owned()),
        _ => None,
    };
    // The colon is percent-encoded once in the URL and twice in the signed text.
    let name = "bedrock/anthropic.claude-sonnet-4-v1:0";
    let endpoint = Endpoint::new(name, &config, lookup).expect("an endpoint");
    let endpoint = endpoint.with_clock(Arc::new(FakeClock::default()));
    let response = collect(endpoint.ask(question("hi"))).await;
    (provider, response.map(|response| response.message))
}

#[tokio::test]
async fn signed_requests_are_accepted() {
    for stream in [true, false] {
        let (provider, response) = ask(SECRET_KEY, stream).await;
        assert_eq!(response, Ok(Message::assistant("hi")), "stream: {stream}");
        assert_eq!(provider.rejections(), []);
    }
}

#[tokio::test]
async fn the_hint_for_an_invalid_signature_names_the_source_of_the_key() {
    let (_, outcome) = ask("another-secret-key", true).await;
    let error = outcome.expect_err("the signature is wrong");
    assert!(matches!(error, ModelError::Refused { status: Some(403), .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("AWS_SECRET_ACCESS_KEY")), "{error:?}");
    assert!(!format!("{error:?}").contains("another-secret-key"));
}
