//! A tool beside its definition in one dialect, or its definitions in two.
//!
//! Each side is an `Option`: `None` is the tool itself.

use std::collections::{HashMap, HashSet};

use maud::{Markup, html};
use serde_json::Value;
use toolwire_contract::text::counted;
use toolwire_dialect::comparison::{ComparedDefinition, Comparison, PlacedChange};
use toolwire_dialect::{Change, Dialect, Refusal, Report, Status};

use super::align::{Line, Row, align, alone};
use super::notations::notation;
use super::origins::{ByOriginal, Origins};
use super::reasons::{Explained, PlacedEntry, assign, is_notation};
use super::{glyph, status_of, tokens};
use crate::text::{UntrustedText, WithCode};

/// The number of rows around a change that are displayed with it.
const CONTEXT: usize = 3;

/// The status of a difference that no entry explains. It may change which arguments are valid.
const UNKNOWN: Status = Status::Lossy;

/// The maximum number of rows that are all displayed at first. Of more rows, only the changes are.
const MANY_ROWS: usize = 2_000;

/// A tool and its definition in one dialect, or its definitions in two, row by row.
pub struct Pair<'a> {
    tool: &'a Comparison,
    left: Option<&'a Comparison>,
    right: Option<&'a Comparison>,
    /// Whether the tool is on the right. The rows have it on the left.
    is_flipped: bool,
    rows: Vec<ReasonedRow<'a>>,
    /// The entries of the report above the schema: about the name, the mode or the tool as a whole.
    head: Vec<Entry<'a>>,
    /// The entries that the reports of both sides have, and that explain no difference.
    shared: Vec<Entry<'a>>,
    /// The lines of the differences that no entry of the report explains.
    unexplained: Vec<String>,
}

/// An entry of a report, and its number there.
type Entry<'a> = (usize, &'a Change);

/// A row of the schemas, with the entries of the report whose reasons are below it.
#[derive(Default)]
struct ReasonedRow<'a> {
    row: Row,
    /// The status of the entry that explains each side's difference.
    left: Option<Status>,
    right: Option<Status>,
    /// Whether there is a difference that no entry explains.
    is_unexplained: bool,
    /// Whether a difference starts here: the row before has none, or has another reason.
    is_start: bool,
    /// The reason of a difference that is not in the report, because it keeps the meaning.
    notation: Option<&'static str>,
    reasons: Vec<Entry<'a>>,
    refusals: Vec<&'a Refusal>,
}

impl<'a> Pair<'a> {
    /// Compares a tool with its definition.
    pub fn new(comparison: &'a Comparison) -> Pair<'a> {
        Pair::between(comparison, None, Some(comparison))
    }

    /// Compares two definitions of a tool. `None` is the tool itself, which `tool` has.
    pub fn between(
        tool: &'a Comparison,
        left: Option<&'a Comparison>,
        right: Option<&'a Comparison>,
    ) -> Pair<'a> {
        let sides = [left, right].into_iter().flatten();
        if sides.clone().any(|side| side.definition.is_none()) {
            let refusals = sides.filter_map(|side| side.report.reason.as_ref()).collect();
            return Pair { left, right, ..Pair::refused(tool, refusals) };
        }
        match (left, right) {
            (Some(definition), None) => {
                let flipped = Pair::converted(tool, None, Some(definition));
                Pair { left, right, is_flipped: true, ..flipped }
            }
            _ => Pair::converted(tool, left, right),
        }
    }

