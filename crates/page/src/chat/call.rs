//! Calls of tools, as cards.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::{Map, Value};
use toolwire_contract::{Content, ToolResult};

use super::approval::{PendingApproval, form};
use super::elicitation::{ServerQuestion, server_question};
use crate::icons::{Icon, icon};
use crate::link::Link;
use crate::result;
use crate::text::{UntrustedText, shortened};
use crate::time;
use crate::tools::command;

/// The maximum length of the arguments in the line of a call, in characters.
const MAX_LINE: usize = 160;

/// The maximum length of a text that is unfolded at first, in bytes.
const MAX_OPEN_TEXT: usize = 600;

/// A call of a tool.
pub struct Call<'a> {
    pub conversation: &'a str,
    /// The position of the message with the call, and the position of the call in it.
    pub message: u64,
    pub position: usize,
    pub name: &'a str,
    /// The server that offers the tool, if it is known.
    pub server: Option<&'a str>,
    pub arguments: &'a Map<String, Value>,
    pub state: CallState<'a>,
}

/// The state of a call.
pub enum CallState<'a> {
    /// The model has sent the name, and is still sending the arguments.
    Announced,
    /// It starts when others have ended.
    Queued,
    Running {
        since: SystemTime,
        progress: Option<Progress<'a>>,
        /// The questions of the server that have no reply yet.
        questions: Vec<ServerQuestion<'a>>,
    },
    /// It waits for a decision.
    Waiting(&'a PendingApproval<'a>),
    /// It has a result. `edited` are the arguments with which it ran, if they are not the model's.
    Done {
        result: &'a ToolResult,
        elapsed: Option<Duration>,
        edited: Option<&'a Map<String, Value>>,
    },
    Denied {
        result: &'a ToolResult,
    },
    /// The process ended, or the connection was lost, before there was a result.
    Unknown {
        result: Option<&'a ToolResult>,
    },
}

/// The progress that a server reports.
pub struct Progress<'a> {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<&'a str>,
}

/// The appearance of a state.
struct Look {
    /// The value of `data-state`.
    name: &'static str,
    class: &'static str,
    glyph: &'static str,
    word: &'static str,
}

const fn look(name: &'static str, class: &'static str, glyph: &'static str, word: &'static str) -> Look {
    Look { name, class, glyph, word }
}

impl CallState<'_> {
    fn look(&self) -> Look {
        match self {
            CallState::Announced => look("running", "running", "◐", "receiving the arguments"),
            CallState::Queued => look("running", "running", "◐", "starts after the other calls"),
            CallState::Running { questions, .. } if !questions.is_empty() => {
                look("waiting", "waiting", "?", "waits for your reply")
            }
            CallState::Running { .. } => look("running", "running", "◐", "running"),
            CallState::Waiting(_) => look("waiting", "waiting", "?", "waits for your decision"),
            CallState::Done { result, .. } if result.is_error() => look("failed", "refused", "✗", "failed"),
            CallState::Done { .. } => look("done", "exact", "✓", "done"),
            CallState::Denied { .. } => look("denied", "refused", "✗", "not run"),
            CallState::Unknown { .. } => look("unknown", "lossy", "!", "result unknown"),
        }
    }

    fn result(&self) -> Option<&ToolResult> {
        match self {
            CallState::Done { result, .. } | CallState::Denied { result } => Some(result),
            CallState::Unknown { result } => *result,
            _ => None,
        }
    }
}

impl Call<'_> {
    fn id(&self) -> String {
        format!("call-{}-{}", self.message, self.position)
    }

    /// Returns the address of a part of the call's result.
    fn part(&self, name: &str) -> Link {
        let position = format!("{}-{}", self.message, self.position);
        Link::to(&["-", "chat", self.conversation, "calls", &position, name])
    }
}

/// Returns the card of a call.
pub fn card(call: &Call<'_>) -> Markup {
    let id = call.id();
    let Look { name, word, .. } = call.state.look();
    html! {
        section.call id=(id) data-state=(name) aria-label={ (UntrustedText(call.name)) ", " (word) } {
            (head(call))
            @match &call.state {
                CallState::Running { progress: reported, questions, .. } => {
                    (progress(call.message, call.position, reported.as_ref()))
                    div.contents id=(questions_id(call.message, call.position)) {
                        @for question in questions { (server_question(question, None)) }
                    }
                }
                CallState::Waiting(approval) => (form(approval, None)),
                _ => {}
            }
            (body(call))
        }
    }
}

