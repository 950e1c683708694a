//! The view of the tools: search, and calls by hand.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::Value;
use toolwire_contract::text::{counted, shell_word};
use toolwire_contract::{Tool, ToolResult};

use crate::form::{self, Filling, Problem, Shape};
use crate::link::Link;
use crate::notice::error;
use crate::result;
use crate::shell::{back, palette_button};
use crate::text::{UntrustedText, WithCode, inline, shortened};
use crate::time::{self, Format};

/// The maximum length of a displayed text, in characters.
const MAX_CHARS: usize = 16_000;

/// A tool in the list.
pub struct Entry<'a> {
    pub tool: &'a Tool,
    pub server: Option<&'a str>,
    /// The score of the search; `None` without a query.
    pub score: Option<f32>,
}

/// Returns the address of a tool.
pub fn address(name: &str) -> Link {
    Link::to(&["tools", name])
}

/// Returns the list of tools with a field for the search.
pub fn list(entries: &[Entry<'_>], query: &str, current: Option<&str>) -> Markup {
    html! {
        div.list-head {
            form method="get" action="/tools" data-live="input" data-url {
                label.search {
                    input type="search" name="q" value=(query) data-search aria-label="Search tools" placeholder="Search tools" autocomplete="off";
                    kbd { "/" }
                }
            }
        }
        (entries_list(entries, query, current))
    }
}

/// Returns the entries of the list, which the search replaces.
pub fn entries_list(entries: &[Entry<'_>], query: &str, current: Option<&str>) -> Markup {
    let is_search = !query.trim().is_empty();
    html! {
        div #tool-entries {
            p.muted.small {
                @if is_search { "ranked as in the model's search" } @else { (counted(entries.len(), "tool")) }
            }
            ul {
                @for entry in entries {
                    @let name = &entry.tool.name;
                    @let link = if is_search { address(name).with("q", query) } else { address(name) };
                    li { a.item href=(link) aria-current=[(current == Some(name.as_str())).then_some("page")] {
                        bdi.name.grow { (UntrustedText(name)) }
                        span.aside {
                            @if let Some(score) = entry.score { span.num { (format!("{score:.2}")) } " " }
                            @if let Some(server) = entry.server { bdi { (UntrustedText(server)) } }
                        }
                    } }
                }
            }
            @if entries.is_empty() {
                p.empty { @if is_search { "no tool matches the query" } @else { "no tools yet" } }
            }
        }
    }
}

/// Returns the content of the view while no tool is open.
pub fn introduction(tools: usize) -> Markup {
    html! {
        header.head { h1 { "Tools" } (palette_button()) }
        p.muted {
            @if tools == 0 { "No server offers a tool at the moment." }
            @else { "Choose a tool to see its definition and to call it. The search ranks tools in the same way as the model's search." }
        }
    }
}

/// A tool with the form of a call.
pub struct OpenTool<'a> {
    pub tool: &'a Tool,
    pub server: Option<&'a str>,
    /// The name on the server, if it differs.
    pub original_name: Option<&'a str>,
    pub shape: &'a Shape,
    pub filling: &'a Filling,
    /// The problems of the arguments; `None` if they were not checked yet.
    pub problems: Option<&'a [Problem]>,
    /// The JSON of the arguments, if each field has a value.
    pub arguments: Option<&'a Value>,
    /// Whether a link filled in the arguments.
    pub is_from_link: bool,
    /// The reason why the policy does not allow calls of the tool.
    pub denied: Option<&'a str>,
    /// The timeout of a call, in seconds.
    pub timeout: u64,
    /// The last calls, the newest first.
    pub calls: &'a [RecordedCall],
}

/// A call that a person made.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    pub id: String,
    pub at: SystemTime,
    pub elapsed: Duration,
    pub arguments: Value,
    /// The result, or why there is none and what to try.
    pub outcome: Result<ToolResult, (String, Option<String>)>,
}

/// Returns a tool: its definition, the form of a call, and the last calls.
pub fn open(tool: &OpenTool<'_>) -> Markup {
    let definition = tool.tool;
    html! {
        header.head {
            (back())
            h1 { @if let Some(server) = tool.server { bdi.muted { (UntrustedText(server)) } " / " } (inline(&definition.name)) }
            button.button.quiet.desk type="button" data-copy-text=(definition_json(definition)) { "Copy definition" }
            (palette_button())
        }
        @if let Some(title) = definition.title.as_deref().filter(|title| *title != definition.name) { p { (inline(title)) } }
        @if let Some(description) = &definition.description {
            p.description.plain dir="auto" { (UntrustedText(&cut(description))) }
        }
        p.row.muted {
            (hints(definition))
            @if let Some(name) = tool.original_name { span { "named " (inline(name)) " on its server" } }
        }
        (form(tool))
        section.stack aria-labelledby="calls-title" {
            h2 #calls-title { "Calls" }
            (calls(&definition.name, tool.calls))
        }
    }
}

