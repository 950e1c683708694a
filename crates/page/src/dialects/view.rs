//! The view of the dialects: the matrix, one tool, and a pasted tool.

use maud::{Markup, html};
use toolwire_dialect::comparison::Comparison;
use toolwire_dialect::{Dialect, Report, Status};

use super::arguments::{ArgumentsTarget, Exchange, both_ways};
use super::grid::grid;
use super::matrix::{MatrixRow, MatrixTarget, counts, matrix};
use super::pair::{Pair, chip, pair};
use super::standalone::{ArgumentsAs, CheckedTool, sections};
use super::{glyph, tokens};
use crate::link::Link;
use crate::notice::error;
use crate::shell::{back, palette_button};
use crate::text::{UntrustedText, inline};

/// A tool with its reports, one for each dialect.
pub struct ToolReports<'a> {
    pub tool: &'a str,
    pub server: Option<&'a str>,
    pub reports: Vec<Report>,
}

/// Returns the address of a tool beside its definition.
pub fn address(tool: &str, dialect: Dialect) -> Link {
    Link::to(&["dialects", tool]).with("to", dialect.name())
}

/// Returns the list of the tools with a field that filters it.
pub fn list(tool_reports: &[ToolReports<'_>], query: &str, current: Option<&str>) -> Markup {
    html! {
        div.list-head {
            form method="get" action="/dialects" data-live="input" {
                label.search {
                    input type="search" name="q" value=(query) data-search aria-label="Find a tool" placeholder="Find a tool" autocomplete="off";
                    kbd { "/" }
                }
            }
            a.button href="/dialects/try" data-key="v" { "Paste a tool " kbd { "v" } }
        }
        (entries(tool_reports, query, current))
    }
}

/// Returns the entries of the list, each with the worst status of its tool.
pub fn entries(tool_reports: &[ToolReports<'_>], query: &str, current: Option<&str>) -> Markup {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let is_found = |entry: &&ToolReports<'_>| {
        let text = format!("{} {}", entry.server.unwrap_or_default(), entry.tool).to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    html! {
        div #dialect-entries {
            ul {
                li { a.item href="/dialects" aria-current=[current.is_none().then_some("page")] { span.name.grow { "All tools" } } }
                @for entry in tool_reports.iter().filter(is_found) {
                    @let worst = entry.reports.iter().map(|report| report.status).max().unwrap_or(Status::Exact);
                    li { a.item href=(Link::to(&["dialects", entry.tool])) aria-current=[(current == Some(entry.tool)).then_some("page")] {
                        bdi.name.grow { (UntrustedText(entry.tool)) }
                        span.aside { @if let Some(server) = entry.server { bdi { (UntrustedText(server)) } " " } (glyph(worst)) span.unseen { (worst.name()) } }
                    } }
                }
            }
            @if !tool_reports.is_empty() && !tool_reports.iter().any(|entry| is_found(&entry)) { p.empty { "no tool name contains this" } }
        }
    }
}

/// Returns the matrix of all tools.
pub fn overview(dialects: &[Dialect], tool_reports: &[ToolReports<'_>]) -> Markup {
    let rows: Vec<MatrixRow<'_>> = tool_reports
        .iter()
        .map(|entry| MatrixRow {
            server: entry.server,
            tool: entry.tool,
            targets: dialects
                .iter()
                .map(|dialect| MatrixTarget::Link(address(entry.tool, *dialect)))
                .collect(),
            reports: entry.reports.iter().collect(),
        })
        .collect();
    html! {
        header.head { h1 { "Dialects" } a.button.phone href="#list" { "Tools" } (palette_button()) }
        @if tool_reports.is_empty() {
            p.empty { "No server offers a tool at the moment." }
        } @else {
            (counts(tool_reports.iter().flat_map(|entry| &entry.reports)))
            (matrix(dialects, &rows))
        }
    }
}

/// The part of a tool that is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownDialects {
    /// Its changes in all dialects.
    All,
    /// Two sides: the indexes of the comparisons. `None` is the tool itself.
    Pair { left: Option<usize>, right: Option<usize> },
}

/// A tool with its definitions.
pub struct ComparedTool<'a> {
    pub tool: &'a str,
    pub server: Option<&'a str>,
    /// The comparisons, one for each dialect.
    pub comparisons: &'a [Comparison],
    pub shown: ShownDialects,
    /// Arguments in both dialects of a pair.
    pub exchange: Option<&'a Exchange>,
}

/// Returns a tool: two sides of it, or its changes in all dialects.
pub fn open(open: &ComparedTool<'_>) -> Markup {
    let ComparedTool { tool, server, comparisons, shown, .. } = *open;
    html! {
        header.head {
            (back())
            h1 { @if let Some(server) = server { bdi.muted { (UntrustedText(server)) } " / " } (inline(tool)) }
            a.button.quiet.desk href=(Link::to(&["tools", tool])) { "Call" }
            (palette_button())
        }
        (chips(open))
        @match shown {
            ShownDialects::Pair { left, right } => (sides(open, left, right)),
            ShownDialects::All => (grid(tool, &comparisons.iter().map(|comparison| &comparison.report).collect::<Vec<_>>())),
        }
    }
}

/// Returns the links to the dialects of the right side, in the order of the arrow keys.
fn chips(open: &ComparedTool<'_>) -> Markup {
    let ComparedTool { tool, comparisons, shown, .. } = *open;
    let (left, current) = match shown {
        ShownDialects::All => (None, None),
        // The tool itself is before the dialects.
        ShownDialects::Pair { left, right } => (left, Some(right.map_or(0, |index| index + 1))),
    };
    let link = |right| pair_link(tool, comparisons, left, right);
    let is_current = |position| (current == Some(position)).then_some("page");
    html! {
        nav.chips.scrolls aria-label="Dialects" {
            a.chip href=(Link::to(&["dialects", tool]).with("all", "")) data-key="0" aria-current=[current.is_none().then_some("page")] { "all dialects" }
            a.chip href=(link(None)) data-key=[neighbour(0, current)] aria-current=[is_current(0)] { (chip(Dialect::Mcp, Status::Exact, None)) }
            @for (index, comparison) in comparisons.iter().enumerate() {
                @let size = comparison.definition.as_ref().map(|definition| tokens(&definition.value));
                a.chip href=(link(Some(index))) data-key=[neighbour(index + 1, current)] aria-current=[is_current(index + 1)] {
                    (chip(comparison.report.dialect, comparison.report.status, size))
                }
            }
        }
    }
}

/// Returns the key that leads to a dialect beside the current one.
fn neighbour(position: usize, current: Option<usize>) -> Option<&'static str> {
    match current {
        Some(current) if position + 1 == current => Some("ArrowLeft"),
        Some(current) if position == current + 1 => Some("ArrowRight"),
        None if position == 1 => Some("ArrowRight"),
        _ => None,
    }
}

