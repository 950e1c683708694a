//! Forwards questions to the chat: of servers (elicitation requests), and of the agent about calls.

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolwire_agent::approval::{Approver, Decision, PendingCall};
use toolwire_hub::host::{ElicitReply, ElicitRequest, Host};

/// A question for the user, with the channel for its reply.
pub(crate) enum Question {
    Server { server: String, request: ElicitRequest, reply: oneshot::Sender<ElicitReply> },
    Approval { call: PendingCall, reply: oneshot::Sender<Decision> },
}

const MAX_QUEUED_QUESTIONS: usize = 8;

/// Passes questions to the chat.
#[derive(Clone)]
pub(crate) struct QuestionSender(mpsc::Sender<Question>);

/// Creates a sender and the receiver of its questions.
pub(crate) fn channel() -> (QuestionSender, mpsc::Receiver<Question>) {
    let (sender, questions) = mpsc::channel(MAX_QUEUED_QUESTIONS);
    (QuestionSender(sender), questions)
}

impl QuestionSender {
    /// Asks a question. Returns `None` if there is no reply.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.send(question(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl Host for QuestionSender {
    fn can_elicit(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        Box::pin(async move {
            let server = server.to_owned();
            let answer = self.ask(|reply| Question::Server { server, request, reply }).await;
            answer.unwrap_or(ElicitReply::Cancel)
        })
    }
}

impl Approver for QuestionSender {
    fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let answer = self.ask(|reply| Question::Approval { call: call.clone(), reply }).await;
            answer.unwrap_or_else(|| Decision::unattended(call))
        })
    }
}
