//! What an unfinished block will probably become.
//!
//! Only what is shown while the text still grows is guessed at: a marker that is not closed yet is closed,
//! and one of which only the beginning is there is held back, so that the text does not jump.

use std::borrow::Cow;

/// `text`, completed.
pub(super) fn completed(text: &str) -> Cow<'_, str> {
    let line_start = text.rfind('\n').map_or(0, |place| place + 1);
    let in_fence = open_fence(text);
    let last = &text[line_start..];
    // After a fence, a rule or a list may begin, or a paragraph turn into a heading: wait for the next
    // character.
    if line_start > 0 && !in_fence && is_marker_alone(last) {
        return Cow::Borrowed(&text[..line_start]);
    }
    if in_fence {
        // The fence may be about to be closed.
        let is_fence_begun =
            !last.is_empty() && last.trim_start().bytes().all(|byte| matches!(byte, b'`' | b'~'));
        return Cow::Borrowed(if is_fence_begun { &text[..line_start] } else { text });
    }
    // A marker with nothing behind it yet stands for nothing, unless it closes something.
    let bare = text.trim_end_matches(['*', '_', '`', '~']);
    let text = if bare.ends_with(|last: char| !last.is_whitespace()) { text } else { bare };
    let text = without_half_a_marker(text);
    let paragraph = &text[text.rfind("\n\n").map_or(0, |place| place + 2)..];
    let closers = closers(paragraph);
    if closers.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{closers}", text.trim_end()))
}

/// A marker of two characters of which the first is there, unless it stands for itself.
fn without_half_a_marker(text: &str) -> &str {
    let Some(head) = text.strip_suffix(['*', '~']) else { return text };
    let mark = &text[head.len()..];
    let paragraph = &head[head.rfind("\n\n").map_or(0, |place| place + 2)..];
    let is_half = !head.ends_with(mark) && closers(paragraph).starts_with(&mark.repeat(2));
    if is_half { head } else { text }
}

/// Whether a line could still become almost anything.
fn is_marker_alone(line: &str) -> bool {
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

/// Whether the text ends inside of fenced code.
pub(crate) fn open_fence(text: &str) -> bool {
    let mut open: Option<(u8, usize)> = None;
    for line in text.split_inclusive('\n') {
        let is_whole = line.ends_with('\n');
        let line = line.trim();
        let Some(mark) = line.bytes().next().filter(|byte| matches!(byte, b'`' | b'~')) else { continue };
        let length = line.bytes().take_while(|byte| *byte == mark).count();
        match open {
            Some((opened, least)) => {
                let closes = is_whole && mark == opened && length >= least && line.len() == length;
                open = open.filter(|_| !closes);
            }
            None if length >= 3 && is_whole && !(mark == b'`' && line[length..].contains('`')) => {
                open = Some((mark, length));
            }
            None => {}
        }
    }
    open.is_some()
}

/// What closes the markers that are open at the end of a paragraph, innermost first.
fn closers(paragraph: &str) -> String {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = paragraph;
    let mut before = ' ';
    while let Some(character) = rest.chars().next() {
        let in_code = open.last() == Some(&"`");
        let marker = ["**", "~~", "*", "`"].into_iter().find(|marker| rest.starts_with(marker));
        let length = match marker {
            Some(marker) if in_code && marker != "`" => marker.len(),
            Some(marker) => {
                let follows = rest[marker.len()..].chars().next();
                if open.last() == Some(&marker) {
                    open.pop();
                } else if marker == "`"
                    || (follows.is_some_and(|next| !next.is_whitespace()) && !before.is_alphanumeric())
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
        assert_eq!(completed(text), expected);
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
    fn a_marker_that_only_begins_is_held_back() {
        check("a **", "a ");
        check("a **b*", "a **b**");
        check("text\n-", "text\n");
        check("text\n  1.", "text\n");
        check("```sh\nls\n``", "```sh\nls\n");
    }

    #[test]
    fn code_is_left_alone() {
        check("```\na * b ** c\n", "```\na * b ** c\n");
        check("`a ** b` c", "`a ** b` c");
    }
}