/// Returns the address of two sides of a tool.
fn pair_link(tool: &str, comparisons: &[Comparison], left: Option<usize>, right: Option<usize>) -> Link {
    let link = address(tool, dialect_at(comparisons, right));
    match left {
        Some(_) => link.with("from", dialect_at(comparisons, left).name()),
        None => link,
    }
}

fn dialect_at(comparisons: &[Comparison], index: Option<usize>) -> Dialect {
    index
        .and_then(|index| comparisons.get(index))
        .map_or(Dialect::Mcp, |comparison| comparison.report.dialect)
}

/// Returns two sides of a tool, with arguments that can be typed.
fn sides(open: &ComparedTool<'_>, left: Option<usize>, right: Option<usize>) -> Markup {
    let ComparedTool { tool, comparisons, .. } = *open;
    let side = |index: Option<usize>| index.and_then(|index| comparisons.get(index));
    let Some(any) = comparisons.first() else { return Markup::default() };
    html! {
        form.row method="get" action=(Link::to(&["dialects", tool])) {
            input type="hidden" name="to" value=(dialect_at(comparisons, right).name());
            label.row { "Left side " select name="from" {
                @let names = [Dialect::Mcp].into_iter().chain(comparisons.iter().map(|comparison| comparison.report.dialect));
                @for dialect in names {
                    option value=(dialect.name()) selected[dialect == dialect_at(comparisons, left)] { (dialect.name()) }
                }
            } }
            button.button { "Compare" }
            a.button href=(pair_link(tool, comparisons, right, left)) data-key="x" { "Swap " kbd { "x" } }
        }
        (pair(&Pair::between(any, side(left), side(right)), ""))
        @if let Some(exchange) = open.exchange {
            (both_ways(exchange, ArgumentsTarget { id: "", listed: Some(tool), pasted: None }))
        }
    }
}

/// An example of a tool whose definitions differ: each API supports different keywords of its schema.
pub const EXAMPLE: &str = r#"{
  "name": "book_table",
  "description": "Books a table in a restaurant",
  "inputSchema": {
    "type": "object",
    "properties": {
      "restaurant": { "type": "string", "pattern": "^[a-z-]+$" },
      "guests": { "type": "integer", "minimum": 1, "maximum": 12 },
      "time": { "type": "string", "format": "date-time" },
      "seat": { "oneOf": [{ "const": "inside" }, { "const": "outside" }, { "type": "null" }] }
    },
    "required": ["restaurant", "guests", "time"]
  }
}"#;

/// The result of reading a pasted text.
pub enum Pasted {
    Nothing,
    /// The text is not a list of tools. The message contains the reason.
    Invalid(String),
    Tools(Vec<CheckedTool>),
}

/// Returns the form for a pasted tool, and its comparisons. `from` is the format of the text.
pub fn paste(text: &str, from: Dialect, dialects: &[Dialect], pasted: &Pasted) -> Markup {
    html! {
        header.head { (back()) h1 { "Paste a tool" } (palette_button()) }
        form.paste.stack method="post" action="/-/dialects/try" {
            label.field {
                span { "A tool, a list of tools, or a " code { "tools/list" } " response, as JSON" }
                textarea name="text" rows="12" spellcheck="false" autocomplete="off" required { "\n" (text) }
            }
            div.row {
                button.button.primary { "Compare" }
                a.button.quiet href="/dialects/try?example=yes" { "Example" }
                label.row { "Format " select name="from" {
                    @for dialect in Dialect::all().filter(|dialect| dialect.is_readable()) { option value=(dialect.name()) selected[dialect == from] { (dialect.name()) } }
                } }
                span.muted { "nothing is stored or sent" }
            }
            @if let Pasted::Invalid(message) = pasted {
                (error(message, Some("paste the JSON of a tool with `name` and `inputSchema`, or choose the format of its API")))
            }
        }
        @if let Pasted::Tools(tools) = pasted { (sections(dialects, tools, ArgumentsAs::Fields)) }
    }
}

/// Returns a pasted tool with arguments that were typed, for browsers without JavaScript.
pub fn pasted_tool(
    tool: &str,
    [left, right]: [Option<&Comparison>; 2],
    any: &Comparison,
    exchange: &Exchange,
) -> Markup {
    html! {
        header.head { (back()) h1 { (inline(&any.report.tool)) } (palette_button()) }
        (both_ways(exchange, ArgumentsTarget { id: "", listed: None, pasted: Some(tool) }))
        (pair(&Pair::between(any, left, right), ""))
    }
}
