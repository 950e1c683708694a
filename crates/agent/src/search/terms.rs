//! Splits text into search terms.

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

/// Returns the search terms of a text: its words and the parts of `camelCase` and `snake_case` names, in
/// lower case, stemmed, without stop words.
pub(super) fn terms(text: &str) -> impl Iterator<Item = String> {
    let stemmer = Stemmer::create(Algorithm::English);
    words(text)
        .into_iter()
        .filter(|word| STOP_WORDS.binary_search(&word.as_str()).is_err())
        .map(move |word| stemmer.stem(&word).into_owned())
}

fn words(text: &str) -> Vec<String> {
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
        assert_eq!(terms(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_are_split_into_their_parts() {
        check("listPullRequests", &["list", "pull", "request"]);
        check("get_HTTPServer-status", &["get", "http", "server", "status"]);
        check("s3.put.object2", &["3", "put", "object", "2"]);
        check("Löschen", &["löschen"]);
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn words_are_stemmed_and_stop_words_removed() {
        check("What is the weather? It was raining, I searched.", &["weather", "rain", "search"]);
    }
}
