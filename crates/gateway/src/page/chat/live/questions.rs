//! The questions of servers in a response in progress.

use tokio::sync::oneshot;
use toolwire_agent::elicitation::{ElicitReply, ServerQuestion};
use toolwire_page::chat;
use toolwire_page::text::shortened;

use super::LiveChat;
use crate::page::chat::calls::{CallKey, OpenQuestion};
use crate::page::events::Event;

impl LiveChat {
    /// Displays a question in the card of its call, as soon as the call runs. Returns its number and the
    /// receiver of the reply.
    pub(in crate::page::chat) fn ask(
        &mut self,
        question: ServerQuestion,
    ) -> Option<(u64, oneshot::Receiver<ElicitReply>)> {
        let (key, number, answer) = self.calls.ask(question)?;
        if let Some(key) = key {
            self.publish_question(key, number);
        }
        Some((number, answer))
    }

    /// Displays the questions that waited for the start of a call.
    pub(super) fn publish_early_questions(&mut self, key: CallKey) {
        while let Some(number) = self.calls.add_early_question(key) {
            self.publish_question(key, number);
        }
    }

    fn publish_question(&self, key: CallKey, number: u64) {
        let Some(question) = self.question(number).and_then(|question| question.shown(&self.id)) else {
            return;
        };
        let said = format!("server {} asks: {}", question.server, shortened(question.message, 200));
        let (id, into) = (chat::question_id(number), chat::questions_id(key.0, key.1));
        let form = Event::append(id, into, chat::server_question(&question, None));
        // The first question changes the state of the card. For others, the card is not replaced, because a
        // person may be typing in it.
        let card = self.call_event(key).filter(|_| self.calls.questions(key) == 1);
        self.publish([form].into_iter().chain(card));
        self.publish_activity();
        self.publish([Event::Say { text: said, is_urgent: true }]);
    }

    /// Returns a question that has no reply yet.
    pub(in crate::page::chat) fn question(&self, number: u64) -> Option<&OpenQuestion> {
        self.calls.question(number)
    }

    /// Removes a question that has a reply, or needs none any more. Returns it, and the changes of the card.
    pub(in crate::page::chat) fn remove_question(
        &mut self,
        number: u64,
    ) -> Option<(OpenQuestion, Vec<Event>)> {
        let (key, question) = self.calls.remove_question(number)?;
        let gone = Event::Drop { id: chat::question_id(number) };
        let card = self.call_event(key).filter(|_| self.calls.questions(key) == 0);
        let events = self.publish([gone].into_iter().chain(card));
        self.publish_activity();
        Some((question, events))
    }
}
