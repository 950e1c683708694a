//! A changed definition as a difference, with the decision about it.

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::{ChangedPlace, ChangedTool, Server, Words};
use crate::link::Link;
use crate::text::{UntrustedText, inline};

/// Returns the changed definitions of a server.
pub(super) fn changes(server: &Server, may_change: bool) -> Markup {
    html! {
        @if !server.changed.is_empty() {
            p {
                span.glyph.rewritten aria-hidden="true" { "~" } " "
                (counted(server.changed.len(), "definition")) " changed since "
                @if server.changed.len() == 1 { "it was accepted" } @else { "they were accepted" }
            }
            @for tool in &server.changed { (changed_tool(server, tool, may_change)) }
        }
    }
}

fn changed_tool(server: &Server, tool: &ChangedTool, may_change: bool) -> Markup {
    let availability = match tool.is_blocked {
        true => "not offered until you accept it",
        false => "offered",
    };
    html! {
        section.stack.changed-tool aria-label={ "Changed tool " (UntrustedText(&tool.tool)) } {
            div.row.wrap {
                strong.mono { (inline(&tool.tool)) }
                @if !tool.parts.is_empty() { span.muted { (tool.parts.join(", ")) " changed" } }
                span.muted { (availability) }
                span.grow {}
                (decision(server, tool, "accept", "Accept", "primary", may_change))
                @if !tool.is_blocked { (decision(server, tool, "keep-off", "Block", "", may_change)) }
            }
            @match &tool.places {
                Some(places) => {
                    @for place in places { (changed_place(place)) }
                }
                None => {
                    p.muted { "The accepted definition is not known. The current description:" }
                    div.line.added { code dir="auto" { (UntrustedText(tool.current_description.as_deref().unwrap_or("(none)"))) } }
                }
            }
        }
    }
}

fn changed_place(place: &ChangedPlace) -> Markup {
    html! {
        div.changed-place role="group" aria-label={ "Change of " (UntrustedText(&place.place)) } {
            p.muted.mono { (inline(&place.place)) }
            @if place.has_before {
                div.line.removed.refused {
                    code dir="auto" { span.unseen { "removed: " } (side(&place.words, |words| words.is_before, "del")) }
                }
            }
            @if place.has_after {
                div.line.added.rewritten {
                    code dir="auto" { span.unseen { "added: " } (side(&place.words, |words| words.is_after, "ins")) }
                }
            }
        }
    }
}

/// Returns one side of a difference. The words that only this side has are marked.
fn side(words: &[Words], is_side: fn(&Words) -> bool, mark: &str) -> Markup {
    html! {
        @for words in words.iter().filter(|words| is_side(words)) {
            @if words.is_before && words.is_after {
                (UntrustedText(&words.text))
            } @else if mark == "del" {
                // No strike-through: it would hide hyphens.
                mark.removed { (UntrustedText(&words.text)) }
            } @else {
                mark.added { (UntrustedText(&words.text)) }
            }
        }
    }
}

fn decision(
    server: &Server,
    tool: &ChangedTool,
    action: &str,
    label: &str,
    class: &str,
    may_change: bool,
) -> Markup {
    html! {
        form data-live method="post" action=(Link::to(&["-", "servers", &server.name, action])) {
            input type="hidden" name="tool" value=(tool.tool);
            input type="hidden" name="seen" value=(tool.fingerprint);
            button.button.primary[class == "primary"] disabled[!may_change]
                aria-describedby=[(!may_change).then_some("needs-admin")] { (label) span.unseen { " " (UntrustedText(&tool.tool)) } }
            div.error role="alert" {}
        }
    }
}
