//! The calls of a response in progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use toolwire_agent::approval::{ApprovalPolicy, PendingCall, Verdict};
use toolwire_agent::run::{edited_arguments, is_denied, is_outcome_unknown};
use toolwire_contract::toolbox::{Progress, Toolbox};
use toolwire_contract::{Tool, ToolCall, ToolResult};
use toolwire_page::Markup;
use toolwire_page::chat::{self, Call, CallState, PendingApproval};
use toolwire_page::form::Filling;

use crate::page::events::Event;
pub(super) use questions::OpenQuestion;

mod questions;

/// The position of a call: of its message, and its own in the message.
pub(super) type CallKey = (u64, usize);

/// The calls of a response.
pub(super) struct Calls {
    conversation: String,
    tools: Arc<dyn Toolbox>,
    policy: ApprovalPolicy,
    /// The tools that always run in this conversation.
    always: Vec<String>,
    calls: BTreeMap<CallKey, LiveCall>,
    next_question: u64,
    /// Questions of calls whose start the run has not reported yet, with the ids of the calls.
    early_questions: Vec<(String, OpenQuestion)>,
}

struct LiveCall {
    id: String,
    name: String,
    arguments: Map<String, Value>,
    /// The arguments with which it runs, if they are not the model's.
    edited: Option<Map<String, Value>>,
    state: LiveState,
    /// The questions of its server that have no reply yet.
    questions: Vec<OpenQuestion>,
}

enum LiveState {
    /// It starts when others have ended.
    Queued,
    Waiting {
        why: String,
    },
    /// A person has decided; the run has not used the decision yet.
    Decided,
    Running {
        since: SystemTime,
        progress: Option<Progress>,
        is_sent: bool,
    },
    Ended {
        result: ToolResult,
        elapsed: Option<Duration>,
    },
}

impl LiveCall {
    fn is_waiting(&self) -> bool {
        matches!(self.state, LiveState::Waiting { .. })
    }
}

impl Calls {
    pub(super) fn new(conversation: String, tools: Arc<dyn Toolbox>, policy: ApprovalPolicy) -> Calls {
        Calls {
            conversation,
            tools,
            policy,
            always: Vec::new(),
            calls: BTreeMap::new(),
            next_question: 1,
            early_questions: Vec::new(),
        }
    }

    pub(super) fn always(&self) -> &[String] {
        &self.always
    }

    /// Removes all calls, for a new response.
    pub(super) fn clear(&mut self, always: &[String]) {
        self.calls.clear();
        self.early_questions.clear();
        self.always = always.to_vec();
    }

