//! Bedrock, asked with signatures.

use std::sync::Arc;

use serde_json::json;
use toolwire_contract::{Message, Model, ModelError};
use toolwire_llm::{Endpoint, EndpointConfig, collect};
use toolwire_testkit::provider::{
    ACCESS_KEY, Api, FakeProvider, ModelOutput, SECRET_KEY, Script, ScriptedResponse,
};

use crate::setting::{Paced, question};

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
    // The colon in the name is written in two ways: once in the address, twice in what is signed.
    let name = "bedrock/anthropic.claude-sonnet-4-v1:0";
    let endpoint = Endpoint::new(name, &config, lookup).expect("an endpoint");
    let endpoint = endpoint.with_pacing(Arc::new(Paced::default()));
    let answer = collect(endpoint.ask(question("hi"))).await;
    (provider, answer.map(|answer| answer.message))
}

#[tokio::test]
async fn a_signature_is_taken() {
    for stream in [true, false] {
        let (provider, answer) = ask(SECRET_KEY, stream).await;
        assert_eq!(answer, Ok(Message::assistant("hi")), "stream: {stream}");
        assert_eq!(provider.rejections(), []);
    }
}

#[tokio::test]
async fn a_signature_by_another_key_is_refused_and_the_hint_says_where_the_key_is() {
    let (_, refused) = ask("another-secret-key", true).await;
    let refused = refused.expect_err("the signature is wrong");
    assert!(matches!(refused, ModelError::Refused { status: Some(403), .. }), "{refused:?}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("AWS_SECRET_ACCESS_KEY")), "{refused:?}");
    assert!(!format!("{refused:?}").contains("another-secret-key"));
}
