//! Displays the calls of one step, one line for each.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};
use toolwire_contract::toolbox::Progress;
use toolwire_contract::{Content, ResourceBody, ToolResult};

use super::line::{Line, Margin, Span, wrap};
use super::markdown::DIMMED;
use crate::terminal_text::{sanitize, truncate, width};

const DONE: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
const NAME: Style = Style::new().bold();
const SPINNER_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_FRAME_DURATION: Duration = Duration::from_millis(80);
const MAX_ERROR_LINES: usize = 4;

/// The calls of one step, in their order.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    displayed: Vec<Call>,
    /// The calls that still ran when something else was displayed below them, such as a question. Each is
    /// displayed again when it continues.
    interrupted: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    /// A summary; `None` while the model is still writing the arguments.
    arguments: Option<String>,
    started_at: Instant,
    state: CallState,
}

#[derive(Debug)]
enum CallState {
    Running { progress: Option<String> },
    Done { result: String, is_error: bool, elapsed: Option<Duration> },
}

impl Calls {
    /// Adds a call that the model has started to write.
    pub(crate) fn announced(&mut self, id: &str, name: &str, now: Instant) {
        if self.find(id).is_none() {
            // Some models use an id again.
            self.interrupted.retain(|call| call.id != id);
            let state = CallState::Running { progress: None };
            let (id, name) = (id.to_owned(), sanitize(name));
            self.displayed.push(Call { id, name, arguments: None, started_at: now, state });
        }
    }

    /// Returns the calls that are still running, to be displayed when they continue.
    pub(crate) fn into_interrupted(self) -> Calls {
        let is_running = |call: &Call| matches!(call.state, CallState::Running { .. });
        let running = self.displayed.into_iter().filter(is_running);
        Calls { displayed: Vec::new(), interrupted: self.interrupted.into_iter().chain(running).collect() }
    }

    fn resume(&mut self, id: &str) {
        if let Some(index) = self.interrupted.iter().position(|call| call.id == id) {
            self.displayed.push(self.interrupted.remove(index));
        }
    }

    pub(crate) fn started(&mut self, id: &str, name: &str, arguments: &Map<String, Value>, now: Instant) {
        self.announced(id, name, now);
        if let Some(call) = self.find(id) {
            call.arguments = Some(short_arguments(arguments));
            call.started_at = now;
        }
    }

    pub(crate) fn progressed(&mut self, id: &str, progress: &Progress) {
        self.resume(id);
        if let Some(Call { state: CallState::Running { progress: displayed }, .. }) = self.find(id) {
            *displayed = Some(short_progress(progress));
        }
    }

    pub(crate) fn finished(
        &mut self,
        id: &str,
        name: &str,
        result: &ToolResult,
        elapsed: Option<Duration>,
        now: Instant,
    ) {
        self.resume(id);
        self.announced(id, name, now);
        if let Some(call) = self.find(id) {
            call.state =
                CallState::Done { result: short_result(result), is_error: result.is_error(), elapsed };
        }
    }

    pub(crate) fn lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        self.displayed.iter().flat_map(|call| call.lines(columns, now)).collect()
    }

    /// Returns the lines of the finished calls. The others are displayed again when they have finished.
    pub(crate) fn done_lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        let done = self.displayed.iter().filter(|call| matches!(call.state, CallState::Done { .. }));
        done.flat_map(|call| call.lines(columns, now)).collect()
    }

    /// Returns the line of a finished call without colours.
    pub(crate) fn plain_line(&self, id: &str) -> Option<String> {
        let call = self.displayed.iter().find(|call| call.id == id)?;
        let CallState::Done { result, is_error, elapsed } = &call.state else { return None };
        let label = if *is_error { "failed:" } else { "called:" };
        let time = elapsed.map_or_else(String::new, |elapsed| format!(" {}", format_duration(elapsed)));
        let arguments = call.arguments.as_deref().unwrap_or("");
        Some(format!("{label} {}({}){time} → {}", call.name, truncate(arguments, 200), truncate(result, 400)))
    }

    fn find(&mut self, id: &str) -> Option<&mut Call> {
        self.displayed.iter_mut().find(|call| call.id == id)
    }
}