    fn converted(
        tool: &'a Comparison,
        left: Option<&'a Comparison>,
        right: Option<&'a Comparison>,
    ) -> Pair<'a> {
        let entries = entries(left, right);
        let origins = Origins::of(left, right);
        let schemas = [left, right].map(|side| side.map_or(Some(&tool.schema), schema));
        let rows = match schemas {
            [Some(left), Some(right)] => align(left, right, &origins),
            [Some(left), None] => alone(left),
            [None, Some(right)] => {
                let swapped = |row: Row| Row { left: row.right, right: row.left, ..row };
                alone(right).into_iter().map(swapped).collect()
            }
            [None, None] => Vec::new(),
        };
        let assigned = assign(&rows, &entries);
        // Each entry is displayed once: below the first group of rows that it explains, or at its place.
        let mut below: Vec<Vec<Entry<'a>>> = vec![Vec::new(); rows.len()];
        let (mut head, mut shared) = (Vec::new(), Vec::new());
        let (ends, places) = (ends_of_first_groups(&assigned, entries.len()), rows_by_place(&rows));
        for (index, entry) in entries.iter().enumerate() {
            let place = || {
                let row = |place| nearest(place, |pointer| places.get(pointer).copied());
                entry.left.iter().find_map(|place| row(place))
            };
            match ends[index].or_else(|| if entry.is_shared { None } else { place() }) {
                Some(row) => below[row].push((index, entry.change)),
                None if entry.is_shared => shared.push((index, entry.change)),
                None => head.push((index, entry.change)),
            }
        }
        let status = |entry: Option<usize>| entry.map(|entry| status_of(entries[entry].change.effect));
        let mut unexplained = Vec::new();
        let mut before = None;
        let rows = rows.into_iter().zip(assigned).zip(below).map(|((row, entry), below)| {
            let specific = |entry: &usize| !is_notation(entries[*entry].change);
            let specific =
                Explained { left: entry.left.filter(specific), right: entry.right.filter(specific) };
            let notation = notation(&row, specific, &tool.schema, schemas[1], &origins);
            let sides = [(&row.left, entry.left), (&row.right, entry.right)];
            let without_entry = sides.into_iter().filter(|(_, entry)| entry.is_none());
            let lines = without_entry
                .filter_map(|(line, _)| line.as_ref())
                .filter(|line| line.is_changed && notation.is_none());
            let known = unexplained.len();
            unexplained.extend(lines.map(|line| format!("{}: {}", line.pointer, line.text)));
            let change = row.is_changed().then_some((entry, notation));
            let is_start = change.is_some() && change != before;
            before = change;
            ReasonedRow {
                left: status(entry.left),
                right: status(entry.right),
                is_unexplained: unexplained.len() > known,
                is_start,
                notation,
                reasons: below,
                refusals: Vec::new(),
                row,
            }
        });
        let rows = rows.collect();
        Pair { tool, left, right, is_flipped: false, rows, head, shared, unexplained }
    }

    fn refused(tool: &'a Comparison, refusals: Vec<&'a Refusal>) -> Pair<'a> {
        let rows = alone(&tool.schema).into_iter();
        let mut rows: Vec<ReasonedRow<'a>> =
            rows.map(|row| ReasonedRow { row, ..ReasonedRow::default() }).collect();
        for refusal in refusals {
            let place =
                nearest(&refusal.pointer, |pointer| rows.iter().position(|row| row.row.is_at(pointer)));
            let row = rows.get_mut(place.unwrap_or(0));
            if let Some(row) = row.filter(|row| !row.refusals.contains(&refusal)) {
                row.is_start = true;
                row.refusals.push(refusal);
            }
        }
        let (head, shared, unexplained) = (Vec::new(), Vec::new(), Vec::new());
        Pair { tool, left: None, right: None, is_flipped: false, rows, head, shared, unexplained }
    }

    /// Returns the lines of the differences that no entry of the report explains. They show that the report
    /// is incomplete.
    pub fn unexplained(&self) -> &[String] {
        &self.unexplained
    }

    /// Returns the entries of the reports in the order in which they are displayed.
    pub fn displayed(&self) -> impl Iterator<Item = &Change> {
        let of_rows = self.rows.iter().flat_map(|row| &row.reasons);
        self.head.iter().chain(of_rows).chain(&self.shared).map(|(_, change)| *change)
    }
}

/// Returns the entries of the reports of two sides, with their places. Those of the right side are first, in
/// its order.
fn entries<'a>(left: Option<&'a Comparison>, right: Option<&'a Comparison>) -> Vec<PlacedEntry<'a>> {
    let definition = |side: Option<&'a Comparison>| side.and_then(|side| side.definition.as_ref());
    let (left, right) = (definition(left), definition(right));
    let changes = |side: Option<&'a ComparedDefinition>| side.map_or(&[][..], |side| &side.changes[..]);
    let (of_left, of_right) = (changes(left), changes(right));
    let changes_of = |placed: &'a [PlacedChange]| -> HashSet<&'a Change> {
        placed.iter().map(|placed| &placed.change).collect()
    };
    let (changes_of_left, changes_of_right) = (changes_of(of_left), changes_of(of_right));
    let (places_left, places_right) = (ByOriginal::of(left), ByOriginal::of(right));
    let entries_of_right = of_right.iter().map(|placed| PlacedEntry {
        change: &placed.change,
        left: places_left.places(&placed.change.pointer),
        right: placed.definition.clone(),
        is_shared: changes_of_left.contains(&placed.change),
    });
    let mut entries: Vec<PlacedEntry<'a>> = entries_of_right.collect();
    let of_left = of_left.iter().filter(|placed| !changes_of_right.contains(&placed.change));
    entries.extend(of_left.map(|placed| PlacedEntry {
        change: &placed.change,
        left: placed.definition.clone(),
        right: places_right.places(&placed.change.pointer),
        is_shared: false,
    }));
    entries
}

