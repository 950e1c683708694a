//! The state of the Responses API: stored responses and conversations, and requests that continue them
//! ([ADR 0017](https://github.com/toolwire/toolwire/blob/main/docs/adr/0017-responses-state.md)).
//!
//! A stored response is complete by itself: it contains the items of the whole conversation, and the messages
//! that the client did not see. So a conversation can branch at any response, and removing one does not
//! affect the others. Only the owner of a response finds it.

mod background;
mod continuation;
mod conversations;
mod endpoints;
mod forwarded;
mod input;
mod pause;
mod record;
mod recording;
mod unstored;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{StateKey, StateStore};
use toolwire_dialect::client::ErrorKind;

use crate::principal::Principal;
use crate::response::Failure;
pub(crate) use background::{
    BackgroundResponse, Backgrounds, CallGate, GateSender, Resumed, RunRecord, SavedRequest, supervise,
};
pub(crate) use continuation::{Continuation, Purpose};
use endpoints::not_found;
pub(crate) use forwarded::record_forwarded;
pub(crate) use pause::{ClaimedPause, HeldClaim, StoredPause};
pub(crate) use recording::{KeptMessages, Recording};
pub(crate) use unstored::Unstored;

/// The start of the ids of conversations.
const CONVERSATION_PREFIX: &str = "conv_";

/// The place where responses are stored, and for how long.
#[derive(Clone)]
pub struct ResponseStorage {
    store: Arc<dyn StateStore>,
    retention: Duration,
}

impl ResponseStorage {
    /// The time after which OpenAI removes a response.
    pub const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// Stores each response for a time.
    pub fn new(store: Arc<dyn StateStore>, retention: Duration) -> ResponseStorage {
        ResponseStorage { store, retention }
    }
}

impl fmt::Debug for ResponseStorage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseStorage").field("retention", &self.retention).finish_non_exhaustive()
    }
}

/// Returns the key of a document; `None` if the text is not an id.
fn key_of(principal: &Principal, id: &str) -> Option<StateKey> {
    StateKey::new(principal.store_owner(), id).ok()
}

/// Returns the key of a response; `None` if the text is the id of something else.
fn response_key(principal: &Principal, id: &str) -> Option<StateKey> {
    key_of(principal, id).filter(|key| !key.id().starts_with(CONVERSATION_PREFIX))
}

/// Logs the error of a store, and returns one without its address.
fn unavailable(error: &StoreError) -> Failure {
    tracing::error!(%error, "the store of responses failed");
    no_store()
}

fn no_store() -> Failure {
    Failure::new(ErrorKind::Overloaded, "the store of responses is unavailable; send the request again later")
}
