//! Decides the next step of a run. Never awaits.
//!
//! | module | content |
//! |---|---|
//! | `resume` | runs that continue stored messages or a saved run |
//! | `history` | the order of messages that models accept |
//! | `request` | the next model request |
//! | `catalog`, `offered_tools` | all tools, and the tools of a request |
//! | `step`, `calls` | the calls of one response, until each has a result |
//! | `summarize` | the summary of earlier turns |
//! | `output` | the required format of the final response |
//! | `turn` | the usage and the limits of one user message |
//! | `ending` | the end of a run |
//! | `accessors` | the public state of a run |

mod accessors;
mod calls;
mod catalog;
mod ending;
mod history;
mod offered_tools;
mod output;
mod request;
mod resume;
mod step;
mod summarize;
mod turn;

use std::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::model::{ModelLimits, ModelRequest, ModelResponse, StopReason, Usage};
use toolwire_contract::toolbox::MissingServer;
use toolwire_contract::{Block, Message, Role, Tool, ToolCall, ToolResult};

use crate::approval::{Decision, PendingCall};
use crate::context_window::ContextWindow;
use crate::outcome::{Ending, RunLimit, RunOutcome};
use crate::settings::AgentSettings;
use calls::{CallState, OpenCall};
pub use calls::{InvalidArguments, edited_arguments, is_denied, is_outcome_unknown};
pub(crate) use catalog::Catalog;
pub(crate) use history::is_result;
pub use history::{is_summary, is_user_input, normalize};
use offered_tools::OfferedTools;
use step::StepCalls;
use turn::Turn;

/// The state of a conversation with a model and its tools. It decides the next step and never awaits.
///
/// [`Run::step`] returns the next step. The caller performs it and reports what happened. In whatever order
/// things are reported, every call has exactly one result in the message after it, in the order of the calls;
/// messages of the user and of the assistant alternate; and no message is lost.
///
/// A run can be saved at any point ([`Run::to_json`]) and continued in another process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    settings: AgentSettings,
    history: Vec<Arc<Message>>,
    state: RunState,
    /// The calls of the last message, until all of them have results.
    calls: Vec<OpenCall>,
    turn: Turn,
    usage: Usage,
    /// The tools that the user allowed permanently.
    always: Vec<String>,
    #[serde(rename = "offer")]
    offered_tools: OfferedTools,
    #[serde(rename = "memory")]
    context_window: ContextWindow,
    conversation: Option<ConversationId>,
    /// The number of stored messages of the conversation.
    position: u64,
    unsaved: Vec<UnsavedMessage>,
    #[serde(skip)]
    catalog: Catalog,
    #[serde(skip)]
    unavailable_servers: Vec<String>,
    /// The id, name and result of calls that were not made, until the driver emits them.
    #[serde(skip)]
    unreported_results: Vec<(String, String, ToolResult)>,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq)]
// A run has one step at a time, so its size does not matter.
#[allow(clippy::large_enum_variant)]
pub enum Step {
    /// Send this request; report each text fragment to [`Run::model_wrote`] and the response to
    /// [`Run::model_responded`].
    AskModel(ModelRequest),
    /// Make these calls, given with their ids, and report the results to [`Run::tools_returned`]. Other calls
    /// of the response may wait for approval ([`Run::pending_calls`]).
    CallTools(Vec<(String, ToolCall)>),
    /// Get decisions about these calls and report them to [`Run::decide`].
    Review(Vec<PendingCall>),
    /// Get the results of these calls, given with their ids, from the caller, which runs the client tools
    /// ([`AgentSettings::client_tools`]), and report them to [`Run::tools_returned`].
    AwaitResults(Vec<(String, ToolCall)>),
    /// Nothing, until the user writes another message ([`Run::say`]).
    Done(RunOutcome),
}

/// A complete message that is not yet stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnsavedMessage {
    pub message: Arc<Message>,
    pub usage: Option<Usage>,
}

/// A text that is not a saved run.
#[derive(Debug, thiserror::Error)]
#[error("not a saved run: {0}")]
pub struct InvalidRun(#[from] serde_json::Error);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RunState {
    /// There is no message to respond to.
    #[default]
    Idle,
    Working,
    Done(Ending),
}

impl Run {
    /// Creates a run without messages.
    pub fn new(settings: AgentSettings) -> Run {
        Run { settings, ..Run::default() }
    }

