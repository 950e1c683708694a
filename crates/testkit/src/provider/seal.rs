//! Tokens that a provider gives out and wants back unchanged: signatures of thinking, encrypted reasoning.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const SECRET: &str = "the providers of this testkit";

/// A token for this content that [`unseal`] gives back; one who changes a character of it has none.
pub(super) fn seal(kind: &str, content: &str) -> String {
    STANDARD.encode(format!("{}:{content}", digest(kind, content)))
}

/// The content of a token made for this kind of thing, unless it was altered.
pub(super) fn unseal(kind: &str, token: &str) -> Option<String> {
    let opened = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    let (found, content) = opened.split_once(':')?;
    (found == digest(kind, content)).then(|| content.to_owned())
}

/// A short fingerprint, for tokens that stand for a long text.
pub(super) fn digest(kind: &str, content: &str) -> String {
    let hash = Sha256::new().chain_update(SECRET).chain_update(kind).chain_update([0]).chain_update(content);
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}
