//! Embeddings of every provider that has OpenAI's API for them.

use serde_json::json;
use toolwire_contract::model::{Embedder, ModelError, TextPurpose};
use toolwire_testkit::provider::{API_KEY, Api, Script, ScriptedResponse};

use crate::harness::TestEndpoint;

const WITHOUT_EMBEDDINGS: [Api; 4] = [Api::Anthropic, Api::Bedrock, Api::Groq, Api::DeepSeek];

fn script() -> Script {
    Script::from_fn(|_| ScriptedResponse::error(500, json!({"error": {"message": "not for embeddings"}})))
}

async fn embed(provider: &TestEndpoint, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    provider.endpoint.embed(texts.to_vec(), TextPurpose::Document).await
}

#[tokio::test]
async fn every_request_is_within_the_limits_of_its_provider() {
    for api in Api::ALL.into_iter().filter(|api| !WITHOUT_EMBEDDINGS.contains(api)) {
        let provider = TestEndpoint::new(api, script(), json!({})).await;
        let mut texts: Vec<String> = (0..150).map(|number| format!("text {number}")).collect();
        texts.extend(vec!["a ".repeat(2_000); 20]);
        let vectors = embed(&provider, &texts).await.expect("vectors");
        assert_eq!(provider.provider.rejections(), [], "{api:?}");
        assert!(provider.provider.requests().len() > 3, "{api:?}");
        // Alone, each text has the same vector.
        for index in [0, 63, 64, 149, 169] {
            let alone = embed(&provider, &texts[index..=index]).await.expect("a vector");
            assert_eq!(alone, [vectors[index].clone()], "{api:?} {index}");
        }
        assert_eq!(embed(&provider, &[]).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_provider_without_embeddings_is_not_asked() {
    for api in WITHOUT_EMBEDDINGS {
        let provider = TestEndpoint::new(api, script(), json!({})).await;
        let error = embed(&provider, &["text".to_owned()]).await.expect_err("an error");
        assert_eq!(error.code(), "unusable", "{api:?}");
        assert_eq!(provider.provider.requests(), [], "{api:?}");
    }
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_a_refusal_is_not() {
    let overloaded = ScriptedResponse::error(503, json!({"error": {"message": "overloaded"}}));
    let failures = [overloaded, ScriptedResponse::CloseBeforeHeaders];
    let provider = TestEndpoint::new(Api::OpenAiChat, script().with_embeddings(failures), json!({})).await;
    assert!(embed(&provider, &["text".to_owned()]).await.is_ok());
    assert_eq!(provider.provider.requests().len(), 3);

    let body = json!({"error": {"message": format!("the key {API_KEY} has no access")}});
    let refusal = [ScriptedResponse::error(403, body)];
    let provider = TestEndpoint::new(Api::OpenAiChat, script().with_embeddings(refusal), json!({})).await;
    let error = embed(&provider, &["text".to_owned()]).await.expect_err("an error");
    assert_eq!(error.to_string(), "`openai/m` returned an error (403): the key … has no access");
    assert_eq!(provider.provider.requests().len(), 1);
}

#[tokio::test]
async fn a_text_that_is_refused_is_an_error() {
    let provider = TestEndpoint::new(Api::OpenAiChat, script(), json!({})).await;
    for text in [" ", &"a".repeat(30_000)] {
        let error = embed(&provider, &[text.to_owned()]).await.expect_err("an error");
        assert!(matches!(error.code(), "refused" | "context_exceeded"), "{error}");
    }
    assert_eq!(provider.provider.rejections().len(), 2);
}

#[tokio::test]
async fn a_malformed_reply_is_an_error() {
    for body in [json!({"data": []}), json!({"data": [{"index": 0, "embedding": []}]}), json!("no")] {
        let script = script().with_embeddings([ScriptedResponse::error(200, body.clone())]);
        let provider = TestEndpoint::new(Api::OpenAiChat, script, json!({})).await;
        let error = embed(&provider, &["text".to_owned()]).await.expect_err("an error");
        assert_eq!(error.code(), "malformed", "{body}");
    }
}

/// The id identifies what determines the vectors, without secrets.
#[tokio::test]
async fn the_id_has_the_url_the_model_and_the_options() {
    let config = json!({"baseUrl": "https://me:pass@a.example/v1?key=k", "request": {"dimensions": 256}});
    let provider = TestEndpoint::new(Api::OpenAiChat, script(), config).await;
    assert_eq!(provider.endpoint.id(), r#"["https://a.example/v1/embeddings","m",{"dimensions":256}]"#);
}
