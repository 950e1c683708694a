//! Untrusted text made safe for a terminal: no control characters, a known width.

use std::borrow::Cow;

use terminal_size::{Height, Width};
use toolwire_contract::text::counted;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Replaces every character that could move the cursor, change colours or reorder the line.
pub(crate) fn sanitize(text: &str) -> String {
    text.chars().map(|character| if is_unsafe(character) { '\u{fffd}' } else { character }).collect()
}

/// Like [`sanitize`], but keeps line breaks and tabs.
pub(crate) fn sanitize_lines(text: &str) -> String {
    let is_safe = |character: char| matches!(character, '\n' | '\t') || !is_unsafe(character);
    text.chars().map(|character| if is_safe(character) { character } else { '\u{fffd}' }).collect()
}

/// Describes what the model no longer reads, for a note.
pub(crate) fn describe_reduction(reduction: &toolwire_agent::ContextReduction) -> String {
    let parts = [
        (reduction.messages_omitted, "older message", "omitted"),
        (reduction.results_shortened, "older result", "shortened"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, verb)| format!("{} {verb}", counted(*count, what)))
        .collect();
    let parts = if parts.is_empty() { "older parts omitted".to_owned() } else { parts.join(" and ") };
    format!("the context window is nearly full: {parts} in requests; `/compact` in chat summarizes instead")
}

/// Describes why the tool search has no embeddings, for a note.
pub(crate) fn describe_embedding_failure(failure: &toolwire_agent::search::EmbeddingFailure) -> String {
    use toolwire_agent::search::EmbeddingFailure;
    let reason = match failure {
        EmbeddingFailure::Pending { model } => format!("`{model}` is still embedding the tools"),
        EmbeddingFailure::Failed(error) => error.to_string(),
        _ => "no embeddings are available".to_owned(),
    };
    format!("the tool search compares only words: {}", sanitize(&reason))
}

/// The number of columns that `text` takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Shortens `text` to at most `columns`, with an ellipsis at the end if it was longer.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if text.len() <= columns || width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut end = 0;
    // A name may contain any number of zero-width characters: more than a few per column are dropped.
    for (start, character) in text.char_indices().take(room * 8) {
        let next = start + character.len_utf8();
        if width(&text[..next]) > room {
            break;
        }
        end = next;
    }
    // A joiner at the end would merge with the ellipsis.
    format!("{}…", text[..end].trim_end_matches('\u{200d}'))
}

/// Pads `text` with spaces to a width of `columns`.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Wraps lines of styled text at spaces if they are printed to a terminal. A program gets them unchanged.
///
/// The next lines of a wrapped line are indented like its text: after the name in `name  description`. A word
/// that is too long stays whole, so that URLs can be copied.
pub(crate) fn wrapped_for(terminal: Option<(Width, Height)>, text: &str) -> Cow<'_, str> {
    match terminal {
        Some((Width(columns), _)) => {
            let columns = usize::from(columns);
            Cow::Owned(text.split_inclusive('\n').map(|line| wrapped_line(line, columns)).collect())
        }
        None => Cow::Borrowed(text),
    }
}

fn wrapped_line(line: &str, columns: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    if width(plain.trim_end_matches('\n')) <= columns {
        return line.to_owned();
    }
    let text_start = plain.len() - plain.trim_start_matches(' ').len();
    let starts = plain.match_indices("  ").map(|(gap, spaces)| gap + spaces.len());
    let starts = starts.filter(|start| *start > text_start && !plain[*start..].starts_with(' '));
    let start = starts.filter(|start| width(&plain[..*start]) <= columns / 2).last().unwrap_or(text_start);
    let indent = width(&plain[..start]);
    let mut text = String::new();
    let mut used = 0;
    let mut has_word = false;
    for word in line.split_inclusive(' ') {
        let (word, space) = match word.strip_suffix(' ') {
            Some(word) => (word, " "),
            None => (word, ""),
        };
        let word_width =
            width(anstream::adapter::strip_str(word.trim_end_matches('\n')).to_string().as_str());
        if has_word && word_width > 0 && used + word_width > columns {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            used = indent;
        }
        has_word |= word_width > 0;
        text.push_str(word);
        text.push_str(space);
        used += word_width + space.len();
    }
    text
}

