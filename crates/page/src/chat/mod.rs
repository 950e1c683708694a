//! The view of conversations: the list, the messages with their calls, and the composer.
//!
//! The ids of elements contain only numbers of this page: message 2 is `m2`, its block 0 is `m2-0`, and its
//! call 0 is `call-2-0`. Ids of providers may contain anything, and may occur twice.

mod approval;
mod call;
mod composer;
mod elicitation;
mod export;
mod list;
mod message;
mod start;
mod view;

pub use approval::{PendingApproval, form as approval_form};
pub use call::{Call, CallState, Progress, card as call_card, progress as call_progress, questions_id};
pub use composer::{Attachment, Composer, attachment, buttons as composer_buttons, composer, model_select};
pub use elicitation::{QuestionKind, ServerQuestion, question_id, server_question};
pub use export::to_markdown;
pub use list::{
    Activity, Found, Hit, Item, entries as list_entries, glyph as list_activity, hits as list_hits, list,
};
pub use message::{
    Branches, Ending, LiveMessage, Message, ending, live_message, message, open_block, settled_block,
    thinking_block, waiting_note,
};
pub use start::start;
pub use view::{
    Conversation, WINDOW, Window, conversation, empty_window, heading, joined, new_conversation, window_id,
};

use crate::link::Link;

/// Returns the address of a conversation.
pub fn address(conversation: &str) -> Link {
    Link::to(&["chat", conversation])
}

/// Returns the address of an action on a conversation.
pub fn action(conversation: &str, name: &str) -> Link {
    Link::to(&["-", "chat", conversation, name])
}
