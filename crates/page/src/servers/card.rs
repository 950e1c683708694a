//! The parts of one server's card. Each has its own id, so that a change of one part leaves the others alone.

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::{ConnectionAttempt, Server, ServerDescription, ServerProblem, ServerState, id};
use crate::link::Link;
use crate::text::{UntrustedText, WithCode, inline, shortened};
use crate::time::{Format, duration, iso, time};

/// The maximum number of characters of a tool's description in the list of tools.
const DESCRIPTION_LENGTH: usize = 160;

/// Returns the state, the most important facts, and what a user can do.
pub(super) fn head(server: &Server, may_change: bool) -> Markup {
    let (class, glyph, word) = server.glyph();
    html! {
        div.row.wrap id={ (id(&server.name)) "-head" } {
            span class={ "glyph " (class) } aria-hidden="true" { (glyph) }
            span { (word) (state_detail(server)) }
            @if let Some(ServerDescription { protocol, .. }) = &server.description {
                span.muted.mono { (inline(protocol)) }
            }
            span.muted { (inline(&server.transport)) }
            @if matches!(server.state, ServerState::Ready) { span.muted { (counted(server.tools.len(), "tool")) } }
            @if let (Some(p50), Some(p99)) = (server.calls.p50, server.calls.p99) {
                span.muted.num { "call p50 " (duration(p50)) ", p99 " (duration(p99)) }
            }
            span.grow {}
            (actions(server, may_change))
        }
    }
}

/// Returns the duration or a detail of the state.
fn state_detail(server: &Server) -> Markup {
    let since = html! { " " span.num data-since=(iso(server.since)) {} };
    match &server.state {
        ServerState::Connecting { detail } if detail.is_empty() => since,
        ServerState::Connecting { detail } => html! { ": " (WithCode(detail)) (since) },
        ServerState::Recovering { problem: ServerProblem { attempt: ConnectionAttempt::Running, .. } } => {
            html! { ", connecting" }
        }
        _ => html! {},
    }
}

/// Returns the button or the link for the state. All of them have the same id, so that the focus stays when
/// the state changes.
fn actions(server: &Server, may_change: bool) -> Markup {
    match &server.state {
        ServerState::Ready => action(server, "restart", "Restart", may_change),
        // A link, because the page's policy blocks forms that lead to another site.
        ServerState::SignIn { page, .. } if may_change => html! {
            a.button.primary id={ (id(&server.name)) "-action" } data-stays href=(sign_in_link(&server.name))
                target="_blank" rel="noopener noreferrer" { "Sign in ↗" span.unseen { " to " (UntrustedText(&server.name)) } }
            span.muted {
                "opens " (inline(page.as_ref().and_then(Link::host).unwrap_or("the provider’s page")))
            }
        },
        ServerState::SignIn { .. } => html! {
            button.button type="button" id={ (id(&server.name)) "-action" } data-stays disabled aria-describedby="needs-admin" {
                "Sign in" span.unseen { " to " (UntrustedText(&server.name)) }
            }
        },
        ServerState::Recovering { problem } | ServerState::Down { problem }
            if problem.attempt != ConnectionAttempt::Running =>
        {
            action(server, "retry", "Try now", may_change)
        }
        ServerState::Connecting { .. } | ServerState::Recovering { .. } | ServerState::Down { .. } => html! {
            button.button type="button" id={ (id(&server.name)) "-action" } data-stays aria-disabled="true" {
                "Trying" span.unseen { " " (UntrustedText(&server.name)) }
            }
        },
        ServerState::Disabled | ServerState::Stopped => html! {},
    }
}

/// Returns the address that starts a login and leads to the page of the provider.
fn sign_in_link(server: &str) -> Link {
    Link::to(&["servers", server, "sign-in"])
}

fn action(server: &Server, name: &str, label: &str, may_change: bool) -> Markup {
    let is_primary = may_change && name == "retry";
    html! {
        form data-live method="post" action=(Link::to(&["-", "servers", &server.name, name])) {
            button.button.primary[is_primary] id={ (id(&server.name)) "-action" } data-stays disabled[!may_change]
                aria-describedby=[(!may_change).then_some("needs-admin")] {
                (label) span.unseen { " " (UntrustedText(&server.name)) }
            }
            div.error role="alert" {}
        }
    }
}

