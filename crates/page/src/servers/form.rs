//! The form that adds or changes a server.

use std::time::Duration;

use maud::{Markup, html};
use toolwire_contract::text::counted;

use super::file_change::{self, FileChange};
use crate::link::Link;
use crate::text::{UntrustedText, WithCode, inline};
use crate::time::duration;

/// The placeholder of a stored value that is not displayed, because it may be secret.
pub const HIDDEN: &str = "…";

/// The fields of the form, as a user filled them in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    pub name: String,
    /// Whether the server is in the configuration, and its name is fixed.
    pub is_configured: bool,
    pub kind: ServerKind,
    pub command: String,
    /// One argument in each line.
    pub arguments: String,
    /// `NAME=value` in each line; the value [`HIDDEN`] keeps the stored one.
    pub environment: String,
    pub url: String,
    /// `Name: value` in each line; the value [`HIDDEN`] keeps the stored one.
    pub headers: String,
    /// Identifies the text of the configuration that the form was created from.
    pub file_hash: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKind {
    /// A program of this machine.
    #[default]
    Command,
    /// A server on the network.
    Url,
}

/// The configuration file that the form writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: String,
    /// The reason why a person must make the changes. `None` if the page can write the file.
    pub by_hand: Option<String>,
}

/// The response to a button of the form.
#[derive(Clone, Copy, Debug)]
pub enum FormResponse<'a> {
    Problem { message: &'a str, hint: Option<&'a str> },
    Checked(&'a ServerCheck),
    Change(&'a FileChange),
}

/// The result of starting a server to check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCheck {
    pub outcome: CheckOutcome,
    /// The entry of the configuration, without secrets.
    pub entry: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    Started {
        after: Duration,
        protocol: String,
        program: Option<String>,
        tools: Vec<String>,
        /// Tools that some dialects cannot express, and the names of these dialects.
        refused: Vec<(String, Vec<String>)>,
        /// Tools that are not usable at all, and the reasons.
        unusable: Vec<(String, String)>,
    },
    Failed {
        reason: String,
        hint: Option<String>,
        stderr: Vec<String>,
    },
}

impl ServerKind {
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Command => "command",
            ServerKind::Url => "url",
        }
    }

    pub fn from_name(name: &str) -> Option<ServerKind> {
        [ServerKind::Command, ServerKind::Url].into_iter().find(|kind| kind.name() == name)
    }
}

