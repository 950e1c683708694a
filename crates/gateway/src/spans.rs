//! Distributed traces: the context of a request is passed on to providers and MCP servers, and the parts of a
//! request are recorded as spans, with the names and attributes of OpenTelemetry's conventions.

mod traced;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use toolwire_agent::Agent;
use toolwire_contract::trace_context::TraceContext;

use traced::TracedModel;
pub(crate) use traced::TracedToolbox;

/// Longer texts in attributes are shortened.
const MAX_TEXT: usize = 256;

/// A part of a request that has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Span {
    pub context: TraceContext,
    /// The id of the span that caused it.
    pub parent: Option<[u8; 8]>,
    pub name: String,
    pub kind: SpanKind,
    pub start: SystemTime,
    pub end: SystemTime,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// The reason of the failure, from a small set of texts; `None` if it succeeded.
    pub error: Option<String>,
}

/// On which side of a request a span was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanKind {
    Server,
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SpanValue {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
    Number(f64),
}

/// Exports spans.
pub trait SpanSink: Send + Sync {
    /// Takes a span. It must not block.
    fn record(&self, span: Span);
}

/// The destination of the spans of a gateway. Without a sink, contexts of clients are passed on, and nothing
/// is recorded.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn SpanSink>>);

impl Spans {
    pub fn new(sink: Arc<dyn SpanSink>) -> Spans {
        Spans(Some(sink))
    }

    /// Begins the span of a request with these headers. Returns `None` if it belongs to no trace.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Option<OpenSpan> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // Several headers `traceparent` are invalid, and several `tracestate` form one list.
        let parent = header("traceparent").filter(|_| headers.get_all("traceparent").iter().count() == 1);
        let states: Vec<&str> =
            headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok()).collect();
        let parent = parent.and_then(|parent| TraceContext::parse(parent, Some(&states.join(","))));
        match parent {
            Some(parent) => Some(OpenSpan::child_of(&parent, self)),
            None if self.0.is_some() => {
                let context = TraceContext::new(random(), random(), true)?;
                Some(OpenSpan { parent: None, ..OpenSpan::child_of(&context, self) })
            }
            None => None,
        }
    }
}

/// The span of a request that is forwarded to a provider. It is recorded when it is dropped.
pub(crate) struct ForwardedSpan {
    span: OpenSpan,
    operation: &'static str,
    model: String,
    /// Why the response is not complete.
    error: Option<String>,
}

impl ForwardedSpan {
    pub(crate) fn new(span: &OpenSpan, operation: &'static str, model: &str) -> ForwardedSpan {
        let error = Some("cancelled".to_owned());
        ForwardedSpan { span: span.child(), operation, model: model.to_owned(), error }
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        self.span.headers()
    }

    /// Records how the request ended, or that its response is passed on.
    pub(crate) fn set_error(&mut self, error: Option<String>) {
        self.error = error;
    }
}

impl Drop for ForwardedSpan {
    fn drop(&mut self) {
        let name = format!("{} {}", self.operation, self.model);
        self.span.end(SpanKind::Client, &name, self.error.as_deref(), || {
            vec![("gen_ai.operation.name", text(self.operation)), ("gen_ai.request.model", text(&self.model))]
        });
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Spans").field(&self.0.is_some()).finish()
    }
}

/// A span that has not ended.
#[derive(Clone)]
pub(crate) struct OpenSpan {
    spans: Spans,
    pub(crate) context: TraceContext,
    parent: Option<[u8; 8]>,
    start: SystemTime,
}

impl OpenSpan {
    /// Begins a child of a span.
    fn child_of(parent: &TraceContext, spans: &Spans) -> OpenSpan {
        let context = parent.child(random());
        let parent = Some(parent.span_id());
        OpenSpan { spans: spans.clone(), context, parent, start: SystemTime::now() }
    }

    pub(crate) fn child(&self) -> OpenSpan {
        OpenSpan::child_of(&self.context, &self.spans)
    }