/// Returns the reason why a server does not work, with a hint and its standard error.
pub(super) fn problem(server: &Server) -> Markup {
    let (reason, problem) = match &server.state {
        ServerState::Recovering { problem } | ServerState::Down { problem } => {
            (Some(&problem.reason), Some(problem))
        }
        ServerState::SignIn { reason, .. } => (Some(reason).filter(|reason| !reason.is_empty()), None),
        _ => (None, None),
    };
    let is_failed = problem.is_some();
    html! {
        div.stack id={ (id(&server.name)) "-problem" } hidden[reason.is_none() && !is_failed] {
            @if let Some(reason) = reason {
                div.error {
                    span dir="auto" { (WithCode(reason)) }
                    @if let Some(problem) = problem {
                        span.muted { " · " (next_attempt(problem.attempt)) }
                        @if let Some(hint) = &problem.hint { span.hint dir="auto" { (WithCode(hint)) } }
                    }
                }
            }
            @if is_failed && !server.stderr.is_empty() { (stderr(server)) }
        }
    }
}

fn next_attempt(attempt: ConnectionAttempt) -> Markup {
    match attempt {
        ConnectionAttempt::Running => html! { "trying now" },
        ConnectionAttempt::At(at) => html! { "next try at " (time(at, Format::Time)) },
        ConnectionAttempt::OnRequest => html! { "not tried again" },
    }
}

/// Returns the last lines of standard error, with a button that copies them.
fn stderr(server: &Server) -> Markup {
    let id = format!("{}-stderr", id(&server.name));
    html! {
        figure.code {
            figcaption {
                span.grow { "standard error, last " (counted(server.stderr.len(), "line")) }
                button.button.quiet type="button" data-copy={ "#" (id) } { "copy" }
            }
            pre.tail tabindex="0" dir="auto" {
                code id=(id) { (UntrustedText(&server.stderr.join("\n"))) }
            }
        }
    }
}

/// Returns the changed definitions.
pub(super) fn changes(server: &Server, may_change: bool) -> Markup {
    html! { div.stack id={ (id(&server.name)) "-changes" } hidden[server.changed.is_empty()] { (super::change::changes(server, may_change)) } }
}

/// Returns the facts that are less important.
pub(super) fn facts(server: &Server) -> Markup {
    let is_failed = matches!(server.state, ServerState::Recovering { .. } | ServerState::Down { .. });
    html! {
        div.stack id={ (id(&server.name)) "-facts" } {
            p.muted {
                @if let Some(program) = server.description.as_ref().and_then(|stated| stated.program.as_ref()) {
                    (inline(program)) " · "
                }
                @if matches!(server.state, ServerState::Ready) { "up " span.num data-since=(iso(server.since)) {} " · " }
                (counted(server.restarts, "restart"))
                @if server.calls.answered + server.calls.failed > 0 {
                    " · " (counted(server.calls.answered, "call")) " answered"
                    @if server.calls.failed > 0 { ", " (server.calls.failed) " without a response" }
                }
                " · " code { (inline(&server.address)) }
            }
            @for note in &server.notes { p.note { (WithCode(note)) } }
            @if !server.tools.is_empty() || !server.withheld.is_empty() { (tools(server)) }
            @if let Some(instructions) = server.description.as_ref().and_then(|stated| stated.instructions.as_ref()) {
                details id={ (id(&server.name)) "-instructions" } {
                    summary { "Instructions for the model" }
                    pre tabindex="0" dir="auto" { (UntrustedText(instructions)) }
                }
            }
            @if !is_failed && !server.stderr.is_empty() {
                details id={ (id(&server.name)) "-output" } {
                    summary { "Standard error, " (counted(server.stderr.len(), "line")) }
                    (stderr(server))
                }
            }
        }
    }
}

fn tools(server: &Server) -> Markup {
    html! {
        details id={ (id(&server.name)) "-tools" } {
            summary {
                (counted(server.tools.len(), "tool")) " offered"
                @if !server.withheld.is_empty() { ", " (server.withheld.len()) " not" }
            }
            div.table-wrap.full tabindex="0" role="group" aria-label={ "Tools of " (UntrustedText(&server.name)) } {
                table {
                    thead { tr { th scope="col" { "Tool" } th scope="col" { "Description" } } }
                    tbody {
                        @for tool in &server.tools {
                            tr {
                                td.mono {
                                    a href=(crate::tools::address(&tool.name)) { (inline(&tool.name)) }
                                    @if let Some(original) = &tool.original { span.muted { " (" (inline(original)) ")" } }
                                }
                                td dir="auto" {
                                    (UntrustedText(&shortened(tool.description.as_deref().unwrap_or_default(), DESCRIPTION_LENGTH)))
                                }
                            }
                        }
                        @for tool in &server.withheld {
                            tr {
                                td.mono.muted { (inline(&tool.name)) }
                                td.muted dir="auto" { "not offered: " (WithCode(&tool.reason)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