    /// Sets the available tools and the limits of the model. They are not saved with the run, so set them
    /// after [`Run::from_json`]; until then, the model gets no tools.
    pub fn set_tools(&mut self, tools: Arc<[Tool]>, limits: ModelLimits) {
        self.catalog = self.catalog.updated(tools, limits, |_| None);
    }

    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// Sets the unavailable servers. The instructions contain only their names, because the reasons change
    /// often and a changed request cannot use the provider's prompt cache.
    pub fn set_missing_servers(&mut self, missing: &[MissingServer]) {
        self.unavailable_servers = missing.iter().map(|missing| missing.server.clone()).collect();
    }

    /// Adds a message of the user, which the model will respond to. Cancels everything that is still open.
    pub fn say(&mut self, text: impl Into<String>) {
        self.say_message(Message::user(text));
    }

    /// Like [`Run::say`], with any content. The role becomes `user`; calls and results in the message are
    /// ignored.
    pub fn say_message(&mut self, mut message: Message) {
        self.cancel();
        message.role = Role::User;
        message.content.retain(|block| matches!(block, Block::Content(_)));
        self.turn = Turn::default();
        self.add(message, None);
        self.state = RunState::Working;
    }

    /// Adds content of the user to the current turn, after the results of its open calls. Nothing is
    /// cancelled. Calls and results in it are ignored. After the turn, use [`Run::say_message`].
    pub fn say_with_results(&mut self, content: impl IntoIterator<Item = Block>) {
        if self.is_done() {
            return;
        }
        self.turn.said.extend(content.into_iter().filter(|block| matches!(block, Block::Content(_))));
        self.record_results();
    }

    /// Returns the next step. It stays the same until something is reported to the run.
    pub fn step(&mut self) -> Step {
        if self.is_done() {
            return Step::Done(self.outcome());
        }
        let mut ready = Vec::new();
        for call in self.calls.iter_mut().filter(|call| call.is_in_progress()) {
            call.state = CallState::Started;
            ready.push((call.id.clone(), call.call.clone()));
        }
        if !ready.is_empty() {
            return Step::CallTools(ready);
        }
        let pending = self.pending_calls();
        if !pending.is_empty() {
            return Step::Review(pending);
        }
        let external = self.external_calls();
        if !external.is_empty() {
            return Step::AwaitResults(external);
        }
        Step::AskModel(self.request())
    }

    /// Returns the calls that were approved since the last step. They are in progress from now on.
    pub(crate) fn start_approved(&mut self) -> Vec<(String, ToolCall)> {
        let approved = self.calls.iter_mut().filter(|call| call.state == CallState::Ready);
        let start = |call: &mut OpenCall| {
            call.state = CallState::Started;
            (call.id.clone(), call.call.clone())
        };
        approved.map(start).collect()
    }

    /// Reports a fragment of the response's text. It stays in the history if the response is never completed.
    pub fn model_wrote(&mut self, text: &str) {
        if self.expects_response() {
            self.turn.partial.push_str(text);
        }
    }

    /// Reports the response of the model. It is ignored if none is expected.
    pub fn model_responded(&mut self, response: ModelResponse) {
        if !self.expects_response() {
            return;
        }
        let ModelResponse { mut message, stop, usage, unusable } = response;
        message.role = Role::Assistant;
        // Matched before the ids become unique, because two calls may have the same id.
        let problems: Vec<Option<String>> = message
            .calls()
            .map(|(id, _)| unusable.iter().find(|call| call.id == id).map(|call| call.problem.clone()))
            .collect();
        history::make_call_ids_unique(&mut message);
        self.turn.partial.clear();
        self.turn.steps += 1;
        self.turn.stop = Some(stop.clone());
        self.count_usage(&message, usage);
        let limit = self.limit_reached();
        if history::is_empty_response(&message) {
            self.handle_empty_response(&stop, limit);
            return;
        }
        self.turn.empty = 0;
        self.turn.text = text_of(&message);
        let calls: Vec<(String, ToolCall)> =
            message.calls().map(|(id, call)| (id.to_owned(), call.clone())).collect();
        if calls.is_empty() && stop == StopReason::Paused {
            // The next request ends with this message, and the model continues it.
            self.add_response(message);
            self.end_at_limit(limit);
            return;
        }
        if calls.is_empty() {
            let Some(message) = self.check_output(message, &stop, limit) else { return };
            self.add_response(message);
            let is_cut_off = stop == StopReason::Length;
            self.end(if is_cut_off { Ending::Stopped(RunLimit::Output) } else { Ending::Finished });
            return;
        }
        // Calls replace a response that was rejected.
        self.turn.output.take_rejected();
        self.add_response(message);
        // The caller cannot run a call that was cut off, and the next response would be cut off too.
        let mut external =
            calls.iter().zip(&problems).filter(|((_, call), _)| self.settings.is_client_tool(&call.name));
        let is_cut_off = stop == StopReason::Length && external.any(|(_, problem)| problem.is_some());
        let limit = if is_cut_off { Some(RunLimit::Output) } else { limit };
        let mut step = StepCalls::default();
        for ((id, call), problem) in calls.into_iter().zip(problems) {
            let open = self.open_call(id, call, problem.as_deref(), limit, &mut step);
            self.calls.push(open);
        }
        self.record_results();
        self.end_at_limit(limit);
    }

