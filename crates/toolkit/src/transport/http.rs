//! Streamable HTTP as a service: sessions for older clients, single requests for newer ones, on one address.
//!
//! The SDK tells the eras apart and checks hosts, origins and headers. Around it stands what a server in the open needs:
//! bodies are read within a size and a time, there is a limit to what is answered at once, and what is over the limit is
//! told to come back rather than kept waiting.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ServeError;
use super::body::read_body;
use super::connection::Connection;
use super::raw::Answers;
use super::sessions::Sessions;
use super::shared::Shared;
use super::veil::veil;
use crate::server::Server;

/// How a server is served over HTTP. The default is for clients on the same machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The hosts that requests may name, with or without a port; others are refused with 403. An empty list allows all.
    pub hosts: Vec<String>,
    /// The web pages that may send requests, as `https://place.example:443` or with `:*` for any port; others are refused
    /// with 403. Requests that come from no page have no origin and need none.
    pub origins: Vec<String>,
    /// Larger bodies are refused with 413.
    pub largest_body: usize,
    /// Slower ones are refused with 408; also how long a connection has to say what it wants.
    pub read_within: Duration,
    /// How many requests are answered at once; more are refused with 503.
    pub most_requests: usize,
    /// Whether clients before 2026-07-28 get a session. Without sessions each of their requests stands alone, so that it may
    /// reach any of several processes; they can then be asked nothing, and are told of no changes.
    pub sessions: bool,
    /// How many may wait for changes at the same time, and how many sessions there may be.
    pub most_sessions: usize,
    /// A session in which nothing happens for this long ends, and with it whatever it was still waiting for.
    pub session_idle: Duration,
    /// How often a silent stream says that it is alive.
    pub keep_alive: Duration,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            origins: [
                "http://localhost:*",
                "http://127.0.0.1:*",
                "http://[::1]:*",
                "https://localhost:*",
                "https://127.0.0.1:*",
                "https://[::1]:*",
            ]
            .map(str::to_owned)
            .to_vec(),
            largest_body: 4 * 1024 * 1024,
            read_within: Duration::from_secs(30),
            most_requests: 1024,
            sessions: true,
            most_sessions: 1024,
            session_idle: Duration::from_secs(30 * 60),
            keep_alive: Duration::from_secs(15),
        }
    }
}

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A server as a `tower` service, to be mounted at a path. Clones are the same server.
#[derive(Clone)]
pub struct HttpService {
    inner: Arc<Inner>,
}

struct Inner {
    /// Answers with JSON where one message is all there is to say.
    sdk: StreamableHttpService<Connection, Sessions>,
    /// Answers with a stream, for those who would rather have one.
    streaming: StreamableHttpService<Connection, Sessions>,
    sessions: Arc<Sessions>,
    /// Sessions that are being opened.
    opening: AtomicUsize,
    shared: Arc<Shared>,
    options: HttpOptions,
    requests: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    refusing: CancellationToken,
    /// Ends all streams.
    ended: CancellationToken,
    /// Ends tasks that nobody can ask for any longer.
    _tasks_end: DropGuard,
}

/// A server as a service, for an application that has an HTTP server already.
///
/// # Errors
///
/// When the system gives no random bytes.
pub fn http_service(server: Server, options: HttpOptions) -> Result<HttpService, ServeError> {
    let shared = Shared::new(server)?;
    let ended = CancellationToken::new();
    let sessions = Sessions::new(options.session_idle);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(options.hosts.clone())
        .with_allowed_origins(options.origins.clone())
        .enforce_origin_validation()
        .with_legacy_session_mode(options.sessions)
        .with_sse_keep_alive(Some(options.keep_alive))
        // The body that the SDK gets was read and measured here.
        .with_max_request_body_bytes(usize::MAX)
        .with_cancellation_token(ended.clone());
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
        opening: AtomicUsize::new(0),
        shared,
        requests: Arc::new(Semaphore::new(options.most_requests.min(Semaphore::MAX_PERMITS))),
        listeners: Arc::new(Semaphore::new(options.most_sessions.min(Semaphore::MAX_PERMITS))),
        options,
        refusing: CancellationToken::new(),
        ended,
    };
    Ok(HttpService { inner: Arc::new(inner) })
}

impl HttpService {
    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        self.inner.answer(request).await
    }

    /// Refuses new requests with 503, finishes those in flight, and ends all sessions. After `patience` what is still in
    /// flight is cancelled.
    pub async fn shutdown(&self, patience: Duration) {
        let inner = &self.inner;
        inner.refusing.cancel();
        inner.shared.closing.cancel();
        let all = u32::try_from(inner.options.most_requests).unwrap_or(u32::MAX);
        // Every permit is back when every answer has left.
        let finished = async {
            let _ = inner.requests.acquire_many(all).await;
            // Tasks have no request any longer, and are calls in flight all the same.
            inner.shared.answering.close();
            inner.shared.answering.wait().await;
        };
        let _ = tokio::time::timeout(patience, finished).await;
        inner.shared.abandoned.cancel();
        inner.ended.cancel();
        inner.sessions.close_all().await;
    }

    pub(super) fn read_within(&self) -> Duration {
        self.inner.options.read_within
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { Ok(inner.answer(request).await) })
    }
}

