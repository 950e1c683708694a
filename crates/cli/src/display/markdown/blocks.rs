//! Splits a Markdown text into its top-level blocks.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Replaces a bracket that must not start a link definition. As a control character it cannot be displayed.
const BRACKET_PLACEHOLDER: char = '\u{1}';

/// Changes link definitions so that the parser treats them as text; otherwise they and their URLs would not
/// be displayed. All positions stay the same.
pub(super) fn hide_link_definitions(text: &str) -> Cow<'_, str> {
    if !text.contains("]:") {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let marker = |mark: char| mark.is_ascii_digit() || " \t>-*+.)".contains(mark);
        let label = line.trim_start_matches(marker);
        match label.strip_prefix('[') {
            Some(rest) if rest.contains("]:") => {
                format!("{}{BRACKET_PLACEHOLDER}{rest}", &line[..line.len() - label.len()])
            }
            _ => line.to_owned(),
        }
    };
    Cow::Owned(text.split_inclusive('\n').map(line).collect())
}

/// Reverts [`hide_link_definitions`].
pub(super) fn restore_brackets(text: &str) -> Cow<'_, str> {
    if text.contains(BRACKET_PLACEHOLDER) {
        Cow::Owned(text.replace(BRACKET_PLACEHOLDER, "["))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the blocks of the text, each from the start of a line to the start of the next block.
pub(super) fn ranges(text: &str) -> Vec<Range<usize>> {
    let mut starts = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(&hide_link_definitions(text), options()).into_offset_iter() {
        if depth == 0 && !matches!(event, Event::End(_)) {
            starts.push(line_start(text, range.start));
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    starts.dedup();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the blocks that later text cannot change: those followed by another block. An incomplete last line
/// is ignored.
pub(super) fn closed_ranges(text: &str) -> Vec<Range<usize>> {
    let mut blocks = ranges(&text[..line_start(text, text.len())]);
    blocks.pop();
    blocks
}

fn line_start(text: &str, position: usize) -> usize {
    text[..position].rfind('\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let blocks: Vec<&str> = ranges(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(blocks, expected);
    }

    #[test]
    fn blocks_start_at_lines() {
        check("# a\nb\n\n- c\n- d\n\n    e\n", &["# a\n", "b\n\n", "- c\n- d\n\n    e\n"]);
        check("a\n\n    code\n\n---\n", &["a\n\n", "    code\n\n", "---\n"]);
    }

    #[test]
    fn link_definitions_are_text() {
        check("a [b][1]\n\n[1]: http://b\n", &["a [b][1]\n\n", "[1]: http://b\n"]);
        check("- a\n[1]: http://b\n", &["- a\n[1]: http://b\n"]);
    }

    #[test]
    fn blocks_are_closed_when_another_block_follows() {
        let none: [Range<usize>; 0] = [];
        assert_eq!(closed_ranges("a\n#"), none);
        assert_eq!(closed_ranges("a\n# b\n"), [Range { start: 0, end: 2 }]);
        assert_eq!(closed_ranges("a\n\nb"), none);
        assert_eq!(closed_ranges("a\n\nb\n"), [Range { start: 0, end: 3 }]);
        assert_eq!(closed_ranges("```\na\n\nb\n"), none);
    }
}
