//! Responses that end with requests for approval, and those that continue after them.

use toolwire_agent::{PendingCall, Run};
use toolwire_contract::{Role, StopReason, ToolChoice};
use toolwire_dialect::{ClientEvent, ServerCall};

use super::{Exchange, ExchangeContext};
use crate::hidden_rounds::ShownId;
use crate::paused_runs::{ApprovalRequests, PausedCall, PausedRun, Progress, ResumedRun};

/// The decisions that a response continues after, and the response so far. It is stored if the client does not get the
/// response, so that the client can repeat its request.
pub(super) struct Continued {
    requests: ApprovalRequests,
    /// The progress before the decisions, until something happens.
    pub(super) before: Option<Progress>,
    /// The events of the response.
    events: Vec<ClientEvent>,
    /// Whether these are all events.
    pub(super) is_complete: bool,
}

impl Continued {
    pub(super) fn record(&mut self, event: &ClientEvent) {
        match (self.events.last_mut(), event) {
            (Some(ClientEvent::Text(text)), ClientEvent::Text(more))
            | (Some(ClientEvent::Thinking(text)), ClientEvent::Thinking(more)) => text.push_str(more),
            _ => self.events.push(event.clone()),
        }
    }

    /// Returns the request for the approval of a call. Providers may use an id again for a later call.
    pub(super) fn approval_of(&self, call_id: &str) -> Option<String> {
        let mut shown = self.events.iter().filter_map(|event| match event {
            ClientEvent::ServerCall(ServerCall { approval_id: Some(id), .. }) => Some(id),
            _ => None,
        });
        let approval = self.requests.approvals.iter().find(|call| call.call_id == call_id)?;
        shown.all(|id| *id != approval.request_id).then(|| approval.request_id.clone())
    }
}

impl Exchange {
    /// Continues a run whose calls the client has decided about.
    pub(crate) fn resume(resumed: ResumedRun, context: ExchangeContext) -> Exchange {
        let ResumedRun { agent, requests, progress, before } = resumed;
        let history = requests.history.clone();
        let (mut exchange, events, is_complete) = match progress {
            Progress::Waiting(run) => (Exchange::new(agent, *run, history, context), Vec::new(), false),
            Progress::Interrupted(run, events) => {
                (Exchange::new(agent, *run, history, context), events, false)
            }
            Progress::Complete(events) => (Exchange::without_run(agent, history, context), events, true),
        };
        exchange.messages.clone_from(&requests.messages);
        exchange.labels.clone_from(&requests.labels);
        exchange.owns_tools = requests.owns_tools;
        exchange.ready.extend(events.iter().cloned());
        exchange.continued = Some(Continued { requests, before, events, is_complete });
        exchange
    }

    /// Records that the client has got the response: decisions are not accepted again.
    pub(crate) fn delivered(&mut self) {
        self.continued = None;
    }

    /// Whether the response is needed until the client has got it.
    pub(crate) fn is_continued(&self) -> bool {
        self.continued.is_some()
    }

    /// Returns the client's calls before an approval, which have their results.
    pub(super) fn earlier_client_calls(&self) -> Vec<ShownId> {
        let calls = self.continued.iter().flat_map(|continued| &continued.requests.client_calls);
        calls.map(|(shown, _)| (shown.clone(), None)).collect()
    }

    /// Ends the response with requests for approval, and stores the run until the client decides.
    pub(super) fn ask_for_approval(&mut self, calls: &[PendingCall], run: Run) {
        let mut approvals = Vec::new();
        for call in calls {
            let Some(request_id) = self.new_id("mcpr_") else { return };
            let server = self.agent.tools().server_of(&call.name);
            let server = server.map(|server| self.label(server.name)).unwrap_or_default();
            let name = self.agent.tools().original_name(&call.name).unwrap_or_else(|| call.name.clone());
            self.emit(ClientEvent::ApprovalRequest {
                id: request_id.clone(),
                server,
                name,
                arguments: call.arguments.clone(),
            });
            approvals.push(PausedCall { request_id, call_id: call.id.clone() });
        }
        let Some(client_calls) = self.show_client_calls(run.external_calls()) else { return };
        let client_calls = client_calls.into_iter().map(|(shown, original)| (shown, Some(original)));
        // Providers may use an id again, so the results of earlier calls must not be used for the open ones.
        let client_calls = client_calls.chain(self.earlier_client_calls()).collect();
        let (history, messages) = (std::mem::take(&mut self.history), std::mem::take(&mut self.messages));
        let mut settings = run.settings().clone();
        if settings.tool_choice != ToolChoice::None {
            // The choice applies to the first request only.
            settings.tool_choice = ToolChoice::Auto;
        }
        let labels = self.labels.clone();
        let owns_tools = self.owns_tools;
        let requests =
            ApprovalRequests { approvals, client_calls, history, messages, settings, labels, owns_tools };
        self.pause(requests, Progress::Waiting(Box::new(run)));
        self.done(StopReason::End);
    }

    fn pause(&self, requests: ApprovalRequests, progress: Progress) {
        let paused = PausedRun { agent: self.agent.clone(), requests, progress };
        self.context.paused.store(&self.context.principal, paused);
    }

    /// Stores the run again if the client does not get the response to its decisions, so that it can repeat its request.
    /// Calls that have results do not run again.
    pub(super) fn keep_approved(&mut self) {
        if self.continued.is_some()
            && let Some(mut run) = self.run.take()
        {
            // What has happened must not happen again.
            run.take_emitted().into_iter().for_each(|event| self.read(event));
        }
        let Some(Continued { mut requests, before, mut events, is_complete }) = self.continued.take() else {
            return;
        };
        self.has_called = false;
        if let Some(before) = before {
            return self.pause(requests, before);
        }
        if is_complete {
            let ApprovalRequests { approvals, owns_tools, .. } = requests;
            let requests = ApprovalRequests { approvals, owns_tools, ..ApprovalRequests::default() };
            return self.pause(requests, Progress::Complete(events));
        }
        requests.messages = std::mem::take(&mut self.messages);
        // The last text may be incomplete; the model writes it again.
        requests.messages.pop_if(|last| last.role == Role::Assistant && last.calls().next().is_none());
        let messages = requests.history.iter().chain(&requests.messages).cloned();
        let settings = requests.settings.clone();
        let run = Run::resume(settings, messages, self.agent.tools().tools(), self.agent.model().limits());
        events.retain(|event| matches!(event, ClientEvent::ServerCall(_)));
        self.pause(requests, Progress::Interrupted(Box::new(run), events));
    }
}

/// Keeps approved calls if the client disconnects before it has got its response.
impl Drop for Exchange {
    fn drop(&mut self) {
        self.keep_approved();
    }
}