/// Breaks `text` at spaces into lines of at most `columns`. A longer word starts on its own line and is
/// broken.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        for grapheme in word.graphemes(true) {
            let grapheme_width = width(grapheme);
            if used > 0 && used + grapheme_width > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push_str(grapheme);
            used += grapheme_width;
        }
    }
    lines.push(line);
    lines
}

/// The format characters of Unicode (category Cf), sorted.
const FORMAT_CHARACTERS: [(char, char); 21] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character is displayed as nothing or as a space, or changes the direction of writing: control
/// and format characters, fillers, variation selectors, and all spaces but the usual one.
pub(crate) fn is_invisible(character: char) -> bool {
    let is_format = FORMAT_CHARACTERS.iter().any(|(first, last)| (*first..=*last).contains(&character));
    is_format
        || is_unsafe(character)
        || (character.is_whitespace() && character != ' ')
        || matches!(character,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2065}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Control characters and marks that change the direction of writing.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_not_truncated() {
        assert_eq!(truncate("get_weather", 11), "get_weather");
        assert_eq!(truncate("天気", 4), "天気");
        assert_eq!(truncate("", 0), "");
    }

    #[test]
    fn truncation_counts_columns_and_not_characters() {
        assert_eq!(truncate("get_weather", 6), "get_w…");
        assert_eq!(truncate("天気予報", 6), "天気…");
        assert_eq!(width(&truncate("天気予報", 6)), 5);
        assert_eq!(truncate("🎈🎈🎈🎈", 4), "🎈…");
        assert_eq!(truncate("get_weather", 1), "…");
        assert_eq!(truncate("get_weather", 0), "");
    }

    #[test]
    fn zero_width_characters_are_truncated_too() {
        let name = format!("a{}{}", "\u{301}".repeat(100_000), "b".repeat(50));
        assert!(truncate(&name, 10).len() < 200);
    }

    #[test]
    fn terminal_sequences_are_replaced() {
        assert_eq!(sanitize("a\u{1b}[31mb\u{202e}c\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
    }

    #[test]
    fn all_format_characters_are_invisible() {
        let table = regex::Regex::new(r"^\p{Cf}$").expect("a valid pattern");
        for character in '\0'..=char::MAX {
            if table.is_match(character.encode_utf8(&mut [0; 4])) {
                assert!(is_invisible(character), "{character:?}");
            }
        }
    }

    #[test]
    fn lines_and_tabs_are_kept_and_other_control_characters_are_not() {
        assert_eq!(
            sanitize_lines("a\tb\r\nc\u{1b}]0;title\u{7}\u{9b}2J\u{8}"),
            "a\tb\u{fffd}\nc\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}"
        );
    }

    #[track_caller]
    fn check_wrapped(text: &str, columns: u16, expected: &str) {
        assert_eq!(wrapped_for(Some((Width(columns), Height(24))), text), expected);
        assert_eq!(wrapped_for(None, text), text);
    }

    #[test]
    fn prose_wraps_at_spaces_on_a_terminal() {
        check_wrapped("note: one two three\nhint: x\n", 11, "note: one\ntwo three\nhint: x\n");
        check_wrapped("exactly ten\n", 11, "exactly ten\n");
        check_wrapped("天気 予報 🎈🎈\n", 9, "天気 予報\n🎈🎈\n");
        check_wrapped("delete it? y or n: ", 10, "delete it?\ny or n: ");
        check_wrapped("\x1b[1mnote:\x1b[0m one two", 9, "\x1b[1mnote:\x1b[0m one\ntwo");
    }

    #[test]
    fn the_next_lines_are_indented_like_the_text() {
        check_wrapped("    one two three\n", 11, "    one two\n    three\n");
        check_wrapped("/x    one two three\n", 13, "/x    one two\n      three\n");
        check_wrapped("a long name  text\n", 13, "a long name\ntext\n");
    }

    #[test]
    fn long_words_are_not_broken() {
        check_wrapped("open https://example.com/a now\n", 12, "open\nhttps://example.com/a\nnow\n");
        check_wrapped("https://example.com/a\n", 12, "https://example.com/a\n");
    }

    #[test]
    fn text_wraps_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("x a-long-word b", 4), ["x", "a-lo", "ng-w", "ord", "b"]);
        assert_eq!(wrapped("天気予報", 5), ["天気", "予報"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
