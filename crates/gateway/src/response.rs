//! Responses: bodies, headers, and errors in the format of the client's API.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde_json::Value;
use toolwire_agent::{RunError, RunFailure};
use toolwire_contract::model::ModelError;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ErrorKind};

use crate::traffic::RecordGuard;

pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Lists parameters of a request, and parts of its response, that could not be converted.
pub(crate) const DROPPED: HeaderName = HeaderName::from_static("x-toolwire-dropped");

/// The header that lists the selected servers that are unavailable.
pub(crate) const UNAVAILABLE: HeaderName = HeaderName::from_static("x-toolwire-unavailable");

/// A comment in an event stream, which clients ignore.
pub(crate) const HEARTBEAT: &[u8] = b": keep-alive\n\n";

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Bytes),
    /// A complete body, and a function that is called when the connection takes the body. If the client has
    /// disconnected, the function is dropped without a call.
    Confirmed(Bytes, Option<Box<dyn FnOnce() + Send>>),
    Stream(BoxStream<'static, Result<Bytes, Interrupted>>),
}

/// An error inside a body that the body's format cannot express. The connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response was interrupted")]
pub(crate) struct Interrupted;

pub(crate) type HttpResponse = Response<ResponseBody>;

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        match self.get_mut() {
            ResponseBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            ResponseBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            ResponseBody::Confirmed(bytes, on_taken) => {
                let Some(on_taken) = on_taken.take() else { return Poll::Ready(None) };
                on_taken();
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            ResponseBody::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|next| next.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Whole(bytes) | ResponseBody::Confirmed(bytes, _) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) | ResponseBody::Confirmed(bytes, _) => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            ResponseBody::Stream(_) => SizeHint::default(),
        }
    }
}

impl ResponseBody {
    /// Keeps a value until the end of a stream. For a complete body, it is dropped at once.
    pub(crate) fn holding(self, value: impl Send + 'static) -> ResponseBody {
        match self {
            ResponseBody::Stream(stream) => {
                let mut value = Some(value);
                let end = futures::stream::poll_fn(move |_| {
                    drop(value.take());
                    Poll::Ready(None)
                });
                ResponseBody::stream(stream.chain(end))
            }
            whole => whole,
        }
    }

    /// Interrupts a stream when a future ends.
    pub(crate) fn until(self, end: BoxFuture<'static, ()>) -> ResponseBody {
        match self {
            ResponseBody::Stream(mut stream) => {
                let mut end = Some(end);
                ResponseBody::stream(futures::stream::poll_fn(move |context| {
                    let Some(waiting) = &mut end else { return Poll::Ready(None) };
                    if waiting.as_mut().poll(context).is_ready() {
                        end = None;
                        return Poll::Ready(Some(Err(Interrupted)));
                    }
                    stream.as_mut().poll_next(context)
                }))
            }
            whole => whole,
        }
    }

    /// Ends the record of a request at the end of a stream. If the stream is dropped before, the client has
    /// disconnected.
    pub(crate) fn recorded(self, guard: RecordGuard) -> ResponseBody {
        match self {
            ResponseBody::Stream(mut stream) => {
                let mut has_begun = false;
                ResponseBody::stream(futures::stream::poll_fn(move |context| {
                    let next = std::task::ready!(stream.as_mut().poll_next(context));
                    match &next {
                        Some(_) if !std::mem::replace(&mut has_begun, true) => guard.record_part(),
                        Some(_) => {}
                        None => guard.complete(),
                    }
                    Poll::Ready(next)
                }))
            }
            whole => whole,
        }
    }

    /// Adds the fields of a span of the log to what is logged while a stream is produced.
    pub(crate) fn logged(self, log: tracing::Span) -> ResponseBody {
        match self {
            ResponseBody::Stream(mut stream) if !log.is_none() => {
                ResponseBody::stream(futures::stream::poll_fn(move |context| {
                    let _entered = log.enter();
                    stream.as_mut().poll_next(context)
                }))
            }
            other => other,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, ResponseBody::Stream(_))
    }

