//! The calls of one step, a line for each while they run and once they are done.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};
use toolwire_contract::{Content, Progress, ResourceBody, ToolResult};

use super::line::{Line, Margin, Span, wrap};
use super::markdown::QUIET;
use crate::terminal_text::{sanitize, truncate, width};

const DONE: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
const NAME: Style = Style::new().bold();
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME: Duration = Duration::from_millis(80);
/// How many lines of an error are shown.
const ERROR_LINES: usize = 4;

/// The calls of one step, in their order.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    /// In few words; nothing while the model still writes them.
    arguments: Option<String>,
    began: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Running { progress: Option<String> },
    Done { result: String, is_error: bool, elapsed: Option<Duration> },
}

impl Calls {
    /// The model has begun to write a call.
    pub(crate) fn began(&mut self, id: &str, name: &str, now: Instant) {
        if self.find(id).is_none() {
            let state = State::Running { progress: None };
            let (id, name) = (id.to_owned(), sanitize(name));
            self.0.push(Call { id, name, arguments: None, began: now, state });
        }
    }

    pub(crate) fn started(&mut self, id: &str, name: &str, arguments: &Map<String, Value>, now: Instant) {
        self.began(id, name, now);
        if let Some(call) = self.find(id) {
            call.arguments = Some(short_arguments(arguments));
            call.began = now;
        }
    }

    pub(crate) fn progressed(&mut self, id: &str, progress: &Progress) {
        if let Some(Call { state: State::Running { progress: shown }, .. }) = self.find(id) {
            *shown = Some(short_progress(progress));
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
        self.began(id, name, now);
        if let Some(call) = self.find(id) {
            call.state = State::Done { result: short_result(result), is_error: result.is_error(), elapsed };
        }
    }

    pub(crate) fn lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        self.0.iter().flat_map(|call| call.lines(columns, now)).collect()
    }

    /// The lines of the calls that are done; what became of the others is told when it is known.
    pub(crate) fn done_lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        let done = self.0.iter().filter(|call| matches!(call.state, State::Done { .. }));
        done.flat_map(|call| call.lines(columns, now)).collect()
    }

    /// The line of a call that is done, without colours.
    pub(crate) fn plain(&self, id: &str) -> Option<String> {
        let call = self.0.iter().find(|call| call.id == id)?;
        let State::Done { result, is_error, elapsed } = &call.state else { return None };
        let mark = if *is_error { "failed:" } else { "called:" };
        let time = elapsed.map_or_else(String::new, |elapsed| format!(" {}", short_time(elapsed)));
        let arguments = call.arguments.as_deref().unwrap_or("");
        Some(format!("{mark} {}({}){time} → {}", call.name, truncate(arguments, 200), truncate(result, 400)))
    }

    fn find(&mut self, id: &str) -> Option<&mut Call> {
        self.0.iter_mut().find(|call| call.id == id)
    }
}

impl Call {
    fn lines(&self, columns: usize, now: Instant) -> Vec<Line> {
        let (mark, style, time) = match &self.state {
            State::Running { .. } => {
                let elapsed = now.saturating_duration_since(self.began);
                (frame(elapsed), Style::new(), Some(elapsed))
            }
            State::Done { is_error: false, elapsed, .. } => ("✓", DONE, *elapsed),
            State::Done { is_error: true, elapsed, .. } => ("✗", FAILED, *elapsed),
        };
        let mut spans =
            vec![Span::ours(format!("{mark} "), style), Span::ours(truncate(&self.name, columns / 2), NAME)];
        let time = time.map_or_else(String::new, |time| format!("  {}", short_time(time)));
        let tail = match &self.state {
            State::Running { progress } => progress.as_ref().map(|progress| (format!("  {progress}"), QUIET)),
            State::Done { result, is_error: false, .. } => Some((format!("  {result}"), QUIET)),
            State::Done { is_error: true, .. } => None,
        };
        let used: usize = spans.iter().map(|span| width(&span.text)).sum();
        let room = columns.saturating_sub(used + width(&time));
        // The result gets at least a third of what is left.
        let tail_width = tail.as_ref().map_or(0, |(text, _)| width(text)).min(room / 3);
        let arguments = self.arguments.as_ref().map_or_else(|| "(…)".to_owned(), |text| format!("({text})"));
        let arguments = truncate(&arguments, room.saturating_sub(tail_width));
        let room = room.saturating_sub(width(&arguments));
        spans.push(Span::ours(arguments, Style::new()));
        spans.push(Span::ours(time, QUIET));
        if let Some((text, style)) = tail {
            spans.push(Span::ours(truncate(&text, room), style));
        }
        let mut lines = vec![fitted(spans, columns)];
        if let State::Done { result, is_error: true, .. } = &self.state {
            lines.extend(error_lines(result, columns));
        }
        lines
    }
}