    /// Lets the model continue its last response, which the provider has paused ([`StopReason::Paused`]).
    /// Nothing happens if the last message is not a response, or if the run has already ended.
    pub fn continue_response(&mut self) {
        let is_response = self.history.last().is_some_and(|last| last.role == Role::Assistant);
        if self.state == RunState::Idle && self.calls.is_empty() && is_response {
            self.state = RunState::Working;
        }
    }

    /// Reports that the request was refused because it is longer than the context window, and the size of the
    /// window if the provider states it. Returns whether the next step is a shorter request; otherwise,
    /// report the error to [`Run::fail`].
    pub fn context_exceeded(&mut self, window: Option<u64>) -> bool {
        let known = self.settings.context.window(self.catalog.limits());
        self.expects_response()
            && self.turn.partial.is_empty()
            && self.context_window.refused(&self.history, window, known)
    }

    /// Reports the decision about a call. It is ignored if the call does not need one.
    pub fn decide(&mut self, id: &str, decision: Decision) {
        // A call that an "always" for another call has approved can still be denied until it is made.
        let is_denial = matches!(decision, Decision::No { .. } | Decision::Unattended { .. });
        let is_open = |call: &OpenCall| call.is_waiting() || (is_denial && call.state == CallState::Ready);
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id && is_open(call)) else {
            return;
        };
        let name = call.call.name.clone();
        match decision {
            Decision::Once => call.state = CallState::Ready,
            Decision::OnceWith { arguments } => {
                match self.catalog.tool(&name).map_or(Ok(()), |tool| calls::check_arguments(tool, &arguments))
                {
                    Ok(()) if call.call.arguments.as_ref() == Some(&arguments) => {
                        call.state = CallState::Ready;
                    }
                    Ok(()) => {
                        call.edit(arguments);
                        call.state = CallState::Ready;
                    }
                    Err(invalid) => call.state = calls::invalid_edit(&name, &invalid),
                }
            }
            Decision::Always => {
                for call in self.calls.iter_mut().filter(|call| call.call.name == name && call.is_waiting()) {
                    call.state = CallState::Ready;
                }
                self.allow_always(name);
            }
            Decision::No { because } => call.state = CallState::denied_by_user(&name, because.as_deref()),
            Decision::Unattended { why } => call.state = CallState::not_approved(&name, &why),
        }
        self.record_results();
    }

    /// Reports results of calls, in any order and in any number of parts. A result is ignored if its call is
    /// not in progress or already has a result.
    pub fn tools_returned(&mut self, results: impl IntoIterator<Item = (String, ToolResult)>) {
        for (id, result) in results {
            let Some(call) = self
                .calls
                .iter_mut()
                .find(|call| call.id == id && (call.is_in_progress() || call.is_external()))
            else {
                continue;
            };
            let result = calls::limit_nesting(call.note_edit(result));
            let result = calls::note_repeated_failure(&call.call, result, &mut self.turn.failures);
            call.state = CallState::Completed { result, is_reported: true };
        }
        self.record_results();
        if self.expects_response() && !self.settings.client_tools.is_empty() {
            self.end_at_limit(self.limit_reached());
        }
    }

    fn expects_response(&self) -> bool {
        self.state == RunState::Working && self.calls.is_empty()
    }

    /// Adds a complete message to the history and to the unsaved messages.
    fn add(&mut self, message: Message, usage: Option<Usage>) {
        let message = Arc::new(message);
        history::push(&mut self.history, message.clone());
        self.unsaved.push(UnsavedMessage { message, usage });
    }

    /// Adds a message of the model, with the usage that is not assigned to a message yet.
    fn add_response(&mut self, message: Message) {
        let usage = mem::take(&mut self.turn.unattributed);
        self.add(message, (usage != Usage::default()).then_some(usage));
    }
}

/// Compares what would be saved; the tools are not part of a run.
impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.to_json() == other.to_json()
    }
}

/// Returns the text of a message, without reasoning.
pub(crate) fn text_of(message: &Message) -> String {
    message.texts().collect()
}