/// Returns the form of a call. The response to the form replaces it.
pub fn form(tool: &OpenTool<'_>) -> Markup {
    let name = &tool.tool.name;
    let post = Link::to(&["-", "tools", name, "call"]);
    html! {
        form.card.stack #tool-form method="post" action=(post) data-live {
            @if tool.is_from_link { p.note { "the link filled in these arguments" } }
            (form::draw(tool.shape, tool.filling, tool.problems.unwrap_or_default(), "f"))
            div.row {
                span.muted { "sent" }
                code.grow.json dir="auto" {
                    @match tool.arguments {
                        Some(arguments) => (UntrustedText(&shortened(&arguments.to_string(), 2_000))),
                        None => "nothing yet: a field has no valid value",
                    }
                }
                @if let Some(problems) = tool.problems {
                    @if problems.is_empty() { span.fits { span.glyph.exact aria-hidden="true" { "✓" } " fits the tool" } }
                    @else { span.fits { span.glyph.refused aria-hidden="true" { "✗" } " " (counted(problems.len(), "problem")) } }
                }
            }
            div.row {
                button.button.primary name="act" value="call" disabled[tool.denied.is_some()] { "Call" }
                button.button name="act" value="check" { "Check" }
                label.row { span { "timeout" } input.short.num name="timeout" inputmode="numeric" value=(tool.timeout); "s" }
                @if let Some(arguments) = tool.arguments {
                    button.button.quiet type="button" data-copy-text=(command(name, arguments)) { "Copy as command" }
                    a.button.quiet href=(address(name).with("args", &arguments.to_string())) { "Link to these arguments" }
                }
            }
            @if let Some(reason) = tool.denied { p.muted { "calls are not allowed: " (WithCode(reason)) } }
            div.error role="alert" hidden {}
        }
    }
}

/// Returns the last calls of a tool.
pub fn calls(tool: &str, calls: &[RecordedCall]) -> Markup {
    html! {
        div #tool-calls {
            @if calls.is_empty() { p.empty { "none yet" } }
            @for (position, call) in calls.iter().enumerate() { (one_call(tool, call, position == 0)) }
        }
    }
}

fn one_call(tool: &str, call: &RecordedCall, is_newest: bool) -> Markup {
    let is_error = call.outcome.as_ref().map_or(true, ToolResult::is_error);
    let (class, glyph, word) = match (&call.outcome, is_error) {
        (Err(_), _) => ("refused", "✗", "not made"),
        (Ok(_), true) => ("refused", "✗", "the tool reported an error"),
        (Ok(_), false) => ("exact", "✓", "ok"),
    };
    html! {
        details.call id={ "call-" (call.id) } open[is_newest] {
            summary.row {
                span class={ "glyph " (class) } role="img" aria-label=(word) { (glyph) }
                span.num { (time::duration(call.elapsed)) }
                code.grow dir="auto" { (UntrustedText(&shortened(&call.arguments.to_string(), 120))) }
                (time::time(call.at, Format::Time))
            }
            @match &call.outcome {
                Ok(tool_result) => {
                    @let media = |position: usize| Some(Link::to(&["-", "tools", tool, "calls", &call.id, "media", &position.to_string()]));
                    (result::draw(tool_result, &media))
                    details.raw {
                        summary { "raw" }
                        pre.plain dir="auto" tabindex="0" #{ "raw-" (call.id) } { (UntrustedText(&cut(&pretty(&Value::from(tool_result.clone()))))) }
                    }
                    div.row {
                        button.button.quiet type="button" data-copy-from=(raw(tool, call)) { "Copy result" }
                        a.button.quiet href=(raw(tool, call)) download { "Save" }
                        (again(tool, call))
                    }
                }
                Err((message, hint)) => { (error(message, hint.as_deref())) div.row { (again(tool, call)) } }
            }
        }
    }
}

fn raw(tool: &str, call: &RecordedCall) -> Link {
    Link::to(&["-", "tools", tool, "calls", &call.id, "result"])
}

fn again(tool: &str, call: &RecordedCall) -> Markup {
    html! { a.button.quiet href=(address(tool).with("args", &call.arguments.to_string())) { "Use again" } }
}

fn hints(tool: &Tool) -> Markup {
    let hints = tool.hints();
    let texts = [
        (hints.read_only == Some(true), "only reads"),
        (hints.read_only != Some(true) && hints.destructive != Some(false), "may change or delete data"),
        (hints.read_only != Some(true) && hints.destructive == Some(false), "only adds"),
    ];
    html! { @for (_, text) in texts.iter().filter(|(is_set, _)| *is_set) { span.chip { (text) } } }
}

/// Returns the command that makes the same call in a terminal.
pub(crate) fn command(tool: &str, arguments: &Value) -> String {
    format!("toolwire call {} {}", shell_word(tool), shell_word(&arguments.to_string()))
}

fn definition_json(tool: &Tool) -> String {
    serde_json::to_value(tool).map(|value| pretty(&value)).unwrap_or_default()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_quoted_for_a_shell() {
        let arguments = json!({"a": "it's"});
        assert_eq!(command("get weather", &arguments), r#"toolwire call 'get weather' '{"a":"it'\''s"}'"#);
    }
}
