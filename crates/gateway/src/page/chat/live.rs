//! A response in progress: its content so far, and the events that open pages receive.
//!
//! The state changes and the events of a change are published under one lock, so that a page that is drawn
//! from the state and then reads the later events misses nothing.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};
use toolwire_agent::AgentEvent;
use toolwire_agent::approval::{ApprovalPolicy, PendingCall};
use toolwire_contract::conversations::Parent;
use toolwire_contract::toolbox::Toolbox;
use toolwire_contract::{Message, Role, ToolCall};
use toolwire_page::Markup;
use toolwire_page::chat::{self, Activity, Ending, LiveMessage};
use toolwire_page::form::Filling;

use super::calls::{CallKey, Calls};
use super::writing::Writing;
use crate::page::events::{Event, Events};
use announcements::spoken_summary;

mod announcements;
mod questions;

/// The state of a conversation that is not in the store.
pub(super) struct LiveChat {
    id: String,
    events: Arc<Events>,
    title: Option<String>,
    model: String,
    /// The number of stored messages, without those that other programs added since the response began.
    position: u64,
    /// The position of the first message of this response, if it is another version of a message.
    new_version: Option<u64>,
    phase: Phase,
    writing: Option<Writing>,
    calls: Calls,
}

/// Whether a response is in progress.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Running,
    /// Calls wait for decisions.
    Waiting,
    /// The last response has ended.
    Ended(Option<AbnormalEnd>),
}

/// The end of a response that did not end with a complete message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AbnormalEnd {
    Stopped,
    Limited(String),
    Failed { message: String, hint: Option<String> },
}

impl LiveChat {
    pub(super) fn new(
        id: String,
        title: Option<String>,
        events: Arc<Events>,
        tools: Arc<dyn Toolbox>,
        policy: ApprovalPolicy,
    ) -> LiveChat {
        let calls = Calls::new(id.clone(), tools, policy);
        let phase = Phase::Ended(None);
        let (position, new_version) = (0, None);
        LiveChat {
            id,
            events,
            title,
            model: String::new(),
            position,
            new_version,
            phase,
            writing: None,
            calls,
        }
    }

