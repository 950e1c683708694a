//! Completes unfinished Markdown for display.
//!
//! While a text is streamed, unclosed markers are closed and incomplete markers are hidden, so that the
//! display does not flicker.

use std::borrow::Cow;

/// Closes the open markers of `text` and removes an incomplete one at its end.
pub fn complete(text: &str) -> Cow<'_, str> {
    let line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
    let last_line = &text[line_start..];
    if ends_in_code_fence(text) {
        // The last line may become the closing fence.
        let may_close =
            !last_line.is_empty() && last_line.trim_start().bytes().all(|byte| matches!(byte, b'`' | b'~'));
        return Cow::Borrowed(if may_close { &text[..line_start] } else { text });
    }
    // The line may become a fence, a rule, a list or the underline of a heading; it is hidden for now.
    if line_start > 0 && is_only_marker(last_line) {
        return Cow::Borrowed(&text[..line_start]);
    }
    // A marker after whitespace closes nothing, and opens nothing until text follows; it is hidden.
    let without_markers = text.trim_end_matches(['*', '_', '`', '~']);
    let text =
        if without_markers.ends_with(|last: char| !last.is_whitespace()) { text } else { without_markers };
    let text = strip_partial_marker(text);
    let closing = closing_markers(last_paragraph(text));
    if closing.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{closing}", text.trim_end()))
}

fn last_paragraph(text: &str) -> &str {
    &text[text.rfind("\n\n").map_or(0, |newlines| newlines + 2)..]
}

/// Removes the first character of an incomplete closing marker of two characters.
fn strip_partial_marker(text: &str) -> &str {
    let Some(head) = text.strip_suffix(['*', '~']) else { return text };
    let last = &text[head.len()..];
    let is_partial =
        !head.ends_with(last) && closing_markers(last_paragraph(head)).starts_with(&last.repeat(2));
    if is_partial { head } else { text }
}

/// Whether a line consists only of characters that can form the marker of a block.
fn is_only_marker(line: &str) -> bool {
    let line = line.trim();
    let is_number = || {
        let digits = line.trim_end_matches(['.', ')']);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    !line.is_empty()
        && (line.bytes().all(|byte| {
            matches!(byte, b'-' | b'=' | b'*' | b'+' | b'#' | b'>' | b'|' | b'`' | b'~' | b':' | b' ')
        }) || is_number())
}

/// Whether the text ends inside fenced code.
pub fn ends_in_code_fence(text: &str) -> bool {
    let mut open: Option<(u8, usize)> = None;
    for line in text.split_inclusive('\n') {
        let is_complete = line.ends_with('\n');
        let line = line.trim();
        let Some(mark) = line.bytes().next().filter(|byte| matches!(byte, b'`' | b'~')) else { continue };
        let length = line.bytes().take_while(|byte| *byte == mark).count();
        match open {
            Some((opening_mark, opening_length)) => {
                let is_closing =
                    is_complete && mark == opening_mark && length >= opening_length && line.len() == length;
                open = open.filter(|_| !is_closing);
            }
            None if length >= 3 && is_complete && !(mark == b'`' && line[length..].contains('`')) => {
                open = Some((mark, length));
            }
            None => {}
        }
    }
    open.is_some()
}

/// Returns the markers that close the open ones at the end of a paragraph, innermost first.
fn closing_markers(paragraph: &str) -> String {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = paragraph;
    let mut before = ' ';
    while let Some(character) = rest.chars().next() {
        let in_code = open.last() == Some(&"`");
        let marker = ["**", "~~", "*", "`"].into_iter().find(|marker| rest.starts_with(marker));
        let length = match marker {
            Some(marker) if in_code && marker != "`" => marker.len(),
            Some(marker) => {
                let following = rest[marker.len()..].chars().next();
                if open.last() == Some(&marker) {
                    open.pop();
                } else if marker == "`"
                    || (following.is_some_and(|next| !next.is_whitespace()) && !before.is_alphanumeric())
                {
                    open.push(marker);
                }
                marker.len()
            }
            None if character == '\\' && !in_code => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            None => character.len_utf8(),
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    open.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(complete(text), expected);
    }

    #[test]
    fn open_markers_are_closed() {
        check("a **bo", "a **bo**");
        check("a **bo *it", "a **bo *it***");
        check("`co", "`co`");
        check("a **b** c", "a **b** c");
        check("2 * 3 * 4", "2 * 3 * 4");
        check("a\n\n*b", "a\n\n*b*");
    }

    #[test]
    fn incomplete_markers_are_hidden() {
        check("a **", "a ");
        check("a **b*", "a **b**");
        check("text\n-", "text\n");
        check("text\n  1.", "text\n");
        check("```sh\nls\n``", "```sh\nls\n");
    }

    #[test]
    fn code_is_not_changed() {
        check("```\na * b ** c\n", "```\na * b ** c\n");
        check("`a ** b` c", "`a ** b` c");
    }
}