fn head(call: &Call<'_>) -> Markup {
    let Look { class, glyph, word, .. } = call.state.look();
    let line = argument_line(call.arguments);
    html! {
        div.call-head id={ (call.id()) "-head" } {
            span class={ "glyph " (class) } role="img" aria-label=(word) { (glyph) }
            a.call-name href=(Link::to(&["tools", call.name])) dir="auto" { (UntrustedText(call.name)) }
            span.call-arguments dir="auto" { (UntrustedText(&line)) }
            @if let Some(server) = call.server { span.muted.call-server dir="auto" { (UntrustedText(server)) } }
            (elapsed(&call.state))
            @if call.state.result().is_some() {
                button.button.quiet.icon-only type="button" data-copy-text=(command(call.name, &Value::Object(call.arguments.clone())))
                    aria-label={ "copy as a command: " (UntrustedText(call.name)) } { (icon(Icon::Copy)) }
                a.button.quiet.icon-only.desk href=(again(call)) aria-label={ "call again: " (UntrustedText(call.name)) } { (icon(Icon::Again)) }
            }
        }
    }
}

fn elapsed(state: &CallState<'_>) -> Markup {
    html! {
        @match state {
            CallState::Running { since, .. } => span.call-time.num data-since=(time::iso(*since)) {},
            CallState::Waiting(_) => span.call-time { "waits" },
            CallState::Done { elapsed: Some(elapsed), .. } => span.call-time.num { (time::duration(*elapsed)) },
            CallState::Queued => span.call-time { "queued" },
            _ => span.call-time {},
        }
    }
}

/// Returns the id of the element with the questions of a running call.
pub fn questions_id(message: u64, position: usize) -> String {
    format!("call-{message}-{position}-questions")
}

/// Returns the progress of a running call. It is an element of its own, which changes without the rest of the
/// card.
pub fn progress(message: u64, position: usize, reported: Option<&Progress<'_>>) -> Markup {
    let percent = reported.and_then(|progress| {
        let total = progress.total.filter(|total| *total > 0.0)?;
        Some((progress.done / total * 100.0).clamp(0.0, 100.0).round())
    });
    html! {
        div.call-progress id={ "call-" (message) "-" (position) "-progress" } hidden[reported.is_none()] {
            @if let Some(reported) = reported {
                @match percent {
                    Some(percent) => {
                        progress value=(percent) max="100" aria-label="progress" {}
                        span.num { (percent) " %" }
                    }
                    None => span.num { (reported.done) },
                }
                @if let Some(message) = reported.message { span.cut dir="auto" { (UntrustedText(&shortened(message, 200))) } }
            }
        }
    }
}

fn body(call: &Call<'_>) -> Markup {
    let id = call.id();
    let media = |position: usize| Some(call.part(&format!("media-{position}")));
    html! {
        @match &call.state {
            CallState::Denied { result } => {
                div.call-body id={ (id) "-body" } { (result::draw(result, &media)) }
            }
            CallState::Unknown { result: Some(result) } => {
                div.call-body id={ (id) "-body" } { (result::draw(result, &media)) }
            }
            CallState::Unknown { result: None } => {
                p.call-body.muted id={ (id) "-body" } { "no result was stored" }
            }
            CallState::Done { result, edited, .. } => {
                details.call-body id={ (id) "-body" } open[is_open(result)] {
                    summary { "result" @if edited.is_some() { ", ran with your arguments" } }
                    @if let Some(arguments) = edited {
                        p.muted { "The model asked for " code dir="auto" { (UntrustedText(&argument_line(call.arguments))) } }
                        p.muted { "It ran with " code dir="auto" { (UntrustedText(&argument_line(arguments))) } }
                    }
                    (result::draw(result, &media))
                    (arguments(call))
                    div.row {
                        button.button.quiet type="button" data-copy-from=(call.part("result.json")) { span { "copy result" } }
                        a.button.quiet href=(call.part("result.json")) download { (icon(Icon::Save)) "save" }
                    }
                }
            }
            CallState::Waiting(_) => {}
            _ if call.arguments.is_empty() => {}
            _ => { details.call-body id={ (id) "-body" } { summary { "arguments" } (pretty(call.arguments)) } }
        }
    }
}

