//! The `Conversations` trait: a store of conversations.

use core::time::Duration;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use crate::conversation::{Conversation, ConversationId, Entry, InvalidId, Parent, Timestamp};
use crate::model::Usage;
pub use crate::transcript::{InvalidTranscript, Transcript};
use crate::{Message, Role};

/// The number of conversations that [`Conversations::forks`] reads at a time, where a store does not have a
/// better way to find them.
const LIST_PAGE: usize = 100;

/// A store of conversations. It is append-only and safe with concurrent writers.
///
/// A *position* is a number of messages: position 0 is before the first message, position 3 is after the
/// message with sequence number 3.
///
/// An `Ok` from a write is an acknowledgement: the data is stored, with the durability that the store
/// documents. After a future is dropped early, it is unknown whether the write happened.
pub trait Conversations: Send + Sync {
    /// Creates a conversation without messages.
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>>;

    /// Appends messages: either all of them in order, or none. Returns the position after the last one.
    ///
    /// With an `expected` position, the messages are appended only there. If another writer was faster,
    /// nothing is appended and the result is [`StoreError::Conflict`]. Without it, the store serializes the
    /// writers.
    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Returns the metadata of a conversation, without its messages.
    fn get<'a>(&'a self, conversation: &'a ConversationId)
    -> BoxFuture<'a, Result<Conversation, StoreError>>;

    /// Returns a consistent snapshot of a conversation and its entries after a position. Position 0 returns
    /// all entries, a position past the end returns none.
    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>>;

    /// Like [`Conversations::load`], but with the first `limit` of these entries.
    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(async move {
            let mut transcript = self.load(conversation, after).await?;
            transcript.entries.truncate(limit);
            Ok(transcript)
        })
    }

    /// Lists conversations, the most recently changed first. A conversation that changes between two pages
    /// moves to the front and does not appear in later pages.
    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>>;

    /// Sets or removes the title of a conversation. This does not update its `changed` time.
    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Creates an independent conversation that starts with the messages of another up to a position. It
    /// inherits the title and the model.
    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>>;

    /// Returns the forks of a conversation, the oldest first, even if the conversation itself was removed.
    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        Box::pin(async move {
            let mut forks = Vec::new();
            let mut after = None;
            loop {
                let page = self.list(LIST_PAGE, after).await?;
                forks.extend(page.conversations.into_iter().filter(|listed| listed.is_fork_of(conversation)));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            forks.sort_by(Conversation::by_creation);
            Ok(forks)
        })
    }

    /// Finds messages that contain every word of the query, or a longer word that starts with it. Case and
    /// accents are ignored.
    ///
    /// The most recently changed conversation comes first, and within it the newest message. A query without
    /// words finds nothing.
    fn search<'a>(&'a self, query: &'a str, limit: usize)
    -> BoxFuture<'a, Result<SearchResults, StoreError>>;

    /// Like [`Conversations::search`], in one conversation. A conversation that does not exist has no hits.
    fn search_in<'a>(
        &'a self,
        conversation: &'a ConversationId,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        Box::pin(async move {
            let mut found = self.search(query, usize::MAX).await?;
            found.hits.retain(|hit| hit.conversation == *conversation);
            found.hits.truncate(limit);
            Ok(found)
        })
    }

    /// Removes a conversation permanently. Its forks remain.
    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Restores a complete conversation under its own id, which must be unused; all or nothing.
    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>>;

    /// Returns a conversation in the JSON format that [`Transcript`] describes.
    fn export<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<String, StoreError>> {
        Box::pin(async move { Ok(self.load(conversation, 0).await?.to_json()) })
    }

    /// Restores a conversation from the output of [`Conversations::export`].
    fn import<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move { self.restore(Transcript::from_json(text)?).await })
    }
}

/// The initial metadata of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewConversation {
    pub title: Option<String>,
    pub model: Option<String>,
}

/// A message to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    pub message: Arc<Message>,
    /// The model that wrote it; it becomes the conversation's model.
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

