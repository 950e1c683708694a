//! Messages.

use std::time::SystemTime;

use maud::{Markup, html};
use serde_json::Value;
use toolwire_contract::text::counted;
use toolwire_contract::{Block, Content, Message as StoredMessage, ResourceBody, Role};

use super::{action, address};
use crate::icons::{Icon, icon};
use crate::link::Link;
use crate::markdown_html;
use crate::notice::error;
use crate::result::safe_media_type;
use crate::text::UntrustedText;
use crate::time::{self, Format};

/// A complete message.
pub struct Message<'a> {
    pub conversation: &'a str,
    /// The number of the message in the conversation, from 1.
    pub position: u64,
    pub message: &'a StoredMessage,
    pub time: Option<SystemTime>,
    /// The model that wrote it.
    pub model: Option<&'a str>,
    /// The cards of the message's calls, in their order.
    pub calls: &'a [Markup],
    pub branches: Option<&'a Branches>,
    /// Whether the message is a summary of the messages before it.
    pub is_summary: bool,
}

/// The branches at a message: conversations that have different versions of it.
pub struct Branches {
    /// The number of the displayed branch, from 1, and the number of all branches.
    pub number: usize,
    pub count: usize,
    /// The conversations of the branches before and after the displayed one.
    pub previous: Option<String>,
    pub next: Option<String>,
}

/// A message that a model is writing.
pub struct LiveMessage<'a> {
    pub position: u64,
    pub model: &'a str,
    /// The blocks of text and thinking.
    pub parts: Vec<Markup>,
    pub calls: &'a [Markup],
    /// The time of the request, if the model has not sent anything yet.
    pub waits_since: Option<SystemTime>,
}

/// The end of a response that did not end with a complete message.
pub enum Ending<'a> {
    Stopped,
    /// A limit was reached, or the response was cut off.
    Limited(&'a str),
    Failed {
        message: &'a str,
        hint: Option<&'a str>,
    },
    /// The gateway stopped before the response was complete.
    Interrupted,
}

/// Returns a message.
pub fn message(message: &Message<'_>) -> Markup {
    let is_user = message.message.role == Role::User;
    let id = format!("m{}", message.position);
    let label = match message.message.role {
        Role::User if message.is_summary => "summary",
        Role::User => "you",
        Role::Assistant => message.model.unwrap_or("model"),
    };
    html! {
        article.message.(if is_user { "you" } else { "model" }) id=(id) aria-label=(UntrustedText(label)) {
            div.body {
                @if message.is_summary { p.muted { "Summary of the messages above, for the model" } }
                (blocks(message))
                (calls(message.position, message.calls))
            }
            (foot(message, is_user))
        }
    }
}

/// Returns the texts, thinking, media and files of a message.
fn blocks(message: &Message<'_>) -> Markup {
    let mut number = 0;
    let mut next = || {
        number += 1;
        number - 1
    };
    let contents = message.message.content.iter().enumerate().filter_map(|(index, block)| match block {
        Block::Content(content) => Some((index, content)),
        Block::Call { .. } | Block::Result { .. } => None,
    });
    html! {
        @for (index, content) in contents {
            @match content {
                Content::Text { text, .. } => @for block in markdown_html::blocks(text) {
                    (settled_block(message.position, next(), &block))
                },
                Content::Other(value) => @if let Some(text) = thinking_text(value) {
                    (thinking_block(message.position, next(), text, false))
                },
                content => div.block id={ "m" (message.position) "-" (next()) } {
                    (file(content, media(message, index)))
                },
            }
        }
    }
}

fn media(message: &Message<'_>, block: usize) -> Link {
    Link::to(&["-", "media", message.conversation, &message.position.to_string(), &block.to_string()])
}

/// Returns the text of a thinking block.
fn thinking_text(value: &Value) -> Option<&str> {
    let text = value.get("text").and_then(Value::as_str)?;
    (value.get("type").and_then(Value::as_str) == Some("thinking") && !text.trim().is_empty()).then_some(text)
}

