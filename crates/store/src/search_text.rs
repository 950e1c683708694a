//! Splits messages and queries into search terms without case and accents, the same on every backend.
//!
//! A term is a run of letters and digits. In scripts without spaces between words (Chinese, Japanese, Thai
//! and others), each character is a term, and so is an emoji; in a query, such characters must be adjacent.
//! SQLite's own tokenizers work differently, so SQLite receives text that is already split.

use std::iter;
use std::ops::Range;

use serde_json::Value;
use toolwire_contract::{Block, Content, Message, ResourceBody};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The maximum length of a snippet, in characters.
const MAX_SNIPPET_CHARS: usize = 160;
/// The number of characters in a snippet before the first match.
const SNIPPET_LEAD_CHARS: usize = 40;

/// Returns the searchable text of a message: its text, the names and string arguments of calls, and the text
/// of results. Images, audio and other binary content are excluded.
pub(crate) fn searchable_text(message: &Message) -> String {
    let mut text = String::new();
    for block in &message.content {
        match block {
            Block::Content(content) => add_content(content, &mut text),
            Block::Call { call, .. } => {
                add(&call.name, &mut text);
                if let Some(arguments) = &call.arguments {
                    arguments.values().for_each(|value| add_texts(value, &mut text));
                }
            }
            Block::Result { result, .. } => {
                result.blocks().iter().for_each(|content| add_content(content, &mut text));
            }
        }
    }
    text
}

fn add_content(content: &Content, text: &mut String) {
    match content {
        Content::Text { text: more, .. } => add(more, text),
        Content::Resource { resource, .. } => {
            if let ResourceBody::Text(more) = &resource.body {
                add(more, text);
            }
        }
        Content::ResourceLink(link) => add(&link.name, text),
        Content::Image { .. } | Content::Audio { .. } | Content::Other(_) => {}
    }
}

fn add_texts(value: &Value, text: &mut String) {
    // A stack instead of recursion, because arguments may be nested deeply.
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(more) => add(more, text),
            Value::Array(items) => pending.extend(items.iter().rev()),
            Value::Object(fields) => pending.extend(fields.values().rev()),
            _ => {}
        }
    }
}

