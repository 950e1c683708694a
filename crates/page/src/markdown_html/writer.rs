//! Writes the events of one block as HTML, which is the first protection against untrusted HTML.
//!
//! All tags and attributes are literals of this module and of [`code`](super::code); every text and address
//! of the Markdown is escaped.

use maud::Render as _;
use toolwire_markdown::event::{Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd};
use toolwire_markdown::parse;

use super::code;
use crate::link::Link;
use crate::text::{UntrustedText, shortened};

/// The number of quotes, lists and formats that may be inside each other. Deeper ones have no elements, only
/// their text: browsers limit the depth of a document, too.
const MAX_DEPTH: usize = 32;

/// The longest address that is displayed, in characters.
const MAX_ADDRESS: usize = 200;

/// Writes a block.
pub(super) fn write(text: &str) -> String {
    let mut writer = Writer::default();
    parse(text, |event, _| writer.event(event));
    writer.html
}

#[derive(Default)]
struct Writer {
    html: String,
    /// The closing tags of the open elements; empty if an element was too deep.
    open: Vec<&'static str>,
    /// The number of open elements that count towards [`MAX_DEPTH`].
    depth: usize,
    /// The code of the open block and its info string.
    code: Option<(String, String)>,
    table: Option<Table>,
    links: Vec<OpenLink>,
    /// The description of the open image, and how many images are open.
    image: Option<Image>,
}

