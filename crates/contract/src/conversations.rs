//! Where conversations are kept.

use core::time::Duration;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Conversation, ConversationId, InvalidTranscript, Message, Role, Timestamp, Transcript, Usage};

/// Where conversations are kept: append-only, and safe with many writers.
///
/// A *position* is a number of messages: 0 is before the first, and position 3 is just after the message with the
/// sequence number 3.
///
/// An `Ok` from an operation that writes is an acknowledgement: what it says is kept, as the store documents. Dropping
/// a future before it is done leaves open whether the work was done.
pub trait Conversations: Send + Sync {
    /// Begins a conversation without messages.
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>>;

    /// Adds messages at the end: all of them, one after the other, or none. Gives the position after the last one.
    ///
    /// With an `expected` position the messages are added only there; when another writer was faster, nothing is
    /// added and the answer is [`StoreError::Conflict`]. Without it, the store puts the writers in an order.
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// What is known about a conversation, without its messages.
    fn get<'a>(&'a self, conversation: &'a ConversationId)
    -> BoxFuture<'a, Result<Conversation, StoreError>>;

    /// A conversation and its entries after a position, as they are at one moment; 0 gives all of them, and a position
    /// past the end none.
    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>>;

    /// Conversations, the most recently changed first. What changes between two pages moves to the front and so out of
    /// the pages still to come.
    fn list(&self, limit: usize, after: Option<Cursor>) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Gives a conversation a title, or takes it away. It does not count as a change.
    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// A new conversation that begins with the messages of another up to a position, and lives on without it. It has
    /// the title and the model of its parent.
    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>>;

    /// Messages in which, for every word of the query, some word begins with it; case and accents do not matter.
    ///
    /// The most recently changed conversation comes first, and within it the newest message. A query without words
    /// finds nothing.
    fn search<'a>(&'a self, query: &'a str, limit: usize) -> BoxFuture<'a, Result<Found, StoreError>>;

    /// Removes a conversation for good. Its forks stay.
    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Puts back a whole conversation under its own id, which must be free; wholly or not at all.
    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>>;

    /// A conversation as the JSON text that [`Transcript`] describes.
    fn export<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<String, StoreError>> {
        Box::pin(async move { Ok(self.load(conversation, 0).await?.to_json()) })
    }

    /// Reads what [`Conversations::export`] wrote, here or elsewhere.
    fn import<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move { self.restore(Transcript::from_json(text)?).await })
    }
}

/// How a conversation begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewConversation {
    pub title: Option<String>,
    pub model: Option<String>,
}

/// A message to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    pub message: Arc<Message>,
    /// The model that wrote it; it becomes the conversation's.
    pub model: Option<String>,
    pub usage: Option<Usage>,
}

impl From<Arc<Message>> for NewEntry {
    fn from(message: Arc<Message>) -> NewEntry {
        NewEntry { message, model: None, usage: None }
    }
}

impl From<Message> for NewEntry {
    fn from(message: Message) -> NewEntry {
        Arc::new(message).into()
    }
}

/// Some of the conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub conversations: Vec<Conversation>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
}

/// A place in the list of conversations, as the store gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub changed: Timestamp,
    pub id: ConversationId,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub hits: Vec<Hit>,
    /// Whether everything was looked at that could have given one of these hits; otherwise the store reached the bound
    /// of its search, and older conversations may hold more.
    pub is_complete: bool,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hit {
    pub conversation: ConversationId,
    pub title: Option<String>,
    pub sequence: u64,
    pub time: Timestamp,
    #[serde(serialize_with = "write_role")]
    pub role: Role,
    /// A line of the message around the first word that was found, `…` where it was cut.
    pub snippet: String,
}

fn write_role<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.name())
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("there is no conversation `{conversation}`")]
    UnknownConversation { conversation: ConversationId },
    #[error(
        "conversation `{conversation}` has {messages} messages, so there is no position {position} in it"
    )]
    UnknownPosition { conversation: ConversationId, position: u64, messages: u64 },
    /// Another writer was faster. Nothing was added.
    #[error(
        "conversation `{conversation}` is at position {found}, not {expected}: another writer was faster"
    )]
    Conflict { conversation: ConversationId, expected: u64, found: u64 },
    #[error("conversation `{conversation}` is already there")]
    Exists { conversation: ConversationId },
    #[error("this cannot be imported: {0}")]
    InvalidTranscript(#[from] InvalidTranscript),
    /// The file or the keys belong to something else.
    #[error("`{place}` is not a store of conversations: {problem}")]
    Foreign { place: String, problem: String },
    #[error(
        "`{place}` was written by a newer version: it has format {found}, and this program knows up to {known}"
    )]
    Newer { place: String, found: u64, known: u64 },
    #[error("`{place}` is damaged: {problem}")]
    Damaged { place: String, problem: String },
    /// Nothing was written.
    #[error("there is no room left for `{place}`")]
    Full { place: String },
    /// Nothing was written.
    #[error("`{place}` was locked by another process for {after:?}")]
    Busy { place: String, after: Duration },
    /// Nothing was written.
    #[error("`{place}` is not there: {problem}")]
    Unavailable { place: String, problem: String },
    /// The connection broke after the messages were sent.
    #[error("`{place}` went away during the work ({problem}); whether it was done is not known")]
    OutcomeUnknown { place: String, problem: String },
    #[error("`{place}` refused: {problem}")]
    Refused { place: String, problem: String },
}

impl StoreError {
    /// A word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            StoreError::UnknownConversation { .. } => "unknown_conversation",
            StoreError::UnknownPosition { .. } => "unknown_position",
            StoreError::Conflict { .. } => "conflict",
            StoreError::Exists { .. } => "exists",
            StoreError::InvalidTranscript(_) => "invalid_transcript",
            StoreError::Foreign { .. } => "foreign",
            StoreError::Newer { .. } => "newer",
            StoreError::Damaged { .. } => "damaged",
            StoreError::Full { .. } => "full",
            StoreError::Busy { .. } => "busy",
            StoreError::Unavailable { .. } => "unavailable",
            StoreError::OutcomeUnknown { .. } => "outcome_unknown",
            StoreError::Refused { .. } => "refused",
        }
    }

    /// What to try next, in one line.
    pub const fn hint(&self) -> Option<&'static str> {
        Some(match self {
            StoreError::UnknownConversation { .. } => "list the conversations to see which there are",
            StoreError::UnknownPosition { .. } => "load the conversation to see its messages",
            StoreError::Conflict { .. } => {
                "somebody else has added to it: read what was added, and go on from there"
            }
            StoreError::Exists { .. } => "remove it first, or go on with the one that is there",
            StoreError::InvalidTranscript(InvalidTranscript::OtherVersion { .. }) => {
                "import it with the version of the program that exported it, or a newer one"
            }
            StoreError::InvalidTranscript(_) => {
                "export the conversation again, and import that file unchanged"
            }
            StoreError::Foreign { .. } => "name another place for the conversations",
            StoreError::Newer { .. } => "update the program, or name another place for the conversations",
            StoreError::Damaged { .. } => {
                "keep a copy of it, then restore it from a backup or name another place"
            }
            StoreError::Full { .. } => "make room, and try again: nothing was written",
            StoreError::Busy { .. } => "try again, or end the process that holds it",
            StoreError::Unavailable { .. } => "look whether it is running and within reach, and try again",
            StoreError::OutcomeUnknown { .. } => {
                "load the conversation to see whether the messages are there"
            }
            StoreError::Refused { .. } => return None,
        })
    }
}
