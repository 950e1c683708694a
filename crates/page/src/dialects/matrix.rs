//! All tools in all dialects, one symbol each.

use maud::{Markup, html};
use toolwire_dialect::{Dialect, Report, Status};

use super::{glyph, symbol};
use crate::text::UntrustedText;

/// The reports of one tool, one for each dialect of the matrix.
pub struct MatrixRow<'a> {
    pub server: Option<&'a str>,
    pub tool: &'a str,
    pub reports: Vec<&'a Report>,
    /// The address of each report's comparison, such as `#tool-1-1`.
    pub targets: Vec<MatrixTarget>,
}

/// The target of the link of a symbol.
pub enum MatrixTarget {
    /// A page.
    Link(crate::link::Link),
    /// An element of the same document. Ids are written by this crate.
    Element(String),
}

const STATUSES: [Status; 4] = [Status::Exact, Status::Rewritten, Status::Lossy, Status::Refused];

/// Renders how many reports have each status.
pub fn counts<'a>(reports: impl IntoIterator<Item = &'a Report> + Clone) -> Markup {
    html! {
        ul.counts {
            @for status in STATUSES {
                li {
                    (glyph(status)) " "
                    span.num { (reports.clone().into_iter().filter(|report| report.status == status).count()) }
                    " " (status.name())
                }
            }
        }
    }
}

/// Renders the matrix, with the counts of each dialect below.
pub fn matrix(dialects: &[Dialect], rows: &[MatrixRow<'_>]) -> Markup {
    html! {
        div.table-wrap tabindex="0" role="region" aria-label="Tools and dialects" {
            table.matrix {
                thead {
                    tr {
                        th scope="col" { "Tool" }
                        @for dialect in dialects { th scope="col" { span.tall { (dialect.name()) } } }
                    }
                }
                tbody {
                    @for row in rows { (matrix_row(row)) }
                }
                tfoot {
                    @for status in STATUSES {
                        tr {
                            th scope="row" { (glyph(status)) " " (status.name()) }
                            @for index in 0..dialects.len() {
                                td.num { (count(rows, index, status)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn count(rows: &[MatrixRow<'_>], index: usize, status: Status) -> usize {
    rows.iter().filter(|row| row.reports.get(index).is_some_and(|report| report.status == status)).count()
}

fn matrix_row(row: &MatrixRow<'_>) -> Markup {
    html! {
        tr {
            th scope="row" {
                @if let Some(server) = row.server { bdi.muted { (UntrustedText(server)) } " " }
                bdi { (UntrustedText(row.tool)) }
            }
            @for (report, target) in row.reports.iter().zip(&row.targets) {
                td {
                    @let label = format!("{}: {}", report.dialect.name(), report.status.name());
                    @let class = format!("glyph {}", report.status.name());
                    @match target {
                        MatrixTarget::Link(link) => { a class=(class) href=(link) aria-label=(label) { (symbol(report.status)) } }
                        MatrixTarget::Element(id) => { a class=(class) href={ "#" (id) } aria-label=(label) { (symbol(report.status)) } }
                    }
                }
            }
        }
    }
}
