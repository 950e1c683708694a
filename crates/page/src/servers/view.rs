//! The servers view as a list with cards, and one server alone.

use maud::{Markup, html};

use super::file_change::{FileChange, file_change};
use super::{Server, card, id};
use crate::link::Link;
use crate::text::{UntrustedText, WithCode, inline};

/// An element that changes while the page is open.
#[derive(Clone, Debug)]
pub struct Part {
    /// The id of the element.
    pub id: String,
    pub html: Markup,
}

/// Returns the parts of a server that change while the page is open.
pub fn parts(server: &Server, may_change: bool) -> Vec<Part> {
    let id = id(&server.name);
    let part = |suffix: &str, html| Part { id: format!("{id}{suffix}"), html };
    vec![
        part("-item-state", item_state(server)),
        part("-head", card::head(server, may_change)),
        part("-problem", card::problem(server)),
        part("-changes", card::changes(server, may_change)),
        part("-facts", card::facts(server)),
    ]
}

/// Returns the column with all servers; `current` is the name of the one that is displayed.
pub fn list(servers: &[Server], current: Option<&str>) -> Markup {
    html! {
        div.list-head {
            a.button href="/servers/new" data-key="a" { "Add a server" kbd { "a" } }
        }
        ul #servers-items {
            @for server in servers { (item(server, current)) }
        }
    }
}

fn item(server: &Server, current: Option<&str>) -> Markup {
    let is_current = current == Some(server.name.as_str());
    html! {
        li id={ (id(&server.name)) "-item" } {
            a.item href=(Link::to(&["servers", &server.name])) aria-current=[is_current.then_some("page")] {
                span.name { (inline(&server.name)) }
                (item_state(server))
            }
        }
    }
}

fn item_state(server: &Server) -> Markup {
    let (class, glyph, word) = server.glyph();
    let summary = server.summary();
    html! {
        span.row.aside id={ (id(&server.name)) "-item-state" } {
            (summary) @if summary != word { span.unseen { ", " (word) } }
            span class={ "glyph " (class) } aria-hidden="true" { (glyph) }
        }
    }
}

/// Returns the cards of all servers.
pub fn main(servers: &[Server], may_change: bool) -> Markup {
    html! {
        h1 { span.grow { "Servers" } a.button.phone href="/servers/new" { "Add" } }
        (admin_note(may_change))
        div.stack #servers {
            @for server in servers { (card(server, may_change, false)) }
            @if servers.is_empty() { (empty()) }
        }
    }
}

/// Returns one server.
pub fn detail(server: &Server, may_change: bool) -> Markup {
    html! {
        div.head {
            a.back.button.quiet href="/servers" aria-label="All servers" { "‹" }
            h1 { (inline(&server.name)) }
            @if server.is_editable {
                (control(super::form::edit_link(&server.name), "Edit", may_change))
                (control(Link::to(&["servers", &server.name, "remove"]), "Remove", may_change))
            }
            a.button.quiet href=(Link::to(&["servers", &format!("{}.json", server.name)])) { "JSON" }
        }
        (admin_note(may_change))
        div.stack { (card(server, may_change, true)) }
    }
}

/// Returns a link to a form for administrators.
fn control(link: Link, label: &str, may_change: bool) -> Markup {
    html! {
        @if may_change {
            a.button.quiet href=(link) { (label) }
        } @else {
            button.button.quiet type="button" disabled aria-describedby="needs-admin" { (label) }
        }
    }
}

/// Returns the page that shows what the removal of a server changes, and asks for a confirmation.
pub fn removal(
    server: &str,
    change: &FileChange,
    file_hash: &str,
    problem: Option<(&str, Option<&str>)>,
) -> Markup {
    html! {
        div.head {
            a.back.button.quiet href=(Link::to(&["servers", server])) aria-label="Back to the server" { "‹" }
            h1 { "Remove " (inline(server)) }
        }
        p {
            @if change.by_hand.is_some() { "After you remove these lines and restart the gateway, it no longer connects to this server." }
            @else { "The gateway closes the connection to the server, and does not offer its tools any more." }
        }
        form.card.stack #server-form data-live method="post" action=(Link::to(&["-", "servers", server, "remove"])) {
            input type="hidden" name="file" value=(file_hash);
            div.error role="alert" {
                @if let Some((message, hint)) = problem {
                    (WithCode(message)) @if let Some(hint) = hint { span.hint { (WithCode(hint)) } }
                }
            }
            (file_change(change))
            div.row.wrap {
                @if change.by_hand.is_none() { button.button.primary { "Remove from the configuration" } }
                a.button href=(Link::to(&["servers", server])) { "Cancel" }
            }
        }
    }
}

/// Returns the text of a gateway without servers.
fn empty() -> Markup {
    html! { div.empty { p { "No servers." } p { a href="/servers/new" { "Add a server" } } } }
}

pub(super) fn admin_note(may_change: bool) -> Markup {
    html! {
        @if !may_change {
            p.note #needs-admin {
                "Changing servers needs an administrator: open the link that " code { "toolwire serve" }
                " prints, or sign in with a key that has " code { "admin: true" } "."
            }
        }
    }
}

fn card(server: &Server, may_change: bool, is_alone: bool) -> Markup {
    let id = id(&server.name);
    html! {
        article.card.stack.server id=(id) aria-labelledby={ (id) "-name" } {
            div.row {
                h2.grow id={ (id) "-name" } { (inline(&server.name)) }
                @if !is_alone {
                    a.button.quiet href=(Link::to(&["servers", &server.name])) {
                        "Open" span.unseen { " " (UntrustedText(&server.name)) }
                    }
                }
            }
            (card::head(server, may_change))
            (card::problem(server))
            (card::changes(server, may_change))
            (card::facts(server))
        }
    }
}
