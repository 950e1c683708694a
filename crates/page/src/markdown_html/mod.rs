//! Markdown as HTML, complete or while a model writes it.
//!
//! Each text is rendered block by block: [`blocks`] renders a complete text, and [`StreamingMarkdown`] one
//! that is streamed. Both produce the same blocks. Raw HTML in a text is displayed as text, links have safe
//! schemes, and nothing is loaded from elsewhere: an image is a box with its description and a link.
//!
//! HTML that a model or a tool wrote is kept out twice: [`writer`] writes only tags that are literals of its
//! source, and escapes everything else; [`sanitize`] parses the result and removes what is not on its list.

mod code;
#[cfg(test)]
mod hostile_tests;
mod sanitize;
mod streaming;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;

use maud::{Markup, html};

pub use streaming::{BlockEvent, StreamingMarkdown};

/// Renders a complete text.
pub fn render(text: &str) -> Markup {
    html! { @for block in blocks(text) { (block) } }
}

/// Renders a complete text as its top-level blocks.
pub fn blocks(text: &str) -> Vec<Markup> {
    let text = line_ends(text);
    toolwire_markdown::blocks(&text).into_iter().map(|range| block(&text[range])).collect()
}

/// Replaces carriage returns by newlines. Both end a line for the parser, but only newlines do for the
/// splitter.
fn line_ends(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Renders one top-level block.
fn block(text: &str) -> Markup {
    sanitize::sanitize(&writer::write(text))
}
