//! The JSON of a stored key. The time of its revocation is stored apart, so that revoking never rewrites a
//! record.

use toolwire_contract::keys::KeyRecord;

pub(crate) fn to_json(key: &KeyRecord) -> String {
    let stored = KeyRecord { revoked: None, ..key.clone() };
    serde_json::to_string(&stored).expect("texts, numbers and lists of texts are always valid JSON")
}

/// Reads a record; returns the problem if it cannot be read.
pub(crate) fn from_json(text: &str) -> Result<KeyRecord, String> {
    serde_json::from_str(text).map_err(|error| format!("a key cannot be read: {error}"))
}
