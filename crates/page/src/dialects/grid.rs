//! One tool in all dialects: a row for each change, a column for each dialect.

use maud::{Markup, html};
use toolwire_dialect::{Change, Report};

use super::{glyph, status_of};
use crate::text::Outside;

/// A change, and the dialects that share it.
struct GridRow<'a> {
    change: &'a Change,
    /// Whether each report has it.
    is_in: Vec<bool>,
}

/// Renders the changes of one tool in several dialects. A refused tool has its reason in its column's row.
pub fn grid(reports: &[&Report]) -> Markup {
    let rows = grid_rows(reports);
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Changes in all dialects" {
            table.matrix {
                thead {
                    tr {
                        th scope="col" { "Place" }
                        @for report in reports { th scope="col" { span.tall { (report.dialect.name()) } } }
                        th scope="col" { "Reason" }
                    }
                }
                tbody {
                    tr {
                        th scope="row" { "status" }
                        @for report in reports { td { (glyph(report.status)) span.unseen { (report.status.name()) } } }
                        td {
                            @for reason in refusals(reports) { p dir="auto" { (Outside(reason)) } }
                        }
                    }
                    @for row in &rows {
                        tr {
                            th scope="row" { (place(row.change)) }
                            @for is_in in &row.is_in {
                                td {
                                    @if *is_in {
                                        (glyph(status_of(row.change.effect))) span.unseen { (row.change.effect.name()) }
                                    } @else { span.muted { "·" } }
                                }
                            }
                            td dir="auto" { (row.change.effect.name()) ": " (Outside(&row.change.detail)) }
                        }
                    }
                }
            }
        }
    }
}

fn grid_rows<'a>(reports: &[&'a Report]) -> Vec<GridRow<'a>> {
    let mut rows: Vec<GridRow<'a>> = Vec::new();
    for (column, report) in reports.iter().enumerate() {
        for change in &report.changes {
            let index = rows.iter().position(|row| row.change == change).unwrap_or_else(|| {
                rows.push(GridRow { change, is_in: vec![false; reports.len()] });
                rows.len() - 1
            });
            rows[index].is_in[column] = true;
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
        code { bdi { @if change.pointer.is_empty() { "(root)" } @else { (Outside(&change.pointer)) } } }
        " " (Outside(&change.keyword))
    }
}
