//! What happens next in a run: decides, and never awaits.
//!
//! A run may be saved at any point ([`Run::to_json`]) and go on in another process. `history` has the one way in which
//! messages follow each other, `ask` what the model is asked and `offer` the tools it is shown, `step` and `calls` what becomes
//! of the calls of one answer, `turn` what a message of the person has cost and when it is enough, `view` what others may know
//! of a run.

mod ask;
mod calls;
mod history;
mod offer;
mod step;
mod turn;
mod view;

use std::mem;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwire_contract::{
    Block, Content, ConversationId, Message, MissingServer, ModelLimits, ModelRequest, ModelResponse, Role,
    StopReason, Tool, ToolCall, ToolResult, Usage,
};

use crate::approval::{Decision, PendingCall};
use crate::memory::Memory;
use crate::outcome::{Ending, Failure, Limit, Outcome, RunError};
use crate::settings::Settings;
use calls::{CallState, OpenCall};
pub use history::mend;
pub(crate) use offer::Catalog;
use offer::Offer;
use turn::Turn;

/// One conversation with a model and its tools, at any point of it: a value that decides and never awaits.
///
/// [`Run::step`] says what is to be done, and whoever does it tells the run what came of it. Whatever it is told, in
/// whatever order: every call of the model has exactly one result, in the message after it, in the order of the calls;
/// messages of the user and of the assistant take turns; nothing that was said is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    settings: Settings,
    history: Vec<Arc<Message>>,
    state: State,
    /// The calls of the last message, until all of them have results.
    calls: Vec<OpenCall>,
    turn: Turn,
    usage: Usage,
    /// Tools that a person allowed for good.
    always: Vec<String>,
    offer: Offer,
    memory: Memory,
    conversation: Option<ConversationId>,
    /// How many messages of the conversation are kept.
    position: u64,
    unsaved: Vec<Unsaved>,
    #[serde(skip)]
    catalog: Catalog,
    /// Servers that are away, by name.
    #[serde(skip)]
    away: Vec<String>,
    /// Calls that were answered without being made, for the driver to tell.
    #[serde(skip)]
    told: Vec<(String, String, ToolResult)>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model, tell each piece of its text to [`Run::model_wrote`], and its answer to [`Run::model_said`].
    AskModel(ModelRequest),
    /// Ask a person about these calls, and tell [`Run::person_said`].
    Review(Vec<PendingCall>),
    /// Make these calls, and tell [`Run::tools_returned`].
    CallTools(Vec<(String, ToolCall)>),
    /// Nothing, until somebody says something ([`Run::say`]).
    Done(Outcome),
}

/// A message that is complete and not yet kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsaved {
    pub message: Arc<Message>,
    pub usage: Option<Usage>,
}

/// Text that is no run.
#[derive(Debug, thiserror::Error)]
#[error("this is no saved run: {0}")]
pub struct InvalidRun(#[from] serde_json::Error);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    /// Nobody has said anything that needs an answer.
    Idle,
    Working,
    Done(Ending),
}

