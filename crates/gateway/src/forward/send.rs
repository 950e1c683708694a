//! Sends a request to the provider, and passes on its response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout_at;
use toolwire_contract::model::ModelError;
use toolwire_dialect::Family;
use toolwire_dialect::response::read_usage;

use crate::catalog::{ForwardedBody, ForwardedRequest, Upstream};
use crate::forwarded_events::{Events, pass_on, run_timeout_error};
use crate::response::{Failure, HttpResponse, ResponseBody, is_web_page, json, log_unreachable, model_error};
use crate::spans::ForwardedSpan;
use crate::top_level::TopLevel;
use crate::traffic::RequestRecorder;

/// Response headers of the provider that the client gets, in addition to those for rate limits.
const RETURNED_HEADERS: [&str; 6] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "openai-processing-ms",
    "openai-version",
];
const RETURNED_HEADER_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// A request on its way to the provider.
pub(crate) struct Forward {
    /// The number of alternatives that the request asks for.
    pub(crate) choices: u64,
    pub(crate) family: Family,
    pub(crate) model: String,
    pub(crate) request_id: String,
    pub(crate) deadline: tokio::time::Instant,
    /// The part of a distributed trace that the request is.
    pub(crate) span: Option<ForwardedSpan>,
    /// The record of the request.
    pub(crate) recorder: Option<RequestRecorder>,
}

impl Forward {
    pub(crate) async fn send(
        mut self,
        upstream: Arc<dyn Upstream>,
        request: ForwardedRequest,
    ) -> Result<HttpResponse, Failure> {
        let mut span = self.span.take();
        let response = self.send_request(upstream, request).await;
        if let Some(span) = &mut span {
            span.set_error(match &response {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(response.status().as_u16().to_string()),
                Err(failure) => Some(format!("{:?}", failure.error.kind)),
            });
        }
        response.map(|response| response.map(|body| body.holding(span)))
    }

    async fn send_request(
        self,
        upstream: Arc<dyn Upstream>,
        request: ForwardedRequest,
    ) -> Result<HttpResponse, Failure> {
        let is_model_api = request.path.is_none();
        let response = timeout_at(self.deadline, upstream.forward(request)).await;
        let response = response.map_err(|_| run_timeout_error())?.map_err(|error| {
            log_unreachable(&error);
            model_error(&error)
        })?;
        let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
        match response.body {
            ForwardedBody::Complete(body) if !status.is_success() => {
                self.refused(status, &response.headers, &body)
            }
            ForwardedBody::Parts(_) if !status.is_success() => self.refused(status, &response.headers, b""),
            body => Ok(self.accepted(status, &response.headers, body, upstream, is_model_api)),
        }
    }

    fn accepted(
        self,
        status: StatusCode,
        headers: &[(String, Vec<u8>)],
        body: ForwardedBody,
        upstream: Arc<dyn Upstream>,
        is_model_api: bool,
    ) -> HttpResponse {
        let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
        *response.status_mut() = status;
        copy_headers(response.headers_mut(), headers);
        let content_type = response.headers().get("content-type");
        let is_events = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        if is_events {
            response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache"));
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        *response.body_mut() = match body {
            ForwardedBody::Complete(bytes) => {
                ResponseBody::Whole(read_complete(bytes, &*upstream, self.recorder.as_ref()))
            }
            ForwardedBody::Parts(parts) => {
                let (family, request_id) = (self.family, self.request_id);
                let new_events = || Events::new(family, request_id, self.model, upstream);
                let events = is_events.then(new_events).map(|mut events| {
                    events.has_known_end = is_model_api;
                    events.choices = self.choices.max(1);
                    events.recorder = self.recorder;
                    events
                });
                ResponseBody::stream(pass_on(parts, self.deadline, events))
            }
        };
        response
    }

    /// Passes on an error of the provider, in the format of the client's API.
    fn refused(
        self,
        status: StatusCode,
        headers: &[(String, Vec<u8>)],
        text: &[u8],
    ) -> Result<HttpResponse, Failure> {
        let refusal = |message: String| {
            let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
            let seconds = header.and_then(|(_, value)| str::from_utf8(value).ok()?.trim().parse().ok());
            model_error(&ModelError::Refused {
                model: self.model,
                status: Some(status.as_u16()),
                message,
                hint: None,
                retry_after: seconds.map(Duration::from_secs),
                body: Value::Null,
            })
        };
        if matches!(status.as_u16(), 401 | 403 | 407) {
            // The error describes the gateway's key or proxy, without the provider's message.
            return Err(refusal(String::new()).into());
        }
        if status.is_redirection() {
            return Err(refusal("the provider redirects the request".to_owned()).into());
        }
        let body: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
        let message = body.get("error").and_then(|error| error.get("message"));
        let is_known = message.is_some_and(Value::is_string)
            && (self.family != Family::Anthropic || body["type"] == "error");
        if !is_known {
            let text = String::from_utf8_lossy(text);
            let message = match is_web_page(&text) {
                true => "the provider sent a web page".to_owned(),
                false => text.chars().take(500).collect(),
            };
            return Err(Failure::from(refusal(message)).with_status(status));
        }
        let mut refused = json(status, &body);
        copy_headers(refused.headers_mut(), headers);
        Ok(refused)
    }
}

/// Records the tokens of a complete response, and removes the provider's keys from it if it is an error, or
/// contains one.
fn read_complete(body: Bytes, upstream: &dyn Upstream, recorder: Option<&RequestRecorder>) -> Bytes {
    let fields = TopLevel::scan(&body, usize::MAX).ok();
    let usage = fields.as_ref().and_then(|fields| fields.get("usage"));
    let usage = usage.and_then(|usage| serde_json::from_slice::<Value>(&body[usage.value.clone()]).ok());
    if let (Some(recorder), Some(usage)) = (recorder, usage.and_then(|usage| read_usage(&usage))) {
        recorder.set_usage(usage);
    }
    let error = fields.as_ref().and_then(|fields| fields.get("error"));
    if error.is_none_or(|error| body[error.value.clone()] == *b"null") {
        return body;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(value) => Bytes::from(upstream.redact(value).to_string()),
        Err(_) => body,
    }
}

fn copy_headers(target: &mut HeaderMap, headers: &[(String, Vec<u8>)]) {
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let is_returned = RETURNED_HEADERS.contains(&name.as_str())
            || RETURNED_HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if is_returned
            && let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            target.insert(name, value);
        }
    }
}