impl Call {
    fn lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        let (mark, style, time) = match &self.state {
            CallState::Running { .. } => {
                let elapsed = now.saturating_duration_since(self.started_at);
                (spinner_frame(elapsed), Style::new(), Some(elapsed))
            }
            CallState::Done { is_error: false, elapsed, .. } => ("✓", DONE, *elapsed),
            CallState::Done { is_error: true, elapsed, .. } => ("✗", FAILED, *elapsed),
        };
        let mut spans = vec![
            Span::decoration(format!("{mark} "), style),
            Span::decoration(truncate(&self.name, columns / 2), NAME),
        ];
        let time = time.map_or_else(String::new, |time| format!("  {}", format_duration(time)));
        let tail = match &self.state {
            CallState::Running { progress } => {
                progress.as_ref().map(|progress| (format!("  {progress}"), DIMMED))
            }
            CallState::Done { result, is_error: false, .. } => Some((format!("  {result}"), DIMMED)),
            CallState::Done { is_error: true, .. } => None,
        };
        let used: usize = spans.iter().map(|span| width(&span.text)).sum();
        let room = columns.saturating_sub(used + width(&time));
        // The result gets at least a third of the remaining columns.
        let tail_width = tail.as_ref().map_or(0, |(text, _)| width(text)).min(room / 3);
        let arguments = self.arguments.as_ref().map_or_else(|| "(…)".to_owned(), |text| format!("({text})"));
        let arguments = truncate(&arguments, room.saturating_sub(tail_width));
        let room = room.saturating_sub(width(&arguments));
        spans.push(Span::decoration(arguments, Style::new()));
        spans.push(Span::decoration(time, DIMMED));
        if let Some((text, style)) = tail {
            spans.push(Span::decoration(truncate(&text, room), style));
        }
        let mut lines = vec![truncate_spans(spans, columns)];
        if let CallState::Done { result, is_error: true, .. } = &self.state {
            lines.extend(error_lines(result, columns));
        }
        lines
    }
}

/// Creates a line of at most `columns` columns.
fn truncate_spans(spans: Vec<Span>, columns: usize) -> Line {
    let mut room = columns;
    let mut line = Line::default();
    for span in spans {
        let text = truncate(&span.text, room);
        room = room.saturating_sub(width(&text));
        line.spans.push(Span { text, ..span });
        if room == 0 {
            break;
        }
    }
    line
}

fn error_lines(text: &str, columns: usize) -> Vec<Line> {
    let indent = vec![Span::decoration("  ", Style::new())];
    let margin = Margin { first: indent.clone(), rest: indent };
    let mut lines = wrap(&[Span::decoration(text, FAILED)], &margin, columns);
    if lines.len() > MAX_ERROR_LINES {
        lines.truncate(MAX_ERROR_LINES);
        lines.push(Line::decoration("  …", FAILED));
    }
    lines
}

/// Returns the spinner's frame after `elapsed`.
pub(crate) fn spinner_frame(elapsed: Duration) -> &'static str {
    let index = elapsed.as_millis() / SPINNER_FRAME_DURATION.as_millis();
    SPINNER_FRAMES[usize::try_from(index % SPINNER_FRAMES.len() as u128).unwrap_or_default()]
}

pub(crate) fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        return format!("{:.1}s", time.as_secs_f64());
    }
    format!("{}m {:02}s", seconds / 60, seconds % 60)
}

/// Summarizes the arguments of a call in one line: `location: "Paris", days: 3`.
pub(crate) fn short_arguments(arguments: &Map<String, Value>) -> String {
    let pairs: Vec<String> =
        arguments.iter().map(|(name, value)| format!("{}: {}", name, short_value(value))).collect();
    sanitize(&pairs.join(", "))
}

/// Formats a value. Long strings are truncated, so that the arguments after them stay visible.
fn short_value(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    match value {
        Value::String(text) if text.chars().count() > MAX_CHARS => {
            let start = Value::String(text.chars().take(MAX_CHARS).collect()).to_string();
            format!("{}…\"", start.trim_end_matches('"'))
        }
        other => other.to_string(),
    }
}

fn short_progress(progress: &Progress) -> String {
    let number =
        |number: f64| if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") };
    let mut text = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => format!("{} of {}", number(progress.done), number(total)),
        None => number(progress.done),
    };
    if let Some(message) = &progress.message {
        text = format!("{text} {}", to_single_line(message));
    }
    text
}

/// Summarizes the result of a call in one line.
pub(crate) fn short_result(result: &ToolResult) -> String {
    let parts: Vec<String> =
        result.blocks().iter().map(short_block).filter(|part| !part.is_empty()).collect();
    match (&result.structured_content, parts.is_empty()) {
        (Some(value), true) => to_single_line(&value.to_string()),
        (None, true) => "(nothing)".to_owned(),
        (_, false) => parts.join(" "),
    }
}

