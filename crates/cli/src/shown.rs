//! Text of strangers, made fit for a terminal: no control characters, and a width that is known.

use unicode_width::UnicodeWidthStr;

/// `text` with everything replaced that could move the cursor, change colours or reorder the line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|character| if disturbs(character) { '\u{fffd}' } else { character }).collect()
}

/// The same for text of many lines, which keeps its lines and tabs.
pub(crate) fn shown_lines(text: &str) -> String {
    let is_kept = |character: char| matches!(character, '\n' | '\t') || !disturbs(character);
    text.chars().map(|character| if is_kept(character) { character } else { '\u{fffd}' }).collect()
}

/// `1 tool`, `2 tools`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How many columns `text` takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// `text` in at most `columns`, with an ellipsis where something was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.len() <= columns || width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut end = 0;
    // A name may hide any number of characters without width: past a few per column, they are cut too.
    for (start, character) in text.char_indices().take(room * 8) {
        let next = start + character.len_utf8();
        if width(&text[..next]) > room {
            break;
        }
        end = next;
    }
    // A joiner at the end would swallow the ellipsis.
    format!("{}…", text[..end].trim_end_matches('\u{200d}'))
}

/// `text` followed by the spaces that make it `columns` wide.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Breaks `text` at spaces into lines of at most `columns`; a word longer than that has a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let wide = width(word);
        if used > 0 && used + 1 + wide > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += wide;
    }
    lines.push(line);
    lines
}

/// Control characters, and the marks that turn the direction of writing.
fn disturbs(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_not_cut() {
        assert_eq!(cut("get_weather", 11), "get_weather");
        assert_eq!(cut("天気", 4), "天気");
    }

    #[test]
    fn a_cut_counts_columns_and_not_characters() {
        assert_eq!(cut("get_weather", 6), "get_w…");
        assert_eq!(cut("天気予報", 6), "天気…");
        assert_eq!(width(&cut("天気予報", 6)), 5);
        assert_eq!(cut("🎈🎈🎈🎈", 4), "🎈…");
    }

    #[test]
    fn a_name_of_invisible_characters_is_cut_too() {
        let name = format!("a{}{}", "\u{301}".repeat(100_000), "b".repeat(50));
        assert!(cut(&name, 10).len() < 200);
    }

    #[test]
    fn a_terminal_sequence_in_a_name_is_disarmed() {
        assert_eq!(shown("a\u{1b}[31mb\u{202e}c\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
    }

    #[test]
    fn lines_and_tabs_stay_and_nothing_else_steers() {
        assert_eq!(
            shown_lines("a\tb\r\nc\u{1b}]0;title\u{7}\u{9b}2J\u{8}"),
            "a\tb\u{fffd}\nc\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}"
        );
    }

    #[test]
    fn text_wraps_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a-very-long-word b", 4), ["a-very-long-word", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