    /// Whether the last message of a conversation belongs to this response.
    pub(super) fn is_current(&self, messages: u64) -> bool {
        self.is_busy() || self.position == messages
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the tools that always run in this conversation.
    pub(super) fn always(&self) -> &[String] {
        self.calls.always()
    }

    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    pub(super) fn activity(&self) -> Activity {
        match self.phase {
            Phase::Ended(_) => Activity::None,
            _ if self.calls.first_that_asks().is_some() => Activity::Waiting,
            Phase::Running | Phase::Waiting => Activity::Running,
        }
    }

    pub(super) fn set_title(&mut self, title: Option<String>) {
        self.title = title;
    }

    /// Starts a response after a number of stored messages.
    pub(super) fn start(&mut self, model: String, position: u64, parent: Option<&Parent>, always: &[String]) {
        self.model = model;
        self.position = position;
        self.new_version = parent.filter(|parent| parent.at == position).map(|_| position + 1);
        self.phase = Phase::Running;
        self.calls.clear(always);
        self.writing = None;
        self.publish(self.controls());
        self.publish_activity();
    }

    /// Ends the response.
    pub(super) fn end(&mut self, end: Option<AbnormalEnd>) {
        if self.writing.take().is_some() {
            // Nothing of this message was stored: the model sent nothing.
            self.publish([Event::Drop { id: format!("m{}", self.position + 1) }]);
        }
        self.phase = Phase::Ended(end);
        self.publish(self.controls());
        self.publish_activity();
        // The links to the other versions appear once the message is stored.
        if let Some(position) = self.new_version.take().filter(|position| *position <= self.position) {
            self.publish([Event::Reset { id: format!("m{position}-foot") }]);
        }
        // The number of messages.
        self.publish([Event::Reset { id: "chat-facts".to_owned() }]);
    }

    /// Returns the changes of the line after the last message, and of the button that sends or stops. The
    /// response to a form contains them too, because a page does not apply published changes to the part with
    /// the focus.
    pub(super) fn controls(&self) -> [Event; 2] {
        let buttons = chat::composer_buttons(Some(&self.id), self.is_busy());
        let controls = [Event::put("ending", self.ending()), Event::put("composer-buttons", buttons)];
        let version = self.events.next_version();
        controls.map(|event| event.with_version(version))
    }

    /// Returns the line after the last message.
    pub(super) fn ending(&self) -> Markup {
        let ending = match &self.phase {
            Phase::Ended(Some(end)) => Some(match end {
                AbnormalEnd::Stopped => Ending::Stopped,
                AbnormalEnd::Limited(limit) => Ending::Limited(limit),
                AbnormalEnd::Failed { message, hint } => Ending::Failed { message, hint: hint.as_deref() },
            }),
            _ => None,
        };
        let retry = ending.is_some().then_some(self.position);
        chat::ending(&self.id, retry, ending.as_ref())
    }

    /// Continues with calls that wait for decisions.
    pub(super) fn wait(&mut self, pending: &[PendingCall]) {
        for key in self.calls.wait(pending) {
            self.publish_call(key);
        }
        if self.calls.first_waiting().is_some() {
            self.phase = Phase::Waiting;
        }
        self.publish_activity();
        self.announce_waiting_call();
    }

    /// Restores the calls of a response that was saved while it waited.
    pub(super) fn restore(&mut self, message: u64, calls: &[(String, ToolCall)], pending: &[PendingCall]) {
        self.calls.add(message, calls.iter().map(|(id, call)| (id.as_str(), call)));
        self.calls.restore(pending);
        self.phase = Phase::Waiting;
    }

    /// Returns the id and the name of a call that waits for a decision, and its arguments.
    pub(super) fn waiting_call(&self, key: CallKey) -> Option<(&str, &str, &Map<String, Value>)> {
        self.calls.waiting(key).filter(|_| self.is_busy())
    }

    /// Notes a decision about a call. The call does not wait any more, so a second decision has no effect.
    /// Returns the changes of the cards.
    pub(super) fn decided(&mut self, key: CallKey, always: Option<&str>) -> Vec<Event> {
        let changed = self.calls.decided(key, always);
        let events: Vec<Event> = changed.into_iter().filter_map(|key| self.call_event(key)).collect();
        let events = self.publish(events);
        if self.calls.first_waiting().is_none() {
            self.phase = Phase::Running;
        }
        self.publish_activity();
        self.announce_waiting_call();
        events
    }

    /// Publishes a stored message of the user.
    pub(super) fn add_user_message(&mut self, html: Markup) -> Vec<Event> {
        let mut events = self.window_event(self.position);
        let (id, window) = (format!("m{}", self.position), chat::window_id(self.position));
        let message = Event::append(id, window, html);
        events.push(message);
        // The section is not returned: the published events may have filled it already.
        self.publish(events).pop().into_iter().collect()
    }

    /// Applies an event of the run.
    pub(super) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::StepStarted { .. } => self.start_message(),
            AgentEvent::Text(text) | AgentEvent::Refusal(text) => {
                self.write(|writing, message| writing.write(message, text));
            }
            AgentEvent::TextPart => self.write(|writing, message| writing.finish_part(message)),
            AgentEvent::Thinking(text) => self.write(|writing, message| writing.think(message, text)),
            AgentEvent::CallAnnounced { name, .. } => self.announce(name),
            AgentEvent::MessageAdded(message) => self.add_message(message),
            AgentEvent::CallStarted { id, arguments, .. } => {
                if let Some(key) = self.calls.started(id, arguments) {
                    self.publish_call(key);
                    self.publish_early_questions(key);
                }
            }
            AgentEvent::CallProgress { id, progress } => self.calls.progress(id, progress),
            AgentEvent::CallFinished { id, result, elapsed, .. } => {
                let asked = self.calls.first_that_asks().is_some();
                if let Some(key) = self.calls.ended(id, result, *elapsed) {
                    self.publish_call(key);
                }
                if asked && self.calls.first_that_asks().is_none() {
                    self.publish_activity();
                }
            }
            _ => {}
        }
    }

    /// Publishes what the model wrote since the last call, and the progress of calls. Returns whether a part
    /// was postponed to the next call.
    pub(super) fn flush(&mut self) -> bool {
        let message = self.position + 1;
        let mut events = Vec::new();
        let is_stale = self.writing.as_mut().is_some_and(|writing| writing.flush(message, &mut events));
        self.calls.flush(&mut events);
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

    /// Changes the message that is being written, and publishes the events of the change.
    fn write(&mut self, change: impl FnOnce(&mut Writing, u64) -> Vec<Event>) {
        let message = self.position + 1;
        let Some(writing) = &mut self.writing else { return };
        let mut events = Vec::new();
        if writing.waits_since.take().is_some() {
            events.push(Event::Drop { id: format!("m{message}-waits") });
        }
        events.extend(change(writing, message));
        self.publish(events);
    }

    fn announce(&mut self, name: &str) {
        let mut position = 0;
        self.write(|writing, _| {
            position = writing.announced.len();
            writing.announced.push(name.to_owned());
            Vec::new()
        });
        let message = self.position + 1;
        let event = match position {
            // The first call adds the element with the list of calls, too.
            0 => self.live_message().map(|html| Event::put(format!("m{message}"), html)),
            _ => {
                let card = self.calls.announced((message, position), name);
                Some(Event::append(format!("call-{message}-{position}"), format!("m{message}-calls"), card))
            }
        };
        self.publish(event);
    }

    fn add_message(&mut self, message: &Arc<Message>) {
        self.position += 1;
        if message.role != Role::Assistant {
            return;
        }
        self.writing = None;
        let position = self.position;
        self.calls.add(position, message.calls());
        let cards = self.calls.cards(position);
        let html = chat::message(&chat::Message {
            conversation: &self.id,
            position,
            message,
            time: Some(SystemTime::now()),
            model: Some(&self.model),
            calls: &cards,
            branches: None,
            is_summary: false,
        });
        let mut events = self.window_event(position);
        events.push(Event::append(format!("m{position}"), chat::window_id(position), html));
        events.push(Event::Say { text: spoken_summary(message, cards.len()), is_urgent: false });
        self.publish(events);
        if self.calls.first_waiting().is_some() {
            self.publish_activity();
            self.announce_waiting_call();
        }
    }

    fn publish_call(&self, key: CallKey) {
        self.publish(self.call_event(key));
    }

    /// Returns the change of the card of a call.
    fn call_event(&self, key: CallKey) -> Option<Event> {
        Some(Event::put(format!("call-{}-{}", key.0, key.1), self.calls.card(key)?))
    }

    /// Returns the form of a call that waits for a decision, with what a person entered.
    pub(super) fn decision_form(&self, key: CallKey, filling: &Filling) -> Option<Markup> {
        self.calls.decision_form(key, filling)
    }

    /// Returns the card of a call of this response.
    pub(super) fn card(&self, key: CallKey) -> Option<Markup> {
        self.calls.card(key)
    }

    /// Returns the message that the model is writing.
    pub(super) fn live_message(&self) -> Option<Markup> {
        let writing = self.writing.as_ref()?;
        let position = self.position + 1;
        let announced = writing.announced.iter().enumerate();
        let cards: Vec<Markup> =
            announced.map(|(index, name)| self.calls.announced((position, index), name)).collect();
        Some(chat::live_message(&LiveMessage {
            position,
            model: &self.model,
            parts: writing.draw(position),
            calls: &cards,
            waits_since: writing.waits_since,
        }))
    }

    /// Returns the event that adds the section of a message, if the message is its first.
    fn window_event(&self, position: u64) -> Vec<Event> {
        let is_first = position % chat::WINDOW == 1;
        let window = chat::window_id(position);
        is_first
            .then(|| Event::append(window, "messages", chat::empty_window(position)))
            .into_iter()
            .collect()
    }

    /// Publishes changes, and returns them with their version.
    fn publish(&self, events: impl IntoIterator<Item = Event>) -> Vec<Event> {
        let version = self.events.next_version();
        let events: Vec<Event> = events.into_iter().map(|event| event.with_version(version)).collect();
        self.events.publish(&format!("chat.{}", self.id), &events);
        events
    }
}
