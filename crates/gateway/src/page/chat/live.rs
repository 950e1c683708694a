//! A response in progress: what it consists of so far, and how open pages learn about it.
//!
//! The state changes and the events of a change are published under one lock, so that a page that is drawn from
//! the state and then reads the later events misses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use toolwire_agent::AgentEvent;
use toolwire_agent::approval::{ApprovalPolicy, PendingCall, Verdict};
use toolwire_contract::toolbox::{Progress, Toolbox};
use toolwire_contract::{Message, Role, ToolCall, ToolResult};
use toolwire_page::Markup;
use toolwire_page::chat::{self, Activity, Call, CallState, Ending, LiveMessage, Question};

use super::input;
use super::writing::Writing;
use crate::page::events::{Event, Events};

/// What is known about a conversation beyond its stored messages.
pub(super) struct Live {
    id: String,
    events: Arc<Events>,
    tools: Arc<dyn Toolbox>,
    policy: ApprovalPolicy,
    title: Option<String>,
    model: String,
    /// The number of stored messages, as far as this response knows.
    position: u64,
    phase: Phase,
    writing: Option<Writing>,
    /// The calls of this response, by the position of their message and their own.
    calls: BTreeMap<(u64, usize), LiveCall>,
    /// The tools that always run in this conversation.
    always: Vec<String>,
}

/// What happens in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Running,
    /// Calls wait for decisions.
    Waiting,
    /// The last response has ended.
    Ended(Option<End>),
}

/// How a response ended, if not with a complete message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Stopped,
    Limited(String),
    Failed { message: String, hint: Option<String> },
}

struct LiveCall {
    id: String,
    name: String,
    arguments: Map<String, Value>,
    state: LiveState,
}

enum LiveState {
    /// It starts when others have ended.
    Queued,
    Waiting { why: String },
    /// A person has decided; the run has not used the decision yet.
    Decided,
    Running { since: SystemTime, progress: Option<Progress>, is_sent: bool },
    Ended { result: ToolResult, elapsed: Option<Duration> },
}

impl Live {
    pub(super) fn new(
        id: String,
        title: Option<String>,
        model: String,
        events: Arc<Events>,
        tools: Arc<dyn Toolbox>,
        policy: ApprovalPolicy,
    ) -> Live {
        Live {
            id,
            events,
            tools,
            policy,
            title,
            model,
            position: 0,
            phase: Phase::Ended(None),
            writing: None,
            calls: BTreeMap::new(),
            always: Vec::new(),
        }
    }

    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn always(&self) -> &[String] {
        &self.always
    }

    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    pub(super) fn activity(&self) -> Activity {
        match self.phase {
            Phase::Running => Activity::Running,
            Phase::Waiting => Activity::Waiting,
            Phase::Ended(_) if self.is_waiting() => Activity::Waiting,
            Phase::Ended(_) => Activity::None,
        }
    }

    /// Whether a call waits for a decision.
    fn is_waiting(&self) -> bool {
        self.calls.values().any(|call| matches!(call.state, LiveState::Waiting { .. }))
    }

    pub(super) fn set_title(&mut self, title: Option<String>) {
        self.title = title;
    }

    /// Starts a response after a number of stored messages.
    pub(super) fn start(&mut self, model: String, position: u64, always: &[String]) {
        self.model = model;
        self.position = position;
        self.always = always.to_vec();
        self.phase = Phase::Running;
        self.calls.clear();
        self.writing = None;
        let buttons = chat::composer_buttons(Some(&self.id), true);
        self.publish([Event::put("composer-buttons", buttons), Event::put("ending", self.ending(None))]);
        self.publish_activity();
    }

    /// Ends the response.
    pub(super) fn end(&mut self, end: Option<End>, retry: Option<u64>) {
        self.writing = None;
        self.phase = Phase::Ended(end);
        let buttons = chat::composer_buttons(Some(&self.id), false);
        self.publish([Event::put("composer-buttons", buttons), Event::put("ending", self.ending(retry))]);
        self.publish_activity();
    }

    /// Returns the line after the last message.
    pub(super) fn ending(&self, retry: Option<u64>) -> Markup {
        let ending = match &self.phase {
            Phase::Ended(Some(end)) => Some(match end {
                End::Stopped => Ending::Stopped,
                End::Limited(limit) => Ending::Limited(limit),
                End::Failed { message, hint } => Ending::Failed { message, hint: hint.as_deref() },
            }),
            _ => None,
        };
        chat::ending(&self.id, retry, ending.as_ref())
    }

