//! Why: the places of each tool that a dialect says otherwise, folded where dialects agree.

use std::fmt::Write as _;

use toolwire_dialect::{Change, Dialect, Effect, Refusal, Report, Status};

use super::survey::Survey;
use super::table::tool_name;
use super::{BOLD, DIM, style, symbol};
use crate::terminal_text::{padded, sanitize, truncate, width, wrapped};

/// More places than this, and a reader wants `--json`.
const PLACES: usize = 8;
const WIDEST_POINTER: usize = 36;

/// One thing that happened to a tool.
#[derive(Clone, Copy, PartialEq)]
enum Reason<'a> {
    Refused(Option<&'a Refusal>),
    Renamed(&'a str),
    Changed(&'a Change),
}

/// Reasons that hold for the same dialects.
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
            for line in wrapped(&these(&group.dialects, &survey.dialects), columns.saturating_sub(2)) {
                let _ = writeln!(text, "  {line}");
            }
            places(&mut text, &group.reasons, columns);
        }
    }
    text
}

/// The reasons of one tool, those of the same dialects together, the gravest first.
fn grouped<'a>(row: &[&'a Report]) -> Vec<Group<'a>> {
    let mut found: Vec<(Reason<'a>, Vec<Dialect>)> = Vec::new();
    for report in row {
        for reason in reasons(report) {
            match found.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, dialects)) if dialects.last() == Some(&report.dialect) => {}
                Some((_, dialects)) => dialects.push(report.dialect),
                None => found.push((reason, vec![report.dialect])),
            }
        }
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (reason, dialects) in found {
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
    let told = report.changes.iter().any(|change| change.pointer.is_empty() && change.keyword == "name");
    let renamed = (report.name != report.tool && !told).then_some(Reason::Renamed(&report.name));
    renamed.into_iter().chain(report.changes.iter().map(Reason::Changed)).collect()
}

fn places(text: &mut String, reasons: &[Reason<'_>], columns: usize) {
    let shown_reasons = if reasons.len() > PLACES + 1 { &reasons[..PLACES] } else { reasons };
    let pointers: Vec<String> = shown_reasons
        .iter()
        .map(|reason| truncate(&reason.place(), WIDEST_POINTER.min(columns / 2)))
        .collect();
    let pointer_width = pointers.iter().map(|pointer| width(pointer)).max().unwrap_or(0);
    for (reason, pointer) in shown_reasons.iter().zip(&pointers) {
        let (symbol, style) = (symbol(reason.status()), style(reason.status()));
        let _ = write!(text, "    {style}{symbol}{style:#} {DIM}{}{DIM:#}  ", padded(pointer, pointer_width));
        let indent = 4 + 2 + pointer_width + 2;
        let lines = wrapped(&reason.words(), columns.saturating_sub(indent).max(16));
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        text.push('\n');
    }
    if shown_reasons.len() < reasons.len() {
        let more = reasons.len() - shown_reasons.len();
        let _ = writeln!(text, "    {DIM}… and {more} more places; `--json` lists them{DIM:#}");
    }
}

/// The dialects of a group in the fewest words.
fn these(dialects: &[Dialect], all: &[Dialect]) -> String {
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

    /// The pointer, readable also when it names the whole schema.
    fn place(self) -> String {
        let pointer = match self {
            Reason::Refused(refusal) => refusal.map_or("", |refusal| refusal.pointer.as_str()),
            Reason::Renamed(_) => return "(name)".to_owned(),
            Reason::Changed(change) => change.pointer.as_str(),
        };
        if pointer.is_empty() { "(root)".to_owned() } else { sanitize(pointer) }
    }

    fn words(self) -> String {
        match self {
            Reason::Refused(Some(refusal)) => format!("refused: {}", sanitize(&refusal.message)),
            Reason::Refused(None) => "refused".to_owned(),
            Reason::Renamed(name) => format!("the model sees `{}`", sanitize(name)),
            Reason::Changed(change) => {
                let effect = change.effect.name();
                let (keyword, detail) = (sanitize(&change.keyword), sanitize(&change.detail));
                // A detail such as `default 10` already names its keyword.
                match detail.strip_prefix(keyword.as_str()) {
                    _ if detail.is_empty() => format!("{effect}: {keyword}"),
                    Some(rest) if rest.starts_with([' ', ':']) || rest.is_empty() => {
                        format!("{effect}: {detail}")
                    }
                    _ => format!("{effect}: {keyword}, {detail}"),
                }
            }
        }
    }
}