fn add(more: &str, text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Returns the terms of a text, separated by spaces.
pub(crate) fn split_terms(text: &str) -> String {
    let mut split = String::with_capacity(text.len());
    for term in terms(text) {
        if !split.is_empty() {
            split.push(' ');
        }
        split.push_str(&term.folded);
    }
    split
}

/// A parsed search query.
pub(crate) struct Query {
    /// Every group must match. The terms of a group must be adjacent, and its last term may be a prefix.
    groups: Vec<Vec<String>>,
}

impl Query {
    pub(crate) fn new(text: &str) -> Query {
        let mut groups: Vec<Vec<String>> = Vec::new();
        let mut end_of_single = None;
        for term in terms(text) {
            let is_adjacent = term.is_single && end_of_single == Some(term.range.start);
            end_of_single = term.is_single.then_some(term.range.end);
            match groups.last_mut() {
                Some(group) if is_adjacent => group.push(term.folded),
                _ => groups.push(vec![term.folded]),
            }
        }
        Query { groups }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the query in the syntax of SQLite's FTS5. Terms contain only letters, digits and emoji, so
    /// quotes need no escaping.
    pub(crate) fn to_fts5(&self) -> String {
        let phrases: Vec<String> =
            self.groups.iter().map(|group| format!("\"{}\" *", group.join(" "))).collect();
        phrases.join(" AND ")
    }

    /// Returns a snippet of the text around the first match, if every group matches.
    pub(crate) fn find(&self, text: &str) -> Option<String> {
        let terms: Vec<Term> = terms(text).collect();
        let mut first = usize::MAX;
        for group in &self.groups {
            let at = terms.windows(group.len()).position(|window| matches_group(window, group))?;
            first = first.min(terms.get(at)?.range.start);
        }
        (first < usize::MAX).then(|| snippet(text, first))
    }
}

fn matches_group(window: &[Term], group: &[String]) -> bool {
    let last = group.len() - 1;
    let mut pairs = window.iter().zip(group).enumerate();
    pairs.all(
        |(index, (term, wanted))| {
            if index == last { term.folded.starts_with(wanted.as_str()) } else { term.folded == *wanted }
        },
    )
}

fn snippet(text: &str, at: usize) -> String {
    let start = text[..at].char_indices().rev().nth(SNIPPET_LEAD_CHARS - 1).map_or(0, |(index, _)| index);
    let end =
        text[start..].char_indices().nth(MAX_SNIPPET_CHARS).map_or(text.len(), |(index, _)| start + index);
    let mut line = String::new();
    if start > 0 {
        line.push('…');
    }
    // Control characters are removed like line breaks, because snippets are printed to terminals.
    let is_gap = |character: char| character.is_whitespace() || character.is_control();
    let parts: Vec<&str> = text[start..end].split(is_gap).filter(|part| !part.is_empty()).collect();
    line.push_str(&parts.join(" "));
    if end < text.len() {
        line.push('…');
    }
    line
}

struct Term {
    folded: String,
    range: Range<usize>,
    /// Whether it is a single character of a script without spaces.
    is_single: bool,
}

fn terms(text: &str) -> impl Iterator<Item = Term> {
    let mut characters = text.char_indices().peekable();
    let mut folded = String::new();
    iter::from_fn(move || {
        folded.clear();
        let mut start = None;
        while let Some(&(index, character)) = characters.peek() {
            let end = index + character.len_utf8();
            if is_single_term(character) {
                if let Some(start) = start {
                    // The previous term ends here; the character is processed in the next call.
                    return Some(Term { folded: folded.clone(), range: start..index, is_single: false });
                }
                characters.next();
                folded.extend(fold(character));
                return Some(Term { folded: folded.clone(), range: index..end, is_single: true });
            }
            characters.next();
            let length = folded.len();
            let mut is_in_term = true;
            for character in fold(character) {
                if character.is_alphanumeric() {
                    folded.push(character);
                } else {
                    is_in_term = false;
                }
            }
            if !is_in_term {
                folded.truncate(length);
                if let Some(start) = start {
                    return Some(Term { folded: folded.clone(), range: start..index, is_single: false });
                }
            } else if folded.len() > length && start.is_none() {
                start = Some(index);
            }
        }
        start.map(|start| Term { folded: folded.clone(), range: start..text.len(), is_single: false })
    })
}

/// Returns a character without case and accents; nothing for an accent itself.
fn fold(character: char) -> impl Iterator<Item = char> {
    let plain = character.is_ascii().then(|| character.to_ascii_lowercase());
    let other = (!character.is_ascii()).then(|| {
        iter::once(character)
            .nfkd()
            .flat_map(char::to_lowercase)
            .filter(|character| !is_combining_mark(*character))
            // The form of sigma at the end of a Greek word.
            .map(|character| if character == 'ς' { 'σ' } else { character })
    });
    plain.into_iter().chain(other.into_iter().flatten())
}

/// Whether a character is a term by itself: in a script without spaces between words, or an emoji.
fn is_single_term(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0E30 | 0x0E32..=0x0E33 | 0x0E40..=0x0E46 | 0x0E80..=0x0EDF // Thai and Lao, without their marks
        | 0x1000..=0x102A | 0x1780..=0x17B3 // Burmese and Khmer letters
        | 0x2600..=0x27BF | 0x1F000..=0x1FAFF // emoji
        | 0x3005..=0x3007 | 0x3041..=0x3096 | 0x309D..=0x309F | 0x30A1..=0x30FF | 0x31F0..=0x31FF // kana
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF // Han
    ) && !is_combining_mark(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_terms(text: &str, expected: &str) {
        assert_eq!(split_terms(text), expected);
    }

    #[test]
    fn terms_have_no_case_and_no_accents() {
        check_terms("Crème BRÛLÉE, e\u{301}te\u{301}!", "creme brulee ete");
        check_terms("ΟΔΥΣΣΕΥΣ Ὀδυσσεύς", "οδυσσευσ οδυσσευσ");
        check_terms("İstanbul ﬁsh Ⅷ", "istanbul fish viii");
        check_terms("a_b-c.d 3,14 \"x\"", "a b c d 3 14 x");
        check_terms("", "");
        check_terms("\u{301} … ½", "");
    }

    #[test]
    fn characters_of_scripts_without_spaces_are_terms() {
        check_terms("東京は雨 ok", "東 京 は 雨 ok");
        check_terms("v2東京3", "v2 東 京 3");
        check_terms("🦀🦀rust", "🦀 🦀 rust");
        check_terms("สวัสดี", "ส ว ส ด");
    }

    #[track_caller]
    fn check_found(query: &str, text: &str, expected: Option<&str>) {
        assert_eq!(Query::new(query).find(text).as_deref(), expected);
    }

    #[test]
    fn every_query_term_must_be_a_prefix_of_a_term() {
        check_found("weath PARIS", "The weather\nin Paris", Some("The weather in Paris"));
        check_found("eather", "The weather", None);
        check_found("weather rome", "The weather in Paris", None);
        check_found("京都", "東京は都", None);
        check_found("東京", "今日の東京", Some("今日の東京"));
        check_found("東 都", "東京都", Some("東京都"));
        check_found("…", "anything…", None);
    }

    #[test]
    fn a_snippet_is_truncated_between_characters() {
        let text = format!("{}needle{}", "ü".repeat(100), " é".repeat(200));
        // The query is not a prefix of the long term.
        check_found("needle", &text, None);
        let text = format!("{} needle{}", "ü".repeat(100), " é".repeat(200));
        let snippet = Query::new("needle").find(&text).expect("the query matches");
        assert_eq!(snippet, format!("…{} needle{}…", "ü".repeat(39), " é".repeat(57)));
    }

    #[test]
    fn all_texts_of_a_message_are_searchable() {
        let message: Message = serde_json::from_str(
            r#"{"role":"user","content":[{"type":"text","text":"one"},{"type":"image","data":"two","mimeType":"a/b"},
                {"type":"tool_use","id":"three","name":"four","input":{"five":["six",{"x":"seven"}],"n":8}},
                {"type":"tool_result","toolUseId":"9","content":[{"type":"text","text":"ten"},
                {"type":"resource","resource":{"uri":"u","text":"eleven"}}]}]}"#,
        )
        .expect("a valid message");
        assert_eq!(searchable_text(&message), "one\nfour\nsix\nseven\nten\neleven");
    }
}
