//! Sends requests that are already in the format of the provider, and returns the responses as they arrive.

use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, poll};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url};
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::model::{ModelError, WaitPhase};

use crate::Endpoint;
use crate::frames::{FrameError, MAX_FRAME_BYTES};
use crate::provider_error::redact_secrets;
use crate::retry::{AttemptFailure, Attempts, RetryDecision};
use crate::settings::EndpointSettings;
use crate::stream::{AttemptError, WEB_PAGE, read_error_body, send_to};

/// The maximum number of chunks that are passed on as one part.
const MAX_JOINED_CHUNKS: usize = 64;

/// A request in the format of the provider.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// A path of OpenAI's API such as `embeddings`; `None` for the path of the model's own API.
    pub path: Option<&'static str>,
    pub body: Bytes,
    pub headers: Vec<(&'static str, String)>,
    /// The time after which no retry starts; `None` if only the number of retries is limited.
    pub retry_until: Option<Instant>,
}

/// A response of a provider, whose first part has arrived.
#[non_exhaustive]
pub struct RawResponse {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: RawBody,
}

/// The body of a response.
pub enum RawBody {
    /// JSON, or an error. Errors contain no keys of the endpoint.
    Complete(Bytes),
    /// Events or other data.
    Parts(BoxStream<'static, Result<Bytes, ModelError>>),
}

impl Endpoint {
    /// Returns the name that the provider uses for the model.
    pub fn model_id(&self) -> &str {
        &self.settings.options.model
    }

    /// Whether a request in the provider's format can be sent unchanged. It cannot if the configuration adds
    /// fields.
    pub fn accepts_raw_requests(&self) -> bool {
        self.settings.options.extra.is_empty()
    }

    /// Sends a request unchanged.
    ///
    /// It is retried only if the connection could not be established. After that, the provider may have
    /// processed the request, and would charge for it twice. (If the provider has closed a pooled connection
    /// before anything was written to it, the HTTP client itself uses another connection.)
    ///
    /// # Errors
    ///
    /// If there is no response, or if the response cannot be one of this API, such as a web page or an empty
    /// body.
    pub async fn forward(&self, request: &RawRequest) -> Result<RawResponse, ModelError> {
        let response = self.send_raw(request).await?;
        let headers =
            response.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let (status, headers) = (response.status(), headers.collect());
        let body = match status.is_success() {
            true => read_success(&self.settings, response, request.path.is_none()).await?,
            false => {
                let body = self.redact(read_error_body(response).await);
                RawBody::Complete(Bytes::from(match body {
                    Value::String(text) => text,
                    body => body.to_string(),
                }))
            }
        };
        Ok(RawResponse { status: status.as_u16(), headers, body })
    }

    /// Removes the keys of the endpoint from a body.
    pub fn redact(&self, body: Value) -> Value {
        redact_secrets(body, &self.settings)
    }

