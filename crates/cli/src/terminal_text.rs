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
