//! The list of changes and refusals of each tool, grouped by the dialects that share them.

use std::fmt::Write as _;

use toolwire_dialect::{Change, Dialect, Effect, Refusal, Report, Status};

use super::survey::Survey;
use super::table::tool_name;
use super::{BOLD, DIM, style, symbol};
use crate::terminal_text::{padded, sanitize, truncate, width, wrapped};

/// `--json` lists more.
const MAX_REASONS_PER_GROUP: usize = 8;
const MAX_POINTER_COLUMNS: usize = 36;
/// Narrower descriptions are hard to read.
const MIN_DESCRIPTION_COLUMNS: usize = 24;

/// A reason why a tool is not exact in a dialect.
#[derive(Clone, Copy, PartialEq)]
enum Reason<'a> {
    Refused(Option<&'a Refusal>),
    Renamed(&'a str),
    Changed(&'a Change),
}

/// Reasons that apply to the same dialects.
struct Group<'a> {
    dialects: Vec<Dialect>,
    reasons: Vec<Reason<'a>>,
}

pub(super) fn render(survey: &Survey, columns: usize) -> String {
    let mut text = String::new();
    for row in survey.by_tool() {
        let groups = grouped(&row);
        if !groups.is_empty() {
            let _ = write!(text, "\n{BOLD}{}{BOLD:#}\n", truncate(&tool_name(&row), columns));
        }
        for group in groups {
            for line in wrapped(&dialect_list(&group.dialects, &survey.dialects), columns.saturating_sub(2)) {
                let _ = writeln!(text, "  {line}");
            }
            render_reasons(&mut text, &group.reasons, columns);
        }
    }
    text
}

/// Returns the reasons of one tool, grouped by their dialects, the most severe first.
fn grouped<'a>(row: &[&'a Report]) -> Vec<Group<'a>> {
    let mut by_reason: Vec<(Reason<'a>, Vec<Dialect>)> = Vec::new();
    for report in row {
        for reason in reasons(report) {
            match by_reason.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, dialects)) if dialects.last() == Some(&report.dialect) => {}
                Some((_, dialects)) => dialects.push(report.dialect),
                None => by_reason.push((reason, vec![report.dialect])),
            }
        }
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (reason, dialects) in by_reason {
        match groups.iter_mut().find(|group| group.dialects == dialects) {
            Some(group) => group.reasons.push(reason),
            None => groups.push(Group { dialects, reasons: vec![reason] }),
        }
    }
    for group in &mut groups {
        group.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.status()));
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.reasons.first().map(|reason| reason.status())));
    groups
}

fn reasons(report: &Report) -> Vec<Reason<'_>> {
    if report.status == Status::Refused {
        return vec![Reason::Refused(report.reason.as_ref())];
    }
    let is_listed = report.changes.iter().any(|change| change.pointer.is_empty() && change.keyword == "name");
    let renamed = (report.name != report.tool && !is_listed).then_some(Reason::Renamed(&report.name));
    renamed.into_iter().chain(report.changes.iter().map(Reason::Changed)).collect()
}

fn render_reasons(text: &mut String, all: &[Reason<'_>], columns: usize) {
    // A line for one omitted reason would not be shorter than the reason.
    let listed = if all.len() > MAX_REASONS_PER_GROUP + 1 { &all[..MAX_REASONS_PER_GROUP] } else { all };
    let pointers: Vec<String> = listed
        .iter()
        .map(|reason| truncate(&reason.pointer(), MAX_POINTER_COLUMNS.min(columns / 2)))
        .collect();
    let pointer_width = pointers.iter().map(|pointer| width(pointer)).max().unwrap_or(0);
    let pointer_indent = 4 + 2;
    let indent = pointer_indent + pointer_width + 2;
    // On a narrow terminal, descriptions are below their pointers.
    let is_beside = columns >= indent + MIN_DESCRIPTION_COLUMNS;
    let indent = if is_beside { indent } else { pointer_indent };
    let next_line = format!("\n{}", " ".repeat(indent));
    for (reason, pointer) in listed.iter().zip(&pointers) {
        let (symbol, style) = (symbol(reason.status()), style(reason.status()));
        let pointer = if is_beside { padded(pointer, pointer_width) } else { pointer.clone() };
        let separator = if is_beside { "  " } else { next_line.as_str() };
        let _ = write!(text, "    {style}{symbol}{style:#} {DIM}{pointer}{DIM:#}{separator}");
        let lines = wrapped(&reason.description(), columns.saturating_sub(indent).max(1));
        text.push_str(&lines.join(&next_line));
        text.push('\n');
    }
    let more = all.len() - listed.len();
    if more > 0 {
        let note = format!("… and {more} more places; `--json` lists them");
        for line in wrapped(&note, columns.saturating_sub(4).max(1)) {
            let _ = writeln!(text, "    {DIM}{line}{DIM:#}");
        }
    }
}

/// Lists the dialects of a group, as short as possible.
pub(super) fn dialect_list(dialects: &[Dialect], all: &[Dialect]) -> String {
    let names = |list: &[Dialect]| list.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ");
    let missing: Vec<Dialect> = all.iter().copied().filter(|dialect| !dialects.contains(dialect)).collect();
    if missing.is_empty() && all.len() > 1 {
        format!("all {} dialects", all.len())
    } else if missing.len() * 3 <= all.len() && all.len() > 3 {
        format!("all but {}", names(&missing))
    } else {
        names(dialects)
    }
}

impl Reason<'_> {
    fn status(self) -> Status {
        match self {
            Reason::Refused(_) => Status::Refused,
            Reason::Renamed(_) => Status::Exact,
            Reason::Changed(change) => match change.effect {
                Effect::Dropped | Effect::Rewritten => Status::Rewritten,
                Effect::Widened | Effect::Narrowed => Status::Lossy,
            },
        }
    }

    /// Returns the pointer, or `(name)` or `(root)`.
    fn pointer(self) -> String {
        let pointer = match self {
            Reason::Refused(refusal) => refusal.map_or("", |refusal| refusal.pointer.as_str()),
            Reason::Renamed(_) => return "(name)".to_owned(),
            Reason::Changed(change) => change.pointer.as_str(),
        };
        if pointer.is_empty() { "(root)".to_owned() } else { sanitize(pointer) }
    }

    fn description(self) -> String {
        match self {
            Reason::Refused(Some(refusal)) => format!("refused: {}", sanitize(&refusal.message)),
            Reason::Refused(None) => "refused".to_owned(),
            Reason::Renamed(name) => format!("the model sees `{}`", sanitize(name)),
            Reason::Changed(change) => {
                // The detail is complete without the keyword, such as `default 10`.
                let detail = if change.detail.is_empty() { &change.keyword } else { &change.detail };
                format!("{}: {}", change.effect.name(), sanitize(detail))
            }
        }
    }
}
