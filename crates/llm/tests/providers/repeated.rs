//! Requests that are forwarded as they are: they are repeated only if they did not reach the provider.

use serde_json::json;
use toolwire_contract::model::ModelError;
use toolwire_llm::RawRequest;
use toolwire_testkit::provider::{Api, ScriptedResponse};

use crate::harness::TestEndpoint;

fn request() -> RawRequest {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    RawRequest { body: body.to_string().into(), ..RawRequest::default() }
}

/// The provider may have processed the request, and would charge for it twice.
#[tokio::test]
async fn a_request_that_was_sent_is_not_repeated() {
    let endpoint =
        TestEndpoint::repeating(Api::OpenAiChat, ScriptedResponse::CloseBeforeHeaders, json!({"retries": 2}))
            .await;
    let error = endpoint.endpoint.forward(&request()).await.err().expect("an error");
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert_eq!(endpoint.provider.requests().len(), 1);
    assert!(endpoint.clock.delays().is_empty());
}

#[tokio::test]
async fn a_connection_that_fails_is_tried_again() {
    let config = json!({"retries": 2, "baseUrl": "http://127.0.0.1:1/v1"});
    let endpoint = TestEndpoint::repeating(Api::OpenAiChat, ScriptedResponse::Hang, config).await;
    let error = endpoint.endpoint.forward(&request()).await.err().expect("an error");
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert_eq!(endpoint.clock.delays().len(), 2);
}