    /// Continues with calls that wait for decisions.
    pub(super) fn wait(&mut self, pending: &[PendingCall]) {
        let last = self.calls.last_key_value().map(|((message, _), _)| *message);
        let mut changed = Vec::new();
        for ((message, position), call) in &mut self.calls {
            let Some(pending) = pending.iter().find(|pending| pending.id == call.id) else { continue };
            // A decision that came early is used now.
            if Some(*message) == last && matches!(call.state, LiveState::Queued) {
                call.state = LiveState::Waiting { why: pending.why.clone() };
                changed.push((*message, *position));
            }
        }
        for key in changed {
            self.publish_call(key);
        }
        if self.is_waiting() {
            self.phase = Phase::Waiting;
        }
        self.publish_activity();
        self.say_what_waits();
    }

    /// Restores the calls of a response that was saved while it waited.
    pub(super) fn restore(&mut self, message: u64, calls: &[(String, ToolCall)], pending: &[PendingCall]) {
        self.add_calls(message, calls.iter().map(|(id, call)| (id.as_str(), call)));
        for call in self.calls.values_mut() {
            call.state = match pending.iter().find(|pending| pending.id == call.id) {
                Some(pending) => LiveState::Waiting { why: pending.why.clone() },
                None => LiveState::Queued,
            };
        }
        self.phase = Phase::Waiting;
    }

    /// Returns the id and the name of a call that waits for a decision, and its arguments.
    pub(super) fn waiting_call(&self, key: (u64, usize)) -> Option<(&str, &str, &Map<String, Value>)> {
        let call = self.calls.get(&key)?;
        let is_waiting = matches!(call.state, LiveState::Waiting { .. });
        is_waiting.then_some((call.id.as_str(), call.name.as_str(), &call.arguments))
    }

    /// Notes a decision about a call. The call does not wait any more, so a second decision has no effect.
    pub(super) fn decided(&mut self, key: (u64, usize), always: Option<&str>) {
        let keys: Vec<(u64, usize)> = self
            .calls
            .iter()
            .filter(|(other, call)| {
                let is_waiting = matches!(call.state, LiveState::Waiting { .. });
                **other == key || (is_waiting && always == Some(call.name.as_str()))
            })
            .map(|(key, _)| *key)
            .collect();
        if let Some(name) = always {
            self.always.push(name.to_owned());
        }
        for key in keys {
            if let Some(call) = self.calls.get_mut(&key) {
                call.state = LiveState::Decided;
            }
            self.publish_call(key);
        }
        if !self.is_waiting() {
            self.phase = Phase::Running;
        }
        self.publish_activity();
        self.say_what_waits();
    }

    /// Publishes a stored message of the user.
    pub(super) fn add_user_message(&mut self, html: Markup) -> Vec<Event> {
        let mut events = self.window_event(self.position);
        let (id, window) = (format!("m{}", self.position), chat::window_id(self.position));
        let message = Event::append(id, window, html);
        events.push(message.clone());
        self.publish(events);
        // Without the section: the stream may already have filled it.
        vec![message]
    }

