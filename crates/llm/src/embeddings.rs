//! Embeddings with OpenAI's `/v1/embeddings`, which most providers implement.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolwire_contract::model::{Embedder, ModelError, TextPurpose};
use toolwire_contract::text::estimate_tokens;
use toolwire_dialect::{Dialect, Options, Toolset};

use crate::Endpoint;
use crate::retry::{Attempts, RetryDecision};
use crate::settings::{Credentials, EndpointSettings};
use crate::stream::{AttemptError, read_body, read_error_response, send};

/// The limits of one request. The smallest limits of the providers are 96 texts (Cohere) and about 16,000
/// tokens (Mistral).
const MAX_BATCH_TEXTS: usize = 64;
const MAX_BATCH_TOKENS: u64 = 8_000;
const CONCURRENT_REQUESTS: usize = 4;
/// A vector of 3,072 numbers needs about 64 KB.
const MAX_BODY_BYTES: usize = 16 << 20;

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder for Endpoint {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn id(&self) -> String {
        let EndpointSettings { embeddings_url, options, .. } = &*self.settings;
        let mut url = embeddings_url.clone();
        // A query may contain a key.
        url.iter_mut().for_each(|url| url.set_query(None));
        let url = url.map(String::from).unwrap_or_default();
        json!([url, options.model, options.extra]).to_string()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: TextPurpose,
    ) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            let endpoint = self.for_embeddings()?;
            let requests = batches(texts).into_iter().map(|batch| request(&endpoint, batch));
            let replies = stream::iter(requests).buffered(CONCURRENT_REQUESTS);
            let vectors: Vec<Vec<f32>> = replies.try_concat().await?;
            match vectors.windows(2).all(|pair| pair[0].len() == pair[1].len()) {
                true => Ok(vectors),
                false => Err(endpoint.malformed("its vectors have different lengths")),
            }
        })
    }
}

impl Endpoint {
    /// Returns the same endpoint with the URL of its embeddings.
    fn for_embeddings(&self) -> Result<Endpoint, ModelError> {
        let settings = &*self.settings;
        let Some(url) = settings.embeddings_url.clone() else {
            let problem = "its provider has no embeddings".to_owned();
            return Err(ModelError::Unusable {
                model: settings.name.clone(),
                problem,
                hint: None,
                part: None,
            });
        };
        let credentials = match &settings.credentials {
            // Gemini's OpenAI-compatible API expects the key in a different header from its own API.
            Credentials::Header(_, key) if settings.dialect == Dialect::Gemini => {
                Credentials::Bearer(key.clone())
            }
            credentials => credentials.clone(),
        };
        let mut options = settings.options.clone();
        options.stream = false;
        let settings = EndpointSettings { url, credentials, options, ..settings.clone() };
        Ok(Endpoint { settings: Arc::new(settings), ..self.clone() })
    }

    fn malformed(&self, problem: impl Into<String>) -> ModelError {
        ModelError::Malformed { model: self.settings.name.clone(), problem: problem.into() }
    }
}

/// Splits the texts into requests.
fn batches(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut batches: Vec<Vec<String>> = Vec::new();
    let mut tokens = 0;
    for text in texts {
        let text_tokens = estimate_tokens(&text);
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_BATCH_TEXTS && tokens + text_tokens <= MAX_BATCH_TOKENS => {
                tokens += text_tokens;
                batch.push(text);
            }
            _ => {
                tokens = text_tokens;
                batches.push(vec![text]);
            }
        }
    }
    batches
}

