//! Streamable HTTP as a service on one URL: sessions for older clients, single requests for newer ones.
//!
//! The SDK distinguishes the revisions and checks hosts, origins and headers. This module adds limits for
//! public servers: on the size of bodies, on the time to read them, and on concurrent requests. Requests over
//! the limit are rejected with `Retry-After` instead of queued.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ServeError;
use super::batch;
use super::body::read_body;
use super::connection::Connection;
use super::envelope;
use super::http_options::HttpOptions;
use super::raw_responses::RawResponses;
use super::redaction::redact_secrets;
use super::request_tools::RequestTools;
use super::response_body::finish_response;
use super::restored_session::{OfRequest, RestoredSession};
use super::running_ids::RunningIds;
use super::sessions::Sessions;
use super::shared::Shared;
use crate::server::Server;

pub(super) type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// A server as a `tower` service, to be mounted at a path. Clones share the server.
#[derive(Clone)]
pub struct HttpService {
    inner: Arc<Inner>,
}

struct Inner {
    /// Responds with JSON if the response is a single message.
    sdk: StreamableHttpService<Connection, Sessions>,
    /// Responds with a stream, for clients that prefer one.
    streaming: StreamableHttpService<Connection, Sessions>,
    sessions: Arc<Sessions>,
    running_ids: RunningIds,
    /// The number of sessions that are being opened.
    opening: AtomicUsize,
    shared: Arc<Shared>,
    options: HttpOptions,
    requests: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    refusing: CancellationToken,
    /// Ends all streams.
    ended: CancellationToken,
    /// Ends the tasks, which no client can reach after the shutdown.
    _tasks_end: DropGuard,
}

/// Creates a service for an application that already has an HTTP server.
///
/// # Errors
///
/// If the system provides no random bytes.
pub fn http_service(server: Server, options: HttpOptions) -> Result<HttpService, ServeError> {
    let shared = Shared::new(server)?;
    let ended = CancellationToken::new();
    let sessions = Sessions::new(options.session_idle, options.max_sessions);
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(options.hosts.clone())
        .with_allowed_origins(options.origins.clone())
        .enforce_origin_validation()
        .with_legacy_session_mode(options.sessions)
        .with_sse_keep_alive(Some(options.keep_alive))
        // The size of the body was checked before it reaches the SDK.
        .with_max_request_body_bytes(usize::MAX)
        .with_cancellation_token(ended.clone());
    config.session_store = Some(Arc::new(OfRequest));
    let service = |with_json: bool| {
        let shared = shared.clone();
        StreamableHttpService::new(
            move || Ok(Connection::new(shared.clone())),
            sessions.clone(),
            config.clone().with_json_response(with_json),
        )
    };
    let (sdk, streaming) = (service(true), service(false));
    let inner = Inner {
        _tasks_end: shared.tasks.ended.clone().drop_guard(),
        sdk,
        streaming,
        sessions,
        running_ids: RunningIds::default(),
        opening: AtomicUsize::new(0),
        shared,
        requests: Arc::new(Semaphore::new(options.max_requests.min(Semaphore::MAX_PERMITS))),
        listeners: Arc::new(Semaphore::new(options.max_sessions.min(Semaphore::MAX_PERMITS))),
        options,
        refusing: CancellationToken::new(),
        ended,
    };
    Ok(HttpService { inner: Arc::new(inner) })
}

impl HttpService {
    /// Handles one request.
    pub async fn handle<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        self.inner.handle(request).await
    }

    /// Rejects new requests with 503, finishes running ones, and ends all sessions. Requests that run longer
    /// than `grace_period` are cancelled.
    pub async fn shutdown(&self, grace_period: Duration) {
        let inner = &self.inner;
        inner.refusing.cancel();
        inner.shared.closing.cancel();
        let all = u32::try_from(inner.options.max_requests).unwrap_or(u32::MAX);
        // All permits are available when all responses have been sent.
        let finished = async {
            let _ = inner.requests.acquire_many(all).await;
            // The requests of tasks have ended, but tasks are running calls too.
            inner.shared.running_calls.close();
            inner.shared.running_calls.wait().await;
        };
        let _ = tokio::time::timeout(grace_period, finished).await;
        inner.shared.abandoned.cancel();
        inner.ended.cancel();
        inner.sessions.close_all().await;
    }

    pub(super) fn read_timeout(&self) -> Duration {
        self.inner.options.read_timeout
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<HttpResponse, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { Ok(inner.handle(request).await) })
    }
}

