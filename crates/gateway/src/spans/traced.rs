//! A model and a toolbox that pass the trace of a request on, and record a span for each of its steps and
//! calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, StopReason, UnsupportedContent, Usage,
};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox, ToolboxDecorator};
use toolwire_contract::{Content, ToolResult};

use super::{OpenSpan, SpanKind, SpanValue, integer, text};

/// A model whose requests belong to a trace.
pub(crate) struct TracedModel {
    model: Arc<dyn Model>,
    span: OpenSpan,
    steps: AtomicU64,
}

impl TracedModel {
    pub(crate) fn new(model: Arc<dyn Model>, span: OpenSpan) -> TracedModel {
        TracedModel { model, span, steps: AtomicU64::new(0) }
    }
}

/// One request to a model. It is recorded when it is dropped.
struct TracedRequest {
    span: OpenSpan,
    model: String,
    step: u64,
    first: Option<SystemTime>,
    /// `None` while the response is not complete.
    end: Option<Result<(StopReason, Option<Usage>), &'static str>>,
}

impl Model for TracedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        self.model.prepare()
    }

    fn check_content(&self, content: &Content) -> Result<(), UnsupportedContent> {
        self.model.check_content(content)
    }

    fn keeps_verbatim(&self, request: &ModelRequest) -> bool {
        self.model.keeps_verbatim(request)
    }

    fn ask(&self, mut request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        // A run that continues after an approval belongs to the trace of the approval.
        if request.trace.is_some() {
            return self.model.ask(request);
        }
        let span = self.span.child();
        request.trace = Some(span.context.clone());
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let model = self.model.name().to_owned();
        let mut recorded = TracedRequest { span, model, step, first: None, end: None };
        let mut events = self.model.ask(request);
        stream::poll_fn(move |context| {
            let event = std::task::ready!(events.poll_next_unpin(context));
            match &event {
                Some(Ok(ModelEvent::Retrying { .. } | ModelEvent::Details(_))) | None => {}
                Some(Ok(ModelEvent::Response(response))) => {
                    recorded.end = Some(Ok((response.stop.clone(), response.usage)));
                }
                Some(Ok(_)) => drop(recorded.first.get_or_insert_with(SystemTime::now)),
                Some(Err(error)) => recorded.end = Some(Err(error.code())),
            }
            std::task::Poll::Ready(event)
        })
        .boxed()
    }
}

impl Drop for TracedRequest {
    fn drop(&mut self) {
        let error = match &self.end {
            Some(Ok(_)) => None,
            Some(Err(code)) => Some(*code),
            None => Some("cancelled"),
        };
        self.span.end(SpanKind::Client, &format!("chat {}", self.model), error, || self.attributes());
    }
}

impl TracedRequest {
    fn attributes(&self) -> Vec<(&'static str, SpanValue)> {
        let mut attributes = vec![
            ("gen_ai.operation.name", text("chat")),
            ("gen_ai.request.model", text(&self.model)),
            ("toolwire.step", integer(self.step)),
        ];
        if let Some(first) = self.first.and_then(|first| first.duration_since(self.span.start).ok()) {
            attributes.push(("gen_ai.response.time_to_first_chunk", SpanValue::Number(first.as_secs_f64())));
        }
        let Some(Ok((stop, usage))) = &self.end else { return attributes };
        let reason = match stop {
            StopReason::End | StopReason::Sequence(_) => "stop",
            StopReason::Calls => "tool_call",
            StopReason::Length => "length",
            StopReason::Refusal => "content_filter",
            _ => "other",
        };
        attributes.push(("gen_ai.response.finish_reasons", SpanValue::Texts(vec![reason.to_owned()])));
        if let Some(usage) = usage {
            attributes.push(("gen_ai.usage.input_tokens", integer(usage.input_tokens)));
            attributes.push(("gen_ai.usage.output_tokens", integer(usage.output_tokens)));
            attributes.push(("gen_ai.usage.cache_read.input_tokens", integer(usage.cached_tokens)));
        }
        attributes
    }
}

/// A toolbox whose calls belong to a trace.
pub(crate) struct TracedToolbox {
    tools: Arc<dyn Toolbox>,
    span: OpenSpan,
}

impl TracedToolbox {
    pub(crate) fn new(tools: Arc<dyn Toolbox>, span: OpenSpan) -> TracedToolbox {
        TracedToolbox { tools, span }
    }
}

/// One call. It is recorded when it is dropped.
struct TracedCall<'a> {
    tools: &'a TracedToolbox,
    tool: &'a str,
    span: OpenSpan,
    /// `None` while there is no result.
    end: Option<Result<(), &'static str>>,
}

impl ToolboxDecorator for TracedToolbox {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        if options.trace.is_some() {
            return self.tools.call(tool, arguments, options);
        }
        Box::pin(async move {
            let span = self.span.child();
            options.trace = Some(span.context.clone());
            let mut recorded = TracedCall { tools: self, tool, span, end: None };
            let result = self.tools.call(tool, arguments, options).await;
            recorded.end = Some(match &result {
                Ok(result) if result.is_error() => Err("tool_error"),
                Ok(_) => Ok(()),
                Err(error) => Err(error.code()),
            });
            result
        })
    }
}

impl Drop for TracedCall<'_> {
    fn drop(&mut self) {
        let error = match self.end {
            Some(Ok(())) => None,
            Some(Err(code)) => Some(code),
            None => Some("cancelled"),
        };
        let tools = &self.tools.tools;
        let original = tools.original_name(self.tool);
        let name = original.as_deref().unwrap_or(self.tool);
        self.span.end(SpanKind::Client, &format!("tools/call {name}"), error, || {
            let mut attributes = vec![
                ("mcp.method.name", text("tools/call")),
                ("gen_ai.operation.name", text("execute_tool")),
                ("gen_ai.tool.name", text(name)),
            ];
            if let Some(server) = tools.server_of(self.tool) {
                attributes.push(("toolwire.server", text(&server.name)));
            }
            attributes
        });
    }
}