    /// Applies an event of the run.
    pub(super) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::StepStarted { .. } => self.start_message(),
            AgentEvent::Text(text) | AgentEvent::Refusal(text) => self.write(text),
            AgentEvent::TextPart => self.finish_part(),
            AgentEvent::Thinking(text) => self.think(text),
            AgentEvent::CallAnnounced { name, .. } => self.announce(name),
            AgentEvent::MessageAdded(message) => self.add_message(message),
            AgentEvent::CallStarted { id, .. } => {
                self.change(id, |_| LiveState::Running {
                    since: SystemTime::now(),
                    progress: None,
                    is_sent: true,
                });
            }
            AgentEvent::CallProgress { id, progress } => {
                let call = self.calls.values_mut().rev().find(|call| call.id == *id);
                if let Some(LiveState::Running { progress: known, is_sent, .. }) =
                    call.map(|call| &mut call.state)
                {
                    (*known, *is_sent) = (Some(progress.clone()), false);
                }
            }
            AgentEvent::CallFinished { id, result, elapsed, .. } => {
                self.change(id, |_| LiveState::Ended { result: result.clone(), elapsed: *elapsed });
            }
            _ => {}
        }
    }

    /// Publishes what the model wrote since the last call, and the progress of calls. Returns whether a part was
    /// postponed to the next call.
    pub(super) fn flush(&mut self) -> bool {
        let message = self.position + 1;
        let mut events = Vec::new();
        let is_stale = self.writing.as_mut().is_some_and(|writing| writing.flush(message, &mut events));
        for ((message, position), call) in &mut self.calls {
            if let LiveState::Running { progress: Some(progress), is_sent, .. } = &mut call.state
                && !std::mem::replace(is_sent, true)
            {
                let id = format!("call-{message}-{position}-progress");
                events.push(Event::put(id, chat::call_progress(*message, *position, Some(&shown(progress)))));
            }
        }
        self.publish(events);
        is_stale
    }

    fn start_message(&mut self) {
        self.writing = Some(Writing::new());
        let position = self.position + 1;
        let mut events = self.window_event(position);
        if let Some(html) = self.live_message() {
            events.push(Event::append(format!("m{position}"), chat::window_id(position), html));
        }
        self.publish(events);
    }

    fn write(&mut self, piece: &str) {
        self.publish_start();
        let message = self.position + 1;
        let events = self.writing.as_mut().map(|writing| writing.write(message, piece));
        self.publish(events.unwrap_or_default());
    }

    fn think(&mut self, piece: &str) {
        self.publish_start();
        let message = self.position + 1;
        let events = self.writing.as_mut().map(|writing| writing.think(message, piece));
        self.publish(events.unwrap_or_default());
    }

    /// Completes the part that is being written. The next text is a part of its own.
    fn finish_part(&mut self) {
        let message = self.position + 1;
        let events = self.writing.as_mut().map(|writing| writing.finish_part(message));
        self.publish(events.unwrap_or_default());
    }

    /// Removes the line that says that the model has not written anything yet.
    fn publish_start(&mut self) {
        let position = self.position + 1;
        if self.writing.as_mut().is_some_and(|writing| writing.waits_since.take().is_some()) {
            self.publish([Event::Drop { id: format!("m{position}-waits") }]);
        }
    }

    fn announce(&mut self, name: &str) {
        self.publish_start();
        let message = self.position + 1;
        let Some(writing) = &mut self.writing else { return };
        let position = writing.announced.len();
        writing.announced.push(name.to_owned());
        let html = match position {
            // The first one brings the list of calls.
            0 => self.live_message(),
            _ => Some(self.announced_card(message, position, name)),
        };
        let Some(html) = html else { return };
        let event = match position {
            0 => Event::put(format!("m{message}"), html),
            _ => Event::append(format!("call-{message}-{position}"), format!("m{message}-calls"), html),
        };
        self.publish([event]);
    }

    fn add_message(&mut self, message: &Arc<Message>) {
        self.position += 1;
        if message.role != Role::Assistant {
            return;
        }
        self.writing = None;
        let position = self.position;
        self.add_calls(position, message.calls());
        let cards = self.cards(position);
        let model = self.model.clone();
        let html = chat::message(&chat::Message {
            conversation: &self.id,
            position,
            message,
            time: Some(SystemTime::now()),
            model: Some(&model),
            calls: &cards,
            branches: None,
            is_summary: false,
        });
        let mut events = self.window_event(position);
        events.push(Event::append(format!("m{position}"), chat::window_id(position), html));
        let text = spoken(message, cards.len());
        events.push(Event::Say { text, is_urgent: false });
        self.publish(events);
        if self.is_waiting() {
            self.publish_activity();
            self.say_what_waits();
        }
    }

    /// Adds the calls of a message. Those that the policy does not allow wait for a decision from now on; the run
    /// asks for it when the others have ended.
    fn add_calls<'c>(&mut self, message: u64, calls: impl Iterator<Item = (&'c str, &'c ToolCall)>) {
        let tools = self.tools.tools();
        for (position, (id, call)) in calls.enumerate() {
            let tool = tools.iter().find(|tool| tool.name == call.name);
            let state = match self.policy.verdict(&call.name, tool) {
                Verdict::Ask(why) if !self.always.contains(&call.name) => LiveState::Waiting { why },
                _ => LiveState::Queued,
            };
            let arguments = call.arguments.clone().unwrap_or_default();
            let call = LiveCall { id: id.to_owned(), name: call.name.clone(), arguments, state };
            self.calls.insert((message, position), call);
        }
    }

    /// Changes the state of the last call with an id. Providers may use an id again.
    fn change(&mut self, id: &str, state: impl FnOnce(&LiveCall) -> LiveState) {
        let found = self.calls.iter_mut().rev().find(|(_, call)| call.id == id);
        let Some((key, call)) = found else { return };
        call.state = state(call);
        let key = *key;
        self.publish_call(key);
    }

    fn publish_call(&self, key: (u64, usize)) {
        if let Some(card) = self.card(key) {
            self.publish([Event::put(format!("call-{}-{}", key.0, key.1), card)]);
        }
    }

    /// Returns the cards of the calls of a message.
    pub(super) fn cards(&self, message: u64) -> Vec<Markup> {
        self.calls
            .range((message, 0)..=(message, usize::MAX))
            .filter_map(|(key, _)| self.card(*key))
            .collect()
    }

    /// Returns the card of a call of this response.
    pub(super) fn card(&self, key: (u64, usize)) -> Option<Markup> {
        let call = self.calls.get(&key)?;
        let tools = self.tools.tools();
        let schema = tools.iter().find(|tool| tool.name == call.name);
        let why = match &call.state {
            LiveState::Waiting { why } => why.as_str(),
            _ => "",
        };
        let question = Question {
            conversation: &self.id,
            message: key.0,
            position: key.1,
            name: &call.name,
            why,
            arguments: &call.arguments,
            schema: schema.and_then(|tool| tool.input_schema.as_ref()),
        };
        let state = match &call.state {
            LiveState::Queued | LiveState::Decided => CallState::Queued,
            LiveState::Waiting { .. } => CallState::Waiting(&question),
            LiveState::Running { since, progress, .. } => {
                CallState::Running { since: *since, progress: progress.as_ref().map(shown) }
            }
            LiveState::Ended { result, elapsed } => ended(result, *elapsed),
        };
        Some(self.draw(key, &call.name, &call.arguments, state))
    }

    fn announced_card(&self, message: u64, position: usize, name: &str) -> Markup {
        self.draw((message, position), name, &Map::new(), CallState::Written)
    }

    fn draw(
        &self,
        (message, position): (u64, usize),
        name: &str,
        arguments: &Map<String, Value>,
        state: CallState<'_>,
    ) -> Markup {
        let server = self.tools.server_of(name).map(|server| server.name);
        let conversation = &self.id;
        chat::call_card(&Call { conversation, message, position, name, server: server.as_deref(), arguments, state })
    }

    /// Returns the message that the model is writing.
    pub(super) fn live_message(&self) -> Option<Markup> {
        let writing = self.writing.as_ref()?;
        let position = self.position + 1;
        let parts = writing.draw(position);
        let announced = writing.announced.iter().enumerate();
        let cards: Vec<Markup> =
            announced.map(|(index, name)| self.announced_card(position, index, name)).collect();
        Some(chat::live_message(&LiveMessage {
            position,
            model: &self.model,
            parts,
            calls: &cards,
            waits_since: writing.waits_since,
        }))
    }

    /// Returns the event that adds the section of a message, if the message is its first.
    fn window_event(&self, position: u64) -> Vec<Event> {
        let is_first = position % chat::WINDOW == 1;
        let window = chat::window_id(position);
        is_first.then(|| Event::append(window, "messages", chat::empty_window(position))).into_iter().collect()
    }

    /// Publishes what the list of conversations, the title and the icon display.
    pub(super) fn publish_activity(&self) {
        let glyph = chat::list_activity(&self.id, self.activity());
        self.events.publish("chat", &[Event::put(format!("chat-{}-activity", self.id), glyph)]);
        self.publish([self.title_event()]);
    }

    /// Returns the title and the icon of a page with this conversation.
    pub(super) fn title_event(&self) -> Event {
        let waiting = self.calls.values().find(|call| matches!(call.state, LiveState::Waiting { .. }));
        match waiting {
            Some(call) => Event::Title { text: format!("? {}", call.name), has_dot: true },
            None => {
                let title = self.title.as_deref().unwrap_or("untitled");
                Event::Title { text: format!("{title} · Toolwire"), has_dot: false }
            }
        }
    }

    fn say_what_waits(&self) {
        let waiting = self.calls.values().find(|call| matches!(call.state, LiveState::Waiting { .. }));
        if let Some(call) = waiting {
            let text = format!("{} waits for your decision", call.name);
            self.publish([Event::Say { text, is_urgent: true }]);
        }
    }

    pub(super) fn publish(&self, events: impl IntoIterator<Item = Event>) {
        let events: Vec<Event> = events.into_iter().collect();
        self.events.publish(&format!("chat.{}", self.id), &events);
    }
}

/// Returns the state of a call with a result.
pub(super) fn ended(result: &ToolResult, elapsed: Option<Duration>) -> CallState<'_> {
    use toolwire_agent::run::{edited_arguments, is_denied, is_outcome_unknown};
    if is_denied(result) {
        CallState::Denied { result }
    } else if is_outcome_unknown(result) {
        CallState::Unknown { result: Some(result) }
    } else {
        CallState::Done { result, elapsed, edited: edited_arguments(result) }
    }
}

fn shown(progress: &Progress) -> chat::Progress<'_> {
    chat::Progress { done: progress.done, total: progress.total, message: progress.message.as_deref() }
}

/// Returns what a screen reader says about a message: the number of its calls, or its start.
fn spoken(message: &Message, calls: usize) -> String {
    if calls > 0 {
        return toolwire_page::text::count(calls, "call");
    }
    let text = input::text_of(message);
    let sentence = text.split_inclusive(['.', '!', '?', '\n', '。']).next().unwrap_or_default();
    let words = text.split_whitespace().count();
    format!("{} · {}", toolwire_page::text::shortened(sentence, 200), toolwire_page::text::count(words, "word"))
}