impl Inner {
    async fn handle<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        if self.refusing.is_cancelled() {
            return unavailable("the server is shutting down");
        }
        if request.method() != Method::POST {
            // A stream of changes, or the end of a session: neither has a body, and sessions are counted.
            let headers = request.headers();
            let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
            // The SDK would open a stream without any message. A lost stream is continued by the id of an
            // event.
            if request.method() == Method::GET
                && !headers.contains_key("last-event-id")
                && session.is_some_and(|id| self.sessions.has_stream(id))
            {
                return refusal(StatusCode::CONFLICT, -32000, "the session already has a stream");
            }
            let tools = RequestTools::of_parts(request.extensions());
            let session = request.extensions().get().cloned();
            let handling = self.sdk.handle(request.map(|_| Full::<Bytes>::default()));
            return RestoredSession::scope(session, RequestTools::scope(tools, handling)).await;
        }
        // The SDK rejects a request of a revision with this header if it does not name the method of the
        // body.
        let listens = header_is(request.headers(), "mcp-method", "subscriptions/listen")
            && is_modern(request.headers());
        let limit = if listens { &self.listeners } else { &self.requests };
        let Ok(permit) = limit.clone().try_acquire_owned() else {
            return unavailable("too many requests at once");
        };
        let opening = match self.options.sessions && opens_session(request.headers()) {
            true if !self.sessions.has_room_for(request.extensions().get::<RequestTools>()).await => {
                return too_soon(
                    StatusCode::TOO_MANY_REQUESTS,
                    "this client has too many sessions: end some, or wait until they end",
                );
            }
            true => match self.open().await {
                Some(opening) => Some(opening),
                None => return unavailable("too many sessions"),
            },
            false => None,
        };
        let (parts, body) = request.into_parts();
        let read = read_body(body, self.options.max_body_bytes);
        let body = match tokio::time::timeout(self.options.read_timeout, read).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => return refusal,
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, -32600, "the body did not arrive in time"),
        };
        let response = if has_batches(&parts.headers) && batch::is_batch(&body) {
            self.handle_batch(parts, &body, permit).await
        } else {
            self.handle_message(parts, body, Arc::new(permit)).await
        };
        drop(opening);
        response
    }

    async fn handle_message(
        &self,
        mut parts: Parts,
        body: Bytes,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> HttpResponse {
        let session = parts.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        let running_id = match session.map(|session| (session, envelope::id_of(&body))) {
            None | Some((_, Value::Null)) => None,
            Some((session, id)) => match self.running_ids.reserve(session, &id).await {
                Some(running_id) => Some(running_id),
                None => {
                    let why = format!("another running request of this session has the id {id}");
                    return refusal_of(StatusCode::BAD_REQUEST, id, -32600, &why);
                }
            },
        };
        // In a session a call continues when its connection is lost, so it holds the permit until it ends.
        parts.extensions.insert(permit.clone());
        let is_json = parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let responses = RawResponses::default();
        parts.extensions.insert(responses.clone());
        let tools = RequestTools::of_parts(&parts.extensions);
        let server = RequestTools::server(tools.as_ref(), &self.shared.server);
        let redacted = match redact_secrets(&server, &body) {
            Some((message, original)) => {
                if let Some(original) = original {
                    parts.extensions.insert(original);
                }
                parts.headers.remove(header::CONTENT_LENGTH);
                Bytes::from(message.to_string())
            }
            None => body.clone(),
        };
        let sdk = if prefers_stream(&parts.headers) { &self.streaming } else { &self.sdk };
        let session = parts.extensions.get().cloned();
        let handling = sdk.handle(Request::from_parts(parts, Full::new(redacted)));
        let handling = RequestTools::scope(tools.clone(), handling);
        let response = RestoredSession::scope(session, handling).await;
        // The SDK responds with this status to a body that is not a message, even if the header is correct.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
            return match serde_json::from_slice::<Value>(&body) {
                Ok(_) => refusal(StatusCode::BAD_REQUEST, -32600, "the body is not an MCP message"),
                Err(_) => refusal(StatusCode::BAD_REQUEST, -32700, "the body is not JSON"),
            };
        }
        finish_response(response, responses, (permit, running_id)).await
    }

    /// Handles each request of a batch, with all responses on one stream.
    async fn handle_batch(
        &self,
        mut parts: Parts,
        body: &[u8],
        mut permit: OwnedSemaphorePermit,
    ) -> HttpResponse {
        let pieces = match batch::pieces(body) {
            Ok(pieces) => pieces,
            Err(why) => return refusal(StatusCode::BAD_REQUEST, -32600, &why),
        };
        // Each request needs its own permit.
        match permit.semaphore().clone().try_acquire_many_owned(pieces.len() as u32 - 1) {
            Ok(others) => permit.merge(others),
            Err(_) => return unavailable("too many requests at once"),
        }
        let permit = Arc::new(permit);
        parts.headers.remove(header::CONTENT_LENGTH);
        parts
            .headers
            .insert(header::ACCEPT, header::HeaderValue::from_static("text/event-stream, application/json"));
        let mut streams = Vec::new();
        for piece in pieces {
            let response = match serde_json::from_str::<ClientJsonRpcMessage>(&piece) {
                Ok(JsonRpcMessage::Request(request))
                    if matches!(request.request, ClientRequest::InitializeRequest(_)) =>
                {
                    event_of_refusal(&piece, batch::NO_INITIALIZE)
                }
                Err(_) => event_of_refusal(&piece, "not an MCP message"),
                Ok(_) => self.handle_message(parts.clone(), piece.into(), permit.clone()).await,
            };
            // Such an error concerns the client and not the message, so it is the same for all messages.
            if !response.status().is_success() {
                return response;
            }
            if response.status() == StatusCode::OK {
                streams.push(BodyStream::new(response.into_body()));
            }
        }
        if streams.is_empty() {
            let mut taken = Response::new(Full::default().boxed());
            *taken.status_mut() = StatusCode::ACCEPTED;
            return taken;
        }
        event_stream(StreamBody::new(futures::stream::select_all(streams)).boxed())
    }

    /// Reserves a place for one more session while it is opened; `None` if the limit is reached.
    async fn open(&self) -> Option<Opening<'_>> {
        let opening = Opening(&self.opening);
        let others = self.opening.fetch_add(1, Ordering::SeqCst);
        (self.sessions.count().await + others < self.options.max_sessions).then_some(opening)
    }
}