    async fn send_raw(&self, request: &RawRequest) -> Result<Response, ModelError> {
        let url = self.raw_url(request.path)?;
        let mut attempts = Attempts::new(self.settings.retries);
        loop {
            let deadline = Instant::now() + self.settings.first_token_timeout;
            match send_to(self, url.clone(), request.body.clone(), &request.headers, deadline).await {
                Ok(response) => return Ok(response),
                Err(AttemptError { error, failure: Some(failure @ AttemptFailure::Connection) }) => {
                    match attempts.after_failure(failure, self.clock.jitter()) {
                        RetryDecision::RetryAfter(delay)
                            if request.retry_until.is_none_or(|end| Instant::now() + delay < end) =>
                        {
                            self.clock.sleep(delay).await;
                        }
                        RetryDecision::RetryAfter(_) | RetryDecision::GiveUp => return Err(error),
                    }
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    /// Returns the URL of a path of OpenAI's API. All paths have the same parent as `embeddings`.
    fn raw_url(&self, path: Option<&str>) -> Result<Url, ModelError> {
        let settings = &self.settings;
        let Some(path) = path else { return Ok(settings.url.clone()) };
        let embeddings = settings.embeddings_url.as_ref();
        let base = embeddings.and_then(|url| Some((url, url.path().strip_suffix("embeddings")?)));
        let (url, base) = base.ok_or_else(|| ModelError::Unusable {
            model: settings.name.clone(),
            problem: format!("its provider has no path `{path}`"),
            hint: None,
            part: None,
        })?;
        let mut url = url.clone();
        url.set_path(&format!("{base}{path}"));
        Ok(url)
    }
}

/// Reads JSON completely, and the first part of any other body. If this fails, another endpoint can still be
/// used.
async fn read_success(
    settings: &Arc<EndpointSettings>,
    response: Response,
    is_model_api: bool,
) -> Result<RawBody, ModelError> {
    let malformed = |problem: String| ModelError::Malformed { model: settings.name.clone(), problem };
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
    let mut parts = parts(settings.clone(), response);
    let is_events = content_type.starts_with("text/event-stream");
    if content_type.starts_with("text/html") {
        return Err(malformed(WEB_PAGE.to_owned()));
    }
    let first = loop {
        match parts.next().await.transpose()? {
            Some(bytes) if bytes.is_empty() => {}
            Some(bytes) => break bytes,
            None => return Err(malformed("the response is empty".to_owned())),
        }
    };
    if is_events || !(is_model_api || content_type.contains("json")) {
        return Ok(RawBody::Parts(stream::once(async { Ok(first) }).chain(parts).boxed()));
    }
    let mut body = BytesMut::from(first);
    while let Some(bytes) = parts.next().await.transpose()? {
        if body.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(malformed(FrameError::FrameTooLong.to_string()));
        }
        body.extend_from_slice(&bytes);
    }
    match body.trim_ascii_start().first() {
        Some(b'{' | b'[') => Ok(RawBody::Complete(body.freeze())),
        Some(b'<') => Err(malformed(WEB_PAGE.to_owned())),
        _ => Err(malformed("the response is not JSON".to_owned())),
    }
}

/// Returns the parts of a body as they arrive. Parts that are ready at the same time are joined. The last one
/// may be an error.
fn parts(
    settings: Arc<EndpointSettings>,
    response: Response,
) -> BoxStream<'static, Result<Bytes, ModelError>> {
    let (idle, model) = (settings.idle_timeout, settings.name.clone());
    let first_deadline = Instant::now() + settings.first_token_timeout;
    let chunks = Box::pin(response.bytes_stream().fuse());
    let state = Some((chunks, None, first_deadline, WaitPhase::FirstToken));
    stream::unfold(state, move |state| {
        let (settings, model) = (settings.clone(), model.clone());
        async move {
            let (mut chunks, failed, deadline, phase) = state?;
            let ready = match failed {
                Some(error) => Ok((Bytes::new(), Some(error))),
                None => match timeout_at(deadline, chunks.next()).await {
                    Ok(first) => Ok(join_ready(first?, &mut chunks).await),
                    Err(elapsed) => Err(elapsed),
                },
            };
            let error = match ready {
                Ok((bytes, failed)) if failed.is_none() || !bytes.is_empty() => {
                    let next = (chunks, failed, Instant::now() + idle, WaitPhase::NextToken);
                    return Some((Ok(bytes), Some(next)));
                }
                Ok((_, failed)) => {
                    let problem = failed.map_or_else(String::new, |error| error.without_url().to_string());
                    match phase {
                        WaitPhase::FirstToken => ModelError::Unreachable { model, problem, hint: None },
                        _ => ModelError::Broken { model, problem },
                    }
                }
                Err(_) => {
                    let after =
                        if phase == WaitPhase::FirstToken { settings.first_token_timeout } else { idle };
                    ModelError::TimedOut { model, waiting_for: phase, after }
                }
            };
            Some((Err(error), None))
        }
    })
    .boxed()
}

/// Joins a chunk with those that are ready at the same time, until the first error. The HTTP client delivers
/// one chunk per poll of its connection, so the function yields after each chunk. Without this, each event
/// would be sent separately.
async fn join_ready<E>(
    first: Result<Bytes, E>,
    chunks: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
) -> (Bytes, Option<E>) {
    let (mut joined, mut failed) = match first {
        Ok(first) => (vec![first], None),
        Err(error) => return (Bytes::new(), Some(error)),
    };
    while joined.len() < MAX_JOINED_CHUNKS {
        let mut next = poll!(chunks.next());
        if next.is_pending() {
            yield_now().await;
            next = poll!(chunks.next());
        }
        match next {
            Poll::Ready(Some(Ok(chunk))) => joined.push(chunk),
            Poll::Ready(Some(Err(error))) => {
                failed = Some(error);
                break;
            }
            Poll::Ready(None) | Poll::Pending => break,
        }
    }
    // A single chunk needs no copy.
    let joined = if joined.len() == 1 { joined.remove(0) } else { Bytes::from(joined.concat()) };
    (joined, failed)
}
