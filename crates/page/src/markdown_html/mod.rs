//! Markdown as HTML, complete or while a model writes it.
//!
//! Each text is rendered block by block: [`blocks`] renders a complete text, and [`StreamingMarkdown`] one that
//! still grows. Both produce the same blocks. Raw HTML in a text is displayed as text, links have safe schemes,
//! and nothing is loaded from elsewhere: an image is a box with its description and a link.
//!
//! There are two walls against HTML that a model or a tool wrote. [`writer`] writes only tags that are literals
//! of its source, and escapes everything else; [`sanitize`] parses the result and removes what is not on its
//! list.

mod code;
#[cfg(test)]
mod hostile_tests;
mod sanitize;
mod streaming;
#[cfg(test)]
mod tests;
mod writer;

use maud::{Markup, html};

pub use streaming::{BlockEvent, StreamingMarkdown};

/// Renders a complete text.
pub fn render(text: &str) -> Markup {
    html! { @for block in blocks(text) { (block) } }
}

/// Renders a complete text as its top-level blocks.
pub fn blocks(text: &str) -> Vec<Markup> {
    toolwire_markdown::blocks(text).into_iter().map(|range| block(&text[range])).collect()
}

/// Renders one top-level block.
fn block(text: &str) -> Markup {
    sanitize::sanitize(&writer::write(text))
}
