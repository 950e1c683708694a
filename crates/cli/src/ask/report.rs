//! The progress of a run on a terminal, and the complete run as JSON.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};
use toolwire_agent::approval::PendingCall;
use toolwire_agent::{AgentEvent, ContextReduction, Ending, FinishedRun};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::text::counted;
use toolwire_contract::{Content, ToolResult};

use crate::command_error::{CommandError, ERROR, HINT, NOTE, print_stderr};
use crate::display::images::image_notes;
use crate::display::view::{View, is_styled, retry_text};
use crate::output::{self, ignore_broken_pipe};
use crate::terminal_text::{
    describe_embedding_failure, describe_reduction, sanitize, sanitize_lines, truncate,
};

const SUCCESS: Style = AnsiColor::Green.on_default().bold();
const NAME: Style = Style::new().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// Shows the progress of a run. Programs get only the response.
pub(super) enum RunReport {
    /// For a person, if both outputs are terminals: formatted text and calls.
    Person(Box<View>),
    /// For a program that reads at least one of the two outputs.
    Program(ProgramProgress),
}

impl RunReport {
    pub(super) fn new(as_json: bool) -> RunReport {
        if !as_json && io::stdout().is_terminal() && io::stderr().is_terminal() {
            return RunReport::Person(Box::new(View::new(is_styled())));
        }
        RunReport::Program(ProgramProgress {
            is_streaming: io::stdout().is_terminal() && !as_json,
            shows_calls: io::stderr().is_terminal(),
            has_streamed: false,
            is_line_open: false,
            reduction: None,
            summarized: None,
        })
    }

    /// Whether the response was printed while it arrived.
    pub(super) fn has_streamed(&self) -> bool {
        match self {
            RunReport::Person(_) => true,
            RunReport::Program(progress) => progress.has_streamed,
        }
    }

    pub(super) fn show(&mut self, event: AgentEvent) -> Result<(), CommandError> {
        match self {
            RunReport::Program(progress) => progress.show(&event),
            RunReport::Person(view) => show(view, event).or_else(ignore_broken_pipe),
        }
    }

    pub(super) fn tick(&mut self) -> Result<(), CommandError> {
        match self {
            RunReport::Program(_) => Ok(()),
            RunReport::Person(view) => view.tick().or_else(ignore_broken_pipe),
        }
    }

    /// Ends the line of a response that is being printed.
    pub(super) fn finish(&mut self) -> Result<(), CommandError> {
        match self {
            RunReport::Program(progress) => progress.end_line(),
            RunReport::Person(view) => view.finish_section().or_else(ignore_broken_pipe),
        }
    }
}

fn show(view: &mut View, event: AgentEvent) -> io::Result<()> {
    if let AgentEvent::ApprovalNeeded(call) = &event {
        view.note("note:", NOTE, &not_run(call))?;
        return view.hint(&allow_hint(call));
    }
    view.show(event).map(drop)
}

fn not_run(call: &PendingCall) -> String {
    format!("`{}` was not run: {}", sanitize(&call.name), sanitize(&call.why))
}

fn allow_hint(call: &PendingCall) -> String {
    format!("`--allow {}` lets it run", sanitize(&call.name))
}

pub(super) struct ProgramProgress {
    /// Whether text is printed as it arrives.
    is_streaming: bool,
    shows_calls: bool,
    has_streamed: bool,
    /// Whether the last printed line has no newline yet.
    is_line_open: bool,
    /// The parts of the history that the last request omitted.
    reduction: Option<ContextReduction>,
    /// The number of messages that were summarized.
    summarized: Option<usize>,
}

