//! The questions that servers ask during the calls of a response.

use tokio::sync::oneshot;
use toolwire_agent::elicitation::{ElicitKind, ElicitReply, ElicitRequest, ServerQuestion};
use toolwire_page::chat::{self, QuestionKind};

use super::{CallKey, Calls, LiveCall, LiveState};

/// A question that a person has not answered yet.
pub(in crate::page::chat) struct OpenQuestion {
    number: u64,
    server: String,
    pub(in crate::page::chat) request: ElicitRequest,
    reply: oneshot::Sender<ElicitReply>,
}

impl OpenQuestion {
    /// Returns the question as the page displays it.
    pub(in crate::page::chat) fn shown<'q>(
        &'q self,
        conversation: &'q str,
    ) -> Option<chat::ServerQuestion<'q>> {
        let kind = match &self.request.kind {
            ElicitKind::Form { schema } => QuestionKind::Form { schema },
            ElicitKind::Url { url, .. } => QuestionKind::Page { url },
            _ => return None,
        };
        let (server, message) = (self.server.as_str(), self.request.message.as_str());
        Some(chat::ServerQuestion { conversation, number: self.number, server, message, kind })
    }

    /// Passes the reply to the server, which may not wait for it any more.
    pub(in crate::page::chat) fn answer(self, reply: ElicitReply) {
        let _ = self.reply.send(reply);
    }
}

impl LiveCall {
    pub(super) fn asks(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Returns its questions as the page displays them.
    pub(super) fn shown_questions<'q>(&'q self, conversation: &'q str) -> Vec<chat::ServerQuestion<'q>> {
        self.questions.iter().filter_map(|question| question.shown(conversation)).collect()
    }
}

impl Calls {
    /// Adds a question to the call that caused it. Returns the call, the number of the question, and the
    /// receiver of its reply. Without a call, the question waits for the start of its call: the server may
    /// ask before the event of the start arrives. A question that cannot be displayed is not added.
    pub(in crate::page::chat) fn ask(
        &mut self,
        question: ServerQuestion,
    ) -> Option<(Option<CallKey>, u64, oneshot::Receiver<ElicitReply>)> {
        let (reply, answer) = oneshot::channel();
        let number = self.next_question;
        let open = OpenQuestion { number, server: question.server, request: question.request, reply };
        open.shown("")?;
        self.next_question += 1;
        let is_running = |call: &LiveCall| matches!(call.state, LiveState::Running { .. });
        let mut calls = self.calls.iter_mut().rev();
        let Some((key, call)) = calls.find(|(_, call)| call.id == question.call && is_running(call)) else {
            self.early_questions.push((question.call, open));
            return Some((None, number, answer));
        };
        call.questions.push(open);
        Some((Some(*key), number, answer))
    }

    /// Adds the first question that waits for the start of this call, and returns its number.
    pub(in crate::page::chat) fn add_early_question(&mut self, key: CallKey) -> Option<u64> {
        let call = self.calls.get_mut(&key)?;
        let index = self.early_questions.iter().position(|(id, _)| *id == call.id)?;
        let (_, question) = self.early_questions.remove(index);
        let number = question.number;
        call.questions.push(question);
        Some(number)
    }

    /// Returns the number of open questions of a call.
    pub(in crate::page::chat) fn questions(&self, key: CallKey) -> usize {
        self.calls.get(&key).map_or(0, |call| call.questions.len())
    }

    /// Returns an open question.
    pub(in crate::page::chat) fn question(&self, number: u64) -> Option<&OpenQuestion> {
        self.calls.values().flat_map(|call| &call.questions).find(|question| question.number == number)
    }

    /// Removes a question. Returns it if it was displayed.
    pub(in crate::page::chat) fn remove_question(&mut self, number: u64) -> Option<(CallKey, OpenQuestion)> {
        self.early_questions.retain(|(_, question)| question.number != number);
        self.calls.iter_mut().find_map(|(key, call)| {
            let index = call.questions.iter().position(|question| question.number == number)?;
            Some((*key, call.questions.remove(index)))
        })
    }
}