fn short_block(content: &Content) -> String {
    match content {
        Content::Text { text, .. } => to_single_line(text),
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
            format!("[{}]", sanitize(mime_type))
        }
        Content::ResourceLink(link) => format!("[{}]", sanitize(&link.uri)),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => to_single_line(text),
            ResourceBody::Blob(_) => format!("[{}]", sanitize(&resource.uri)),
        },
        Content::Other(value) => to_single_line(&value.to_string()),
    }
}

/// Replaces all white space by single spaces, and truncates the text to a length that no line reaches.
fn to_single_line(text: &str) -> String {
    const MAX_CHARS: usize = 2_000;
    let words: Vec<&str> = text.split_whitespace().take(MAX_CHARS).collect();
    sanitize(&words.join(" ").chars().take(MAX_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[track_caller]
    fn check(calls: &Calls, columns: usize, now: Instant, expected: &[&str]) {
        let lines: Vec<String> = calls
            .lines(columns, now)
            .iter()
            .map(|line| line.spans.iter().map(|span| span.text.as_str()).collect())
            .collect();
        assert_eq!(lines, expected);
        for line in calls.lines(columns, now) {
            assert!(line.width() <= columns);
        }
    }

    #[test]
    fn a_call_is_displayed_from_its_announcement_to_its_result() {
        let start = Instant::now();
        let later = start + Duration::from_millis(1_240);
        let mut calls = Calls::default();
        calls.announced("1", "get_weather", start);
        check(&calls, 60, start, &["⠋ get_weather(…)  0.0s"]);
        calls.started("1", "get_weather", &arguments(json!({"location": "Paris"})), start);
        check(&calls, 60, later, &["⠴ get_weather(location: \"Paris\")  1.2s"]);
        let progress = Progress { done: 2.0, total: Some(5.0), message: Some("asking\nthe sky".into()) };
        calls.progressed("1", &progress);
        check(&calls, 60, later, &["⠴ get_weather(location: \"Paris\")  1.2s  2 of 5 asking the s…"]);
        let result = ToolResult::text("18 degrees\nand sunny");
        calls.finished("1", "get_weather", &result, Some(Duration::from_secs(75)), later);
        check(&calls, 70, later, &["✓ get_weather(location: \"Paris\")  1m 15s  18 degrees and sunny"]);
    }

    #[test]
    fn a_call_keeps_its_arguments_if_a_question_interrupts_it() {
        let now = Instant::now();
        let mut calls = Calls::default();
        let text = |text: &str| arguments(json!({"text": text}));
        for id in ["1", "2", "3"] {
            calls.started(id, "f", &text(id), now);
        }
        calls.finished("1", "f", &ToolResult::text("one"), None, now);
        let mut calls = calls.into_interrupted();
        check(&calls, 60, now, &[]);
        calls.finished("2", "f", &ToolResult::text("two"), None, now);
        check(&calls, 60, now, &["✓ f(text: \"2\")  two"]);
        // Another call with the id of one that never finished.
        calls.announced("3", "g", now);
        calls.finished("3", "g", &ToolResult::text("three"), None, now);
        check(&calls, 60, now, &["✓ f(text: \"2\")  two", "✓ g(…)  three"]);
        assert!(calls.into_interrupted().interrupted.is_empty());
    }

    #[test]
    fn an_error_is_displayed_on_several_lines() {
        let now = Instant::now();
        let mut calls = Calls::default();
        calls.started("1", "f", &Map::new(), now);
        calls.finished("1", "f", &ToolResult::error("no such\u{1b}[31m place as this"), None, now);
        check(&calls, 16, now, &["✗ f()", "  no such\u{fffd}[31m", "  place as this"]);
    }

    #[test]
    fn lines_fit_every_width() {
        let now = Instant::now();
        let mut calls = Calls::default();
        calls.started("1", "a_long_name", &arguments(json!({"text": "x".repeat(100)})), now);
        calls.finished("1", "a_long_name", &ToolResult::text("y".repeat(100)), None, now);
        for columns in 1..100 {
            for line in calls.lines(columns, now) {
                assert!(line.width() <= columns, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn long_strings_do_not_hide_other_arguments() {
        let long = arguments(json!({"text": "word ".repeat(50), "n": 3}));
        assert!(short_arguments(&long).ends_with("…\", n: 3"));
    }
}