impl ProgramProgress {
    fn show(&mut self, event: &AgentEvent) -> Result<(), CommandError> {
        match event {
            AgentEvent::Text(text) | AgentEvent::Refusal(text) if self.is_streaming => {
                self.has_streamed = true;
                self.is_line_open = !text.ends_with('\n');
                output::print(&sanitize_lines(text))
            }
            AgentEvent::ContextReduced(reduction) => {
                self.end_line()?;
                self.reduction = Some(*reduction);
                print_stderr(&format!("{NOTE}note:{NOTE:#} {}\n", describe_reduction(reduction)));
                Ok(())
            }
            AgentEvent::ContextSummarized { messages } => {
                self.end_line()?;
                self.summarized = Some(*messages);
                let messages = counted(*messages, "message");
                print_stderr(&format!(
                    "{NOTE}note:{NOTE:#} {messages} summarized, because the context window is nearly full\n"
                ));
                Ok(())
            }
            AgentEvent::EmbeddingsUnavailable(failure) => {
                self.end_line()?;
                print_stderr(&format!("{NOTE}note:{NOTE:#} {}\n", describe_embedding_failure(failure)));
                Ok(())
            }
            AgentEvent::ApprovalNeeded(call) => {
                self.end_line()?;
                print_stderr(&format!("{NOTE}note:{NOTE:#} {}\n", not_run(call)));
                print_stderr(&format!("{HINT}hint:{HINT:#} {}\n", allow_hint(call)));
                Ok(())
            }
            AgentEvent::Retrying { after, retry, max_retries, error } => {
                self.end_line()?;
                let text = retry_text(*after, *retry, *max_retries, error);
                print_stderr(&format!("{NOTE}note:{NOTE:#} {text}\n"));
                Ok(())
            }
            AgentEvent::CallStarted { name, arguments, .. } if self.shows_calls => {
                self.end_line()?;
                let arguments = truncate(&sanitize(&Value::Object(arguments.clone()).to_string()), 80);
                print_stderr(&format!(
                    "{QUIET}→{QUIET:#} {NAME}{}{NAME:#} {QUIET}{arguments}{QUIET:#}\n",
                    sanitize(name)
                ));
                Ok(())
            }
            AgentEvent::CallFinished { name, result, elapsed, .. } if self.shows_calls => {
                self.end_line()?;
                let mark = if result.is_error() {
                    format!("{ERROR}✗{ERROR:#}")
                } else {
                    format!("{SUCCESS}✓{SUCCESS:#}")
                };
                let duration =
                    elapsed.map(|elapsed| format!(" {} ms", elapsed.as_millis())).unwrap_or_default();
                let text = truncate(&sanitize(&first_line(result)), 80);
                print_stderr(&format!(
                    "{mark} {NAME}{}{NAME:#}{QUIET}{duration}{QUIET:#} {text}\n{}",
                    sanitize(name),
                    image_notes(result)
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the line of a response that is being printed.
    fn end_line(&mut self) -> Result<(), CommandError> {
        if std::mem::take(&mut self.is_line_open) { output::print("\n") } else { Ok(()) }
    }
}

/// Returns the first line that is not blank.
fn first_line(result: &ToolResult) -> String {
    let mut texts = result.blocks().iter().map(|block| match block {
        Content::Text { text, .. } => {
            text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
        }
        other => format!("[{}]", other.type_name().unwrap_or("unknown content")),
    });
    let first = texts.find(|text| !text.trim().is_empty());
    first.or_else(|| result.structured_content.as_ref().map(Value::to_string)).unwrap_or_default()
}

/// Returns the complete run as JSON text.
pub(super) fn as_json(
    model: &str,
    finished: &FinishedRun,
    conversation: Option<&ConversationId>,
    progress: &RunReport,
) -> String {
    let outcome = &finished.outcome;
    let (ending, detail) = match &outcome.ending {
        Ending::Finished => ("finished", None),
        Ending::Stopped(limit) => ("stopped", Some(json!({"limit": limit, "message": limit.to_string()}))),
        Ending::Cancelled => ("cancelled", None),
        Ending::NeedsApproval(calls) => ("needs_approval", Some(json!({ "calls": calls }))),
        Ending::Failed(failure) => {
            ("failed", Some(json!({"code": failure.code, "message": failure.message, "hint": failure.hint})))
        }
        _ => ("other", None),
    };
    let mut report = Map::new();
    report.insert("answer".into(), json!(outcome.text));
    if let Some(output) = &outcome.output {
        report.insert("output".into(), output.clone());
    }
    report.insert("ending".into(), json!(ending));
    if let Some(detail) = detail {
        report.insert("detail".into(), detail);
    }
    if let Some(stop) = &outcome.stop {
        report.insert("stop".into(), json!(stop));
    }
    report.insert("model".into(), json!(model));
    report.insert("steps".into(), json!(outcome.steps));
    report.insert("usage".into(), json!(outcome.usage));
    let context = finished.run.context();
    let mut context = json!({"tokens": context.used, "window": context.size});
    if let RunReport::Program(ProgramProgress { reduction, summarized, .. }) = progress {
        if let Some(reduction) = reduction {
            context["resultsShortened"] = json!(reduction.results_shortened);
            context["messagesOmitted"] = json!(reduction.messages_omitted);
        }
        if let Some(messages) = summarized {
            context["messagesSummarized"] = json!(messages);
        }
    }
    report.insert("context".into(), context);
    if let Some(id) = conversation {
        report.insert("conversation".into(), json!(id));
    }
    report.insert("messages".into(), json!(finished.run.messages()));
    output::to_json(&report, false)
}