/// Returns the form, with the response to one of its buttons.
pub fn form(
    draft: &Draft,
    target: &ConfigFile,
    may_change: bool,
    response: Option<FormResponse<'_>>,
) -> Markup {
    let needs_admin = (!may_change).then_some("needs-admin");
    let checked = match response {
        Some(FormResponse::Checked(checked)) => self::checked(draft, checked),
        _ => html! { div #server-check hidden {} },
    };
    let change = match response {
        Some(FormResponse::Change(change)) => file_change::file_change(change),
        _ => html! { div #file-change hidden {} },
    };
    html! {
        div.head {
            a.back.button.quiet href="/servers" aria-label="All servers" { "‹" }
            h1 { @if draft.is_configured { "Change " (inline(&draft.name)) } @else { "Add a server" } }
        }
        (super::view::admin_note(may_change))
        @if let Some(reason) = &target.by_hand { p.note { (WithCode(reason)) } }
        form.card #server-form data-live method="post" action="/-/servers/write" {
            input type="hidden" name="file" value=(draft.file_hash);
            @if draft.is_configured { input type="hidden" name="configured" value="yes"; }
            div.error role="alert" {
                @if let Some(FormResponse::Problem { message, hint }) = response {
                    (WithCode(message)) @if let Some(hint) = hint { span.hint { (WithCode(hint)) } }
                }
            }
            label.field {
                span { "Name" }
                input name="name" value=(draft.name) required autocomplete="off" spellcheck="false"
                    readonly[draft.is_configured] maxlength="200";
            }
            fieldset {
                legend { "Kind" }
                div.row {
                    @for (kind, label) in [(ServerKind::Command, "a program on this machine"), (ServerKind::Url, "a server on the network")] {
                        label.chip {
                            input type="radio" name="kind" value=(kind.name()) checked[kind == draft.kind];
                            (label)
                        }
                    }
                }
            }
            div.stack.for-command {
                label.field {
                    span { "Command" }
                    input.mono name="command" value=(draft.command) autocomplete="off" spellcheck="false"
                        placeholder="uvx";
                }
                (lines("arguments", "Arguments, one in each line", &draft.arguments, "mcp-server-time"))
                (lines("environment", "Environment variables, NAME=value in each line", &draft.environment, "API_KEY=${API_KEY}"))
            }
            div.stack.for-url {
                label.field {
                    span { "URL" }
                    input.mono name="url" value=(draft.url) autocomplete="off" spellcheck="false"
                        placeholder="https://example.com/mcp";
                }
                (lines("headers", "Headers, Name: value in each line", &draft.headers, "Authorization: Bearer ${TOKEN}"))
            }
            p.muted {
                code { "${NAME}" } " is the value of an environment variable of the gateway; "
                code { (HIDDEN) } " keeps the stored value, which is not displayed."
            }
            (checked)
            (change)
            div.row.wrap {
                button.button formaction="/-/servers/check" disabled[!may_change] aria-describedby=[needs_admin] { "Start and check" }
                @if target.by_hand.is_some() {
                    button.button.primary formaction="/-/servers/preview" disabled[!may_change] aria-describedby=[needs_admin] { "Show the lines to change" }
                } @else {
                    button.button formaction="/-/servers/preview" disabled[!may_change] aria-describedby=[needs_admin] { "Show the difference" }
                    button.button.primary disabled[!may_change] aria-describedby=[needs_admin] { "Write to the configuration" }
                }
                span.muted.cut dir="auto" { (UntrustedText(&target.path)) }
            }
        }
    }
}

fn lines(name: &str, label: &str, value: &str, example: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            // A browser ignores the first line break.
            textarea.mono name=(name) rows="2" spellcheck="false" autocomplete="off" placeholder=(example) { "\n" (value) }
        }
    }
}

/// Returns the result of a check, in the place that the form has for it.
pub fn checked(draft: &Draft, checked: &ServerCheck) -> Markup {
    html! {
        div.stack #server-check {
            @match &checked.outcome {
                CheckOutcome::Started { after, protocol, program, tools, refused, unusable } => {
                    p {
                        span.glyph.ready aria-hidden="true" { "✓" }
                        " starts in " (duration(*after)) " · " span.mono { (inline(protocol)) }
                        " · " (counted(tools.len(), "tool"))
                        @if refused.is_empty() && unusable.is_empty() && !tools.is_empty() { ", all convert" }
                        @if let Some(program) = program { " · " (inline(program)) }
                    }
                    @if !tools.is_empty() { p.muted.mono dir="auto" { (UntrustedText(&tools.join(", "))) } }
                    @for (tool, dialects) in refused {
                        p {
                            span.glyph.refused aria-hidden="true" { "✗" } " "
                            span.mono { (inline(tool)) } " cannot be expressed for " (dialects.join(", "))
                        }
                    }
                    @for (tool, reason) in unusable {
                        p { span.glyph.refused aria-hidden="true" { "✗" } " " span.mono { (inline(tool)) } ": " bdi { (WithCode(reason)) } }
                    }
                }
                CheckOutcome::Failed { reason, hint, stderr } => {
                    div.error { (WithCode(reason)) @if let Some(hint) = hint { span.hint { (WithCode(hint)) } } }
                    @if !stderr.is_empty() {
                        figure.code {
                            figcaption { "standard error, last " (counted(stderr.len(), "line")) }
                            pre.tail tabindex="0" dir="auto" { code { (UntrustedText(&stderr.join("\n"))) } }
                        }
                    }
                }
            }
            details #server-entry {
                summary { "as JSON" }
                pre.mono tabindex="0" dir="auto" { (UntrustedText(&checked.entry)) }
            }
            p.unseen { "checked " (UntrustedText(&draft.name)) }
        }
    }
}

/// Returns the link to the form of a server.
pub(super) fn edit_link(server: &str) -> Link {
    Link::to(&["servers", server, "edit"])
}