impl Run {
    /// A run in which nothing has been said.
    pub fn new(settings: Settings) -> Run {
        Run {
            settings,
            history: Vec::new(),
            state: State::Idle,
            calls: Vec::new(),
            turn: Turn::default(),
            usage: Usage::default(),
            always: Vec::new(),
            offer: Offer::default(),
            memory: Memory::default(),
            conversation: None,
            position: 0,
            unsaved: Vec::new(),
            catalog: Catalog::default(),
            away: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Goes on with messages that are kept already. Where they end in the middle of a step, so does the run: results that
    /// are there count, a call without one is made again if its tool may be repeated (`readOnlyHint`, `idempotentHint`),
    /// and else the model is told that its outcome is not known.
    pub fn resume(
        settings: Settings,
        messages: impl IntoIterator<Item = impl Into<Arc<Message>>>,
        tools: Arc<[Tool]>,
        limits: ModelLimits,
    ) -> Run {
        let mut run = Run { history: history::assemble(messages), ..Run::new(settings) };
        run.set_tools(tools, limits);
        run.offer.remember(&run.history);
        run.open_last_calls();
        if !run.calls.is_empty() || run.history.last().is_some_and(|message| message.role == Role::User) {
            run.state = State::Working;
        }
        run.close_step();
        run
    }

    /// The run as text, to be resumed wherever its tools are.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a run is text, numbers and messages, which are always JSON")
    }

    /// Reads what [`Run::to_json`] wrote. A call that was being made then is dealt with as [`Run::resume`] says; one that
    /// waited for a person still does.
    pub fn from_json(text: &str) -> Result<Run, InvalidRun> {
        let mut run: Run = serde_json::from_str(text)?;
        run.turn.partial.clear();
        for call in &mut run.calls {
            if call.state == CallState::Started {
                call.state =
                    if call.repeatable { CallState::Ready } else { calls::outcome_unknown(&call.call.name) };
            }
        }
        run.close_step();
        Ok(run)
    }

    /// The tools as they are now, and what the model takes. They are not part of what is saved, so a run that was read
    /// from JSON needs them first; without, it offers none.
    pub fn set_tools(&mut self, tools: Arc<[Tool]>, limits: ModelLimits) {
        self.catalog = self.catalog.updated(tools, limits);
    }

    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// Which parts of the toolbox are away. The model is told, by name alone: the reasons change from one moment to the
    /// next, and a request that changes is read anew by the provider.
    pub fn set_missing(&mut self, missing: &[MissingServer]) {
        self.away = missing.iter().map(|missing| missing.server.clone()).collect();
    }

    /// The person says something, and the model is to answer. Whatever is still open is cancelled first.
    pub fn say(&mut self, text: impl Into<String>) {
        self.say_message(Message::user(text));
    }

    /// The same, with whatever a message may hold. Its role is the user's; results in it are left out.
    pub fn say_message(&mut self, mut message: Message) {
        self.cancel();
        message.role = Role::User;
        message.content.retain(|block| matches!(block, Block::Content(_)));
        self.turn = Turn::default();
        self.add(message, None);
        self.state = State::Working;
    }

    /// What is to be done next. The same until the run is told something.
    pub fn step(&mut self) -> Step {
        if let State::Idle | State::Done(_) = self.state {
            return Step::Done(self.outcome());
        }
        let waiting = self.waiting();
        if !waiting.is_empty() {
            return Step::Review(waiting);
        }
        let mut ready = Vec::new();
        for call in &mut self.calls {
            if matches!(call.state, CallState::Ready | CallState::Started) {
                call.state = CallState::Started;
                ready.push((call.id.clone(), call.call.clone()));
            }
        }
        if !ready.is_empty() {
            return Step::CallTools(ready);
        }
        Step::AskModel(self.request())
    }

    /// A piece of the answer's text has come. It is kept if the answer never becomes whole.
    pub fn model_wrote(&mut self, text: &str) {
        if self.is_asking() {
            self.turn.partial.push_str(text);
        }
    }

    /// The answer has come. One that was not asked for is passed over.
    pub fn model_said(&mut self, answer: ModelResponse) {
        if !self.is_asking() {
            return;
        }
        let ModelResponse { mut message, stop, usage, unusable } = answer;
        message.role = Role::Assistant;
        // By their places, as two calls may have come with the same id.
        let problems: Vec<Option<String>> = message
            .calls()
            .map(|(id, _)| unusable.iter().find(|one| one.id == id).map(|one| one.problem.clone()))
            .collect();
        history::give_each_call_an_id(&mut message);
        self.turn.partial.clear();
        self.turn.steps += 1;
        self.turn.stop = Some(stop.clone());
        self.count(&message, usage);
        let limit = self.limit_reached();
        if history::says_nothing(&message) {
            self.model_said_nothing(&stop, limit);
            return;
        }
        self.turn.empty = 0;
        self.turn.text = text_of(&message);
        let calls: Vec<(String, ToolCall)> =
            message.calls().map(|(id, call)| (id.to_owned(), call.clone())).collect();
        let paid = mem::take(&mut self.turn.unattributed);
        self.add(message, (paid != Usage::default()).then_some(paid));
        if calls.is_empty() {
            let was_cut = stop == StopReason::Length;
            self.end(if was_cut { Ending::Stopped(Limit::Output) } else { Ending::Finished });
            return;
        }
        for ((id, call), problem) in calls.into_iter().zip(problems) {
            let open = self.judge(id, call, problem.as_deref(), limit);
            self.calls.push(open);
        }
        self.close_step();
        if let Some(limit) = limit {
            self.end(Ending::Stopped(limit));
        }
    }

    /// A person has decided. What nobody waits for is passed over.
    pub fn person_said(&mut self, id: &str, decision: Decision) {
        // A no counts until the call is made, also when a yes to another call has let this one through.
        let is_no = matches!(decision, Decision::No { .. } | Decision::Nobody { .. });
        let is_open = |call: &OpenCall| call.is_waiting() || (is_no && call.state == CallState::Ready);
        let Some(call) = self.calls.iter_mut().find(|call| call.id == id && is_open(call)) else {
            return;
        };
        let name = call.call.name.clone();
        match decision {
            Decision::Once => call.state = CallState::Ready,
            Decision::Always => {
                if !self.always.contains(&name) {
                    self.always.push(name.clone());
                }
                for call in self.calls.iter_mut().filter(|call| call.call.name == name && call.is_waiting()) {
                    call.state = CallState::Ready;
                }
            }
            Decision::No { because } => call.state = calls::refused(&name, because.as_deref()),
            Decision::Nobody { why } => call.state = calls::undecided(&name, &why),
        }
        self.close_step();
    }

    /// Calls have their results; they may come in any order and in any number of parts. One for a call that is not being
    /// made, or has its result, is passed over.
    pub fn tools_returned(&mut self, results: impl IntoIterator<Item = (String, ToolResult)>) {
        for (id, result) in results {
            let Some(call) = self.calls.iter_mut().find(|call| call.id == id && call.is_being_made()) else {
                continue;
            };
            let result = calls::of_few_levels(result);
            let result = calls::with_note_on_repeated_failure(&call.call, result, &mut self.turn.failures);
            call.state = CallState::Answered { result, is_told: true };
        }
        self.close_step();
    }

    /// Somebody stops it. What the model has written stays, as an interrupted message; each open call gets a result.
    pub fn cancel(&mut self) {
        if self.state == State::Working {
            self.give_up(Ending::Cancelled);
        }
    }

    /// It cannot go on. The history is as consistent as after [`Run::cancel`].
    pub fn fail(&mut self, error: impl Into<RunError>) {
        let failure = Failure::from(error.into());
        if self.state == State::Working {
            self.give_up(Ending::Failed(failure));
        } else {
            self.state = State::Done(Ending::Failed(failure));
        }
    }

    fn is_asking(&self) -> bool {
        self.state == State::Working && self.calls.is_empty()
    }

    /// Adds a complete message to the history and to what is to be kept.
    fn add(&mut self, message: Message, usage: Option<Usage>) {
        let message = Arc::new(message);
        history::push(&mut self.history, message.clone());
        self.unsaved.push(Unsaved { message, usage });
    }

    fn end(&mut self, ending: Ending) {
        self.state = State::Done(ending);
    }

    fn give_up(&mut self, ending: Ending) {
        let partial = mem::take(&mut self.turn.partial);
        if !partial.trim().is_empty() {
            let mut message = Message::assistant(&*partial);
            message.extra.insert("_meta".to_owned(), interrupted());
            self.turn.text = partial;
            let paid = mem::take(&mut self.turn.unattributed);
            self.add(message, (paid != Usage::default()).then_some(paid));
        }
        for call in &mut self.calls {
            call.give_up();
        }
        self.close_step();
        self.end(ending);
    }
}

/// Two runs are the same when they would be saved the same: where their tools come from is not part of a run.
impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.to_json() == other.to_json()
    }
}

fn interrupted() -> Value {
    Value::Object(Map::from_iter([("toolwire/interrupted".to_owned(), Value::Bool(true))]))
}

/// The text of a message, without thinking.
fn text_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
