//! The keys of a gateway's clients: their rights and limits, and the traits `KeyTable` and `UsageCounter`.

mod rights;

use core::fmt;
use core::str::FromStr;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::conversation::Timestamp;
use crate::conversations::StoreError;
pub use rights::{InvalidRights, KeyRights, ToolRule};

/// A stored key. The key itself is not stored, only its hash.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRecord {
    pub id: KeyId,
    /// A name for people.
    pub name: String,
    /// Keys of the same tenant share stored data, such as responses; `None` if the data of the key is not
    /// shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub digest: KeyDigest,
    #[serde(default)]
    pub rights: KeyRights,
    pub created: Timestamp,
    /// The key is invalid from this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The time when the key was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

impl KeyRecord {
    /// Whether the key is valid at a time.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

/// The public part of a key: 12 ASCII letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

/// Text that is not the id of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the id of a key; expected 12 letters and digits")]
pub struct InvalidKeyId {
    pub text: String,
}

impl KeyId {
    pub const LENGTH: usize = 12;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for KeyId {
    type Error = InvalidKeyId;

    fn try_from(text: String) -> Result<KeyId, InvalidKeyId> {
        let is_id = text.len() == KeyId::LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_id { Ok(KeyId(text)) } else { Err(InvalidKeyId { text }) }
    }
}

impl FromStr for KeyId {
    type Err = InvalidKeyId;

    fn from_str(text: &str) -> Result<KeyId, InvalidKeyId> {
        text.to_owned().try_into()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The SHA-256 hash of a key. It does not implement `PartialEq`: the duration of such a comparison would
/// reveal how many bytes match.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyDigest([u8; 32]);

/// Text that is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits")]
pub struct InvalidDigest;

impl KeyDigest {
    pub fn new(bytes: [u8; 32]) -> KeyDigest {
        KeyDigest(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<String> for KeyDigest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<KeyDigest, InvalidDigest> {
        let mut bytes = [0; 32];
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or(InvalidDigest)?;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(KeyDigest(bytes))
    }
}

impl From<KeyDigest> for String {
    fn from(digest: KeyDigest) -> String {
        digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// The table of the keys.
///
/// A change is visible to all gateways that share the table. A gateway may cache a record for a few seconds.
pub trait KeyTable: Send + Sync {
    /// Adds a key. Returns false if there is a key with this id.
    fn add(&self, key: KeyRecord) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Finds a key by its id.
    fn find<'a>(&'a self, id: &'a KeyId) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>>;

    /// Returns all keys, the oldest first.
    fn list(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>>;

    /// Revokes a key. Returns its record; the time of an earlier revocation stays.
    fn revoke<'a>(
        &'a self,
        id: &'a KeyId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>>;

    /// Returns the number of keys, including those that are revoked or have expired.
    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// The limits of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageLimits {
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_month: Option<u64>,
}

impl UsageLimits {
    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        *self == UsageLimits::default()
    }

    /// Whether tokens are limited.
    pub fn counts_tokens(&self) -> bool {
        self.tokens_per_minute.is_some() || self.tokens_per_month.is_some()
    }
}

/// A request that counts against the limits of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Identifies the key: letters, digits, `_` and `-`.
    pub owner: String,
    /// Identifies the request, so that an operation that is repeated after a broken connection counts once.
    pub id: String,
    /// The estimate of the tokens.
    pub tokens: u64,
    pub limit: UsageLimits,
    /// The month of the budget, such as `2026-11`.
    pub month: String,
    /// The time after which the reserved tokens are free again, if the reservation is not settled because the
    /// process has ended.
    pub lifetime: core::time::Duration,
}

/// The minute in which a request was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute(pub u64);

/// A limit that a request would exceed. Nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The limit of requests per minute, and the time until the next minute.
    Requests(core::time::Duration),
    /// The limit of tokens per minute, and the time until the next minute.
    Tokens(core::time::Duration),
    /// The limit of tokens per minute, which the request alone exceeds.
    TooLarge,
    /// The limit of tokens per month.
    Budget,
}

/// Counts requests and tokens. Each operation is atomic, so that concurrent requests never exceed a limit
/// together.
pub trait UsageCounter: Send + Sync {
    /// Counts a request and reserves its tokens, unless a limit would be exceeded.
    fn reserve<'a>(
        &'a self,
        reservation: &'a Reservation,
    ) -> BoxFuture<'a, Result<Result<Minute, LimitReached>, StoreError>>;

    /// Replaces the reserved tokens by those that were used.
    fn settle<'a>(
        &'a self,
        reservation: &'a Reservation,
        minute: Minute,
        used: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the tokens of a month that a key has used, without those that are reserved. They are counted
    /// only for keys with a budget.
    fn used<'a>(&'a self, owner: &'a str, month: &'a str) -> BoxFuture<'a, Result<u64, StoreError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_digests_have_one_form() {
        assert!("0123456789aB".parse::<KeyId>().is_ok());
        for wrong in ["", "0123456789a", "0123456789abc", "0123456789a}", "0123456789a:", "01234567é9a"] {
            assert!(wrong.parse::<KeyId>().is_err(), "{wrong}");
        }
        let digest = KeyDigest::new(std::array::from_fn(|index| index as u8 * 7));
        let text = String::from(digest.clone());
        let read = KeyDigest::try_from(text.clone()).expect("a digest");
        assert_eq!(read.as_bytes(), digest.as_bytes());
        assert_eq!(format!("{read:?}"), "…");
        for wrong in [text[1..].to_owned(), format!("{text}00"), text.replace("00", "zz")] {
            assert!(KeyDigest::try_from(wrong).is_err());
        }
    }

    #[test]
    fn a_key_is_valid_until_it_expires_or_is_revoked() {
        let key = KeyRecord {
            id: "0123456789ab".parse().expect("an id"),
            name: "one".to_owned(),
            tenant: None,
            digest: KeyDigest::new([1; 32]),
            rights: KeyRights::default(),
            created: Timestamp(1),
            expires: Some(Timestamp(10)),
            revoked: None,
        };
        assert!(key.is_valid_at(Timestamp(9)));
        assert!(!key.is_valid_at(Timestamp(10)));
        assert!(!KeyRecord { revoked: Some(Timestamp(5)), ..key.clone() }.is_valid_at(Timestamp(6)));
        assert!(KeyRecord { expires: None, ..key.clone() }.is_valid_at(Timestamp(u64::MAX)));
        let text = serde_json::to_string(&key).expect("JSON");
        let mut with_unknown: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(serde_json::from_str::<KeyRecord>(&text).is_ok());
        with_unknown["rights"]["onlyOnSundays"] = true.into();
        assert!(
            serde_json::from_value::<KeyRecord>(with_unknown).is_err(),
            "a restriction of a newer version must not be ignored"
        );
    }
}
