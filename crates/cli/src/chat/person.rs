//! Servers that ask a person something reach the chat through this.

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolwire_hub::{ElicitReply, ElicitRequest, Host};

/// A question of a server, and where its answer goes.
pub(crate) struct Question {
    pub(crate) server: String,
    pub(crate) request: ElicitRequest,
    pub(crate) reply: oneshot::Sender<ElicitReply>,
}

/// How many questions may wait.
const QUEUE: usize = 8;

/// The chat, as servers see it.
pub(crate) struct Asked(mpsc::Sender<Question>);

/// A host, and the questions that reach it.
pub(crate) fn asked() -> (Asked, mpsc::Receiver<Question>) {
    let (sender, questions) = mpsc::channel(QUEUE);
    (Asked(sender), questions)
}

impl Host for Asked {
    fn can_elicit(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let question = Question { server: server.to_owned(), request, reply };
            if self.0.send(question).await.is_err() {
                return ElicitReply::Cancel;
            }
            answer.await.unwrap_or(ElicitReply::Cancel)
        })
    }
}
