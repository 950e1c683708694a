//! An open conversation.

use maud::{Markup, html};

use super::list::title;
use super::{action, address};
use crate::icons::{Icon, icon};
use crate::shell::{back, palette_button};
use crate::text::UntrustedText;

/// The number of messages in a section of a conversation.
pub const WINDOW: u64 = 50;

/// The estimated height of a message in a section that was not loaded, in pixels.
const MESSAGE_HEIGHT: u64 = 90;

/// An open conversation.
pub struct Conversation<'a> {
    pub id: &'a str,
    pub title: Option<&'a str>,
    /// Facts about the conversation: `2 tools · 14 messages · 565 tokens used`.
    pub facts: &'a str,
    pub windows: &'a [Window],
    /// The line after the last message.
    pub ending: Markup,
    pub composer: Markup,
    /// Whether a response is in progress. Without JavaScript, the page then reloads itself.
    pub is_running: bool,
}

/// A section of a conversation.
pub struct Window {
    /// The first and the last position of its messages.
    pub from: u64,
    pub to: u64,
    /// The messages; `None` if the script loads them when they come into view.
    pub messages: Option<Markup>,
}

/// Returns the id of the section that contains a message.
pub fn window_id(position: u64) -> String {
    format!("window-{}", position.saturating_sub(1) / WINDOW)
}

/// Returns an open conversation.
pub fn conversation(conversation: &Conversation<'_>) -> Markup {
    html! {
        @if conversation.is_running {
            noscript { meta http-equiv="refresh" content="2"; }
        }
        (heading(conversation.id, conversation.title, conversation.facts))
        div.messages #messages {
            @for window in conversation.windows { (section(conversation.id, window)) }
        }
        (conversation.ending)
        // Each message has a button that submits this form.
        form #retry method="post" action=(action(conversation.id, "retry")) data-live {
            div.error role="alert" hidden {}
        }
        (conversation.composer)
    }
}

/// Returns the view of a conversation that does not exist yet.
pub fn new_conversation(start: &Markup, composer: &Markup) -> Markup {
    html! {
        header.head {
            (back())
            h1 { "New chat" }
            (palette_button())
        }
        (start)
        (composer)
    }
}

/// Returns several elements one after the other.
pub fn joined(parts: &[Markup]) -> Markup {
    html! { @for part in parts { (part) } }
}

/// Returns the heading with the actions on the conversation.
pub fn heading(id: &str, name: Option<&str>, facts: &str) -> Markup {
    html! {
        header.head #chat-head {
            (back())
            h1 dir="auto" { (title(name)) }
            span.muted.small.desk.cut #chat-facts dir="auto" { (UntrustedText(facts)) }
            button.button.quiet.icon-only type="button" popovertarget="chat-menu" aria-label="More" { (icon(Icon::More)) }
            div.menu #chat-menu popover {
                form.row method="post" action=(action(id, "rename")) data-live {
                    input name="title" value=(name.unwrap_or_default()) aria-label="Title" autocomplete="off";
                    button.button.quiet { "Rename" }
                }
                a.button.quiet href={ (address(id)) ".md" } download { (icon(Icon::Save)) "Export as Markdown" }
                a.button.quiet href={ (address(id)) ".json" } download { (icon(Icon::Save)) "Export as JSON" }
                details #chat-delete {
                    summary { "Delete" }
                    form method="post" action=(action(id, "delete")) data-live { button.button { "Delete this chat forever" } }
                }
            }
        }
    }
}

fn section(id: &str, window: &Window) -> Markup {
    let source = action(id, "window").with("from", &window.from.to_string());
    let height = (window.to + 1 - window.from) * MESSAGE_HEIGHT;
    html! {
        section.window id=(window_id(window.from)) data-from=(window.from) data-to=(window.to) data-src=(source) data-height=(height) {
            @if let Some(messages) = &window.messages { (messages) }
        }
    }
}

/// Returns an empty section, whose first message has this position.
pub fn empty_window(from: u64) -> Markup {
    html! { section.window id=(window_id(from)) data-from=(from) data-to=(from + WINDOW - 1) {} }
}
