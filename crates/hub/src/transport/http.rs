//! Streamable HTTP: the SDK's transport, on an HTTP client that captures the responses first.
//!
//! The SDK manages sessions, resumes streams and starts a new session when one has expired. The client below
//! adds what users need: their headers and tokens on each request, a response to every request, and errors
//! that contain what the server sent.

mod client;
mod send_failure;
mod stream_gate;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, NumberOrString, ServerJsonRpcMessage, ServerResult};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::Sse;

use super::sse_events::{self, EventStreamError};
use super::{Connection, TransportFailure};
pub(crate) use client::{HttpClient, max_message_bytes};
pub(super) use client::{HttpRequest, content_type, is_event_stream, uncompressed};
use client::{ResponseHead, read_body};
use stream_gate::StreamGate;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

const MAX_CONCURRENT_REQUESTS: usize = 256;

/// The longest pause before a stream is resumed.
const MAX_RESUME_DELAY: Duration = Duration::from_secs(30);

/// The maximum number of bytes that are read of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// Creates a transport. `probe_timeout` is how long the server may take to respond to `server/discover`.
pub(crate) fn streamable(
    client: HttpClient,
    probe_timeout: Duration,
    connection: Arc<Connection>,
) -> StreamableHttpClientTransport<CapturingClient> {
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(MAX_RESUME_DELAY);
    let mut config = StreamableHttpClientTransportConfig::with_uri(client.url().as_str());
    config.retry_config = Arc::new(backoff);
    let config = config
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS)
        .max_sse_event_size(client.max_message_bytes());
    let stream_gate = StreamGate::new();
    let client = CapturingClient { client, probe_timeout, connection, stream_gate };
    StreamableHttpClientTransport::with_client(client, config)
}

/// The HTTP client of the SDK's transport.
#[derive(Clone)]
pub(crate) struct CapturingClient {
    client: HttpClient,
    probe_timeout: Duration,
    connection: Arc<Connection>,
    stream_gate: StreamGate,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Error = StreamableHttpError<TransportFailure>;

impl StreamableHttpClient for CapturingClient {
    type Error = TransportFailure;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        mut message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let capture = &self.connection.capture;
        let posted = PostedMessage::new(capture.register(&mut message), &message);
        if let (true, Some(session)) = (posted.is_request, &session_id) {
            self.stream_gate.wait(session).await;
        }
        let response = self.post(&posted, &message, session_id.as_deref(), custom_headers).await;
        let Err(StreamableHttpError::Client(failure)) = response else { return response };
        if posted.is_probe
            && !failure.is_independent_of_protocol()
            && let Some(message) = posted.id.and_then(|id| capture.abandon_probe(id))
        {
            return json_response(message, None);
        }
        self.connection.set_last_failure(&failure);
        if let Some(id) = posted.id {
            capture.fail(id, failure.clone());
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
        // The response is ignored, because the client no longer needs the session in any case.
        self.send(HttpRequest::new(Method::DELETE, self.client.url(), headers)).await.map(|_| ())
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
        let response = self.send(HttpRequest::new(Method::GET, self.client.url(), headers)).await;
        if let (Some(session), None) = (&session_id, &last_event_id) {
            self.stream_gate.open(session);
        }
        let response = response?;
        let status = response.status();
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(StreamableHttpError::Client(self.client.status_failure(response).await));
        }
        if !is_event_stream(content_type(&response).as_deref()) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let response = uncompressed(response).map_err(StreamableHttpError::Client)?;
        Ok(self.capture_events(response, None))
    }
}

/// The properties of a posted message that the client needs.
struct PostedMessage {
    id: Option<i64>,
    is_request: bool,
    is_probe: bool,
    is_initialize: bool,
}

impl PostedMessage {
    fn new(id: Option<i64>, message: &ClientJsonRpcMessage) -> PostedMessage {
        let ClientJsonRpcMessage::Request(request) = message else {
            return PostedMessage { id: None, is_request: false, is_probe: false, is_initialize: false };
        };
        PostedMessage {
            id,
            is_request: true,
            is_probe: matches!(request.request, ClientRequest::DiscoverRequest(_)),
            is_initialize: matches!(request.request, ClientRequest::InitializeRequest(_)),
        }
    }
}

impl CapturingClient {
    async fn send(&self, request: HttpRequest<'_>) -> Result<Response, Error> {
        self.client.send(&self.connection, request).await.map_err(StreamableHttpError::Client)
    }

