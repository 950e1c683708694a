//! A tool beside its definition in one dialect.

use maud::{Markup, html};
use toolwire_dialect::comparison::{ComparedDefinition, Comparison};
use toolwire_dialect::{Change, Dialect, Refusal, Status};

use super::align::{Line, Row, align, alone};
use super::origins::Origins;
use super::reasons::{assign, notation};
use super::{glyph, status_of, tokens};
use crate::text::{Outside, count};

/// The number of rows around a change that are displayed with it.
const CONTEXT: usize = 3;

/// The number of rows from which only changes are displayed at first.
const MANY_ROWS: usize = 2_000;

/// A tool and its definition in one dialect, row by row.
pub struct Pair<'a> {
    comparison: &'a Comparison,
    rows: Vec<ReasonedRow>,
    /// The entries of the report above the schema: about the name, the mode or the tool as a whole.
    head: Vec<&'a Change>,
    /// The lines of the differences that no entry of the report explains.
    unexplained: Vec<String>,
}

/// A row of the schemas, with the entries of the report whose reasons are below it.
struct ReasonedRow {
    row: Row,
    /// The status of the entry that explains each side's difference.
    left: Option<Status>,
    right: Option<Status>,
    /// Whether there is a difference that no entry explains.
    is_unexplained: bool,
    /// Why it differs without an entry.
    notation: Option<&'static str>,
    reasons: Vec<Change>,
    refusal: bool,
}

impl<'a> Pair<'a> {
    pub fn new(comparison: &'a Comparison) -> Pair<'a> {
        match &comparison.definition {
            Some(definition) => Pair::converted(comparison, definition),
            None => Pair::refused(comparison),
        }
    }

    fn converted(comparison: &'a Comparison, definition: &'a ComparedDefinition) -> Pair<'a> {
        let changes = &definition.changes;
        let origins = Origins::of(definition, comparison.report.dialect);
        let rows = match &definition.schema {
            Some(schema) => align(&comparison.schema, schema, &origins),
            None => alone(&comparison.schema),
        };
        let assigned = assign(&rows, changes);
        // Each entry is displayed once: below its last row of the first group of rows, or at its place.
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
        let mut head = Vec::new();
        for (index, placed) in changes.iter().enumerate() {
            let first = assigned.iter().position(|entry| entry.is_by(index));
            let row = first.map(|first| {
                let group = assigned[first..].iter().take_while(|entry| entry.is_by(index)).count();
                first + group - 1
            });
            match row.or_else(|| row_at(&rows, &placed.change.pointer)) {
                Some(row) => below[row].push(index),
                None => head.push(&placed.change),
            }
        }
        let status = |entry: Option<usize>| entry.map(|entry| status_of(changes[entry].change.effect));
        let mut unexplained = Vec::new();
        let rows = rows.into_iter().zip(assigned).zip(below).map(|((row, entry), below)| {
            let notation = notation(&row, entry, &comparison.schema, &origins);
            let sides = [(&row.left, entry.left), (&row.right, entry.right)];
            let without_entry = sides.into_iter().filter(|(_, entry)| entry.is_none());
            let lines = without_entry
                .filter_map(|(line, _)| line.as_ref())
                .filter(|line| line.is_changed && notation.is_none());
            let before = unexplained.len();
            unexplained.extend(lines.map(|line| format!("{}: {}", line.pointer, line.text)));
            ReasonedRow {
                left: status(entry.left),
                right: status(entry.right),
                is_unexplained: unexplained.len() > before,
                notation,
                reasons: below.into_iter().map(|index| changes[index].change.clone()).collect(),
                refusal: false,
                row,
            }
        });
        let rows = rows.collect();
        Pair { comparison, rows, head, unexplained }
    }

