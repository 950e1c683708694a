//! Splits a Markdown text into its top-level blocks.

use std::ops::Range;

use pulldown_cmark::Event;

use crate::parse::parse;

/// Returns the blocks of the text, each from the start of a line to the start of the next block.
pub fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut starts = Vec::new();
    let mut depth = 0;
    parse(text, |event, range| {
        if depth == 0 && !matches!(event, Event::End(_)) {
            starts.push(line_start(text, range.start));
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    });
    starts.dedup();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the blocks that later text cannot change: those followed by another block. An incomplete last line
/// is ignored, because its beginning does not determine what it becomes.
pub fn settled_blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = blocks(&text[..line_start(text, text.len())]);
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
        let blocks: Vec<&str> = super::blocks(text).into_iter().map(|range| &text[range]).collect();
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
    fn blocks_are_settled_when_another_block_follows() {
        let none: [Range<usize>; 0] = [];
        assert_eq!(settled_blocks("a\n#"), none);
        assert_eq!(settled_blocks("a\n# b\n"), [Range { start: 0, end: 2 }]);
        assert_eq!(settled_blocks("a\n\nb"), none);
        assert_eq!(settled_blocks("a\n\nb\n"), [Range { start: 0, end: 3 }]);
        assert_eq!(settled_blocks("```\na\n\nb\n"), none);
    }
}
