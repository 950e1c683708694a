//! Records requests and calls of tools.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use toolwire_contract::model::Usage;
use toolwire_page::traffic::{Request, RequestOutcome};

use super::{Metrics, SECONDS, TOKENS};
use crate::spans::{OpenSpan, SpanKind, integer, text};

/// A request whose response is not complete. It is recorded when it is dropped.
pub(crate) struct MeasuredRequest {
    metrics: Metrics,
    method: &'static str,
    route: &'static str,
    /// `None` while there is no response.
    status: Option<StatusCode>,
    is_stream: bool,
    start: Instant,
    request_id: String,
    /// The span of the request in a distributed trace.
    span: Option<OpenSpan>,
}

/// A request to a model that has ended.
pub(crate) struct EndedRequest<'a> {
    /// The name of the operation in the conventions of OpenTelemetry.
    pub(crate) operation: &'static str,
    /// A configured name, or `other`.
    pub(crate) model: &'a str,
    pub(crate) request: &'a Request,
}

/// How a call of a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolOutcome {
    Ok,
    Failed,
    /// It was denied, or the tool does not exist.
    NotMade,
}

impl ToolOutcome {
    const fn name(self) -> &'static str {
        match self {
            ToolOutcome::Ok => "ok",
            ToolOutcome::Failed => "failed",
            ToolOutcome::NotMade => "not_made",
        }
    }
}

impl Metrics {
    /// Begins the measurement of a request. `route` is the pattern of its path.
    pub(crate) fn begin(&self, method: &Method, route: &'static str, request_id: &str) -> MeasuredRequest {
        self.0.active_requests.fetch_add(1, Ordering::Relaxed);
        MeasuredRequest {
            metrics: self.clone(),
            method: method_label(method),
            route,
            status: None,
            is_stream: false,
            start: Instant::now(),
            request_id: request_id.to_owned(),
            span: None,
        }
    }

    /// Records a request to a model.
    pub(crate) fn record_request(&self, ended: &EndedRequest<'_>) {
        let EndedRequest { operation, model, request } = ended;
        let inner = &self.0;
        let elapsed = request.elapsed.unwrap_or_default();
        let status = request.status.unwrap_or_default().to_string();
        let error = match request.outcome {
            Some(RequestOutcome::Ok) | None => "",
            Some(RequestOutcome::Stopped) => "cancelled",
            Some(_) if request.status.is_some_and(|status| status >= 400) => status.as_str(),
            // The response had begun.
            Some(_) => "interrupted",
        };
        inner.requests.record(&[operation, model, error], &SECONDS, elapsed.as_secs_f64());
        if let Some(first) = request.first_output {
            inner.first_tokens.record(&[operation, model], &SECONDS, first.as_secs_f64());
        }
        let steps = request.steps.iter().filter_map(|step| step.end?.checked_sub(step.start?));
        let forwarded = request.is_forwarded.then_some(elapsed);
        for duration in steps.chain(forwarded) {
            inner.model_requests.record(&[operation, model], &SECONDS, duration.as_secs_f64());
        }
        // The sum of a run is zero if the provider reports no usage.
        if let Some(usage) = request.usage.as_ref().filter(|usage| **usage != Usage::default()) {
            self.record_tokens(operation, model, usage);
        }
    }

    fn record_tokens(&self, operation: &str, model: &str, usage: &Usage) {
        for (token_type, count) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            self.0.tokens.record(&[operation, model, token_type], &TOKENS, count as f64);
        }
    }

    /// Records a call of a listed tool, or of `other`. `server` is empty for tools of the gateway itself.
    pub(crate) fn record_call(
        &self,
        server: &str,
        tool: &str,
        outcome: ToolOutcome,
        elapsed: Option<Duration>,
    ) {
        self.0.tool_calls.add(&[server, tool, outcome.name()], 1);
        if let Some(elapsed) = elapsed.filter(|_| !server.is_empty()) {
            let error = if outcome == ToolOutcome::Failed { "tool_error" } else { "" };
            let labels = ["tools/call", server, tool, error];
            self.0.tool_durations.record(&labels, &SECONDS, elapsed.as_secs_f64());
        }
    }
}

impl MeasuredRequest {
    /// Records the request as a span too.
    pub(crate) fn set_span(&mut self, span: Option<OpenSpan>) {
        self.span = span;
    }

    /// Records the head of the response.
    pub(crate) fn respond(&mut self, status: StatusCode, is_stream: bool) {
        self.status = Some(status);
        if is_stream {
            self.is_stream = true;
            self.metrics.0.open_streams.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for MeasuredRequest {
    fn drop(&mut self) {
        let inner = &self.metrics.0;
        inner.active_requests.fetch_sub(1, Ordering::Relaxed);
        if self.is_stream {
            inner.open_streams.fetch_sub(1, Ordering::Relaxed);
        }
        // Nginx's status for a client that disconnected before it got a response.
        let status = self.status.map_or("499", |status| status_text(status));
        let labels = [self.method, self.route, status];
        let elapsed = self.start.elapsed();
        inner.http_requests.record(&labels, &SECONDS, elapsed.as_secs_f64());
        tracing::info!(
            target: "toolwire::access",
            request_id = self.request_id,
            method = self.method,
            route = self.route,
            status,
            milliseconds = elapsed.as_millis() as u64,
        );
        if let Some(span) = &self.span {
            let error = self.status.is_none_or(|status| status.is_server_error()).then_some(status);
            span.end(SpanKind::Server, &format!("{} {}", self.method, self.route), error, || {
                let code = self.status.map_or(499, |status| status.as_u16());
                vec![
                    ("http.request.method", text(self.method)),
                    ("http.route", text(self.route)),
                    ("http.response.status_code", integer(code.into())),
                    ("toolwire.request.id", text(&self.request_id)),
                ]
            });
        }
    }
}

/// Returns the label of a method. Clients can invent methods, so others have one label.
fn method_label(method: &Method) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("_OTHER")
}

/// Returns the label of a status. Providers can invent statuses, so others have one label for each class.
fn status_text(status: StatusCode) -> &'static str {
    const STATUSES: [(u16, &str); 24] = [
        (200, "200"),
        (201, "201"),
        (202, "202"),
        (204, "204"),
        (303, "303"),
        (304, "304"),
        (400, "400"),
        (401, "401"),
        (402, "402"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (408, "408"),
        (409, "409"),
        (413, "413"),
        (415, "415"),
        (422, "422"),
        (429, "429"),
        (431, "431"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
        (504, "504"),
        (529, "529"),
    ];
    let known = STATUSES.iter().find(|(code, _)| *code == status.as_u16()).map(|(_, text)| *text);
    known.unwrap_or(match status.as_u16() / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    })
}