    fn refused(comparison: &'a Comparison) -> Pair<'a> {
        let rows = alone(&comparison.schema);
        let pointer = comparison.report.reason.as_ref().map_or("", |reason| reason.pointer.as_str());
        let place = row_at(&rows, pointer);
        let rows = rows.into_iter().enumerate().map(|(index, row)| ReasonedRow {
            row,
            left: None,
            right: None,
            is_unexplained: false,
            notation: None,
            reasons: Vec::new(),
            refusal: Some(index) == place.or(Some(0)),
        });
        Pair { comparison, rows: rows.collect(), head: Vec::new(), unexplained: Vec::new() }
    }

    /// Returns the lines of the differences that no entry of the report explains. There should be none.
    pub fn unexplained(&self) -> &[String] {
        &self.unexplained
    }

    /// Returns the entries of the report in the order in which they are displayed.
    pub fn displayed(&self) -> impl Iterator<Item = &Change> {
        self.head.iter().copied().chain(self.rows.iter().flat_map(|row| &row.reasons))
    }
}

/// Returns the row of the value at `pointer` in the tool, or of the nearest one that contains it. `None` for
/// the tool as a whole.
fn row_at(rows: &[Row], mut pointer: &str) -> Option<usize> {
    while let Some(parent) = pointer.rfind('/') {
        let is_here = |row: &Row| row.left.as_ref().is_some_and(|line| line.pointer == pointer);
        let found = rows.iter().position(is_here);
        if found.is_some() {
            return found;
        }
        pointer = &pointer[..parent];
    }
    None
}

/// Renders a comparison.
pub fn pair(pair: &Pair<'_>) -> Markup {
    let report = &pair.comparison.report;
    let near = near_changes(&pair.rows);
    let is_folded = pair.rows.len() > MANY_ROWS;
    html! {
        label.row.only-changes { input type="checkbox" checked[is_folded] data-key="m"; "Only changes" }
        section.pair data-dialect=(report.dialect.name()) aria-label={ "Schema in mcp and in " (report.dialect.name()) } {
            div.pair-head {
                h3 { "The tool, as the server lists it" }
                (name(&report.tool, pair.comparison.description.as_deref()))
            }
            div.pair-head {
                h3 { (summary(pair)) }
                @if let Some(definition) = &pair.comparison.definition {
                    (name(&report.name, definition.description.as_deref()))
                    p.muted { "about " (count(tokens(&definition.value), "token")) }
                }
            }
            @for change in &pair.head { (reason(change)) }
            @for (index, row) in pair.rows.iter().enumerate() {
                @if !near[index] && (index == 0 || near[index - 1]) {
                    p.skipped.muted { (count(near[index..].iter().take_while(|near| !**near).count(), "line")) }
                }
                (pair_row(row, near[index]))
                @for change in &row.reasons { (reason(change)) }
                @if let Some(text) = row.notation.filter(|text| !is_followed(&pair.rows, index, text)) {
                    p.reason.exact { (glyph(Status::Exact)) " " b { "notation" } " " (text) }
                }
                @if row.is_unexplained {
                    p.reason.lossy { (glyph(Status::Lossy)) " " b { "unexplained" } " no entry of the report is about this difference" }
                }
                @if row.refusal { @if let Some(refusal) = &report.reason { (refusal_reason(refusal)) } }
            }
        }
    }
}

/// Whether the next row has the same notation, so that it is stated there.
fn is_followed(rows: &[ReasonedRow], index: usize, notation: &str) -> bool {
    rows.get(index + 1).is_some_and(|next| next.notation == Some(notation))
}

fn name(name: &str, description: Option<&str>) -> Markup {
    html! {
        p { strong { bdi { (Outside(name)) } } }
        @if let Some(description) = description { p.muted dir="auto" { (Outside(description)) } }
    }
}

fn summary(pair: &Pair<'_>) -> Markup {
    let report = &pair.comparison.report;
    html! {
        (report.dialect.name()) ": " (glyph(report.status)) " " (report.status.name())
        @if !report.changes.is_empty() { ", " (count(report.changes.len(), "change")) }
    }
}

/// Returns for each row whether a change is near.
fn near_changes(rows: &[ReasonedRow]) -> Vec<bool> {
    let is_change = |row: &ReasonedRow| row.row.is_changed() || !row.reasons.is_empty() || row.refusal;
    let mut near = vec![false; rows.len()];
    for (index, _) in rows.iter().enumerate().filter(|(_, row)| is_change(row)) {
        let end = (index + CONTEXT + 1).min(rows.len());
        near[index.saturating_sub(CONTEXT)..end].fill(true);
    }
    near
}

fn pair_row(row: &ReasonedRow, is_near: bool) -> Markup {
    // A difference that nobody explains may be anything.
    let without_entry = if row.notation.is_some() { Status::Exact } else { Status::Lossy };
    let status = |side: Option<Status>| side.unwrap_or(without_entry);
    let is_change = row.row.is_changed() || row.refusal;
    html! {
        div.pair-row.change[is_change].far[!is_near] tabindex=[is_change.then_some("-1")] {
            (line(row.row.left.as_ref(), "removed", status(row.left)))
            (line(row.row.right.as_ref(), "added", status(row.right)))
        }
    }
}

fn line(line: Option<&Line>, changed: &'static str, status: Status) -> Markup {
    let Some(line) = line else { return html! { div.line.blank {} } };
    html! {
        @if line.is_changed {
            div class={ "line " (changed) " " (status.name()) } {
                (glyph(status))
                code { span.unseen { (changed) " " } (indentation(line.depth)) (Outside(&line.text)) }
            }
        } @else {
            div.line.same { code { (indentation(line.depth)) (Outside(&line.text)) } }
        }
    }
}

fn indentation(depth: usize) -> String {
    "  ".repeat(depth.min(40))
}

/// Renders an entry of the report.
pub(super) fn reason(change: &Change) -> Markup {
    let status = status_of(change.effect);
    html! {
        p class={ "reason " (status.name()) } dir="auto" {
            (glyph(status)) " " b { (change.effect.name()) } " "
            @if !change.pointer.is_empty() { code { bdi { (Outside(&change.pointer)) } } " " }
            (Outside(&change.keyword)) ": " (Outside(&change.detail))
        }
    }
}

fn refusal_reason(refusal: &Refusal) -> Markup {
    html! {
        p.reason.refused dir="auto" {
            (glyph(Status::Refused)) " " b { "refused" } " "
            @if !refusal.pointer.is_empty() { code { bdi { (Outside(&refusal.pointer)) } } " " }
            (Outside(&refusal.message))
        }
    }
}

/// Returns the chips of the dialects, each with its status and tokens.
pub(super) fn chip(dialect: Dialect, status: Status, tokens: Option<usize>) -> Markup {
    html! {
        (glyph(status)) " " (dialect.name()) span.unseen { " " (status.name()) }
        @if let Some(tokens) = tokens { " " span.num.muted { (tokens) } }
    }
}