    pub(crate) fn stream(
        stream: impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static,
    ) -> ResponseBody {
        ResponseBody::Stream(stream.boxed())
    }
}

/// Creates a response with a JSON body.
pub(crate) fn json(status: StatusCode, body: &Value) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Creates a response with server-sent events. Proxies must not buffer them.
pub(crate) fn events(
    stream: impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static,
) -> HttpResponse {
    let mut response = Response::new(ResponseBody::stream(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A request that fails before its response begins.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: ClientError,
    /// Replaces the default status of the error's kind.
    pub(crate) status: Option<StatusCode>,
    /// Whether a client may repeat the request; `None` leaves it to the status.
    pub(crate) should_retry: Option<bool>,
    /// Whether a tool of a server was called, so that the request must not be run again.
    pub(crate) has_called: bool,
    /// The methods that the path has.
    pub(crate) allow: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        ClientError::new(kind, message).into()
    }

    pub(crate) fn invalid(parameter: &str, message: impl Into<String>) -> Failure {
        let mut failure = Failure::new(ErrorKind::InvalidRequest, message);
        failure.error.parameter = Some(parameter.to_owned());
        failure
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Failure {
        Failure { status: Some(status), ..self }
    }

    /// Returns the status of the response in the client's API.
    pub(crate) fn status(&self, family: Family) -> StatusCode {
        let of_error = || self.error.status.unwrap_or_else(|| self.error.kind.status(family));
        let status = self.status.or_else(|| StatusCode::from_u16(of_error()).ok());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Creates the response, in the format of the client's API.
    pub(crate) fn respond(&self, family: Family, request_id: &str) -> HttpResponse {
        let mut response = json(self.status(family), &self.error.body(family, request_id));
        let headers = response.headers_mut();
        if let Some(delay) = self.error.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(delay.as_secs_f64().ceil().max(1.0) as u64));
        }
        if let Some(should_retry) = self.should_retry {
            let value = HeaderValue::from_static(if should_retry { "true" } else { "false" });
            headers.insert(SHOULD_RETRY, value);
        }
        if let Some(methods) = self.allow.as_deref().and_then(|methods| HeaderValue::from_str(methods).ok()) {
            headers.insert(ALLOW, methods);
        }
        response
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let is_final = matches!(
            error.kind,
            ErrorKind::ProviderKey | ErrorKind::QuotaExceeded | ErrorKind::InvalidOutput
        );
        Failure {
            error,
            status: None,
            should_retry: is_final.then_some(false),
            has_called: false,
            allow: None,
        }
    }
}

impl From<Infallible> for Interrupted {
    fn from(error: Infallible) -> Interrupted {
        match error {}
    }
}

/// Converts the failure of a run to an error for the client.
pub(crate) fn run_error(failure: &RunFailure) -> ClientError {
    match failure.cause.as_deref() {
        Some(RunError::Model(error)) => model_error(error),
        // The response of the model cannot be used.
        Some(RunError::InvalidOutput { .. }) => {
            ClientError::new(ErrorKind::InvalidOutput, failure.message.clone())
        }
        _ => ClientError::new(ErrorKind::Internal, failure.message.clone()),
    }
}

/// Converts the error of a model to an error for the client.
///
/// If the provider rejects the gateway's key, the client gets status 502, because its own key is valid. The
/// provider's message is not passed on, because it may contain a part of the gateway's key.
pub(crate) fn model_error(error: &ModelError) -> ClientError {
    let kind = match error {
        ModelError::Unusable { .. } => ErrorKind::InvalidRequest,
        ModelError::ContextExceeded { .. } => ErrorKind::ContextExceeded,
        ModelError::TimedOut { .. } => ErrorKind::TimedOut,
        ModelError::Unreachable { .. } | ModelError::Broken { .. } | ModelError::Malformed { .. } => {
            ErrorKind::Unreachable
        }
        ModelError::Refused { body, .. } if is_quota_exceeded(body) => ErrorKind::QuotaExceeded,
        ModelError::Refused { model, status, .. } => match status {
            Some(401 | 403) => {
                let message = format!("the provider of `{model}` does not accept the gateway's key");
                return ClientError::new(ErrorKind::ProviderKey, message);
            }
            Some(402) => ErrorKind::QuotaExceeded,
            Some(404) => ErrorKind::ModelNotFound,
            // A proxy between the gateway and the provider requires a login.
            Some(407) => ErrorKind::Unreachable,
            Some(408 | 504) => ErrorKind::TimedOut,
            Some(409) => ErrorKind::Conflict,
            Some(413) => ErrorKind::TooLarge,
            Some(429) => ErrorKind::RateLimited,
            Some(503 | 529) => ErrorKind::Overloaded,
            Some(400..=499) => ErrorKind::InvalidRequest,
            _ => ErrorKind::Unreachable,
        },
        _ => ErrorKind::Internal,
    };
    let hint = match error {
        ModelError::Unusable { hint: Some(hint), .. } => format!(". Hint: {hint}"),
        _ => String::new(),
    };
    let message = match error {
        ModelError::Refused { model, body: Value::String(text), .. } if is_web_page(text) => {
            format!("`{model}` returned a web page instead of a response")
        }
        _ => format!("{error}{hint}"),
    };
    let mut client_error = ClientError::new(kind, message);
    if let ModelError::Refused { retry_after, body, status, .. } = error {
        client_error.retry_after = *retry_after;
        if matches!(kind, ErrorKind::InvalidRequest | ErrorKind::Conflict) {
            // SDKs raise a separate class for some of these statuses.
            client_error.status = *status;
            client_error.code = error_text(body, "code").map(str::to_owned);
            client_error.parameter = error_text(body, "param").map(str::to_owned);
        }
    }
    client_error
}

/// Whether the text of an error is a web page. Such pages come from proxies and may contain addresses.
pub(crate) fn is_web_page(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// Logs why a model cannot be reached, with the address of its endpoint, which clients do not get.
pub(crate) fn log_unreachable(error: &ModelError) {
    if let ModelError::Unreachable { .. } = error {
        tracing::warn!(%error, hint = error.hint(), "a model cannot be reached");
    }
}

/// Returns the hint of a failed run, unless it contains the address of an endpoint.
pub(crate) fn hint_without_address(failure: &RunFailure) -> Option<String> {
    let has_address = match failure.cause.as_deref() {
        Some(RunError::Model(ModelError::Unreachable { .. })) => true,
        Some(RunError::Model(ModelError::Refused { status, .. })) => {
            matches!(status, Some(300..=399 | 404 | 405))
        }
        _ => false,
    };
    failure.hint.clone().filter(|_| !has_address)
}

/// Returns a string field of `error` in a provider's body.
fn error_text<'b>(body: &'b Value, key: &str) -> Option<&'b str> {
    body.get("error")?.get(key)?.as_str()
}

/// Whether the account at the provider has no credit or quota left, so that a retry fails too.
fn is_quota_exceeded(body: &Value) -> bool {
    const CODES: [&str; 4] =
        ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"];
    ["code", "type"].iter().any(|key| error_text(body, key).is_some_and(|code| CODES.contains(&code)))
}

/// Joins names that a client sent, up to a length that fits into a header. Characters that a header cannot
/// have are replaced.
pub(crate) fn bounded_list(names: &[String]) -> String {
    const MAX_BYTES: usize = 1024;
    let mut list = String::new();
    let in_header = |character: char| if character.is_ascii_graphic() { character } else { '?' };
    for (index, name) in names.iter().enumerate() {
        if list.len() + name.len() > MAX_BYTES {
            let others = format!("and {} more", names.len() - index);
            return if list.is_empty() { others } else { format!("{list}, {others}") };
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.extend(name.chars().map(in_header));
    }
    list
}
