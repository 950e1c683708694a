//! The view of the dialects: the matrix, one tool, and a pasted tool.

use maud::{Markup, html};
use toolwire_dialect::comparison::Comparison;
use toolwire_dialect::{Dialect, Report, Status};

use super::grid::grid;
use super::matrix::{MatrixRow, MatrixTarget, counts, matrix};
use super::pair::{Pair, chip, pair};
use super::standalone::{CheckedTool, sections};
use super::{glyph, tokens};
use crate::link::Link;
use crate::notice::error;
use crate::shell::{back, palette_button};
use crate::text::{Outside, inline};

/// A tool with its reports, one for each dialect.
pub struct Survey<'a> {
    pub tool: &'a str,
    pub server: Option<&'a str>,
    pub reports: Vec<Report>,
}

/// Returns the address of a tool beside its definition.
pub fn address(tool: &str, dialect: Dialect) -> Link {
    Link::to(&["dialects", tool]).with("to", dialect.name())
}

/// Returns the list of the tools, with the worst status of each.
pub fn list(surveys: &[Survey<'_>], current: Option<&str>) -> Markup {
    html! {
        div.list-head { a.button href="/dialects/try" data-key="v" { "Paste a tool" } }
        ul {
            li { a.item href="/dialects" aria-current=[current.is_none().then_some("page")] { span.name.grow { "All tools" } } }
            @for survey in surveys {
                @let worst = survey.reports.iter().map(|report| report.status).max().unwrap_or(Status::Exact);
                li { a.item href=(Link::to(&["dialects", survey.tool])) aria-current=[(current == Some(survey.tool)).then_some("page")] {
                    bdi.name.grow { (Outside(survey.tool)) }
                    span.aside { @if let Some(server) = survey.server { bdi { (Outside(server)) } " " } (glyph(worst)) span.unseen { (worst.name()) } }
                } }
            }
        }
    }
}

/// Returns the matrix of all tools.
pub fn overview(dialects: &[Dialect], surveys: &[Survey<'_>]) -> Markup {
    let rows: Vec<MatrixRow<'_>> = surveys
        .iter()
        .map(|survey| MatrixRow {
            server: survey.server,
            tool: survey.tool,
            targets: dialects
                .iter()
                .map(|dialect| MatrixTarget::Link(address(survey.tool, *dialect)))
                .collect(),
            reports: survey.reports.iter().collect(),
        })
        .collect();
    html! {
        header.head { h1 { "Dialects" } a.button.phone href="#list" { "Tools" } (palette_button()) }
        @if surveys.is_empty() {
            p.empty { "No server offers a tool at the moment." }
        } @else {
            (counts(surveys.iter().flat_map(|survey| &survey.reports)))
            (matrix(dialects, &rows))
        }
    }
}

/// Returns a tool beside its definition in the dialect at `chosen`; without it, its changes in all dialects.
pub fn open(server: Option<&str>, tool: &str, comparisons: &[Comparison], chosen: Option<usize>) -> Markup {
    html! {
        header.head {
            (back())
            h1 { @if let Some(server) = server { bdi.muted { (Outside(server)) } " / " } (inline(tool)) }
            a.button.quiet.desk href=(Link::to(&["tools", tool])) { "Call" }
            (palette_button())
        }
        nav.chips.scrolls aria-label="Dialects" {
            a.chip href=(Link::to(&["dialects", tool]).with("all", "")) data-key="0" aria-current=[chosen.is_none().then_some("page")] { "all dialects" }
            @for (index, comparison) in comparisons.iter().enumerate() {
                @let report = &comparison.report;
                @let size = comparison.definition.as_ref().map(|definition| tokens(&definition.value));
                a.chip href=(address(tool, report.dialect)) data-key=[neighbour(index, chosen)] aria-current=[(chosen == Some(index)).then_some("page")] {
                    (chip(report.dialect, report.status, size))
                }
            }
        }
        @match chosen.and_then(|index| comparisons.get(index)) {
            Some(comparison) => (pair(&Pair::new(comparison))),
            None => (grid(&comparisons.iter().map(|comparison| &comparison.report).collect::<Vec<_>>())),
        }
    }
}

/// Returns the key that leads to a dialect beside the chosen one.
fn neighbour(index: usize, chosen: Option<usize>) -> Option<&'static str> {
    match chosen {
        Some(chosen) if index + 1 == chosen => Some("ArrowLeft"),
        Some(chosen) if index == chosen + 1 => Some("ArrowRight"),
        None if index == 0 => Some("ArrowRight"),
        _ => None,
    }
}

/// What became of a pasted text.
pub enum Pasted {
    Nothing,
    /// It is not a list of tools: what is wrong.
    Invalid(String),
    Tools(Vec<CheckedTool>),
}

/// Returns the form for a pasted tool, and its comparisons.
pub fn paste(text: &str, dialects: &[Dialect], pasted: &Pasted) -> Markup {
    html! {
        header.head { (back()) h1 { "Paste a tool" } (palette_button()) }
        form.paste.stack method="post" action="/-/dialects/try" {
            label.field {
                span { "A tool, a list of tools, or a " code { "tools/list" } " response, as JSON" }
                textarea name="text" rows="12" spellcheck="false" autocomplete="off" required data-search { (text) }
            }
            div.row { button.button.primary data-key="Ctrl+Enter" { "Compare" } span.muted { "nothing is stored or sent" } }
            @if let Pasted::Invalid(message) = pasted { (error(message, Some("paste the JSON of a tool with `name` and `inputSchema`"))) }
        }
        @if let Pasted::Tools(tools) = pasted { (sections(dialects, tools)) }
    }
}
