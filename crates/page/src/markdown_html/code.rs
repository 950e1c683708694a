//! Blocks of code.

use maud::Render as _;
use toolwire_markdown::{Highlighter, TokenKind};

use crate::text::{UntrustedText, shortened};

/// The longest label of a language, in characters.
const MAX_LABEL: usize = 40;

/// Writes a figure with code.
pub(super) fn figure(html: &mut String, info: &str, code: &str) {
    let language = shortened(info.split_whitespace().next().unwrap_or_default(), MAX_LABEL);
    html.push_str("<figure class=\"code\"><figcaption>");
    if !language.is_empty() {
        html.push_str("<bdi>");
        UntrustedText(&language).render_to(html);
        html.push_str("</bdi>");
    }
    html.push_str(
        "<button type=\"button\" class=\"button quiet\" data-copy=\"code\">copy</button></figcaption>",
    );
    html.push_str("<pre dir=\"ltr\" tabindex=\"0\"><code>");
    CodeWriter::new(info).lines(html, code);
    html.push_str("</code></pre></figure>");
}

/// Writes code line by line.
#[derive(Debug)]
pub(super) struct CodeWriter {
    highlighter: Option<Highlighter>,
    /// The number of complete lines that have been written.
    pub(super) line_count: usize,
}

impl CodeWriter {
    pub(super) fn new(info: &str) -> CodeWriter {
        CodeWriter { highlighter: Highlighter::new(info), line_count: 0 }
    }

    /// Writes complete lines. Only the last line of the code may be without a line end.
    pub(super) fn lines(&mut self, html: &mut String, code: &str) {
        for line in code.split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            match &mut self.highlighter {
                Some(highlighter) => {
                    for (range, kind) in highlighter.line(content) {
                        token(html, &content[range], class(kind));
                    }
                }
                None => token(html, content, None),
            }
            if line.ends_with('\n') {
                html.push('\n');
                self.line_count += 1;
            }
        }
    }
}

fn token(html: &mut String, text: &str, class: Option<&str>) {
    if let Some(class) = class {
        html.push_str("<span class=\"");
        html.push_str(class);
        html.push_str("\">");
    }
    UntrustedText(text).render_to(html);
    if class.is_some() {
        html.push_str("</span>");
    }
}

fn class(kind: TokenKind) -> Option<&'static str> {
    match kind {
        TokenKind::Keyword => Some("hl-k"),
        TokenKind::String => Some("hl-s"),
        TokenKind::Constant => Some("hl-n"),
        TokenKind::Comment => Some("hl-c"),
        TokenKind::Type | TokenKind::Key => Some("hl-p"),
        TokenKind::Added => Some("hl-a"),
        TokenKind::Removed => Some("hl-d"),
        TokenKind::Header => Some("hl-h"),
        _ => None,
    }
}