impl Inner {
    async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        if self.refusing.is_cancelled() {
            return come_back("the server is shutting down");
        }
        if request.method() != Method::POST {
            // A stream that waits for news, or the end of a session: neither has a body, and sessions are counted.
            return self.sdk.handle(request.map(|_| Full::<Bytes>::default())).await;
        }
        // The SDK refuses a request whose header says another method than its body.
        let listens = header_is(request.headers(), "mcp-method", "subscriptions/listen");
        let limit = if listens { &self.listeners } else { &self.requests };
        let Ok(permit) = limit.clone().try_acquire_owned() else {
            return come_back("too many requests at once");
        };
        let opening = match self.options.sessions && opens_session(request.headers()) {
            true => match self.open().await {
                Some(opening) => Some(opening),
                None => return come_back("too many sessions"),
            },
            false => None,
        };
        let says_json = request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let (mut parts, body) = request.into_parts();
        let read = read_body(body, self.options.largest_body);
        let body = match tokio::time::timeout(self.options.read_within, read).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => return refusal,
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, -32600, "the body did not arrive in time"),
        };
        // In a session a call goes on when its connection is lost: it keeps its place until it has ended.
        let permit = Arc::new(permit);
        parts.extensions.insert(permit.clone());
        let answers = Answers::default();
        parts.extensions.insert(answers.clone());
        let seen = match veil(&self.shared.server, &body) {
            Some((message, veiled)) => {
                if let Some(veiled) = veiled {
                    parts.extensions.insert(veiled);
                }
                parts.headers.remove(header::CONTENT_LENGTH);
                Bytes::from(message.to_string())
            }
            None => body.clone(),
        };
        let sdk = if prefers_stream(&parts.headers) { &self.streaming } else { &self.sdk };
        let response = sdk.handle(Request::from_parts(parts, Full::new(seen))).await;
        drop(opening);
        // The SDK's word for a body that is no message, where the header is as it should be.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && says_json {
            return match serde_json::from_slice::<Value>(&body) {
                Ok(_) => refusal(StatusCode::BAD_REQUEST, -32600, "the body is no message of MCP"),
                Err(_) => refusal(StatusCode::BAD_REQUEST, -32700, "the body is not JSON"),
            };
        }
        guarded(response, answers, permit).await
    }

    /// Room for one more session, while it is opened; `None` when there is none.
    async fn open(&self) -> Option<Opening<'_>> {
        let opening = Opening(&self.opening);
        let others = self.opening.fetch_add(1, Ordering::SeqCst);
        (self.sessions.count().await + others < self.options.most_sessions).then_some(opening)
    }
}

struct Opening<'a>(&'a AtomicUsize);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether only `initialize` can be meant: the client names no session, and no revision without them.
fn opens_session(headers: &HeaderMap) -> bool {
    let revision = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    !headers.contains_key("mcp-session-id") && revision.is_none_or(|revision| revision < "2026-07-28")
}

/// Whether a stream stands before JSON in what the client accepts. It has to accept both.
fn prefers_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds =
        accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or(kind).trim());
    let first =
        kinds.into_iter().find(|kind| ["text/event-stream", "application/json", "*/*"].contains(kind));
    first == Some("text/event-stream")
}

fn header_is(headers: &HeaderMap, name: &str, value: &str) -> bool {
    headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes())
}

fn come_back(why: &str) -> Answer {
    let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, why);
    answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    answer
}

pub(super) fn refusal(status: StatusCode, code: i64, message: &str) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

/// The response with its answers exchanged, and counted until its last byte has left.
async fn guarded(response: Answer, answers: Answers, permit: Arc<OwnedSemaphorePermit>) -> Answer {
    let (mut parts, body) = response.into_parts();
    let is_stream = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let inner = if is_stream || answers.is_empty() {
        body
    } else {
        let Ok(whole) = body.collect().await;
        let whole = whole.to_bytes();
        let exchanged = answers.exchange_in_text(&whole).map_or(whole, Bytes::from);
        parts.headers.remove(header::CONTENT_LENGTH);
        Full::new(exchanged).boxed()
    };
    let answers = is_stream.then_some(answers);
    Response::from_parts(parts, Guarded { inner, answers, _permit: permit }.boxed())
}

struct Guarded {
    inner: BoxBody<Bytes, Infallible>,
    answers: Option<Answers>,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let Some(answers) = self.answers.as_ref().filter(|answers| !answers.is_empty()) else {
            return polled;
        };
        polled.map(|frame| {
            frame.map(|Ok(frame)| {
                Ok(match frame.into_data() {
                    Ok(data) => Frame::data(exchange_in_event(answers, data)),
                    Err(other) => other,
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The SDK writes one event per frame, and its data in one line.
fn exchange_in_event(answers: &Answers, event: Bytes) -> Bytes {
    const DATA: &[u8] = b"data: ";
    let mut exchanged = Vec::new();
    for line in event.split_inclusive(|byte| *byte == b'\n') {
        let found = line.strip_prefix(DATA).and_then(|data| answers.exchange_in_text(data));
        match found {
            Some(data) => {
                exchanged.extend_from_slice(DATA);
                exchanged.extend_from_slice(&data);
                exchanged.push(b'\n');
            }
            None => exchanged.extend_from_slice(line),
        }
    }
    Bytes::from(exchanged)
}
