//! Untrusted text made safe for a terminal: no control characters, a known width.

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

/// `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
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

/// Breaks `text` at spaces into lines of at most `columns`. A longer word starts on its own line and is broken.
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

/// Whether a character is displayed as nothing or as a space, or changes the direction of writing: control and format
/// characters, fillers, variation selectors, and all spaces but the usual one.
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

    #[test]
    fn text_wraps_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("x a-long-word b", 4), ["x", "a-lo", "ng-w", "ord", "b"]);
        assert_eq!(wrapped("天気予報", 5), ["天気", "予報"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
