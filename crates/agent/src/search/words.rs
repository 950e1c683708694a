//! The words of a text, in the form in which they are compared.

use rust_stemmers::{Algorithm, Stemmer};

/// Words that say nothing about what a tool does, sorted.
const EMPTY: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "its", "me", "more", "my", "need", "no", "not", "of", "on", "one", "only", "or", "our", "out", "please",
    "s", "should", "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "tool", "up", "us", "use", "used", "using", "want", "was", "we", "were",
    "what", "when", "where", "which", "who", "will", "with", "would", "you", "your",
];

/// The words of a text: parts of `camelCase` and `snake_case` names on their own, in lower case, without endings.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let stemmer = Stemmer::create(Algorithm::English);
    split(text)
        .into_iter()
        .filter(|word| EMPTY.binary_search(&word.as_str()).is_err())
        .map(move |word| stemmer.stem(&word).into_owned())
}

fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(character) = characters.next() {
        let begins = match before {
            // `camelCase`, and the last capital of `HTTPServer`.
            Some(before) if character.is_uppercase() => {
                before.is_lowercase()
                    || before.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase())
            }
            Some(before) => before.is_numeric() != character.is_numeric(),
            None => false,
        };
        if begins || !character.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
            before = Some(character);
        } else {
            before = None;
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
        assert_eq!(words(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_fall_into_their_parts() {
        check("listPullRequests", &["list", "pull", "request"]);
        check("get_HTTPServer-status", &["get", "http", "server", "status"]);
        check("s3.put.object2", &["3", "put", "object", "2"]);
        check("Löschen", &["löschen"]);
    }

    #[test]
    fn the_empty_words_are_sorted() {
        assert!(EMPTY.is_sorted());
    }

    #[test]
    fn endings_and_empty_words_do_not_count() {
        check("What is the weather? It was raining, I searched.", &["weather", "rain", "search"]);
    }
}
