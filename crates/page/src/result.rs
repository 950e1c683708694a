//! Results of tool calls.

use maud::{Markup, html};
use serde_json::Value;
use toolwire_contract::{Content, ResourceBody, ResourceContents, ResourceLink, ToolResult};

use crate::json_view;
use crate::link::Link;
use crate::text::UntrustedText;

/// A longer text is cut; the rest can be saved.
const MAX_TEXT: usize = 64 * 1024;

/// The types of images that browsers display safely. SVG is not one of them: it can contain scripts and
/// links.
const IMAGES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
const AUDIO: [&str; 7] =
    ["audio/mpeg", "audio/wav", "audio/x-wav", "audio/ogg", "audio/webm", "audio/mp4", "audio/flac"];

/// Returns a result. `media` returns the address of the image or the audio at a position of the content.
pub fn draw(result: &ToolResult, media: &dyn Fn(usize) -> Option<Link>) -> Markup {
    let blocks = result.blocks();
    let structured = result.structured_content.as_ref();
    html! {
        div.result .is-error[result.is_error()] {
            @if let Some(value) = structured { (json_view::draw(value)) }
            @for (position, block) in blocks.iter().enumerate() {
                @if !repeats(block, structured) { (content(block, media(position))) }
            }
            @if blocks.is_empty() && structured.is_none() { p.muted { "no content" } }
        }
    }
}

/// Returns the media type of an image or audio that may be displayed, else `None`.
pub fn safe_media_type(mime_type: &str) -> Option<&'static str> {
    let name = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    IMAGES.iter().chain(&AUDIO).find(|known| **known == name).copied()
}

/// Whether a text only repeats the structured content, as servers do for older clients.
fn repeats(block: &Content, structured: Option<&Value>) -> bool {
    match (block, structured) {
        (Content::Text { text, .. }, Some(value)) => {
            serde_json::from_str::<Value>(text).is_ok_and(|text| text == *value)
        }
        _ => false,
    }
}

fn content(block: &Content, media: Option<Link>) -> Markup {
    match block {
        Content::Text { text, .. } => text_block(text),
        Content::Image { mime_type, data, .. } => image(mime_type, data, media),
        Content::Audio { mime_type, data, .. } => audio(mime_type, data, media),
        Content::Resource { resource: contents, .. } => resource(contents),
        Content::ResourceLink(link) => resource_link(link),
        Content::Other(value) => html! {
            p.muted { "content of an unknown type" }
            (json_view::draw(value))
        },
    }
}

/// Returns a text. JSON is drawn as a table or a tree.
fn text_block(text: &str) -> Markup {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '['])
        && text.len() <= MAX_TEXT
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        return html! {
            (json_view::draw(&value))
            details.raw { summary { "sent as text" } (pre(text)) }
        };
    }
    pre(text)
}

fn pre(text: &str) -> Markup {
    let end =
        text.char_indices().map(|(position, _)| position).take_while(|position| *position <= MAX_TEXT).last();
    let is_cut = text.len() > MAX_TEXT;
    let shown = if is_cut { &text[..end.unwrap_or(0)] } else { text };
    html! {
        pre.plain dir="auto" tabindex="0" { (UntrustedText(shown)) }
        @if is_cut { p.muted { "cut after " (shown.len()) " of " (text.len()) " bytes" } }
    }
}

fn image(mime_type: &str, data: &str, media: Option<Link>) -> Markup {
    let address = media.filter(|_| safe_media_type(mime_type).is_some());
    html! {
        @if let Some(address) = address {
            a.media href=(address) { img src=(address) alt={ "image, " (mime_type) } loading="lazy"; }
        } @else {
            (unseen("image", mime_type, data))
        }
    }
}

fn audio(mime_type: &str, data: &str, media: Option<Link>) -> Markup {
    let address = media.filter(|_| safe_media_type(mime_type).is_some());
    html! {
        @if let Some(address) = address {
            audio controls preload="none" src=(address) {}
        } @else {
            (unseen("audio", mime_type, data))
        }
    }
}

/// Returns a note in place of data that is not displayed.
fn unseen(what: &str, mime_type: &str, data: &str) -> Markup {
    html! {
        p.note { (what) ", " bdi { (UntrustedText(mime_type)) } ", " (data.len() / 4 * 3) " bytes, not displayed" }
    }
}

fn resource(resource: &ResourceContents) -> Markup {
    let mime_type = resource.mime_type.as_deref().unwrap_or("unknown type");
    html! {
        figure.resource {
            figcaption { (address(&resource.uri, &resource.uri)) " " span.muted { (UntrustedText(mime_type)) } }
            @match &resource.body {
                ResourceBody::Text(text) => (text_block(text)),
                ResourceBody::Blob(data) => (unseen("data", mime_type, data)),
            }
        }
    }
}

fn resource_link(link: &ResourceLink) -> Markup {
    html! {
        p.resource-link {
            (address(&link.uri, link.title.as_deref().unwrap_or(&link.name)))
            @if let Some(mime_type) = &link.mime_type { " " span.muted { (UntrustedText(mime_type)) } }
            @if let Some(description) = &link.description { br; span.muted dir="auto" { (UntrustedText(description)) } }
        }
    }
}

/// Returns a link if the address is safe to open, else its text.
fn address(uri: &str, name: &str) -> Markup {
    html! {
        @match Link::external(uri) {
            Some(link) => {
                a href=(link) target="_blank" rel="noopener noreferrer" { bdi { (UntrustedText(name)) } }
                @if let Some(host) = link.host() { " " span.muted { (UntrustedText(host)) } }
            }
            None => { bdi { (UntrustedText(name)) } @if name != uri { " " code { (UntrustedText(uri)) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(value: Value) -> String {
        let result: ToolResult = serde_json::from_value(value).expect("a result");
        draw(&result, &|position| Some(Link::to(&["media", &position.to_string()]))).into_string()
    }

    #[test]
    fn text_that_repeats_structured_content_is_left_out() {
        let html = drawn(json!({
            "content": [{"type": "text", "text": "{\"a\": 1}"}, {"type": "text", "text": "more"}],
            "structuredContent": {"a": 1},
        }));
        assert_eq!(html.matches("<bdi>a</bdi>").count(), 1, "{html}");
        assert!(html.contains("more"), "{html}");
    }

    #[test]
    fn only_safe_media_are_displayed() {
        let image = |mime_type: &str| {
            drawn(json!({"content": [{"type": "image", "data": "AAAA", "mimeType": mime_type}]}))
        };
        assert!(image("image/PNG").contains("<img src=\"/media/0\""));
        for mime_type in ["image/svg+xml", "text/html", "image/png\"onload=\"x"] {
            let html = image(mime_type);
            assert!(!html.contains("<img") && html.contains("not displayed"), "{html}");
        }
    }

    #[test]
    fn links_are_safe() {
        let link =
            |uri: &str| drawn(json!({"content": [{"type": "resource_link", "uri": uri, "name": "<b>"}]}));
        assert!(link("https://example.com/a").contains("href=\"https://example.com/a\""));
        for uri in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"] {
            let html = link(uri);
            assert!(!html.contains("href") && html.contains("&lt;b&gt;"), "{html}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = "é".repeat(MAX_TEXT);
        let html = drawn(json!({"content": [{"type": "text", "text": text}]}));
        assert!(html.contains("cut after") && html.len() < 2 * MAX_TEXT, "{}", html.len());
    }
}