struct Opening<'a>(&'a AtomicUsize);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the request can only be `initialize`: it names no session, and no revision without sessions.
fn opens_session(headers: &HeaderMap) -> bool {
    !headers.contains_key("mcp-session-id") && !is_modern(headers)
}

/// Whether the revision has no sessions.
fn is_modern(headers: &HeaderMap) -> bool {
    let revision = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    revision.is_some_and(|revision| revision >= "2026-07-28")
}

/// Whether the client prefers a stream over JSON, by the order of its `Accept` header.
fn prefers_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds =
        accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or(kind).trim());
    let first =
        kinds.into_iter().find(|kind| ["text/event-stream", "application/json", "*/*"].contains(kind));
    first == Some("text/event-stream")
}

/// Whether the client may use the only revision with batches, which did not yet have this header.
fn has_batches(headers: &HeaderMap) -> bool {
    !headers.contains_key("mcp-protocol-version")
        || header_is(headers, "mcp-protocol-version", batch::REVISION)
}

fn header_is(headers: &HeaderMap, name: &str, value: &str) -> bool {
    headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes())
}

fn unavailable(why: &str) -> HttpResponse {
    too_soon(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// Rejects a request that may succeed later.
fn too_soon(status: StatusCode, why: &str) -> HttpResponse {
    let mut response = refusal(status, -32000, why);
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    response
}

pub(super) fn refusal(status: StatusCode, code: i64, message: &str) -> HttpResponse {
    refusal_of(status, Value::Null, code, message)
}

fn refusal_of(status: StatusCode, id: Value, code: i64, message: &str) -> HttpResponse {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Returns the error of one message of a batch as an event.
fn event_of_refusal(message: &str, why: &str) -> HttpResponse {
    let body = envelope::refusal(message.as_bytes(), ErrorCode::INVALID_REQUEST, why);
    event_stream(Full::new(Bytes::from(format!("data: {body}\n\n"))).boxed())
}

fn event_stream(events: BoxBody<Bytes, Infallible>) -> HttpResponse {
    let mut response = Response::new(events);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    response
}