/// Sends one request, and retries it if that may help.
async fn request(endpoint: &Endpoint, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
    let settings = &endpoint.settings;
    let mut body = json!({"model": settings.options.model, "input": texts});
    for (key, value) in &settings.options.extra {
        body[key] = value.clone();
    }
    let body = Bytes::from(body.to_string());
    let mut attempts = Attempts::new(settings.retries);
    loop {
        let failed = match attempt(endpoint, body.clone(), texts.len()).await {
            Ok(vectors) => return Ok(vectors),
            Err(failed) => failed,
        };
        let Some(failure) = failed.failure else { return Err(failed.error) };
        match attempts.after_failure(failure, endpoint.clock.jitter()) {
            RetryDecision::GiveUp => return Err(failed.error),
            RetryDecision::RetryAfter(delay) => {
                tracing::debug!(model = settings.name, problem = %failed.error, ?delay, "retrying");
                endpoint.clock.sleep(delay).await;
            }
        }
    }
}

async fn attempt(endpoint: &Endpoint, body: Bytes, count: usize) -> Result<Vec<Vec<f32>>, AttemptError> {
    let deadline = Instant::now() + endpoint.settings.first_token_timeout;
    let response = send(endpoint, body, &[], deadline).await?;
    if !response.status().is_success() {
        let no_tools = Toolset::new(&[], endpoint.settings.dialect, &Options::default());
        return Err(read_error_response(endpoint, response, &no_tools).await);
    }
    let body = read_body(response, MAX_BODY_BYTES, deadline).await;
    read_vectors(&body, count)
        .map_err(|problem| AttemptError { error: endpoint.malformed(problem), failure: None })
}

/// Returns the vectors of a response in the order of the texts.
fn read_vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, String> {
    let EmbeddingsResponse { mut data } = serde_json::from_slice(body).map_err(|error| {
        let is_json = serde_json::from_slice::<Value>(body).is_ok();
        if is_json { format!("not a list of embeddings: {error}") } else { "not valid JSON".to_owned() }
    })?;
    data.sort_by_key(|embedding| embedding.index);
    if !data.iter().map(|embedding| embedding.index).eq(0..count) {
        return Err(format!("expected {count} embeddings with different indexes, found {}", data.len()));
    }
    let is_usable = |vector: &Vec<f32>| !vector.is_empty() && vector.iter().all(|number| number.is_finite());
    let vectors: Vec<Vec<f32>> = data.into_iter().map(|embedding| embedding.embedding).collect();
    if vectors.iter().all(is_usable) {
        Ok(vectors)
    } else {
        Err("an embedding is empty or not finite".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_in_texts_and_tokens() {
        let sizes = |texts: Vec<String>| batches(texts).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), [0; 0]);
        assert_eq!(sizes(vec!["a".to_owned(); 130]), [64, 64, 2]);
        assert_eq!(sizes(vec!["a".repeat(9_000); 5]), [2, 2, 1]);
        assert_eq!(sizes(vec!["a".repeat(90_000); 2]), [1, 1]);
    }

    #[test]
    fn vectors_are_put_in_the_order_of_the_texts() {
        let check = |body: Value, expected: Result<Vec<Vec<f32>>, &str>| {
            let found = read_vectors(body.to_string().as_bytes(), 2);
            assert_eq!(found, expected.map_err(str::to_owned), "{body}");
        };
        let entry = |index: usize, vector: Value| json!({"index": index, "embedding": vector});
        let data = json!([entry(1, json!([2])), entry(0, json!([1.5]))]);
        check(json!({"object": "list", "data": data}), Ok(vec![vec![1.5], vec![2.0]]));
        check(
            json!({"data": [entry(0, json!([1]))]}),
            Err("expected 2 embeddings with different indexes, found 1"),
        );
        let twice = json!([entry(0, json!([1])), entry(0, json!([1]))]);
        check(json!({"data": twice}), Err("expected 2 embeddings with different indexes, found 2"));
        let empty = json!([entry(0, json!([])), entry(1, json!([]))]);
        check(json!({"data": empty}), Err("an embedding is empty or not finite"));
        assert!(read_vectors(b"<html>", 2).is_err());
        assert!(read_vectors(b"{\"data\": 1}", 2).is_err());
    }
}