fn schema(side: &Comparison) -> Option<&Value> {
    side.definition.as_ref()?.schema.as_ref()
}

/// Returns what is found at `pointer`, or at the nearest one above except for the root.
fn nearest<T>(mut pointer: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    while let Some(parent) = pointer.rfind('/') {
        let found = find(pointer);
        if found.is_some() {
            return found;
        }
        pointer = &pointer[..parent];
    }
    None
}

/// Returns for each entry the last row of the first group of rows that it explains.
fn ends_of_first_groups(assigned: &[Explained], entries: usize) -> Vec<Option<usize>> {
    let mut ends: Vec<Option<usize>> = vec![None; entries];
    for (row, explained) in assigned.iter().enumerate() {
        for index in [explained.left, explained.right].into_iter().flatten() {
            let is_in_group = ends[index].is_none_or(|end| end + 1 == row);
            if is_in_group {
                ends[index] = Some(row);
            }
        }
    }
    ends
}

/// Returns the first row of each value on the left.
fn rows_by_place(rows: &[Row]) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        if let Some(line) = &row.left {
            places.entry(line.pointer.as_str()).or_insert(index);
        }
    }
    places
}

/// Renders a comparison. Ids inside begin with `id`.
pub fn pair(pair: &Pair<'_>, id: &str) -> Markup {
    let near = near_changes(&pair.rows);
    let is_folded = pair.rows.len() > MANY_ROWS;
    let [left, right] =
        [pair.left, pair.right].map(|side| side.map_or(Dialect::Mcp, |side| side.report.dialect));
    let reason = |(number, change): &Entry<'_>| reason(change, Some(&place_id(id, *number)));
    html! {
        label.row.only-changes { input type="checkbox" checked[is_folded] data-key="m"; "Only changes" kbd { "m" } }
        section.pair data-dialect=(right.name()) aria-label={ "Schema in " (left.name()) " and in " (right.name()) } {
            (head(pair, pair.left))
            (head(pair, pair.right))
            @for entry in &pair.head { (reason(entry)) }
            @if !pair.shared.is_empty() {
                details.shared {
                    summary { (counted(pair.shared.len(), "change")) " in both" }
                    @for entry in &pair.shared { (reason(entry)) }
                }
            }
            @for (index, row) in pair.rows.iter().enumerate() {
                @if !near[index] && (index == 0 || near[index - 1]) {
                    p.skipped.muted { (counted(near[index..].iter().take_while(|near| !**near).count(), "line")) }
                }
                (pair_row(row, near[index], pair.is_flipped))
                @for entry in &row.reasons { (reason(entry)) }
                @if let Some(text) = row.notation.filter(|text| !is_followed(&pair.rows, index, text)) {
                    p.reason.exact { (glyph(Status::Exact)) " " b { "notation" } " " (WithCode(text)) }
                }
                @if row.is_unexplained {
                    p.reason.lossy { (glyph(Status::Lossy)) " " b { "unexplained" } " the report does not explain this difference" }
                }
                @for refusal in &row.refusals { (refusal_reason(refusal)) }
            }
        }
    }
}

/// Returns the id of the reason of an entry of a report.
pub(super) fn place_id(id: &str, number: usize) -> String {
    format!("{id}c{}", number + 1)
}

