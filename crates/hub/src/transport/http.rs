//! Streamable HTTP: the SDK's, on a client of ours that reads the answers first.
//!
//! The SDK keeps sessions, resumes streams and begins anew when a session is gone. The client below adds what a user
//! needs: our headers and tokens on each request, no answer that is waited for in vain, and errors that say what the
//! server said.

mod client;
mod opening;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::Sse;

use super::events::{self, EventError};
use super::{Failure, Link};
use crate::tee::LONGEST_MESSAGE;
pub(crate) use client::Client;
pub(super) use client::{content_type, excerpt, read};
use opening::Opening;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// How many requests may be under way at once.
const MOST_REQUESTS: usize = 256;

/// The longest pause before a stream is taken up again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A transport over `client`. `probe` is how long the server may be silent on `server/discover`.
pub(crate) fn streamable(
    client: Client,
    probe: Duration,
    link: Arc<Link>,
) -> StreamableHttpClientTransport<Adapter> {
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(LONGEST_PAUSE);
    let mut config = StreamableHttpClientTransportConfig::with_uri(client.url().as_str());
    config.retry_config = Arc::new(backoff);
    let config = config.max_concurrent_requests(MOST_REQUESTS).max_sse_event_size(LONGEST_MESSAGE);
    StreamableHttpClientTransport::with_client(
        Adapter { client, probe, link, opening: Opening::new() },
        config,
    )
}

#[derive(Clone)]
pub(crate) struct Adapter {
    client: Client,
    probe: Duration,
    link: Arc<Link>,
    opening: Opening,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Error = StreamableHttpError<Failure>;

impl StreamableHttpClient for Adapter {
    type Error = Failure;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        mut message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let post = Post::new(self.link.tee.asking(&mut message), &message);
        if let (true, Some(session)) = (post.is_request, &session_id) {
            self.opening.wait(session).await;
        }
        let posted = self.post(&post, &message, session_id.as_deref(), custom_headers).await;
        let Err(StreamableHttpError::Client(failure)) = posted else { return posted };
        if post.is_probe
            && !matches!(
                failure,
                Failure::Unreachable { .. } | Failure::Unauthorized { .. } | Failure::NoToken { .. }
            )
            && let Some(answer) = post.id.and_then(|id| self.link.tee.give_up_probe(id))
        {
            return typed(answer, None);
        }
        self.link.failed(&failure);
        if let Some(id) = post.id {
            self.link.tee.fail(id, failure.clone());
        }
        Err(StreamableHttpError::Client(failure))
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Error> {
        let headers = headers(custom_headers, Some(&session_id), None)?;
        let sent =
            self.client.send_for(&self.link, Method::DELETE, self.client.url(), headers, None, None).await;
        // A server that keeps its sessions loses nothing but memory.
        sent.map(|_| ()).map_err(StreamableHttpError::Client)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let headers = headers(custom_headers, session_id.as_deref(), last_event_id.as_deref())?;
        let sent =
            self.client.send_for(&self.link, Method::GET, self.client.url(), headers, None, None).await;
        if let (Some(session), None) = (&session_id, &last_event_id) {
            self.opening.answered(session);
        }
        let response = sent.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            let excerpt = excerpt(response).await;
            return Err(StreamableHttpError::Client(Failure::Status { status: status.as_u16(), excerpt }));
        }
        if !content_type(&response).is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(self.heard(response, None))
    }
}

/// What is worth knowing of a message that is posted.
struct Post {
    id: Option<i64>,
    is_request: bool,
    is_probe: bool,
    is_initialize: bool,
}

impl Post {
    fn new(id: Option<i64>, message: &ClientJsonRpcMessage) -> Post {
        let ClientJsonRpcMessage::Request(request) = message else {
            return Post { id: None, is_request: false, is_probe: false, is_initialize: false };
        };
        Post {
            id,
            is_request: true,
            is_probe: matches!(request.request, ClientRequest::DiscoverRequest(_)),
            is_initialize: matches!(request.request, ClientRequest::InitializeRequest(_)),
        }
    }
}

