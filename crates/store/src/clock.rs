//! The time, and names made from it.

use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_contract::{ConversationId, StoreError, Timestamp};

pub(crate) fn now() -> Timestamp {
    // A clock before 1970 is wrong anyway; 0 keeps the order, because times never go back within a conversation.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn new_id(place: &str) -> Result<ConversationId, StoreError> {
    Ok(ConversationId::new(now(), random(place)?))
}

/// Random bytes from the system.
pub(crate) fn random<const LENGTH: usize>(place: &str) -> Result<[u8; LENGTH], StoreError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
        place: place.to_owned(),
        problem: format!("the system gives no random bytes: {error}"),
    })?;
    Ok(bytes)
}