/// A line that no terminal is too narrow for.
fn fitted(spans: Vec<Span>, columns: usize) -> Line {
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
    let indent = vec![Span::ours("  ", Style::new())];
    let margin = Margin { first: indent.clone(), rest: indent };
    let mut lines = wrap(&[Span::ours(text, FAILED)], &margin, columns);
    if lines.len() > ERROR_LINES {
        lines.truncate(ERROR_LINES);
        lines.push(Line::ours("  …", FAILED));
    }
    lines
}

/// The picture of something that is under way for so long.
pub(crate) fn frame(elapsed: Duration) -> &'static str {
    let index = elapsed.as_millis() / FRAME.as_millis();
    FRAMES[usize::try_from(index % FRAMES.len() as u128).unwrap_or_default()]
}

pub(crate) fn short_time(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        return format!("{:.1}s", time.as_secs_f64());
    }
    format!("{}m {:02}s", seconds / 60, seconds % 60)
}

/// The arguments of a call in one line: `location: "Paris", days: 3`.
pub(crate) fn short_arguments(arguments: &Map<String, Value>) -> String {
    let pairs: Vec<String> =
        arguments.iter().map(|(name, value)| format!("{}: {}", name, short_value(value))).collect();
    sanitize(&pairs.join(", "))
}

/// Long texts are cut, so that the arguments behind them are seen too.
fn short_value(value: &Value) -> String {
    const LONG: usize = 60;
    match value {
        Value::String(text) if text.chars().count() > LONG => {
            format!(
                "{}…\"",
                Value::String(text.chars().take(LONG).collect()).to_string().trim_end_matches('"')
            )
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
        text = format!("{text} {}", in_one_line(message));
    }
    text
}

/// What a call gave, in one line.
pub(crate) fn short_result(result: &ToolResult) -> String {
    let parts: Vec<String> =
        result.blocks().iter().map(short_block).filter(|part| !part.is_empty()).collect();
    match (&result.structured_content, parts.is_empty()) {
        (Some(value), true) => in_one_line(&value.to_string()),
        (None, true) => "(nothing)".to_owned(),
        (_, false) => parts.join(" "),
    }
}

fn short_block(content: &Content) -> String {
    match content {
        Content::Text { text, .. } => in_one_line(text),
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
            format!("[{}]", sanitize(mime_type))
        }
        Content::ResourceLink(link) => format!("[{}]", sanitize(&link.uri)),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => in_one_line(text),
            ResourceBody::Blob(_) => format!("[{}]", sanitize(&resource.uri)),
        },
        Content::Other(value) => in_one_line(&value.to_string()),
    }
}

/// No more of a text than could ever be shown, its white space as single spaces.
fn in_one_line(text: &str) -> String {
    const MOST: usize = 2_000;
    let words: Vec<&str> = text.split_whitespace().take(MOST).collect();
    let text = words.join(" ");
    sanitize(&text.chars().take(MOST).collect::<String>())
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
    fn a_call_is_seen_from_its_first_word_to_its_result() {
        let start = Instant::now();
        let later = start + Duration::from_millis(1_240);
        let mut calls = Calls::default();
        calls.began("1", "get_weather", start);
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
    fn an_error_is_told_at_length() {
        let now = Instant::now();
        let mut calls = Calls::default();
        calls.started("1", "f", &Map::new(), now);
        calls.finished("1", "f", &ToolResult::error("no such\u{1b}[31m place as this"), None, now);
        check(&calls, 16, now, &["✗ f()", "  no such\u{fffd}[31m", "  place as this"]);
    }

    #[test]
    fn a_narrow_terminal_cuts_and_never_breaks() {
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
    fn long_texts_leave_room_for_the_other_arguments() {
        let long = arguments(json!({"text": "word ".repeat(50), "n": 3}));
        assert!(short_arguments(&long).ends_with("…\", n: 3"));
    }
}
