//! Questions of servers to the user, during the calls of a run.

use futures::future::BoxFuture;
use toolwire_contract::conversations::ConversationId;
pub use toolwire_contract::elicitation::{ElicitKind, ElicitReply, ElicitRequest};

/// Passes questions of servers to the user.
pub trait ElicitationHandler: Send + Sync {
    /// Asks the user. If the call ends before there is a reply, the future is dropped.
    fn elicit(&self, question: ServerQuestion) -> BoxFuture<'static, ElicitReply>;
}

/// A question of a server, and the call that caused it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerQuestion {
    /// The conversation of the run, if it is stored.
    pub conversation: Option<ConversationId>,
    /// The id and the tool of the call.
    pub call: String,
    pub tool: String,
    pub server: String,
    pub request: ElicitRequest,
}