/// Returns all arguments, if the line of the call does not show them.
fn arguments(call: &Call<'_>) -> Markup {
    let is_long = argument_line(call.arguments).chars().count() > 60;
    html! { @if is_long { details { summary { "arguments" } (pretty(call.arguments)) } } }
}

fn pretty(arguments: &Map<String, Value>) -> Markup {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    html! { pre.json dir="auto" tabindex="0" { code { (UntrustedText(&text)) } } }
}

/// Whether a result is unfolded at first: errors, media and short texts are.
fn is_open(result: &ToolResult) -> bool {
    let text_bytes = |block: &Content| match block {
        Content::Text { text, .. } => text.len(),
        _ => 0,
    };
    let is_media = |block: &Content| {
        matches!(block, Content::Image { .. } | Content::Audio { .. } | Content::ResourceLink(_))
    };
    let blocks = result.blocks();
    result.is_error()
        || blocks.iter().any(is_media)
        || blocks.iter().map(text_bytes).sum::<usize>() <= MAX_OPEN_TEXT
}

/// Returns the arguments as one line: `location: "Paris", days: 2`.
pub(super) fn argument_line(arguments: &Map<String, Value>) -> String {
    if arguments.is_empty() {
        return "()".to_owned();
    }
    let mut line = String::new();
    for (key, value) in arguments {
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(key);
        line.push_str(": ");
        line.push_str(&value.to_string());
        if line.len() > 4 * MAX_LINE {
            break;
        }
    }
    shortened(&line, MAX_LINE)
}

fn again(call: &Call<'_>) -> Link {
    let arguments = Value::Object(call.arguments.clone()).to_string();
    let link = Link::to(&["tools", call.name]);
    // Browsers and servers limit the length of an address.
    if arguments.len() > 4_000 { link } else { link.with("args", &arguments) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(state: CallState<'_>, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = Call {
            conversation: "c",
            message: 2,
            position: 0,
            name: "<b>\u{202e}",
            server: Some("\"><i>"),
            arguments: &arguments,
            state,
        };
        card(&call).into_string()
    }

    #[test]
    fn a_card_has_its_state_and_escapes_everything() {
        let result = ToolResult::text("<script>alert(1)</script>");
        let html = drawn(
            CallState::Done { result: &result, elapsed: Some(Duration::from_millis(210)), edited: None },
            json!({"</span>": "<img src=x>"}),
        );
        assert!(html.contains("data-state=\"done\"") && html.contains("0.2 s"), "{html}");
        for tag in ["<b>", "<i>", "<script>", "<img"] {
            assert!(!html.contains(tag), "{tag}: {html}");
        }
        assert!(html.contains("⟨U+202E⟩"), "{html}");
    }

    #[test]
    fn errors_and_media_are_open_and_long_texts_are_folded() {
        let is_open = |result: ToolResult| {
            drawn(CallState::Done { result: &result, elapsed: None, edited: None }, json!({}))
                .contains(" open")
        };
        assert!(is_open(ToolResult::text("short")));
        assert!(!is_open(ToolResult::text("x".repeat(5_000))));
        assert!(is_open(ToolResult::error("x".repeat(5_000))));
        let image =
            ToolResult { content: Some(vec![Content::image("AA==", "image/png")]), ..ToolResult::default() };
        assert!(is_open(image));
    }

    #[test]
    fn progress_is_a_bar_if_the_total_is_known() {
        let bar = |total| {
            progress(1, 0, Some(&Progress { done: 5.0, total, message: Some("page <5>") })).into_string()
        };
        assert!(
            bar(Some(8.0)).contains("value=\"63\"") && bar(Some(8.0)).contains("63 %"),
            "{}",
            bar(Some(8.0))
        );
        assert!(
            !bar(None).contains("<progress") && bar(Some(0.0)).contains("page &lt;5&gt;"),
            "{}",
            bar(None)
        );
    }
}