/// One page of a list of conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationPage {
    pub conversations: Vec<Conversation>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

/// A position in the list of conversations, as returned by the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub changed: Timestamp,
    pub id: ConversationId,
}

/// The results of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResults {
    pub hits: Vec<SearchHit>,
    /// False if the store reached its search limit, so older conversations may contain more hits.
    pub is_complete: bool,
}

/// A message found by a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    pub conversation: ConversationId,
    pub title: Option<String>,
    pub sequence: u64,
    pub time: Timestamp,
    #[serde(serialize_with = "write_role")]
    pub role: Role,
    /// A line of the message around the first matching word, with `…` where it was truncated.
    pub snippet: String,
}

fn write_role<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.name())
}

/// A failed store operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("conversation `{conversation}` does not exist")]
    UnknownConversation { conversation: ConversationId },
    #[error(
        "position {position} is past the end of conversation `{conversation}`, which ends at position {messages}"
    )]
    UnknownPosition { conversation: ConversationId, position: u64, messages: u64 },
    /// Another writer was faster. Nothing was appended.
    #[error(
        "conversation `{conversation}` is at position {found}, not {expected}: another writer changed it"
    )]
    Conflict { conversation: ConversationId, expected: u64, found: u64 },
    #[error("conversation `{conversation}` already exists")]
    Exists { conversation: ConversationId },
    #[error("cannot import: {0}")]
    InvalidTranscript(#[from] InvalidTranscript),
    /// The file or the keys belong to another program.
    #[error("`{place}` is not a store of conversations: {problem}")]
    Foreign { place: String, problem: String },
    #[error(
        "`{place}` was written by a newer version: it has format {found}, this program supports up to {known}"
    )]
    Newer { place: String, found: u64, known: u64 },
    #[error("`{place}` is damaged: {problem}")]
    Damaged { place: String, problem: String },
    /// Nothing was written.
    #[error("no space left for `{place}`")]
    Full { place: String },
    /// Nothing was written.
    #[error("`{place}` was locked by another process for {after:?}")]
    Busy { place: String, after: Duration },
    /// Nothing was written.
    #[error("`{place}` is unavailable: {problem}")]
    Unavailable { place: String, problem: String },
    /// The connection broke after the messages were sent.
    #[error(
        "lost the connection to `{place}` during a write ({problem}); it is unknown whether the write happened"
    )]
    OutcomeUnknown { place: String, problem: String },
    #[error("`{place}` rejected the operation: {problem}")]
    Refused { place: String, problem: String },
}

impl StoreError {
    /// Returns a machine-readable code.
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

    /// Returns the next thing to try, in one line.
    pub const fn hint(&self) -> Option<&'static str> {
        Some(match self {
            StoreError::UnknownConversation { .. } => "list the conversations to find the right id",
            StoreError::UnknownPosition { .. } => "load the conversation to see its messages",
            StoreError::Conflict { .. } => "load the new messages and continue from there",
            StoreError::Exists { .. } => "remove it first, or use the existing one",
            StoreError::InvalidTranscript(InvalidTranscript::OtherVersion { .. }) => {
                "import it with the version that exported it, or a newer one"
            }
            StoreError::InvalidTranscript(_) => {
                "export the conversation again and import the unmodified file"
            }
            StoreError::Foreign { .. } => "configure another location for the conversations",
            StoreError::Newer { .. } => {
                "update the program, or configure another location for the conversations"
            }
            StoreError::Damaged { .. } => {
                "make a copy of it, then restore a backup or configure another location"
            }
            StoreError::Full { .. } => "free some space and retry; nothing was written",
            StoreError::Busy { .. } => "retry, or stop the process that holds the lock",
            StoreError::Unavailable { .. } => {
                "check that the server is running, or that the file can be written, then retry"
            }
            StoreError::OutcomeUnknown { .. } => {
                "load the conversation to see whether the messages were stored"
            }
            StoreError::Refused { .. } => return None,
        })
    }
}
