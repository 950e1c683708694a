//! Text helpers for messages: truncation, sizes, quotes for shells, name suggestions, and JSON pointers.

use std::borrow::Cow;
use std::fmt;

pub use crate::duration::parse_duration;
pub use crate::json::{
    MAX_NESTING_DEPTH, escape_pointer_segment, json_kind, nesting_depth, object_nesting_depth,
    unescape_pointer_segment,
};
pub use crate::tokens::estimate_tokens;

/// The similarity above which a name is suggested, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.75;
const MAX_SUGGESTIONS: usize = 3;

/// Shortens `text` to at most `max_chars` characters. If text is removed, the last character is `…`.
///
/// ```
/// use toolwire_contract::text::truncate;
///
/// assert_eq!(truncate("weather", 7), "weather");
/// assert_eq!(truncate("weather in Oslo", 8), "weather…");
/// ```
pub fn truncate(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.char_indices().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let end = text.char_indices().nth(max_chars.saturating_sub(1)).map_or(0, |(end, _)| end);
    Cow::Owned(format!("{}…", text[..end].trim_end()))
}

/// Formats a number of bytes, for people and models.
pub fn format_size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", (bytes + 500) / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Formats a number with its noun. The plural ends with `s`, or with `ies` instead of a `y` after a
/// consonant.
///
/// ```
/// use toolwire_contract::text::counted;
///
/// assert_eq!(counted(1, "tool"), "1 tool");
/// assert_eq!(counted(0, "more tool"), "0 more tools");
/// assert_eq!(counted(2, "property"), "2 properties");
/// assert_eq!(counted(3, "key"), "3 keys");
/// ```
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) {
        return format!("{number} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

/// Quotes a text as one word for a shell, if it needs quotes.
///
/// ```
/// use toolwire_contract::text::shell_word;
///
/// assert_eq!(shell_word("get_weather"), "get_weather");
/// assert_eq!(shell_word("it's"), r"'it'\''s'");
/// ```
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

/// Returns up to three of the `candidates` that are similar to a mistyped `name`, the most similar first.
///
/// ```
/// use toolwire_contract::text::nearest_names;
///
/// assert_eq!(nearest_names("serch", ["fetch", "search", "delete"]), ["search"]);
/// assert_eq!(nearest_names("create", ["documents_create", "weather"]), ["documents_create"]);
/// ```
pub fn nearest_names<'n>(name: &str, candidates: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let lowercase = name.to_lowercase();
    let mut similar: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (similarity(&lowercase, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    similar.into_iter().take(MAX_SUGGESTIONS).map(|(_, candidate)| candidate).collect()
}

fn similarity(one: &str, other: &str) -> f64 {
    // A missing or additional `prefix_` is the most likely mistake.
    let is_unprefixed = |long: &str, short: &str| {
        short.len() >= 3 && long.strip_suffix(short).is_some_and(|prefix| prefix.ends_with('_'))
    };
    if is_unprefixed(one, other) || is_unprefixed(other, one) {
        return 0.99;
    }
    strsim::jaro_winkler(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_comes_first() {
        let names = ["documents_create", "documents_delete", "weather"];
        assert_eq!(nearest_names("create", names), ["documents_create"]);
        assert_eq!(nearest_names("Wether", names), ["weather"]);
        assert_eq!(nearest_names("xyz", names), [""; 0]);
    }

    #[test]
    fn truncation_counts_characters() {
        let cases = [("", 0, ""), ("a", 0, "…"), ("äöü", 3, "äöü"), ("äöüß", 3, "äö…"), ("a b c", 3, "a…")];
        for (text, max_chars, expected) in cases {
            assert_eq!(truncate(text, max_chars), expected, "{text:?} in {max_chars}");
        }
    }

    #[test]
    fn sizes_are_rounded() {
        let sizes = [1, 999, 1_000, 12_345, 999_499, 5_242_880].map(format_size);
        assert_eq!(sizes, ["1 byte", "999 bytes", "1 kB", "12 kB", "999 kB", "5.2 MB"]);
    }
}
