//! Parses Markdown so that no part of it is hidden.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag};

/// The events of the parser, as [`parse`](crate::parse()) passes them.
pub mod event {
    pub use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Tag, TagEnd};
}

/// Replaces a bracket that must not start a link definition. As a control character it cannot be displayed.
const BRACKET_PLACEHOLDER: char = '\u{1}';

/// Passes the events of a text to `handle`, each with its position in the text.
///
/// Tables, strikethrough and task lists are recognized. Link definitions are text, so that they and their
/// URLs are displayed; links that refer to them are text, too.
pub fn parse(text: &str, mut handle: impl FnMut(Event<'_>, Range<usize>)) {
    let hidden = hide_link_definitions(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(&hidden, options).into_offset_iter() {
        let event = if matches!(hidden, Cow::Owned(_)) { restore(event) } else { event };
        handle(event, range);
    }
}

/// Changes link definitions so that the parser treats them as text. All positions stay the same.
fn hide_link_definitions(text: &str) -> Cow<'_, str> {
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

/// Reverts [`hide_link_definitions`] in the texts of an event.
fn restore(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Text(text) => Event::Text(restore_brackets(text)),
        Event::Code(text) => Event::Code(restore_brackets(text)),
        Event::Html(text) => Event::Html(restore_brackets(text)),
        Event::InlineHtml(text) => Event::InlineHtml(restore_brackets(text)),
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(restore_brackets(info))))
        }
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => Event::Start(Tag::Link {
            link_type,
            dest_url: restore_brackets(dest_url),
            title: restore_brackets(title),
            id,
        }),
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => Event::Start(Tag::Image {
            link_type,
            dest_url: restore_brackets(dest_url),
            title: restore_brackets(title),
            id,
        }),
        other => other,
    }
}

fn restore_brackets(text: CowStr<'_>) -> CowStr<'_> {
    if text.contains(BRACKET_PLACEHOLDER) { text.replace(BRACKET_PLACEHOLDER, "[").into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts and URLs of the events.
    fn texts(text: &str) -> Vec<String> {
        let mut texts = Vec::new();
        parse(text, |event, _| match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) => texts.push(text.into_string()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                texts.push(dest_url.into_string());
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => texts.push(info.into_string()),
            _ => {}
        });
        texts
    }

    #[test]
    fn link_definitions_are_text() {
        assert_eq!(texts("[1]: http://b").concat(), "[1]: http://b");
        assert_eq!(texts("- > [1]: http://b").concat(), "[1]: http://b");
    }

    #[test]
    fn brackets_are_restored_everywhere() {
        assert_eq!(texts("```a\n[1]: b\n```\n"), ["a", "[1]: b\n"]);
        assert_eq!(texts("`a\n[1]: b`"), ["a [1]: b"]);
        assert_eq!(texts("<div>\n[1]: b\n</div>"), ["<div>\n", "[1]: b\n", "</div>"]);
    }

    #[test]
    fn a_control_character_of_the_text_is_kept() {
        assert_eq!(texts("a\u{1}b"), ["a\u{1}b"]);
    }
}