/// Returns an attached file, or media that the model made.
fn file(content: &Content, address: Link) -> Markup {
    let image = |mime_type: &str, name: &str| {
        let is_safe = safe_media_type(mime_type).is_some_and(|safe| safe.starts_with("image/"));
        html! {
            @if is_safe {
                a.media href=(address) { img src=(address) alt=(UntrustedText(name)) loading="lazy"; }
            } @else {
                p.note { bdi { (UntrustedText(name)) } " " span.muted { (UntrustedText(mime_type)) } }
            }
        }
    };
    html! {
        @match content {
            Content::Image { mime_type, .. } => (image(mime_type, "image")),
            Content::Audio { mime_type, .. } => {
                @if safe_media_type(mime_type).is_some() { audio controls preload="none" src=(address) {} }
                @else { p.note { "audio " (UntrustedText(mime_type)) } }
            }
            Content::Resource { resource, .. } => {
                @let name = content.resource_name().unwrap_or_default();
                @match &resource.body {
                    ResourceBody::Text(text) => details.attached {
                        summary { (icon(Icon::Attach)) " " bdi { (UntrustedText(&name)) } " " span.muted { (text.len()) " bytes" } }
                        pre.plain dir="auto" tabindex="0" { (UntrustedText(&start_of(text))) }
                    },
                    ResourceBody::Blob(_) => (image(resource.mime_type.as_deref().unwrap_or_default(), &name)),
                }
            }
            Content::ResourceLink(link) => p { bdi { (UntrustedText(&link.name)) } " " code { (UntrustedText(&link.uri)) } },
            Content::Text { .. } | Content::Other(_) => {}
        }
    }
}

