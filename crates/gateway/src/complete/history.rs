//! The messages that a run continues.

use std::sync::Arc;

use toolwire_contract::model::VerbatimRequest;
use toolwire_contract::{Message, Role};
use toolwire_dialect::Family;

use crate::gateway::Inner;
use crate::hidden_rounds::{complete_results, provider_data};
use crate::principal::Principal;
use crate::response::Failure;
use crate::state::Continuation;

/// The user's message that is added to a request with only instructions. OpenAI accepts such a request, and
/// other APIs need a message.
const ONLY_INSTRUCTIONS: &str = "(the conversation begins with your message)";

/// The messages before a response.
pub(super) struct History {
    pub(super) messages: Vec<Arc<Message>>,
    /// Whether they contain more than the client's items.
    pub(super) has_hidden: bool,
}

impl Inner {
    /// Returns the complete messages for those that were read from a request. In `verbatim`, the ids of calls
    /// are replaced by the original ones.
    pub(super) fn history(
        &self,
        principal: &Principal,
        read: Vec<Arc<Message>>,
        continuation: Option<Continuation>,
        verbatim: Option<&mut VerbatimRequest>,
    ) -> History {
        let (earlier, new) = match continuation {
            Some(continuation) => continuation.split(read),
            None => (None, read),
        };
        let restored = self.hidden.restore(principal, new.clone(), verbatim);
        let is_complete = restored.len() == new.len()
            && restored.iter().zip(&new).all(|(restored, read)| Arc::ptr_eq(restored, read));
        let has_hidden = earlier.is_some() || !is_complete;
        let messages = match earlier {
            Some(earlier) => complete_results(earlier.into_iter().chain(restored).collect()),
            None => restored,
        };
        History { messages, has_hidden }
    }
}

/// Adds a message if there are only instructions, and checks that the model can respond to the last one.
pub(super) fn complete_end(
    messages: &mut Vec<Arc<Message>>,
    family: Family,
    has_instructions: bool,
    is_verbatim: bool,
) -> Result<(), Failure> {
    if messages.is_empty() && has_instructions {
        messages.push(Arc::new(Message::user(ONLY_INSTRUCTIONS)));
    }
    let parameter = if family == Family::OpenAiResponses { "input" } else { "messages" };
    match messages.last() {
        Some(last) if last.role == Role::User => Ok(()),
        Some(last) if family == Family::Anthropic && may_be_paused(last) && is_verbatim => Ok(()),
        Some(_) => {
            let message = "the last message must be a user message; hint: an assistant message can be continued only \
                           if the model's provider has this API and no tools are added (`x-toolwire-servers: none`)";
            Err(Failure::invalid(parameter, message))
        }
        None => Err(Failure::invalid(parameter, "the request has no message to respond to")),
    }
}

/// Whether the last message may be a turn that the provider has paused: it contains calls that the provider
/// made itself.
fn may_be_paused(message: &Message) -> bool {
    message.content.iter().any(|block| provider_data(block, Family::Anthropic).is_some())
}
