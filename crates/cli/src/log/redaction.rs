//! Removes secrets from the log: other programs, such as MCP servers and providers, may repeat what they
//! received.

use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};

use crate::stderr::Stderr;

/// Replaces a secret.
const HIDDEN: &str = "[redacted]";

/// Shorter texts may be ordinary words.
const MIN_LENGTH: usize = 8;

/// Endings of the names of environment variables with secrets.
const SECRET_NAMES: [&str; 6] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS", "_ACCESS_KEY_ID"];

/// The texts that are removed from the log.
static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Removes these texts from the log from now on.
pub(crate) fn hide(secrets: impl IntoIterator<Item = String>) {
    let mut hidden = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    for secret in secrets {
        let secret = secret.trim().to_owned();
        if secret.len() >= MIN_LENGTH && !hidden.contains(&secret) {
            hidden.push(secret);
        }
    }
    // A secret may contain another one.
    hidden.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
}

/// Removes the values of environment variables whose names indicate secrets.
pub(super) fn hide_environment() {
    let is_secret = |name: &str| SECRET_NAMES.iter().any(|end| name.ends_with(end));
    hide(std::env::vars().filter(|(name, _)| is_secret(name)).map(|(_, value)| value));
}

/// Returns a text without secrets.
fn redacted(text: &str) -> String {
    let hidden = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = text.to_owned();
    for secret in hidden.iter().filter(|secret| text.contains(secret.as_str())).collect::<Vec<_>>() {
        text = text.replace(secret.as_str(), HIDDEN);
    }
    without_tokens(&text)
}

/// Removes the tokens after `Bearer`, and keys of gateways, which begin with `tw_`.
fn without_tokens(text: &str) -> String {
    let is_token = |character: char| character.is_ascii_alphanumeric() || "-._~+/=".contains(character);
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((position, start)) =
        ["Bearer ", "bearer ", "tw_"].iter().filter_map(|start| Some((rest.find(start)?, *start))).min()
    {
        let after = position + start.len();
        let end = rest[after..].find(|character| !is_token(character)).map_or(rest.len(), |end| after + end);
        let is_word = rest[..position]
            .chars()
            .next_back()
            .is_some_and(|before| before.is_alphanumeric() || before == '_');
        match end - after >= MIN_LENGTH && !is_word {
            true => {
                result.push_str(&rest[..position]);
                result.push_str(start);
                result.push_str(HIDDEN);
            }
            false => result.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    result.push_str(rest);
    result
}

/// Prints lines of the log to standard error, without secrets.
pub(super) struct Redacted;

impl Write for Redacted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The log writes complete lines.
        Stderr.write_all(redacted(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Stderr.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed() {
        hide(["secret-of-the-test".to_owned(), "secret-of-the-test-2".to_owned(), "word".to_owned()]);
        for (text, expected) in [
            ("a secret-of-the-test-2, secret-of-the-test", "a [redacted], [redacted]"),
            ("word", "word"),
            ("authorization: Bearer abcdefgh12345678\n", "authorization: Bearer [redacted]\n"),
            ("{\"key\":\"tw_0123456789abcdef\"}", "{\"key\":\"tw_[redacted]\"}"),
            ("Bearer token, two_or_three, tw_ and bearer", "Bearer token, two_or_three, tw_ and bearer"),
            ("Bearer é", "Bearer é"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}