/// Returns the start of a long text.
fn start_of(text: &str) -> String {
    match text.char_indices().nth(16_000) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn calls(position: u64, calls: &[Markup]) -> Markup {
    html! {
        @if calls.len() > 1 { p.step id={ "m" (position) "-step" } { (counted(calls.len(), "call")) " in parallel" } }
        @if !calls.is_empty() {
            div.calls id={ "m" (position) "-calls" } { @for call in calls { (call) } }
        }
    }
}

fn foot(message: &Message<'_>, is_user: bool) -> Markup {
    let position = message.position.to_string();
    let raw = Link::to(&["-", "chat", message.conversation, "messages", &position, "text"]);
    html! {
        div.message-foot id={ "m" (position) "-foot" } {
            @if let Some(at) = message.time { span.muted.small { (time::time(at, Format::Time)) } }
            @if let Some(branches) = message.branches { (branch_links(branches, &position)) }
            @if !message.is_summary {
                button.button.quiet type="button" data-copy-from=(raw) { span { "copy" } }
                @if is_user {
                    a.button.quiet data-edit href=(address(message.conversation).with("edit", &position).at(&format!("m{position}"))) {
                        (icon(Icon::Edit)) "edit"
                    }
                }
                button.button.quiet form="retry" name="position" value=(position) { (icon(Icon::Again)) "retry" }
            }
        }
    }
}

fn branch_links(branches: &Branches, position: &str) -> Markup {
    let link = |conversation: &Option<String>, text: &str, label: &str, key: &str| {
        html! {
            @match conversation {
                Some(id) => a href=(address(id).at(&format!("m{position}"))) aria-label=(label) data-key=(key) { (text) },
                None => span.muted aria-hidden="true" { (text) },
            }
        }
    };
    html! {
        span.row.small.branches {
            (link(&branches.previous, "‹", "previous branch", ","))
            span.num { (branches.number) "/" (branches.count) }
            (link(&branches.next, "›", "next branch", "."))
        }
    }
}

/// Returns a message that a model is writing.
pub fn live_message(message: &LiveMessage<'_>) -> Markup {
    let position = message.position;
    html! {
        article.message.model id={ "m" (position) } aria-label=(UntrustedText(message.model)) aria-busy="true" {
            div.body {
                @for part in &message.parts { (part) }
                (calls(position, message.calls))
            }
            @if let Some(since) = message.waits_since { (waiting_note(position, message.model, since)) }
        }
    }
}

/// Returns the line that is displayed until a model sends something.
pub fn waiting_note(position: u64, model: &str, since: SystemTime) -> Markup {
    html! {
        p.waits id={ "m" (position) "-waits" } { span data-wait=(UntrustedText(model)) data-since=(time::iso(since)) {} }
    }
}

/// Returns a block of text that does not change any more.
pub fn settled_block(message: u64, number: usize, html: &Markup) -> Markup {
    html! { div.block id={ "m" (message) "-" (number) } { (html) } }
}

/// Returns a block of text that may still change. If it is code that grows, it has its number of lines, so
/// that the script appends each further line once.
pub fn open_block(message: u64, number: usize, lines: usize, html: &Markup) -> Markup {
    html! { div.block id={ "m" (message) "-" (number) } data-length=[(lines > 0).then_some(lines)] { (html) } }
}

/// Returns thinking, folded. It is not formatted.
pub fn thinking_block(message: u64, number: usize, text: &str, is_live: bool) -> Markup {
    let id = format!("m{message}-{number}");
    html! {
        div.block id=(id) {
            details.thinking id={ (id) "-thinking" } {
                summary { @if is_live { "thinking" } @else { "thought" } }
                pre.plain dir="auto" { (UntrustedText(text)) }
            }
        }
    }
}

/// Returns the line after the last message. It is empty unless a response ended abnormally.
pub fn ending(conversation: &str, retry: Option<u64>, ending: Option<&Ending<'_>>) -> Markup {
    html! {
        div.ending.stack #ending {
            @match ending {
                None => {}
                Some(Ending::Stopped) => p.muted { "stopped" },
                Some(Ending::Limited(limit)) => (error(limit, Some("send a message to continue; `toolwire.agent` in the configuration sets the limits"))),
                Some(Ending::Failed { message, hint }) => (error(message, *hint)),
                Some(Ending::Interrupted) => p.muted { "the gateway stopped before the response was complete" },
            }
            @if let Some(position) = retry {
                form.row method="post" action=(action(conversation, "retry")) data-live {
                    input type="hidden" name="position" value=(position);
                    button.button data-key="r" { (icon(Icon::Again)) "Retry " kbd { "r" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(value: Value) -> String {
        let stored: StoredMessage = serde_json::from_value(value).expect("a message");
        let view = Message {
            conversation: "c",
            position: 3,
            message: &stored,
            time: None,
            model: Some("<demo>"),
            calls: &[],
            branches: None,
            is_summary: false,
        };
        message(&view).into_string()
    }

    #[test]
    fn blocks_are_numbered_over_all_texts_and_thinking() {
        let html = drawn(json!({"role": "assistant", "content": [
            {"type": "thinking", "text": "hm"},
            {"type": "text", "text": "one\n\ntwo"},
            {"type": "text", "text": "three"},
        ]}));
        for id in ["m3-0", "m3-1", "m3-2", "m3-3"] {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}: {html}");
        }
        assert!(html.contains("<summary>thought</summary>") && html.contains("&lt;demo&gt;"), "{html}");
    }

    #[test]
    fn attached_files_are_named_and_never_run() {
        let svg = Content::attached_file("<x>.svg", "image/svg+xml", "AA==");
        let text = Content::attached_text("a.html", "<script>alert(1)</script>");
        let image = Content::attached_file("a.png", "image/png", "AA==");
        let html = drawn(json!({"role": "user", "content": [svg, text, image]}));
        assert_eq!(html.matches("<img").count(), 1, "{html}");
        assert!(html.contains("src=\"/-/media/c/3/2\""), "{html}");
        assert!(!html.contains("<script>") && html.contains("&lt;x&gt;.svg"), "{html}");
    }
}
