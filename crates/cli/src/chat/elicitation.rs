//! Forwards questions of servers (elicitation requests) to the chat.

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolwire_hub::{ElicitReply, ElicitRequest, Host};

/// A question of a server, with the channel for its reply.
pub(crate) struct ServerQuestion {
    pub(crate) server: String,
    pub(crate) request: ElicitRequest,
    pub(crate) reply: oneshot::Sender<ElicitReply>,
}

const MAX_QUEUED_QUESTIONS: usize = 8;

/// The host that the hub passes elicitation requests to.
pub(crate) struct ElicitationHost(mpsc::Sender<ServerQuestion>);

/// Creates a host and the receiver of its questions.
pub(crate) fn channel() -> (ElicitationHost, mpsc::Receiver<ServerQuestion>) {
    let (sender, questions) = mpsc::channel(MAX_QUEUED_QUESTIONS);
    (ElicitationHost(sender), questions)
}

impl Host for ElicitationHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let question = ServerQuestion { server: server.to_owned(), request, reply };
            if self.0.send(question).await.is_err() {
                return ElicitReply::Cancel;
            }
            answer.await.unwrap_or(ElicitReply::Cancel)
        })
    }
}
