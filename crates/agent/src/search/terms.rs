//! Splits text into search terms.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// Words without information about what a tool does, sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "its", "me", "more", "my", "need", "no", "not", "of", "on", "one", "only", "or", "our", "out", "please",
    "s", "should", "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "tool", "up", "us", "use", "used", "using", "want", "was", "we", "were",
    "what", "when", "where", "which", "who", "will", "with", "would", "you", "your",
];

/// Words that say nothing about the tool in a query, in addition to [`STOP_WORDS`], sorted. In definitions
/// they are rare and would therefore count much. Some of them are actions, which count separately.
const QUERY_STOP_WORDS: &[&str] = &[
    "actually",
    "again",
    "already",
    "always",
    "am",
    "another",
    "back",
    "because",
    "being",
    "both",
    "called",
    "completely",
    "currently",
    "d",
    "did",
    "doesn",
    "doing",
    "don",
    "each",
    "else",
    "ever",
    "every",
    "exactly",
    "few",
    "give",
    "go",
    "going",
    "got",
    "he",
    "her",
    "here",
    "hers",
    "him",
    "his",
    "isn",
    "just",
    "know",
    "lately",
    "let",
    "like",
    "ll",
    "look",
    "lot",
    "m",
    "made",
    "make",
    "many",
    "may",
    "maybe",
    "might",
    "moment",
    "much",
    "must",
    "myself",
    "never",
    "now",
    "off",
    "often",
    "once",
    "other",
    "over",
    "own",
    "per",
    "put",
    "quite",
    "rather",
    "re",
    "really",
    "right",
    "same",
    "see",
    "shall",
    "she",
    "since",
    "soon",
    "still",
    "sure",
    "take",
    "tell",
    "theirs",
    "thing",
    "things",
    "think",
    "those",
    "through",
    "too",
    "under",
    "until",
    "ve",
    "very",
    "via",
    "well",
    "went",
    "while",
    "whole",
    "whose",
    "why",
    "yes",
    "yet",
];

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Returns the stem of a word in lower case.
pub(super) fn stem(word: &str) -> String {
    STEMMER.stem(word).into_owned()
}

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Returns the words of a query to search for, each once: those with information, else all.
pub(super) fn query_words(query: &str) -> Vec<String> {
    let mut all = words(query);
    let mut stems = HashSet::new();
    all.retain(|word| !is_stop_word(word) && stems.insert(stem(word)));
    let is_informative =
        |word: &&String| QUERY_STOP_WORDS.binary_search(&word.as_str()).is_err() && !is_number(word);
    let informative: Vec<String> = all.iter().filter(is_informative).cloned().collect();
    if informative.is_empty() { all } else { informative }
}

/// Whether a word has a meaning of its own, so that an embedding of it is useful.
pub(super) fn is_comparable(word: &str) -> bool {
    word.chars().count() >= MIN_COMPARABLE_CHARS && word.chars().all(char::is_alphabetic)
}

/// Shorter words are abbreviations, or pairs of Chinese or Japanese characters.
const MIN_COMPARABLE_CHARS: usize = 3;

fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
}

/// Returns the words of a text and the parts of `camelCase` and `snake_case` names, in lower case. Chinese
/// and Japanese do not separate words, so each pair of neighbouring characters is one.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in split(text) {
        if word.len() <= 2 * MAX_CHAR_BYTES || !word.chars().any(has_no_spaces) {
            words.push(word);
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        words.extend(characters.windows(2).map(String::from_iter));
    }
    words
}

/// The size in UTF-8 of the characters of Chinese and Japanese.
const MAX_CHAR_BYTES: usize = 3;

fn has_no_spaces(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
}

fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    let mut previous: Option<char> = None;
    while let Some(character) = characters.next() {
        let starts_word = match previous {
            // The `C` of `camelCase` and the `S` of `HTTPServer`.
            Some(previous) if character.is_uppercase() => {
                previous.is_lowercase()
                    || previous.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase())
            }
            Some(previous) => previous.is_numeric() != character.is_numeric(),
            None => false,
        };
        if starts_word || !character.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
            previous = Some(character);
        } else {
            previous = None;
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text), expected);
    }

    #[test]
    fn names_are_split_into_their_parts() {
        check("listPullRequests", &["list", "pull", "requests"]);
        check("get_HTTPServer-status", &["get", "http", "server", "status"]);
        check("s3.put.object2", &["s", "3", "put", "object", "2"]);
        check("Löschen", &["löschen"]);
        check("查询菜谱 a", &["查询", "询菜", "菜谱", "a"]);
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(QUERY_STOP_WORDS.is_sorted());
    }

    #[track_caller]
    fn check_query(query: &str, expected: &[&str]) {
        assert_eq!(query_words(query), expected);
    }

    #[test]
    fn only_words_with_information_are_searched_for() {
        check_query("What is the weather like now? Weather in 3 days", &["weather", "days"]);
        check_query("42", &["42"]);
        check_query("see now", &["see", "now"]);
        check_query("is it", &[]);
        assert_eq!(stem("searched"), "search");
    }
}
