//! What a search looks at: words without case and accents, the same on every backend.
//!
//! A word is a run of letters and digits. Scripts that put no spaces between words (Chinese, Japanese, Thai and their
//! neighbours) give one word for each character, and so does an emoji; in a query such characters must then stand
//! side by side. SQLite's own tokenizers disagree with this, so it is handed words that are already split.

use std::iter;
use std::ops::Range;

use serde_json::Value;
use toolwire_contract::{Block, Content, Message, ResourceBody};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// How many characters of a message a hit shows.
const SNIPPET: usize = 160;
/// How many of them stand before the word that was found.
const BEFORE: usize = 40;

/// What can be searched in a message: its text, the names and the texts in calls, and the texts of results. Pictures,
/// sounds and other binary content are left out.
pub(crate) fn text_of(message: &Message) -> String {
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
    // A list instead of recursion: arguments may be as deep as a model likes.
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(more) => add(more, text),
            Value::Array(items) => left.extend(items.iter().rev()),
            Value::Object(fields) => left.extend(fields.values().rev()),
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

/// The words of a text, one space between them.
pub(crate) fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for word in words(text) {
        if !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.push_str(&word.folded);
    }
    spaced
}

/// What is looked for.
pub(crate) struct Query {
    /// Each must be found; the words of one group stand side by side, and the last may go on.
    groups: Vec<Vec<String>>,
}

impl Query {
    pub(crate) fn new(text: &str) -> Query {
        let mut groups: Vec<Vec<String>> = Vec::new();
        let mut end_of_lone = None;
        for word in words(text) {
            let goes_on = word.is_lone && end_of_lone == Some(word.place.start);
            end_of_lone = word.is_lone.then_some(word.place.end);
            match groups.last_mut() {
                Some(group) if goes_on => group.push(word.folded),
                _ => groups.push(vec![word.folded]),
            }
        }
        Query { groups }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The query in the words of SQLite's FTS5. Words hold letters, digits and emoji, so quotes need no care.
    pub(crate) fn to_fts5(&self) -> String {
        let phrases: Vec<String> =
            self.groups.iter().map(|group| format!("\"{}\" *", group.join(" "))).collect();
        phrases.join(" AND ")
    }

    /// A line of the text around the first place that fits, if for every group there is one.
    pub(crate) fn find(&self, text: &str) -> Option<String> {
        let words: Vec<Word> = words(text).collect();
        let mut first = usize::MAX;
        for group in &self.groups {
            let at = words.windows(group.len()).position(|window| fits(window, group))?;
            first = first.min(words.get(at)?.place.start);
        }
        (first < usize::MAX).then(|| snippet(text, first))
    }
}

fn fits(window: &[Word], group: &[String]) -> bool {
    let last = group.len() - 1;
    let mut pairs = window.iter().zip(group).enumerate();
    pairs.all(
        |(index, (word, wanted))| {
            if index == last { word.folded.starts_with(wanted.as_str()) } else { word.folded == *wanted }
        },
    )
}

fn snippet(text: &str, at: usize) -> String {
    let start = text[..at].char_indices().rev().nth(BEFORE - 1).map_or(0, |(index, _)| index);
    let end = text[start..].char_indices().nth(SNIPPET).map_or(text.len(), |(index, _)| start + index);
    let mut line = String::new();
    if start > 0 {
        line.push('…');
    }
    // Control characters go with the line breaks: a hit is shown in terminals.
    let is_gap = |character: char| character.is_whitespace() || character.is_control();
    let parts: Vec<&str> = text[start..end].split(is_gap).filter(|part| !part.is_empty()).collect();
    line.push_str(&parts.join(" "));
    if end < text.len() {
        line.push('…');
    }
    line
}

struct Word {
    folded: String,
    place: Range<usize>,
    /// Whether it is a character that is a word of its own.
    is_lone: bool,
}

fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut characters = text.char_indices().peekable();
    let mut folded = String::new();
    iter::from_fn(move || {
        folded.clear();
        let mut start = None;
        while let Some(&(index, character)) = characters.peek() {
            let end = index + character.len_utf8();
            if is_lone(character) {
                if let Some(start) = start {
                    // The run before it ends here; the character is looked at again.
                    return Some(Word { folded: folded.clone(), place: start..index, is_lone: false });
                }
                characters.next();
                folded.extend(fold(character));
                return Some(Word { folded: folded.clone(), place: index..end, is_lone: true });
            }
            characters.next();
            let length = folded.len();
            let mut is_word = true;
            for character in fold(character) {
                if character.is_alphanumeric() {
                    folded.push(character);
                } else {
                    is_word = false;
                }
            }
            if !is_word {
                folded.truncate(length);
                if let Some(start) = start {
                    return Some(Word { folded: folded.clone(), place: start..index, is_lone: false });
                }
            } else if folded.len() > length && start.is_none() {
                start = Some(index);
            }
        }
        start.map(|start| Word { folded: folded.clone(), place: start..text.len(), is_lone: false })
    })
}