struct Table {
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

struct OpenLink {
    address: String,
    link: Option<Link>,
    /// The start of the link's text in the HTML.
    start: usize,
}

struct Image {
    address: String,
    alt: String,
    /// The number of images that are open, with this one.
    depth: usize,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        if self.image.is_some() {
            return self.in_image(event);
        }
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html.push_str("<code dir=\"auto\">");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::Html(text) | Event::InlineHtml(text) | Event::FootnoteReference(text) => self.text(&text),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(is_done) => self.html.push_str(if is_done {
                "<span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> "
            } else {
                "<span class=\"task\" role=\"img\" aria-label=\"to do\">☐</span> "
            }),
        }
    }

    fn text(&mut self, text: &str) {
        UntrustedText(text).render_to(&mut self.html);
    }

    /// Opens an element that does not count towards [`MAX_DEPTH`]: it cannot contain another one of its kind,
    /// except inside an element that counts.
    fn block(&mut self, start: &str, end: &'static str) {
        self.html.push_str(start);
        self.open.push(end);
    }

    /// Opens an element that can contain others of its kind.
    fn nested(&mut self, start: &str, end: &'static str) {
        if self.depth < MAX_DEPTH {
            self.depth += 1;
            self.block(start, end);
        } else {
            self.open.push("");
        }
    }

    fn close(&mut self) {
        self.html.push_str(self.open.pop().unwrap_or_default());
    }

    fn close_nested(&mut self) {
        let end = self.open.pop().unwrap_or_default();
        if end.is_empty() {
            // Separates the texts of elements that were too deep.
            self.html.push('\n');
        } else {
            self.depth -= 1;
            self.html.push_str(end);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.block("<p dir=\"auto\">", "</p>"),
            Tag::HtmlBlock => self.block("<p dir=\"auto\" class=\"raw\">", "</p>"),
            Tag::Heading { level, .. } => {
                let (start, end) = heading(level);
                self.block(start, end);
            }
            Tag::BlockQuote(_) => self.nested("<blockquote dir=\"auto\">", "</blockquote>"),
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            // If a list is too deep, its items have no elements either.
            Tag::List(None) => self.list("<ul>", "</ul>"),
            Tag::List(Some(first)) => self.list(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => {
                if self.open.last().is_some_and(|list| !list.is_empty()) {
                    self.depth += 1;
                    self.block("<li dir=\"auto\">", "</li>");
                } else {
                    self.open.push("");
                }
            }
            Tag::Table(alignments) => {
                self.table = Some(Table { alignments, column: 0, is_head: true });
                self.html.push_str(
                    "<div class=\"table-wrap\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">",
                );
                self.block("<table>", "</table></div>");
            }
            Tag::TableHead => self.row(true, "<thead><tr>", "</tr></thead><tbody>"),
            Tag::TableRow => self.row(false, "<tr>", "</tr>"),
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.nested("<em>", "</em>"),
            Tag::Strong => self.nested("<strong>", "</strong>"),
            Tag::Strikethrough => self.nested("<del>", "</del>"),
            Tag::Link { link_type, dest_url, .. } => self.link(link_type, dest_url.into_string()),
            Tag::Image { dest_url, .. } => {
                self.image = Some(Image { address: dest_url.into_string(), alt: String::new(), depth: 1 });
            }
            _ => self.open.push(""),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => {
                if let Some((info, code)) = self.code.take() {
                    code::figure(&mut self.html, &info, &code);
                }
            }
            TagEnd::Table => {
                self.table = None;
                self.html.push_str("</tbody>");
                self.close();
            }
            TagEnd::BlockQuote(_)
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough => self.close_nested(),
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {}
            _ => self.close(),
        }
    }

    fn list(&mut self, start: &str, end: &'static str) {
        // The item needs a level, too.
        if self.depth + 1 < MAX_DEPTH { self.nested(start, end) } else { self.open.push("") }
    }

    fn row(&mut self, is_head: bool, start: &str, end: &'static str) {
        if let Some(table) = &mut self.table {
            table.column = 0;
            table.is_head = is_head;
        }
        self.block(start, end);
    }

    fn cell(&mut self) {
        let Some(table) = &mut self.table else { return self.open.push("") };
        let class = match table.alignments.get(table.column) {
            Some(Alignment::Center) => " class=\"align-center\"",
            Some(Alignment::Right) => " class=\"align-end\"",
            _ => "",
        };
        table.column += 1;
        let (start, end) = if table.is_head {
            (format!("<th dir=\"auto\" scope=\"col\"{class}>"), "</th>")
        } else {
            (format!("<td dir=\"auto\"{class}>"), "</td>")
        };
        self.block(&start, end);
    }

    fn link(&mut self, link_type: LinkType, address: String) {
        let address = match link_type {
            LinkType::Email if !address.starts_with("mailto:") => format!("mailto:{address}"),
            _ => address,
        };
        let link = Link::external(&address);
        if let Some(link) = &link {
            self.html.push_str("<a href=\"");
            link.render_to(&mut self.html);
            self.html.push_str("\" target=\"_blank\" rel=\"noopener noreferrer\">");
        }
        self.links.push(OpenLink { address, link, start: self.html.len() });
    }

    fn end_link(&mut self) {
        let Some(OpenLink { address, link, start }) = self.links.pop() else { return };
        if link.is_some() {
            self.html.push_str("</a>");
        }
        match link.as_ref().map(Link::host) {
            // A text that looks like another address must not hide where the link leads.
            Some(Some(host)) if names_other_host(&self.html[start..], host) => {
                self.html.push_str(" <span class=\"host muted\">(");
                UntrustedText(host).render_to(&mut self.html);
                self.html.push_str(")</span>");
            }
            Some(_) => {}
            None if address.is_empty() => {}
            None => {
                self.html.push_str(" <span class=\"muted\">(");
                UntrustedText(&shortened(&address, MAX_ADDRESS)).render_to(&mut self.html);
                self.html.push_str(")</span>");
            }
        }
    }

    /// Collects the description of an image.
    fn in_image(&mut self, event: Event<'_>) {
        let Some(image) = &mut self.image else { return };
        match event {
            Event::Start(Tag::Image { .. }) => image.depth += 1,
            Event::End(TagEnd::Image) => {
                image.depth -= 1;
                if image.depth == 0
                    && let Some(image) = self.image.take()
                {
                    self.image_box(&image);
                }
            }
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::Html(text) => {
                image.alt.push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => image.alt.push(' '),
            _ => {}
        }
    }

    /// Writes the box of an image. The image itself is not loaded: its server would receive a request
    /// for each displayed text.
    fn image_box(&mut self, image: &Image) {
        self.html.push_str("<span class=\"image\"><span class=\"alt\">");
        self.text(if image.alt.trim().is_empty() { "image" } else { &image.alt });
        self.html.push_str("</span> ");
        let link = Link::external(&image.address);
        match link.as_ref().and_then(|link| Some((link, link.host()?))) {
            // A link inside a link is not possible.
            Some((_, host)) if !self.links.is_empty() => {
                self.html.push_str("<span class=\"host muted\">");
                self.text(host);
                self.html.push_str("</span>");
            }
            Some((link, host)) => {
                self.html.push_str("<a href=\"");
                link.render_to(&mut self.html);
                self.html.push_str("\" target=\"_blank\" rel=\"noopener noreferrer\">");
                self.text(host);
                self.html.push_str("</a>");
            }
            None => {
                self.html.push_str("<span class=\"muted\">");
                self.text(&shortened(&image.address, MAX_ADDRESS));
                self.html.push_str("</span>");
            }
        }
        self.html.push_str("</span>");
    }
}

/// Returns the tags of a heading. The page has its own `h1`, so all are one level lower.
fn heading(level: HeadingLevel) -> (&'static str, &'static str) {
    match level {
        HeadingLevel::H1 => ("<h2 dir=\"auto\">", "</h2>"),
        HeadingLevel::H2 => ("<h3 dir=\"auto\">", "</h3>"),
        HeadingLevel::H3 => ("<h4 dir=\"auto\">", "</h4>"),
        HeadingLevel::H4 => ("<h5 dir=\"auto\">", "</h5>"),
        HeadingLevel::H5 | HeadingLevel::H6 => ("<h6 dir=\"auto\">", "</h6>"),
    }
}

/// Whether the text of a link, as HTML, looks like an address but does not contain the host.
fn names_other_host(text: &str, host: &str) -> bool {
    let text = text.trim_end_matches("</a>").to_lowercase();
    let is_address = text.contains("://") || (text.contains('.') && !text.contains(char::is_whitespace));
    is_address && !text.contains(&host.to_lowercase())
}