    /// Adds the calls of a message. Those that the policy does not allow wait for a decision from now on; the
    /// run asks for it when the others have ended.
    pub(super) fn add<'c>(&mut self, message: u64, calls: impl Iterator<Item = (&'c str, &'c ToolCall)>) {
        let tools = self.tools.tools();
        for (position, (id, call)) in calls.enumerate() {
            let tool = tools.iter().find(|tool| tool.name == call.name);
            let state = match self.policy.verdict(&call.name, tool) {
                Verdict::Ask(why) if !self.always.contains(&call.name) => LiveState::Waiting { why },
                _ => LiveState::Queued,
            };
            let arguments = call.arguments.clone().unwrap_or_default();
            let (id, name) = (id.to_owned(), call.name.clone());
            let call = LiveCall { id, name, arguments, edited: None, state, questions: Vec::new() };
            self.calls.insert((message, position), call);
        }
    }

    /// Sets which calls wait, after a run was restored.
    pub(super) fn restore(&mut self, pending: &[PendingCall]) {
        for call in self.calls.values_mut() {
            call.state = match pending.iter().find(|pending| pending.id == call.id) {
                Some(pending) => LiveState::Waiting { why: pending.why.clone() },
                None => LiveState::Queued,
            };
        }
    }

    /// Notes the calls that the run waits for, and returns those that did not wait before.
    pub(super) fn wait(&mut self, pending: &[PendingCall]) -> Vec<CallKey> {
        let last = self.calls.last_key_value().map(|((message, _), _)| *message);
        let mut changed = Vec::new();
        for (key, call) in &mut self.calls {
            let Some(pending) = pending.iter().find(|pending| pending.id == call.id) else { continue };
            // Other states have a decision already, which the run uses now.
            if Some(key.0) == last && matches!(call.state, LiveState::Queued) {
                call.state = LiveState::Waiting { why: pending.why.clone() };
                changed.push(*key);
            }
        }
        changed
    }

    /// Returns the id and the name of a call that waits for a decision, and its arguments.
    pub(super) fn waiting(&self, key: CallKey) -> Option<(&str, &str, &Map<String, Value>)> {
        let call = self.calls.get(&key).filter(|call| call.is_waiting())?;
        Some((call.id.as_str(), call.name.as_str(), &call.arguments))
    }

    /// Returns the name of the first call that waits for a decision.
    pub(super) fn first_waiting(&self) -> Option<&str> {
        self.calls.values().find(|call| call.is_waiting()).map(|call| call.name.as_str())
    }

    /// Returns the name of the first call that needs a person: for a decision, or for a reply to its server.
    pub(super) fn first_that_asks(&self) -> Option<&str> {
        let mut calls = self.calls.values();
        calls.find(|call| call.is_waiting() || call.asks()).map(|call| call.name.as_str())
    }

    /// Notes a decision about a call, and about the others of a tool that always runs from now on. Returns
    /// the calls that do not wait any more.
    pub(super) fn decided(&mut self, key: CallKey, always: Option<&str>) -> Vec<CallKey> {
        let mut changed = Vec::new();
        for (other, call) in &mut self.calls {
            if call.is_waiting() && (*other == key || always == Some(call.name.as_str())) {
                call.state = LiveState::Decided;
                changed.push(*other);
            }
        }
        self.always.extend(always.map(str::to_owned));
        changed
    }

    pub(super) fn started(&mut self, id: &str, arguments: &Map<String, Value>) -> Option<CallKey> {
        let state = LiveState::Running { since: SystemTime::now(), progress: None, is_sent: true };
        let key = self.change(id, state)?;
        if let Some(call) = self.calls.get_mut(&key) {
            call.edited = (call.arguments != *arguments).then(|| arguments.clone());
        }
        Some(key)
    }

    pub(super) fn ended(
        &mut self,
        id: &str,
        result: &ToolResult,
        elapsed: Option<Duration>,
    ) -> Option<CallKey> {
        self.change(id, LiveState::Ended { result: result.clone(), elapsed })
    }

    /// Changes the state of the last call with an id. Providers may use an id again.
    fn change(&mut self, id: &str, state: LiveState) -> Option<CallKey> {
        let (key, call) = self.calls.iter_mut().rev().find(|(_, call)| call.id == id)?;
        call.state = state;
        call.questions.clear();
        Some(*key)
    }

    pub(super) fn progress(&mut self, id: &str, reported: &Progress) {
        let call = self.calls.values_mut().rev().find(|call| call.id == id);
        if let Some(LiveState::Running { progress, is_sent, .. }) = call.map(|call| &mut call.state) {
            (*progress, *is_sent) = (Some(reported.clone()), false);
        }
    }

    /// Adds the events of progress that was reported since the last call.
    pub(super) fn flush(&mut self, events: &mut Vec<Event>) {
        for ((message, position), call) in &mut self.calls {
            if let LiveState::Running { progress: Some(progress), is_sent, .. } = &mut call.state
                && !std::mem::replace(is_sent, true)
            {
                let id = format!("call-{message}-{position}-progress");
                events.push(Event::put(id, chat::call_progress(*message, *position, Some(&shown(progress)))));
            }
        }
    }

    /// Returns the cards of the calls of a message.
    pub(super) fn cards(&self, message: u64) -> Vec<Markup> {
        let calls = self.calls.range((message, 0)..=(message, usize::MAX));
        calls.filter_map(|(key, _)| self.card(*key)).collect()
    }

    /// Returns the card of a call of this response.
    pub(super) fn card(&self, key: CallKey) -> Option<Markup> {
        let call = self.calls.get(&key)?;
        let tools = self.tools.tools();
        let tool = tools.iter().find(|tool| tool.name == call.name);
        let why = match &call.state {
            LiveState::Waiting { why } => why.as_str(),
            _ => "",
        };
        let approval = pending_approval(&self.conversation, key, call, why, tool);
        let state = match &call.state {
            LiveState::Queued | LiveState::Decided => CallState::Queued,
            LiveState::Waiting { .. } => CallState::Waiting(&approval),
            LiveState::Running { since, progress, .. } => {
                let questions = call.shown_questions(&self.conversation);
                CallState::Running { since: *since, progress: progress.as_ref().map(shown), questions }
            }
            LiveState::Ended { result, elapsed } => ended(result, *elapsed, call.edited.as_ref()),
        };
        Some(self.draw(key, &call.name, &call.arguments, state))
    }

    /// Returns the form of a call that waits for a decision, with what a person entered.
    pub(super) fn decision_form(&self, key: CallKey, filling: &Filling) -> Option<Markup> {
        let call = self.calls.get(&key)?;
        let LiveState::Waiting { why } = &call.state else { return None };
        let tools = self.tools.tools();
        let tool = tools.iter().find(|tool| tool.name == call.name);
        let approval = pending_approval(&self.conversation, key, call, why, tool);
        Some(chat::approval_form(&approval, Some(filling)))
    }

    /// Returns the card of a call that the model is writing.
    pub(super) fn announced(&self, key: CallKey, name: &str) -> Markup {
        self.draw(key, name, &Map::new(), CallState::Announced)
    }

    fn draw(
        &self,
        (message, position): CallKey,
        name: &str,
        arguments: &Map<String, Value>,
        state: CallState<'_>,
    ) -> Markup {
        let server = self.tools.server_of(name).map(|server| server.name);
        let conversation = &self.conversation;
        chat::call_card(&Call {
            conversation,
            message,
            position,
            name,
            server: server.as_deref(),
            arguments,
            state,
        })
    }
}

fn pending_approval<'q>(
    conversation: &'q str,
    (message, position): CallKey,
    call: &'q LiveCall,
    why: &'q str,
    tool: Option<&'q Tool>,
) -> PendingApproval<'q> {
    let schema = tool.and_then(|tool| tool.input_schema.as_ref());
    let (name, arguments) = (&call.name, &call.arguments);
    PendingApproval { conversation, message, position, name, why, arguments, schema }
}

/// Returns the state of a call with a result. A stored result contains the arguments that a person changed.
pub(super) fn ended<'r>(
    result: &'r ToolResult,
    elapsed: Option<Duration>,
    edited: Option<&'r Map<String, Value>>,
) -> CallState<'r> {
    if is_denied(result) {
        CallState::Denied { result }
    } else if is_outcome_unknown(result) {
        CallState::Unknown { result: Some(result) }
    } else {
        CallState::Done { result, elapsed, edited: edited.or_else(|| edited_arguments(result)) }
    }
}

fn shown(progress: &Progress) -> chat::Progress<'_> {
    chat::Progress { done: progress.done, total: progress.total, message: progress.message.as_deref() }
}
