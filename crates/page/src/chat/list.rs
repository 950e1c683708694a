//! The list of conversations.

use std::time::SystemTime;

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::address;
use crate::text::UntrustedText;
use crate::time::{self, Format};

/// A conversation in the list.
pub struct Item<'a> {
    pub id: &'a str,
    pub title: Option<&'a str>,
    pub messages: u64,
    pub changed: SystemTime,
    pub activity: Activity,
    /// Whether it is displayed as a fork of the conversation before it.
    pub is_fork: bool,
}

/// The activity in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    None,
    Running,
    /// A call waits for a decision.
    Waiting,
}

/// A message that the search found.
pub struct Hit<'a> {
    pub conversation: &'a str,
    pub title: Option<&'a str>,
    pub position: u64,
    pub snippet: &'a str,
    pub time: SystemTime,
}

/// The messages that a search found.
pub struct Found<'a> {
    pub hits: Vec<Hit<'a>>,
    /// Whether the search found all of them.
    pub is_complete: bool,
}

/// Returns the list with the field for the search. The search begins with the open conversation.
pub fn list(entries: &Markup, query: &str, current: Option<&str>) -> Markup {
    html! {
        div.list-head {
            a.button href="/" { span { "New chat" } " " kbd { "c" } }
            form method="get" action="/" role="search" data-live="input" {
                label.search {
                    span.unseen { "Search chats" }
                    input type="search" name="q" value=(query) data-search placeholder="Search chats" autocomplete="off";
                    kbd { "/" }
                }
                @if let Some(current) = current { input type="hidden" name="in" value=(current); }
            }
        }
        (entries)
    }
}

/// Returns the conversations, the most recently changed first. `more` is the address of the next ones.
pub fn entries(items: &[Item<'_>], current: Option<&str>, more: Option<&str>) -> Markup {
    html! {
        div #chat-list {
            @if items.is_empty() { p.empty { "no chats yet" } }
            ul { @for item in items { li { (entry(item, current)) } } }
            @if let Some(more) = more { a.button.quiet href={ "/?after=" (more) } { "older chats" } }
        }
    }
}

fn entry(item: &Item<'_>, current: Option<&str>) -> Markup {
    let is_current = current == Some(item.id);
    html! {
        a.item.fork[item.is_fork] id={ "chat-" (item.id) } href=(address(item.id)) aria-current=[is_current.then_some("page")] {
            span.name dir="auto" { (title(item.title)) }
            (glyph(item.id, item.activity))
            span.aside title=(counted(item.messages, "message")) {
                (time::time(item.changed, Format::Ago))
            }
        }
    }
}

/// Returns the symbol of an activity. It is an element of its own, which changes without the rest of the
/// list.
pub fn glyph(id: &str, activity: Activity) -> Markup {
    html! {
        span id={ "chat-" (id) "-activity" } {
            @match activity {
                Activity::Waiting => span.glyph.waiting role="img" aria-label="waits for you" { "?" },
                Activity::Running => span.glyph.running role="img" aria-label="running" { "◐" },
                Activity::None => {}
            }
        }
    }
}

/// Returns the title of a conversation.
pub(super) fn title(title: Option<&str>) -> Markup {
    html! {
        @match title.filter(|title| !title.trim().is_empty()) {
            Some(title) => (UntrustedText(title)),
            None => "untitled",
        }
    }
}

/// Returns the messages that a search found: those of the open conversation, and those of all.
pub fn hits(here: Option<&Found<'_>>, everywhere: &Found<'_>) -> Markup {
    html! {
        div #chat-list {
            @if let Some(here) = here {
                h2 { "In this chat · " (counted(here.hits.len(), "message")) }
                ul { @for hit in &here.hits { li { (hit_link(hit, None)) } } }
                @if !here.is_complete { p.muted { "only the latest messages are listed; add a word to find fewer" } }
                h2 { "In all chats" }
            }
            @if everywhere.hits.is_empty() { p.empty { "no message has all these words" } }
            ul { @for hit in &everywhere.hits { li { (hit_link(hit, Some(hit.title))) } } }
            @if !everywhere.is_complete { p.muted { "older chats were not searched" } }
        }
    }
}

/// Returns the link to a message. Without the title of its conversation, the name is its position.
fn hit_link(hit: &Hit<'_>, name: Option<Option<&str>>) -> Markup {
    html! {
        a.item.hit href=(address(hit.conversation).at(&format!("m{}", hit.position))) {
            span.name dir="auto" { @match name { Some(name) => (title(name)), None => { "message " (hit.position) } } }
            span.aside { (time::time(hit.time, Format::Ago)) }
            span.snippet.muted dir="auto" { (UntrustedText(hit.snippet)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_escaped_and_never_empty() {
        let item = |title| Item {
            id: "a",
            title,
            messages: 1,
            changed: SystemTime::UNIX_EPOCH,
            activity: Activity::Waiting,
            is_fork: true,
        };
        let html = entries(&[item(Some("<b>\u{202e}x")), item(Some(" ")), item(None)], Some("a"), None)
            .into_string();
        assert!(html.contains("&lt;b&gt;⟨U+202E⟩x"), "{html}");
        assert_eq!(html.matches("untitled").count(), 2, "{html}");
        assert_eq!(html.matches("aria-current=\"page\"").count(), 3, "{html}");
    }
}