/// Whether the next row has the same notation, so that it is stated there.
fn is_followed(rows: &[ReasonedRow<'_>], index: usize, notation: &str) -> bool {
    rows.get(index + 1).is_some_and(|next| next.notation == Some(notation))
}

/// Returns the heading of a side.
fn head(pair: &Pair<'_>, side: Option<&Comparison>) -> Markup {
    html! {
        div.pair-head {
            @match side {
                None => {
                    h2.small { "The tool, as the server lists it" }
                    (name(&pair.tool.report.tool, pair.tool.description.as_deref()))
                }
                Some(side) => {
                    h2.small { (summary(&side.report)) }
                    @if let Some(definition) = &side.definition {
                        (name(&side.report.name, definition.description.as_deref()))
                        p.muted { "about " (counted(tokens(&definition.value), "token")) }
                    }
                }
            }
        }
    }
}

fn name(name: &str, description: Option<&str>) -> Markup {
    html! {
        p { strong { bdi { (UntrustedText(name)) } } }
        @if let Some(description) = description { p.muted.about dir="auto" tabindex="0" { (UntrustedText(description)) } }
    }
}

fn summary(report: &Report) -> Markup {
    html! {
        (report.dialect.name()) ": " (glyph(report.status)) " " (report.status.name())
        @if !report.changes.is_empty() { ", " (counted(report.changes.len(), "change")) }
    }
}

/// Returns for each row whether a change is near.
fn near_changes(rows: &[ReasonedRow<'_>]) -> Vec<bool> {
    let is_change =
        |row: &ReasonedRow<'_>| row.row.is_changed() || !row.reasons.is_empty() || !row.refusals.is_empty();
    let mut near = vec![false; rows.len()];
    for (index, _) in rows.iter().enumerate().filter(|(_, row)| is_change(row)) {
        let end = (index + CONTEXT + 1).min(rows.len());
        near[index.saturating_sub(CONTEXT)..end].fill(true);
    }
    near
}

fn pair_row(row: &ReasonedRow<'_>, is_near: bool, is_flipped: bool) -> Markup {
    let is_change = row.row.is_changed() || !row.refusals.is_empty();
    let mut sides = [(&row.row.left, row.left), (&row.row.right, row.right)];
    if is_flipped {
        sides.reverse();
    }
    let without_entry = if row.notation.is_some() { Status::Exact } else { UNKNOWN };
    let [left, right] = sides.map(|(line, status)| (line.as_ref(), status.unwrap_or(without_entry)));
    html! {
        div.pair-row.change[is_change].begins[row.is_start].far[!is_near] tabindex=[row.is_start.then_some("-1")] {
            (line(left.0, "removed", left.1))
            (line(right.0, "added", right.1))
        }
    }
}

pub(super) fn line(line: Option<&Line>, changed: &'static str, status: Status) -> Markup {
    let Some(line) = line else { return html! { div.line.blank {} } };
    html! {
        @if line.is_changed {
            div class={ "line " (changed) " " (status.name()) } {
                (glyph(status))
                code { span.unseen { (changed) " " } (indentation(line.depth)) (UntrustedText(&line.text)) }
            }
        } @else {
            div.line.same { code { (indentation(line.depth)) (UntrustedText(&line.text)) } }
        }
    }
}

fn indentation(depth: usize) -> String {
    "  ".repeat(depth.min(40))
}

/// Renders an entry of the report.
fn reason(change: &Change, id: Option<&str>) -> Markup {
    let status = status_of(change.effect);
    html! {
        p class={ "reason " (status.name()) } id=[id] dir="auto" {
            (glyph(status)) " " b { (change.effect.name()) } " "
            @if !change.pointer.is_empty() { code { bdi { (UntrustedText(&change.pointer)) } } " " }
            (UntrustedText(&change.keyword)) ": " (WithCode(&change.detail))
        }
    }
}

fn refusal_reason(refusal: &Refusal) -> Markup {
    html! {
        p.reason.refused dir="auto" {
            (glyph(Status::Refused)) " " b { "refused" } " "
            @if !refusal.pointer.is_empty() { code { bdi { (UntrustedText(&refusal.pointer)) } } " " }
            (WithCode(&refusal.message))
        }
    }
}

/// Returns the content of the chip of a dialect: its status, name and tokens.
pub(super) fn chip(dialect: Dialect, status: Status, tokens: Option<usize>) -> Markup {
    html! {
        (glyph(status)) " " (dialect.name()) span.unseen { " " (status.name()) }
        @if let Some(tokens) = tokens { " " span.num.muted { (tokens) } }
    }
}
