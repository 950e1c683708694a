//! Where the blocks of a Markdown text begin and end.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Stands for a bracket that must not begin the definition of a link. No text has it: it could not be shown.
const BRACKET: char = '\u{1}';

/// The text, made so that the parser finds no definitions of links: they would vanish, and with them the
/// addresses that whoever reads the answer may want. Every place in it is the same as before.
pub(super) fn prepared(text: &str) -> Cow<'_, str> {
    if !text.contains("]:") {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let marker = |mark: char| mark.is_ascii_digit() || " \t>-*+.)".contains(mark);
        let label = line.trim_start_matches(marker);
        match label.strip_prefix('[') {
            Some(rest) if rest.contains("]:") => {
                format!("{}{BRACKET}{rest}", &line[..line.len() - label.len()])
            }
            _ => line.to_owned(),
        }
    };
    Cow::Owned(text.split_inclusive('\n').map(line).collect())
}

/// What [`prepared`] changed, undone.
pub(super) fn restored(text: &str) -> Cow<'_, str> {
    if text.contains(BRACKET) { Cow::Owned(text.replace(BRACKET, "[")) } else { Cow::Borrowed(text) }
}

/// The blocks of the text, each from the beginning of a line to where the next one begins.
pub(super) fn of(text: &str) -> Vec<Range<usize>> {
    let mut starts = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(&prepared(text), options()).into_offset_iter() {
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

/// The blocks that nothing to come can change: those that another one follows, which shows in the whole
/// lines.
pub(super) fn closed(text: &str) -> Vec<Range<usize>> {
    let whole = text.rfind('\n').map_or(0, |place| place + 1);
    let mut blocks = of(&text[..whole]);
    blocks.pop();
    blocks
}

fn line_start(text: &str, place: usize) -> usize {
    text[..place].rfind('\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let blocks: Vec<&str> = of(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(blocks, expected);
    }

    #[test]
    fn blocks_are_cut_at_lines() {
        check("# a\nb\n\n- c\n- d\n\n    e\n", &["# a\n", "b\n\n", "- c\n- d\n\n    e\n"]);
        check("a\n\n    code\n\n---\n", &["a\n\n", "    code\n\n", "---\n"]);
    }

    #[test]
    fn a_definition_of_a_link_is_not_lost() {
        check("a [b][1]\n\n[1]: http://b\n", &["a [b][1]\n\n", "[1]: http://b\n"]);
        check("- a\n[1]: http://b\n", &["- a\n[1]: http://b\n"]);
    }

    #[test]
    fn only_what_another_block_follows_is_closed() {
        let nothing: [Range<usize>; 0] = [];
        assert_eq!(closed("a\n#"), nothing);
        assert_eq!(closed("a\n# b\n"), [Range { start: 0, end: 2 }]);
        assert_eq!(closed("a\n\nb"), nothing);
        assert_eq!(closed("a\n\nb\n"), [Range { start: 0, end: 3 }]);
        assert_eq!(closed("```\na\n\nb\n"), nothing);
    }
}
