//! Prepares texts of remote servers for display.

use toolwire_contract::text::truncate;

use crate::Secret;

const MAX_DETAIL_CHARS: usize = 300;

/// Redacts secrets that were sent: authorization servers repeat them in error messages.
pub(super) fn redact(text: &str, secrets: &[Secret]) -> String {
    secrets
        .iter()
        .filter(|secret| !secret.expose().is_empty())
        .fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "…"))
}

/// Converts a text from a remote server to one line without control characters, and truncates it.
pub(super) fn single_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace(char::is_control, "\u{fffd}");
    truncate(&line, MAX_DETAIL_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_server_becomes_one_short_line() {
        assert_eq!(single_line("a\n  b\u{1b}[31m"), "a b\u{fffd}[31m");
        assert_eq!(single_line(&"ü".repeat(1000)).chars().count(), MAX_DETAIL_CHARS);
    }
}
