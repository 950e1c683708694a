//! Records the events of a run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use toolwire_agent::AgentEvent;
use toolwire_contract::toolbox::Toolbox;
use toolwire_page::traffic::{CallOutcome, CallSpan, RequestOutcome, StepSpan, Wait};

use super::{RequestRecorder, lock, shortened};
use crate::metrics::{OTHER, ToolOutcome};

/// Records the events of a run.
pub(crate) struct RunRecorder {
    recorder: RequestRecorder,
    /// The tools of the configured servers. The names of other tools are not used in metrics.
    tools: Arc<dyn Toolbox>,
    /// Whether the current step has an output, so that most events need no lock.
    has_output: bool,
}

impl RunRecorder {
    pub(crate) fn new(recorder: RequestRecorder, tools: Arc<dyn Toolbox>) -> RunRecorder {
        RunRecorder { recorder, tools, has_output: false }
    }

    /// Ends the record of a run that is not the response to a request.
    pub(crate) fn end(&self, outcome: RequestOutcome, error: Option<&str>) {
        let mut request = lock(&self.recorder.record.request);
        request.error = error.map(shortened);
        self.recorder.end(&mut request, outcome);
    }

    pub(crate) fn observe(&mut self, event: &AgentEvent) {
        let is_output = matches!(
            event,
            AgentEvent::Text(_)
                | AgentEvent::Thinking(_)
                | AgentEvent::Refusal(_)
                | AgentEvent::Media(_)
                | AgentEvent::CallAnnounced { .. }
        );
        if is_output && self.has_output {
            return;
        }
        if let AgentEvent::CallFinished { name, result, elapsed, .. } = event {
            self.measure_call(name, result.is_error(), *elapsed);
        }
        let now = self.recorder.start.elapsed();
        let has_room = || self.recorder.record.try_count_span();
        let mut request = lock(&self.recorder.record.request);
        match event {
            _ if is_output => {
                self.has_output = true;
                request.first_output = request.first_output.or(Some(now));
                if let Some(step) = request.steps.last_mut() {
                    step.first_output = step.first_output.or(Some(now));
                }
            }
            AgentEvent::StepStarted { .. } if has_room() => {
                self.has_output = false;
                if let Some(step) = request.steps.last_mut() {
                    step.end = step.end.or(Some(now));
                }
                let mut step = StepSpan::default();
                step.start = Some(now);
                request.steps.push(step);
            }
            AgentEvent::Retrying { after, error, .. } => {
                if let Some(step) = request.steps.last_mut().filter(|_| has_room()) {
                    let reason = shortened(&error.to_string());
                    step.waits.push(Wait { start: now, length: *after, reason });
                }
            }
            AgentEvent::MessageAdded(message) if message.role == toolwire_contract::Role::Assistant => {
                if let Some(step) = request.steps.last_mut() {
                    step.end = step.end.or(Some(now));
                }
            }
            AgentEvent::CallStarted { id, name, .. } if has_room() => {
                request.calls.push(new_call(id, name, now));
            }
            AgentEvent::CallFinished { id, name, result, elapsed } => {
                let shown = shortened(id);
                let mut known = request.calls.iter().position(|call| call.id == shown && call.end.is_none());
                if known.is_none() && has_room() {
                    request.calls.push(new_call(id, name, now));
                    known = Some(request.calls.len() - 1);
                }
                let Some(call) = known.and_then(|position| request.calls.get_mut(position)) else { return };
                call.end = Some(now);
                call.outcome = Some(match (elapsed, result.is_error()) {
                    (None, _) => CallOutcome::NotMade,
                    (Some(_), true) => CallOutcome::Failed,
                    (Some(_), false) => CallOutcome::Ok,
                });
                if result.is_error() {
                    call.error = result.blocks().iter().find_map(|block| match block {
                        toolwire_contract::Content::Text { text, .. } => Some(shortened(text)),
                        _ => None,
                    });
                }
            }
            AgentEvent::Usage { total, .. } => request.usage = Some(*total),
            AgentEvent::Done(finished) => {
                if let toolwire_agent::Ending::Failed(failure) = &finished.outcome.ending {
                    request.error = Some(shortened(&failure.message));
                }
            }
            _ => return,
        }
        drop(request);
        self.recorder.traffic.version.fetch_add(1, Ordering::Relaxed);
    }
}

impl RunRecorder {
    fn measure_call(&self, name: &str, is_error: bool, elapsed: Option<Duration>) {
        let outcome = match (elapsed, is_error) {
            (None, _) => ToolOutcome::NotMade,
            (Some(_), true) => ToolOutcome::Failed,
            (Some(_), false) => ToolOutcome::Ok,
        };
        let metrics = &self.recorder.traffic.metrics;
        match self.tools.server_of(name) {
            Some(server) => {
                let original = self.tools.original_name(name);
                metrics.record_call(&server.name, original.as_deref().unwrap_or(name), outcome, elapsed);
            }
            None => metrics.record_call("", OTHER, outcome, elapsed),
        }
    }
}

fn new_call(id: &str, name: &str, start: Duration) -> CallSpan {
    let (id, tool) = (shortened(id), shortened(name));
    CallSpan { id, tool, start, end: None, outcome: None, error: None }
}