/// A character without case and accents: nothing for an accent itself.
fn fold(character: char) -> impl Iterator<Item = char> {
    let plain = character.is_ascii().then(|| character.to_ascii_lowercase());
    let other = (!character.is_ascii()).then(|| {
        iter::once(character)
            .nfkd()
            .flat_map(char::to_lowercase)
            .filter(|character| !is_combining_mark(*character))
            // The same letter, written differently at the end of a Greek word.
            .map(|character| if character == 'ς' { 'σ' } else { character })
    });
    plain.into_iter().chain(other.into_iter().flatten())
}

/// Whether a character is a word of its own: a script without spaces between words, or an emoji.
fn is_lone(character: char) -> bool {
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
    fn check_words(text: &str, expected: &str) {
        assert_eq!(spaced(text), expected);
    }

    #[test]
    fn words_have_no_case_and_no_accents() {
        check_words("Crème BRÛLÉE, e\u{301}te\u{301}!", "creme brulee ete");
        check_words("ΟΔΥΣΣΕΥΣ Ὀδυσσεύς", "οδυσσευσ οδυσσευσ");
        check_words("İstanbul ﬁsh Ⅷ", "istanbul fish viii");
        check_words("a_b-c.d 3,14 \"x\"", "a b c d 3 14 x");
        check_words("", "");
        check_words("\u{301} … ½", "");
    }

    #[test]
    fn characters_without_spaces_are_words() {
        check_words("東京は雨 ok", "東 京 は 雨 ok");
        check_words("v2東京3", "v2 東 京 3");
        check_words("🦀🦀rust", "🦀 🦀 rust");
        check_words("สวัสดี", "ส ว ส ด");
    }

    #[track_caller]
    fn check_found(query: &str, text: &str, expected: Option<&str>) {
        assert_eq!(Query::new(query).find(text).as_deref(), expected);
    }

    #[test]
    fn every_word_must_begin_a_word() {
        check_found("weath PARIS", "The weather\nin Paris", Some("The weather in Paris"));
        check_found("eather", "The weather", None);
        check_found("weather rome", "The weather in Paris", None);
        check_found("京都", "東京は都", None);
        check_found("東京", "今日の東京", Some("今日の東京"));
        check_found("東 都", "東京都", Some("東京都"));
        check_found("…", "anything…", None);
    }

    #[test]
    fn a_snippet_is_cut_between_characters() {
        let text = format!("{}needle{}", "ü".repeat(100), " é".repeat(200));
        // The word is not at the beginning of the run of letters before it.
        check_found("needle", &text, None);
        let text = format!("{} needle{}", "ü".repeat(100), " é".repeat(200));
        let snippet = Query::new("needle").find(&text).expect("it is there");
        assert_eq!(snippet, format!("…{} needle{}…", "ü".repeat(39), " é".repeat(57)));
    }

    #[test]
    fn a_message_is_searched_in_all_its_texts() {
        let message: Message = serde_json::from_str(
            r#"{"role":"user","content":[{"type":"text","text":"one"},{"type":"image","data":"two","mimeType":"a/b"},
                {"type":"tool_use","id":"three","name":"four","input":{"five":["six",{"x":"seven"}],"n":8}},
                {"type":"tool_result","toolUseId":"9","content":[{"type":"text","text":"ten"},
                {"type":"resource","resource":{"uri":"u","text":"eleven"}}]}]}"#,
        )
        .expect("it is a message");
        assert_eq!(text_of(&message), "one\nfour\nsix\nseven\nten\neleven");
    }
}
