//! The `StateStore` trait: what a gateway keeps for its clients between their requests.

use core::fmt;
use core::time::Duration;

use futures_core::future::BoxFuture;

use crate::conversations::StoreError;

/// A store of documents that expire, each with an owner. It is safe with concurrent processes.
///
/// An `Ok` from a write is an acknowledgement: the data is stored, with the durability that the store
/// documents. After a future is dropped early, it is unknown whether the write happened.
pub trait StateStore: Send + Sync {
    /// Stores a document for a time, and replaces an earlier one with the same key.
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns a document; `None` if there is none with this key, or if it has expired.
    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>>;

    /// Removes a document and its log; returns whether the document existed.
    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Gives a right to one holder. Returns false if another one has it. The holder that has it may claim it
    /// again. A claim exists independently of a document with the same key.
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Takes the right back, if this holder has it.
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Gives a right to a holder, even if another one has it. The other one can no longer write
    /// ([`StateStore::write_held`]).
    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes the document and the log with the key of a claim, and renews the claim for its lifetime. Returns
    /// false, and changes nothing, if the holder does not have the right now: because another one has it, or
    /// because it has expired. So the holder is a fencing token, if each claim has a new one. Writing the same
    /// again changes nothing.
    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Returns up to `limit` entries of a log from a position on; none if it has expired.
    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// Adds a key to the list of unfinished work; it is due after a time. If the key is already in the list,
    /// only its time changes. The list is independent of documents and claims, and its entries do not expire.
    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a key from the list of unfinished work.
    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns up to `limit` keys of the list of unfinished work that are due, beginning with those that have
    /// been due for the longest time.
    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>>;
}

/// What the holder of a claim writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldWrite {
    /// The new document; `None` leaves it as it is.
    pub document: Option<String>,
    /// The time for which the new document is stored.
    pub lifetime: Duration,
    /// The position in the log, from 0, of the first of the new entries. Entries from there on are replaced. The
    /// log must have all entries before.
    pub position: u64,
    pub entries: Vec<String>,
    /// The time for which the whole log is stored, if there are new entries.
    pub log_lifetime: Duration,
}

/// The key of a document: its owner, and its id, which is unique for the owner. Both have only ASCII letters,
/// digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    owner: String,
    id: String,
}

/// Text that is not a part of the key of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {max} ASCII letters, digits, `_` and `-`", max = StateKey::MAX_LENGTH)]
pub struct InvalidStateKey;

impl StateKey {
    /// The maximum length of an owner and of an id.
    pub const MAX_LENGTH: usize = 128;

    pub fn new(owner: impl Into<String>, id: impl Into<String>) -> Result<StateKey, InvalidStateKey> {
        let (owner, id) = (owner.into(), id.into());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_valid =
            |text: &str| (1..=StateKey::MAX_LENGTH).contains(&text.len()) && text.bytes().all(is_plain);
        if is_valid(&owner) && is_valid(&id) { Ok(StateKey { owner, id }) } else { Err(InvalidStateKey) }
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.owner, self.id)
    }
}

/// A right that only one holder has, such as the right to continue a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub key: StateKey,
    /// Identifies the holder, such as one process: ASCII letters and digits.
    pub holder: String,
    /// The time until the right is free again.
    pub lifetime: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_plain_characters() {
        let key = StateKey::new("tenant_1", "resp_aB-9").expect("a key");
        assert_eq!(
            (key.owner(), key.id(), key.to_string().as_str()),
            ("tenant_1", "resp_aB-9", "tenant_1:resp_aB-9")
        );
        let long = "a".repeat(129);
        for wrong in ["", "a b", "a:b", "{a}", "é", "a\n", "../a", &long] {
            assert_eq!(StateKey::new(wrong, "a"), Err(InvalidStateKey), "{wrong}");
            assert_eq!(StateKey::new("a", wrong), Err(InvalidStateKey), "{wrong}");
        }
    }
}
