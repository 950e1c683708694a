//! One tool in all dialects: a row for each change, a column for each dialect.

use maud::{Markup, html};
use toolwire_dialect::{Change, Report};

use super::pair::place_id;
use super::view::address;
use super::{status_of, symbol};
use crate::text::{UntrustedText, WithCode};

/// A change, and the dialects that share it.
struct GridRow<'a> {
    change: &'a Change,
    /// The number of the change in each report that has it.
    numbers: Vec<Option<usize>>,
}

/// Renders the changes of one tool in several dialects. A refused tool has its reason in the row of the
/// statuses. The rows of one place are in one element, so that they are highlighted together.
pub fn grid(tool: &str, reports: &[&Report]) -> Markup {
    let rows = grid_rows(reports);
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Changes in all dialects" {
            table.matrix.grid {
                thead {
                    tr {
                        th scope="col" { "Place and reason" }
                        @for report in reports { th scope="col" { span.tall { (report.dialect.name()) } } }
                    }
                }
                tbody {
                    tr {
                        th scope="row" {
                            "status"
                            @for reason in refusals(reports) { p.small dir="auto" { (WithCode(reason)) } }
                        }
                        @for report in reports {
                            td { a class={ "glyph " (report.status.name()) } href=(address(tool, report.dialect))
                                aria-label={ (report.dialect.name()) ": " (report.status.name()) } { (symbol(report.status)) } }
                        }
                    }
                }
                @for rows in rows.chunk_by(|a, b| a.change.pointer == b.change.pointer) {
                    tbody.place { @for row in rows { (grid_row(tool, row, reports)) } }
                }
            }
        }
    }
}

fn grid_row(tool: &str, row: &GridRow<'_>, reports: &[&Report]) -> Markup {
    let effect = row.change.effect;
    let status = status_of(effect);
    html! {
        tr {
            th scope="row" {
                (place(row.change))
                p.small dir="auto" { b { (effect.name()) } " " (WithCode(&row.change.detail)) }
            }
            @for (report, number) in reports.iter().zip(&row.numbers) {
                td {
                    @match number {
                        Some(number) => a class={ "glyph " (status.name()) } href=(address(tool, report.dialect).at(&place_id("", *number)))
                            aria-label={ (report.dialect.name()) ": " (effect.name()) } { (symbol(status)) },
                        None => span.muted { "·" },
                    }
                }
            }
        }
    }
}

fn grid_rows<'a>(reports: &[&'a Report]) -> Vec<GridRow<'a>> {
    let mut rows: Vec<GridRow<'a>> = Vec::new();
    for (column, report) in reports.iter().enumerate() {
        for (number, change) in report.changes.iter().enumerate() {
            let index = rows.iter().position(|row| row.change == change).unwrap_or_else(|| {
                rows.push(GridRow { change, numbers: vec![None; reports.len()] });
                rows.len() - 1
            });
            rows[index].numbers[column] = Some(number);
        }
    }
    rows.sort_by(|a, b| a.change.pointer.cmp(&b.change.pointer));
    rows
}

/// Returns the different reasons for which dialects refuse the tool.
fn refusals<'a>(reports: &[&'a Report]) -> Vec<&'a str> {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in reports.iter().filter_map(|report| report.reason.as_ref()) {
        if !reasons.contains(&reason.message.as_str()) {
            reasons.push(&reason.message);
        }
    }
    reasons
}

fn place(change: &Change) -> Markup {
    html! {
        code { bdi { @if change.pointer.is_empty() { "(root)" } @else { (UntrustedText(&change.pointer)) } } }
        " " (UntrustedText(&change.keyword))
    }
}