    async fn post(
        &self,
        posted: &PostedMessage,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut headers = headers(custom_headers, session, None)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Some(serde_json::to_vec(message)?);
        if let Some(id) = posted.id {
            self.connection.capture.set_delivered(id, true);
        }
        let timeout = posted.is_probe.then_some(self.probe_timeout);
        let request = HttpRequest::new(Method::POST, self.client.url(), headers);
        let response = self.send(HttpRequest { body, timeout, ..request }).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.rejected(posted, session.is_some(), response).await;
        }
        let response = match uncompressed(response) {
            Ok(response) => response,
            Err(_) if !posted.is_request => return Ok(StreamableHttpPostResponse::Accepted),
            Err(failure) => return Err(StreamableHttpError::Client(failure)),
        };
        let new_session =
            response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let content_type = content_type(&response);
        if is_event_stream(content_type.as_deref()) {
            return Ok(StreamableHttpPostResponse::Sse(
                self.capture_events(response, posted.id),
                new_session,
            ));
        }
        if content_type.is_some_and(|content_type| content_type.starts_with("application/json")) {
            let body = read_body(response, self.client.max_message_bytes())
                .await
                .map_err(StreamableHttpError::Client)?;
            return self.capture_body(posted, &body, new_session);
        }
        match posted.is_request {
            true => Err(StreamableHttpError::Client(self.client.wrong_content(response).await)),
            false => Ok(StreamableHttpPostResponse::Accepted),
        }
    }

    /// Captures a body with one message or several.
    fn capture_body(
        &self,
        posted: &PostedMessage,
        body: &[u8],
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut messages = self.connection.capture.receive_during(posted.id, body);
        match messages.len() {
            0 if !posted.is_request => Ok(StreamableHttpPostResponse::Accepted),
            0 => Err(StreamableHttpError::Client(TransportFailure::Unreadable {
                reason: format!("no response to the request; received {}", self.client.secrets.excerpt(body)),
            })),
            1 => json_response(messages.remove(0), session),
            _ => {
                let events = messages.into_iter().map(|message| Ok(Sse::default().data(message.to_string())));
                Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
            }
        }
    }

    /// Handles a message that the server rejected. The request never stays without a response.
    async fn rejected(
        &self,
        posted: &PostedMessage,
        has_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        let head = ResponseHead::new(&response);
        let body = match uncompressed(response) {
            Ok(response) => read_body(response, MAX_ERROR_BODY_BYTES).await.unwrap_or_default(),
            Err(compressed) => compressed.to_string().into_bytes(),
        };
        let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_error = message.get("error").is_some_and(Value::is_object);
        let excerpt = match message.pointer("/error/message").and_then(Value::as_str) {
            Some(message) => self.client.secrets.excerpt(message.as_bytes()),
            None => self.client.secrets.excerpt(&body),
        };
        let failure = head.failure(excerpt);
        if has_session && is_session_expired(status, &body) {
            if let Some(id) = posted.id {
                self.connection.capture.set_rejected(id, failure);
            }
            return Err(StreamableHttpError::SessionExpired);
        }
        // The status of `initialize` decides whether the older transport is tried.
        if is_error
            && !posted.is_initialize
            && matches!(failure, TransportFailure::Status { status: ..500, .. })
            && let Some(id) = posted.id
        {
            // Servers that cannot parse a request respond without its id or with another one.
            message["id"] = id.into();
            return self.capture_body(posted, message.to_string().as_bytes(), None);
        }
        Err(StreamableHttpError::Client(failure))
    }

    /// Returns the events of a stream for the SDK. `id` is the request that the stream responds to.
    fn capture_events(
        &self,
        response: Response,
        id: Option<i64>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let connection = self.connection.clone();
        let limit = self.client.max_message_bytes();
        let events = sse_events::events(response, limit).flat_map(move |event| {
            let events: Vec<Result<Sse, SseError>> = match event {
                Ok(event) if sse_events::is_message(&event) => {
                    let data = event.data.as_deref().unwrap_or_default();
                    let mut events: Vec<Sse> = connection
                        .capture
                        .receive_during(id, data.as_bytes())
                        .into_iter()
                        .map(|message| Sse { data: Some(message.to_string()), ..Sse::default() })
                        .collect();
                    // The event id is valid only after all messages of the event.
                    let marker = Sse { data: None, ..event };
                    match events.last_mut() {
                        Some(last) => *last = Sse { data: last.data.take(), ..marker },
                        None => events.push(marker),
                    }
                    events.into_iter().map(Ok).collect()
                }
                Ok(event) => vec![Ok(event)],
                Err(EventStreamError::TooLong { limit }) => {
                    let failure = TransportFailure::TooLong { limit };
                    let error = id.and_then(|id| connection.capture.fail(id, failure));
                    error.into_iter().map(|message| Ok(Sse::default().data(message.to_string()))).collect()
                }
                Err(EventStreamError::Failed(error)) => vec![Err(error)],
            };
            stream::iter(events)
        });
        events.boxed()
    }
}

/// Whether the server no longer knows the session. The specification requires 404, but a common older server
/// responds with 400 and names the session only in its text.
fn is_session_expired(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::NOT_FOUND
        || (status == StatusCode::BAD_REQUEST
            && String::from_utf8_lossy(body).to_ascii_lowercase().contains("session"))
}

fn headers(custom: Headers, session: Option<&str>, last_event: Option<&str>) -> Result<HeaderMap, Error> {
    let invalid = |_| {
        StreamableHttpError::UnexpectedServerResponse(
            "the session or event id is not a valid header value".into(),
        )
    };
    let mut headers = HeaderMap::from_iter(custom);
    headers.insert(ACCEPT, JSON_OR_EVENTS);
    if let Some(session) = session {
        headers.insert(SESSION_ID, HeaderValue::from_str(session).map_err(invalid)?);
    }
    if let Some(last_event) = last_event {
        headers.insert(LAST_EVENT_ID, HeaderValue::from_str(last_event).map_err(invalid)?);
    }
    Ok(headers)
}

fn json_response(message: Value, session: Option<String>) -> Result<StreamableHttpPostResponse, Error> {
    let message = match id_of_empty_result(&message) {
        // The placeholder of each call. Parsing it would try the types of all results.
        Some(id) => ServerJsonRpcMessage::response(ServerResult::empty(()), NumberOrString::Number(id)),
        None => serde_json::from_value(message)?,
    };
    Ok(StreamableHttpPostResponse::Json(message, session))
}

fn id_of_empty_result(message: &Value) -> Option<i64> {
    let is_empty = message.get("result")?.as_object()?.is_empty();
    message.get("id")?.as_i64().filter(|_| is_empty)
}