    /// Returns the headers that pass the context on.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        headers(&self.context)
    }

    /// Ends the span. The attributes are only created if it is recorded.
    pub(crate) fn end(
        &self,
        kind: SpanKind,
        name: &str,
        error: Option<&str>,
        attributes: impl FnOnce() -> Vec<(&'static str, SpanValue)>,
    ) {
        let Some(sink) = self.spans.0.as_ref().filter(|_| self.context.is_sampled()) else { return };
        let mut attributes = attributes();
        if let Some(error) = error {
            attributes.push(("error.type", text(error)));
        }
        sink.record(Span {
            context: self.context.clone(),
            parent: self.parent,
            name: shortened(name),
            kind,
            start: self.start,
            end: SystemTime::now(),
            attributes,
            error: error.map(shortened),
        });
    }
}

/// Returns an agent whose requests and calls belong to the trace of a span.
pub(crate) fn traced(agent: &Agent, span: &OpenSpan) -> Agent {
    let model = Arc::new(TracedModel::new(agent.model().clone(), span.clone()));
    let tools = Arc::new(TracedToolbox::new(agent.tools().clone(), span.clone()));
    agent.with_model(model).with_tools(tools)
}

/// Returns the headers that pass a context on.
fn headers(context: &TraceContext) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let state = context.state().map(|state| ("tracestate", state.to_owned()));
    std::iter::once(("traceparent", context.parent())).chain(state)
}

pub(crate) fn text(value: &str) -> SpanValue {
    SpanValue::Text(shortened(value))
}

pub(crate) fn integer(value: u64) -> SpanValue {
    SpanValue::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn shortened(value: &str) -> String {
    toolwire_page::text::shortened(value, MAX_TEXT)
}

/// Returns random bytes; if the system has none, zeros, which are not a valid id.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::HeaderValue;

    use super::*;

    #[derive(Default)]
    pub(crate) struct Recorded(pub(crate) Mutex<Vec<Span>>);

    impl SpanSink for Recorded {
        fn record(&self, span: Span) {
            self.0.lock().expect("the spans").push(span);
        }
    }

    fn with(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const NOT_SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    #[test]
    fn contexts_are_passed_on_even_if_nothing_is_recorded() {
        let spans = Spans::default();
        assert!(spans.begin(&HeaderMap::new()).is_none());
        assert!(spans.begin(&with(&[("traceparent", SAMPLED), ("traceparent", SAMPLED)])).is_none());
        let headers = with(&[("traceparent", SAMPLED), ("tracestate", "a=1"), ("tracestate", "b=2")]);
        let span = spans.begin(&headers).expect("a span");
        let passed: Vec<(&str, String)> = span.child().headers().collect();
        assert!(
            passed[0].1.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && passed[0].1.ends_with("-01")
        );
        assert!(!passed[0].1.contains("00f067aa0ba902b7"), "the parent is a span of the gateway");
        assert_eq!(passed[1], ("tracestate", "a=1,b=2".to_owned()));
    }

    #[test]
    fn spans_are_recorded_below_the_span_of_the_client() {
        let sink = Arc::new(Recorded::default());
        let spans = Spans::new(sink.clone());
        for (parent, recorded) in [(Some(SAMPLED), true), (Some(NOT_SAMPLED), false), (None, true)] {
            let headers = parent.map_or_else(HeaderMap::new, |parent| with(&[("traceparent", parent)]));
            let span = spans.begin(&headers).expect("a span");
            let child = span.child();
            child.end(SpanKind::Client, "child", Some("timed_out"), || vec![("a", integer(1))]);
            span.end(SpanKind::Server, "request", None, Vec::new);
            let found = std::mem::take(&mut *sink.0.lock().expect("the spans"));
            assert_eq!(found.len(), if recorded { 2 } else { 0 }, "{parent:?}");
            let [child, request] = found.as_slice() else { continue };
            assert_eq!(child.parent, Some(request.context.span_id()));
            assert_eq!(child.context.trace_id(), request.context.trace_id());
            assert_eq!(child.attributes, [("a", SpanValue::Integer(1)), ("error.type", text("timed_out"))]);
            assert_eq!(request.parent.is_some(), parent.is_some());
        }
    }
}