impl Adapter {
    async fn post(
        &self,
        post: &Post,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut headers = headers(custom_headers, session, None)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = serde_json::to_vec(message)?;
        if let Some(id) = post.id {
            self.link.tee.delivered(id, true);
        }
        let patience = post.is_probe.then_some(self.probe);
        let sent = self
            .client
            .send_for(&self.link, Method::POST, self.client.url(), headers, Some(body), patience)
            .await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(post, session.is_some(), response).await;
        }
        let new_session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let kind = content_type(&response);
        match kind.as_deref() {
            Some(kind) if kind.starts_with("text/event-stream") => {
                Ok(StreamableHttpPostResponse::Sse(self.heard(response, post.id), new_session))
            }
            Some(kind) if kind.starts_with("application/json") => {
                let body = read(response, LONGEST_MESSAGE).await.map_err(StreamableHttpError::Client)?;
                self.answered(post, &body, new_session)
            }
            _ if !post.is_request => Ok(StreamableHttpPostResponse::Accepted),
            _ => {
                let excerpt = excerpt(response).await;
                Err(StreamableHttpError::Client(Failure::WrongContent { content_type: kind, excerpt }))
            }
        }
    }

    /// A body with the answer, or with several messages at once.
    fn answered(
        &self,
        post: &Post,
        body: &[u8],
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut messages = self.link.tee.hear(body);
        match messages.len() {
            0 if !post.is_request => Ok(StreamableHttpPostResponse::Accepted),
            0 => Err(StreamableHttpError::Client(Failure::Unreadable {
                why: format!("no answer in it: {}", client::shorten(body)),
            })),
            1 => typed(messages.remove(0), session),
            _ => {
                let events = messages.into_iter().map(|message| Ok(Sse::default().data(message.to_string())));
                Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
            }
        }
    }

    /// The server does not take the message. It never goes unanswered: who waits is told.
    async fn refused(
        &self,
        post: &Post,
        has_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Error> {
        const LONGEST: usize = 64 * 1024;
        let status = response.status();
        let body = read(response, LONGEST).await.unwrap_or_default();
        let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_error = answer.get("error").is_some_and(Value::is_object);
        let excerpt = match answer.pointer("/error/message").and_then(Value::as_str) {
            Some(message) => client::shorten(message.as_bytes()),
            None => client::shorten(&body),
        };
        if has_session && is_session_gone(status, &body) {
            if let Some(id) = post.id {
                self.link.tee.refused(id, Failure::Status { status: status.as_u16(), excerpt });
            }
            return Err(StreamableHttpError::SessionExpired);
        }
        // The lifecycle looks at the status of `initialize`: there the older transport may still do.
        if is_error
            && !post.is_initialize
            && !status.is_server_error()
            && let Some(id) = post.id
        {
            // Servers that could not make sense of a request answer with no id, or with one of their own.
            answer["id"] = id.into();
            return self.answered(post, answer.to_string().as_bytes(), None);
        }
        Err(StreamableHttpError::Client(Failure::Status { status: status.as_u16(), excerpt }))
    }

    /// The events of a stream as the SDK is to see them. `id` is the request whose answer it brings.
    fn heard(&self, response: Response, id: Option<i64>) -> BoxStream<'static, Result<Sse, SseError>> {
        let link = self.link.clone();
        let events = events::events(response).flat_map(move |event| {
            let shown: Vec<Result<Sse, SseError>> = match event {
                Ok(event) if events::is_message(&event) => {
                    let data = event.data.as_deref().unwrap_or_default();
                    let mut shown: Vec<Sse> = link
                        .tee
                        .hear(data.as_bytes())
                        .into_iter()
                        .map(|message| Sse { data: Some(message.to_string()), ..Sse::default() })
                        .collect();
                    // The id counts once all messages of the event are through.
                    let marker = Sse { data: None, ..event };
                    match shown.last_mut() {
                        Some(last) => *last = Sse { data: last.data.take(), ..marker },
                        None => shown.push(marker),
                    }
                    shown.into_iter().map(Ok).collect()
                }
                Ok(event) => vec![Ok(event)],
                Err(EventError::TooLong) => {
                    let failed =
                        id.and_then(|id| link.tee.fail(id, Failure::TooLong { limit: LONGEST_MESSAGE }));
                    failed.into_iter().map(|message| Ok(Sse::default().data(message.to_string()))).collect()
                }
                Err(EventError::Broken(error)) => vec![Err(error)],
            };
            stream::iter(shown)
        });
        events.boxed()
    }
}

/// Whether the server has forgotten the session. The specification says 404; a common server of the old era says 400.
fn is_session_gone(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::NOT_FOUND
        || (status == StatusCode::BAD_REQUEST
            && String::from_utf8_lossy(body).to_ascii_lowercase().contains("session"))
}

fn headers(custom: Headers, session: Option<&str>, last_event: Option<&str>) -> Result<HeaderMap, Error> {
    let invalid = |_| StreamableHttpError::UnexpectedServerResponse("an id that is no header value".into());
    let mut headers = HeaderMap::from_iter(custom);
    headers.insert(ACCEPT, BOTH);
    if let Some(session) = session {
        headers.insert(SESSION, HeaderValue::from_str(session).map_err(invalid)?);
    }
    if let Some(last_event) = last_event {
        headers.insert(LAST_EVENT, HeaderValue::from_str(last_event).map_err(invalid)?);
    }
    Ok(headers)
}

fn typed(message: Value, session: Option<String>) -> Result<StreamableHttpPostResponse, Error> {
    let message: ServerJsonRpcMessage = serde_json::from_value(message)?;
    Ok(StreamableHttpPostResponse::Json(message, session))
}
