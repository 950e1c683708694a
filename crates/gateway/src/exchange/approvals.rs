//! Responses that end with requests for approval, and those that continue after them.

use toolwire_agent::approval::PendingCall;
use toolwire_agent::run::Run;
use toolwire_contract::model::{StopReason, ToolChoice};
use toolwire_contract::{Block, Role};
use toolwire_dialect::client::{ClientError, ClientEvent, ErrorKind, ServerCall};

use super::{Exchange, ExchangeContext};
use crate::hidden_rounds::ShownId;
use crate::paused_runs::{ApprovalRequests, PausedCall, PausedRun, ResponseProgress, ResumedRun};
use crate::recent::NotStored;
use crate::state::{HeldClaim, KeptMessages, StoredPause};

/// The decisions that a response continues after, and the response so far. It is stored if the client does
/// not get the response, so that the client can repeat its request.
pub(super) struct Continued {
    requests: ApprovalRequests,
    /// The progress before the decisions; `None` as soon as the response has advanced.
    pub(super) before: Option<ResponseProgress>,
    /// The events of the response.
    events: Vec<ClientEvent>,
    /// Whether these are all events.
    pub(super) is_complete: bool,
}

impl Continued {
    /// Records that the response has advanced. The right to continue stays with this process.
    pub(super) fn advance(&mut self, claim: Option<HeldClaim>) {
        self.before = None;
        if let Some(holder) = claim.and_then(HeldClaim::keep) {
            self.requests.claim_holder = Some(holder);
        }
    }

    /// Records that the model has responded: the decisions apply only to the calls before that.
    pub(super) fn model_responded(&mut self) {
        self.requests.is_applied = true;
    }

    pub(super) fn record(&mut self, event: &ClientEvent) {
        match (self.events.last_mut(), event) {
            (Some(ClientEvent::Text(text)), ClientEvent::Text(more))
            | (Some(ClientEvent::Thinking(text)), ClientEvent::Thinking(more)) => text.push_str(more),
            _ => self.events.push(event.clone()),
        }
    }

    /// Returns the request for the approval of a call. Providers may use an id again for a later call.
    pub(super) fn approval_of(&self, call_id: &str) -> Option<String> {
        if self.requests.is_applied {
            return None;
        }
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
        let is_complete = matches!(progress, ResponseProgress::Complete(_));
        let (mut exchange, events) = match progress {
            ResponseProgress::Waiting(run) => (Exchange::new(agent, *run, history, context), Vec::new()),
            ResponseProgress::Interrupted { run, events, started } => {
                let mut exchange = Exchange::new(agent, *run, history, context);
                exchange.started = started;
                (exchange, events)
            }
            ResponseProgress::Complete(events) => (Exchange::without_run(agent, history, context), events),
        };
        exchange.messages.clone_from(&requests.messages);
        exchange.labels.clone_from(&requests.labels);
        exchange.owns_tools = requests.owns_tools;
        exchange.ready.extend(events.iter().cloned());
        exchange.continued = Some(Continued { requests, before, events, is_complete });
        exchange
    }

    /// Records that the client has received the response: decisions are not accepted again.
    pub(crate) fn delivered(&mut self) {
        self.continued = None;
    }

