//! The current time, and conversation ids made from it.

use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_contract::conversations::{ConversationId, StoreError, Timestamp};

pub(crate) fn now() -> Timestamp {
    // A clock before 1970 is wrong; 0 is safe, because times never decrease within a conversation.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn new_id(place: &str) -> Result<ConversationId, StoreError> {
    Ok(ConversationId::new(now(), random(place)?))
}

/// Returns random bytes from the operating system.
pub(crate) fn random<const LENGTH: usize>(place: &str) -> Result<[u8; LENGTH], StoreError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
        place: place.to_owned(),
        problem: format!("the operating system provides no random bytes: {error}"),
    })?;
    Ok(bytes)
}
