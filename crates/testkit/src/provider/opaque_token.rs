//! Tokens that a provider issues and expects back unchanged: thinking signatures, encrypted reasoning.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const TOKEN_SECRET: &str = "the providers of this testkit";

/// Issues a token for this content. [`open`] returns the content and detects any change.
pub(super) fn issue(kind: &str, content: &str) -> String {
    STANDARD.encode(format!("{}:{content}", digest(kind, content)))
}

/// Returns the content of a token of this kind, or `None` when the token was altered.
pub(super) fn open(kind: &str, token: &str) -> Option<String> {
    let opened = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    let (found, content) = opened.split_once(':')?;
    (found == digest(kind, content)).then(|| content.to_owned())
}

/// Returns a short fingerprint of a long text.
pub(super) fn digest(kind: &str, content: &str) -> String {
    let hash =
        Sha256::new().chain_update(TOKEN_SECRET).chain_update(kind).chain_update([0]).chain_update(content);
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Issues the signature of a thinking text.
pub(super) fn sign_thinking(thinking: &str) -> String {
    issue("thinking", &digest("thought", thinking))
}

/// Whether a signature was issued by [`sign_thinking`] for this text.
pub(super) fn is_thinking_signature(thinking: &str, signature: &str) -> bool {
    open("thinking", signature) == Some(digest("thought", thinking))
}