    /// Whether the response is needed until the client has received it.
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
        let Some((approvals, shown)) = self.approval_requests(calls) else { return };
        let Some((ids, shown_calls)) = self.client_call_events(run.external_calls()) else { return };
        // Providers may use an id again, so the results of earlier calls must not be used for the open ones.
        let client_calls = ids.into_iter().chain(self.earlier_client_calls()).collect();
        let (history, messages) = (std::mem::take(&mut self.history), std::mem::take(&mut self.messages));
        let mut settings = run.settings().clone();
        if settings.tool_choice != ToolChoice::None {
            // The choice applies to the first request only.
            settings.tool_choice = ToolChoice::Auto;
        }
        let labels = self.labels.clone();
        let requests = ApprovalRequests {
            approvals,
            client_calls,
            history,
            messages,
            has_user_content: false,
            is_applied: false,
            labels,
            settings,
            owns_tools: self.owns_tools,
            claim_holder: None,
        };
        if self.context.response_id.is_some() {
            let pause = StoredPause::new(&run, &self.agent, &requests);
            let messages = requests.history.iter().chain(&requests.messages).cloned().collect();
            self.kept = Some(KeptMessages { messages, client_calls: Vec::new(), pause: Some(pause) });
        }
        if let Err(error) = self.pause(requests, ResponseProgress::Waiting(Box::new(run))) {
            // The client could not approve anything. Calls that ran must not run again, so its decisions stay
            // used.
            self.continued = None;
            let message = format!(
                "calls of the response need approval, and the conversation cannot be stored until then: {error}"
            );
            let kind = match error {
                NotStored::TooLarge { .. } => ErrorKind::TooLarge,
                NotStored::NoRoom { .. } => ErrorKind::Overloaded,
            };
            return self.fail(ClientError::new(kind, message));
        }
        shown.into_iter().chain(shown_calls).for_each(|event| self.emit(event));
        self.done(StopReason::End);
    }

    /// Returns the calls that wait for approval, and the events that show them; `None` if the response has
    /// failed.
    fn approval_requests(&mut self, calls: &[PendingCall]) -> Option<(Vec<PausedCall>, Vec<ClientEvent>)> {
        let (mut approvals, mut events) = (Vec::new(), Vec::new());
        for call in calls {
            // Any gateway finds the stored response by the id of its request.
            let request_id = match self.context.response_id.as_deref().and_then(|id| id.strip_prefix("resp_"))
            {
                Some(random) => format!("mcpr_{random}{}", approvals.len()),
                None => self.new_id("mcpr_")?,
            };
            let server = self.agent.tools().server_of(&call.name);
            let server = server.map(|server| self.label(server.name)).unwrap_or_default();
            let name = self.agent.tools().original_name(&call.name).unwrap_or_else(|| call.name.clone());
            events.push(ClientEvent::ApprovalRequest {
                id: request_id.clone(),
                server,
                name,
                arguments: call.arguments.clone(),
            });
            approvals.push(PausedCall { request_id, call_id: call.id.clone() });
        }
        Some((approvals, events))
    }

    fn pause(&self, requests: ApprovalRequests, progress: ResponseProgress) -> Result<(), NotStored> {
        let paused = PausedRun { agent: self.agent.clone(), requests, progress };
        self.context.paused.store(&self.context.principal, paused)
    }

    /// Stores the run again if the client does not get the response to its decisions, so that it can repeat
    /// its request. Calls that have results do not run again.
    pub(super) fn keep_approved(&mut self) {
        if self.continued.is_some()
            && let Some(mut run) = self.run.take()
        {
            // Reads the events that were already emitted, so that their calls do not run again.
            run.take_emitted().into_iter().for_each(|event| self.read(event));
        }
        let Some(continued) = self.continued.take() else { return };
        self.has_called = false;
        let (requests, progress) = self.interrupted(continued);
        if let Err(error) = self.pause(requests, progress) {
            tracing::warn!(%error, "the response to an approval cannot be requested again");
        }
    }

    /// Returns the progress of a response that the client did not get.
    fn interrupted(&mut self, continued: Continued) -> (ApprovalRequests, ResponseProgress) {
        let Continued { mut requests, before, mut events, is_complete } = continued;
        if let Some(before) = before {
            return (requests, before);
        }
        if is_complete {
            let ApprovalRequests { approvals, owns_tools, claim_holder, .. } = requests;
            let requests =
                ApprovalRequests { approvals, owns_tools, claim_holder, ..ApprovalRequests::default() };
            return (requests, ResponseProgress::Complete(events));
        }
        let earlier = std::mem::replace(&mut requests.messages, std::mem::take(&mut self.messages));
        // The last text may be incomplete; the model writes it again.
        requests.messages.pop_if(|last| last.role == Role::Assistant && last.calls().next().is_none());
        let added = requests.messages.iter().skip(earlier.len()).filter(|message| message.role == Role::User);
        let mut added = added.flat_map(|message| &message.content);
        requests.has_user_content |= added.any(|block| matches!(block, Block::Content(_)));
        let messages = requests.history.iter().chain(&requests.messages).cloned();
        let (settings, limits) = (requests.settings.clone(), self.agent.model().limits());
        let run =
            Run::resume_with_started(settings, messages, self.agent.tools().tools(), limits, &self.started);
        events.retain(|event| matches!(event, ClientEvent::ServerCall(_)));
        let started = std::mem::take(&mut self.started);
        (requests, ResponseProgress::Interrupted { run: Box::new(run), events, started })
    }
}

/// Keeps approved calls if the client disconnects before it has received its response.
impl Drop for Exchange {
    fn drop(&mut self) {
        self.keep_approved();
    }
}
