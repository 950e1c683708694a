//! Sends requests that are already in the format of the provider, and returns the responses as they arrive.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use reqwest::header::{HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};
use toolwire_contract::{ModelError, WaitPhase};

use crate::Endpoint;
use crate::retry::{AttemptFailure, Attempts, RetryDecision};
use crate::stream::{AttemptError, send_to};

/// A response of a provider, not yet read.
#[non_exhaustive]
pub struct RawResponse {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: BoxStream<'static, Result<Bytes, ModelError>>,
}

impl Endpoint {
    /// Returns the provider's name of the model.
    pub fn model_id(&self) -> &str {
        &self.settings.options.model
    }

    /// Whether a request in the provider's format needs no change. The configuration may add fields to every request.
    pub fn accepts_raw_requests(&self) -> bool {
        self.settings.options.extra.is_empty()
    }

    /// Sends a request as it is, to the API of the model, or to a path beside it such as `embeddings`. Only requests that did
    /// not reach the provider are repeated.
    pub async fn forward(
        &self,
        path: Option<&str>,
        body: Bytes,
        headers: &[(&'static str, String)],
    ) -> Result<RawResponse, ModelError> {
        let settings = &self.settings;
        let unusable = || ModelError::Unusable {
            model: settings.name.clone(),
            problem: format!("its provider has no path `{}`", path.unwrap_or_default()),
            hint: None,
        };
        let url = match path {
            None => settings.url.clone(),
            Some(path) => {
                // The paths of OpenAI's API are siblings.
                let embeddings = settings.embeddings_url.as_ref().ok_or_else(unusable)?;
                let mut url = embeddings.clone();
                let base = embeddings.path().strip_suffix("embeddings").ok_or_else(unusable)?;
                url.set_path(&format!("{base}{path}"));
                url
            }
        };
        let mut own = self.clone();
        if !headers.is_empty() {
            let settings = std::sync::Arc::make_mut(&mut own.settings);
            for (name, value) in headers {
                if let Ok(value) = HeaderValue::from_str(value) {
                    settings.headers.insert(HeaderName::from_static(name), value);
                }
            }
        }
        let mut attempts = Attempts::new(settings.retries);
        let response = loop {
            let deadline = Instant::now() + settings.first_token_timeout;
            match send_to(&own, url.clone(), body.clone(), deadline).await {
                Ok(response) => break response,
                Err(AttemptError { error, failure: Some(failure @ AttemptFailure::Connection) }) => {
                    match attempts.after_failure(failure, self.clock.jitter()) {
                        RetryDecision::RetryAfter(delay) => self.clock.sleep(delay).await,
                        RetryDecision::GiveUp => return Err(error),
                    }
                }
                Err(failed) => return Err(failed.error),
            }
        };
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        let status = response.status().as_u16();
        let (model, idle) = (settings.name.clone(), settings.idle_timeout);
        let chunks = Some(Box::pin(response.bytes_stream()));
        let body = stream::unfold((chunks, model), move |(chunks, model)| async move {
            let mut chunks = chunks?;
            let error = match timeout(idle, chunks.next()).await {
                Ok(None) => return None,
                Ok(Some(Ok(bytes))) => return Some((Ok(bytes), (Some(chunks), model))),
                Ok(Some(Err(error))) => {
                    ModelError::Broken { model: model.clone(), problem: error.without_url().to_string() }
                }
                Err(_) => ModelError::TimedOut {
                    model: model.clone(),
                    waiting_for: WaitPhase::NextToken,
                    after: idle,
                },
            };
            Some((Err(error), (None, model)))
        });
        Ok(RawResponse { status, headers, body: body.boxed() })
    }
}
