//! The result of `toolwire check --html`: one file without scripts, links or requests.
//!
//! The same input gives the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use toolwire_contract::text::counted;
use toolwire_dialect::comparison::Comparison;
use toolwire_dialect::{Dialect, Report, Status, Toolset};

use super::arguments::{ArgumentsTarget, Exchange, Route, both_ways, shown};
use super::matrix::{MatrixRow, MatrixTarget, counts, matrix};
use super::pair::{Pair, chip, pair};
use super::{symbol, tokens};
use crate::assets;
use crate::text::UntrustedText;

/// The styles of the file that the stylesheet of the page does not contain.
const STYLE: &str = "body{display:block}main{max-width:1400px;margin:0 auto;padding:16px}\
    details.variant{margin:8px 0}details.variant>summary{cursor:pointer}\
    .counts{display:flex;flex-wrap:wrap;gap:16px;padding:0;list-style:none}\
    kbd{display:none}\
    body:has(#show-lossy:checked) .tool:is(.exact,.rewritten),\
    body:has(#show-refused:checked) .tool:not(.refused){display:none}";

/// A tool with its comparisons, one for each dialect.
#[derive(Default)]
pub struct CheckedTool {
    pub server: Option<String>,
    pub comparisons: Vec<Comparison>,
    /// Sampled arguments in each dialect. `None` for a dialect that has no definition of the tool.
    pub samples: Vec<Option<Exchange>>,
}

impl CheckedTool {
    /// Adds the comparison with the next dialect, and sampled arguments. The toolsets have the tool in MCP's
    /// own format and in that dialect.
    pub fn add(&mut self, comparison: Comparison, mcp: &Toolset, toolset: &Toolset) {
        let route = Route { tool: &comparison.report.tool, left: mcp, right: toolset };
        let sample = comparison.definition.as_ref().and(Exchange::sampled(route, mcp, &comparison.schema));
        self.comparisons.push(comparison);
        self.samples.push(sample);
    }
}

/// The form in which the arguments of a tool are displayed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentsAs {
    Text,
    /// With fields to type in, which the gateway converts.
    Fields,
}

/// Dialects that have the same result for a tool.
struct Variant<'a> {
    comparison: &'a Comparison,
    /// The indexes of the dialects.
    dialects: Vec<usize>,
}

/// Renders the file.
pub fn standalone(dialects: &[Dialect], tools: &[CheckedTool]) -> String {
    let reports: Vec<&Report> =
        tools.iter().flat_map(|tool| &tool.comparisons).map(|comparison| &comparison.report).collect();
    let title = format!("{} in {}", counted(tools.len(), "tool"), counted(dialects.len(), "dialect"));
    let style = format!("{}{STYLE}", stylesheet());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(&style));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Toolwire" }
                // The policy contains the hash of these bytes. The stylesheet is embedded in the binary, so
                // it is trusted.
                style { (PreEscaped(&style)) }
            }
            body {
                main #main {
                    h1 { (title) }
                    (counts(reports.iter().copied()))
                    fieldset.row {
                        legend { "Tools" }
                        label { input type="radio" name="show" checked; " all" }
                        label { input #show-lossy type="radio" name="show"; " lossy or refused in a dialect" }
                        label { input #show-refused type="radio" name="show"; " refused in a dialect" }
                    }
                    (sections(dialects, tools, ArgumentsAs::Text))
                }
            }
        }
    }
    .into_string()
}

/// Renders the matrix, and below it the comparisons of each tool.
pub(super) fn sections(dialects: &[Dialect], tools: &[CheckedTool], arguments: ArgumentsAs) -> Markup {
    let variants: Vec<Vec<Variant<'_>>> = tools.iter().map(|tool| variants(&tool.comparisons)).collect();
    let rows: Vec<MatrixRow<'_>> = tools.iter().zip(&variants).enumerate().map(row).collect();
    let first_refused = tools.iter().position(|tool| status(tool) == Status::Refused);
    html! {
        (matrix(dialects, &rows))
        @for (index, (tool, variants)) in tools.iter().zip(&variants).enumerate() {
            (section(index, tool, variants, first_refused == Some(index), arguments))
        }
    }
}

fn stylesheet() -> &'static str {
    let asset = assets::ASSETS.iter().find(|asset| asset.name == assets::STYLESHEET);
    asset.and_then(|asset| str::from_utf8(asset.bytes).ok()).unwrap_or_default()
}

/// Returns a policy that allows the stylesheet and nothing else.
fn policy(style: &str) -> String {
    let hash = STANDARD.encode(Sha256::digest(style));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

fn id(tool: usize, variant: usize) -> String {
    format!("tool-{}-{}", tool + 1, variant + 1)
}

fn row<'a>((index, (tool, variants)): (usize, (&'a CheckedTool, &Vec<Variant<'a>>))) -> MatrixRow<'a> {
    let variant_of = |dialect: usize| variants.iter().position(|variant| variant.dialects.contains(&dialect));
    let target = |dialect: usize| MatrixTarget::Element(id(index, variant_of(dialect).unwrap_or(0)));
    MatrixRow {
        server: tool.server.as_deref(),
        tool: tool.comparisons.first().map_or("", |comparison| comparison.report.tool.as_str()),
        reports: tool.comparisons.iter().map(|comparison| &comparison.report).collect(),
        targets: (0..tool.comparisons.len()).map(target).collect(),
    }
}

/// Returns the worst status of a tool.
fn status(tool: &CheckedTool) -> Status {
    tool.comparisons.iter().map(|comparison| comparison.report.status).max().unwrap_or(Status::Exact)
}

/// Groups the comparisons that look the same.
fn variants(comparisons: &[Comparison]) -> Vec<Variant<'_>> {
    let mut variants: Vec<Variant<'_>> = Vec::new();
    for (index, comparison) in comparisons.iter().enumerate() {
        match variants.iter_mut().find(|variant| is_same(variant.comparison, comparison)) {
            Some(variant) => variant.dialects.push(index),
            None => variants.push(Variant { comparison, dialects: vec![index] }),
        }
    }
    variants
}

fn is_same(one: &Comparison, other: &Comparison) -> bool {
    let shown = |comparison: &Comparison| {
        let definition = comparison.definition.as_ref();
        definition.map(|definition| (definition.schema.clone(), definition.description.clone()))
    };
    let (a, b) = (&one.report, &other.report);
    a.name == b.name && a.reason == b.reason && a.changes == b.changes && shown(one) == shown(other)
}

fn section(
    index: usize,
    tool: &CheckedTool,
    variants: &[Variant<'_>],
    has_focus: bool,
    arguments: ArgumentsAs,
) -> Markup {
    let worst = status(tool);
    let name = tool.comparisons.first().map_or("", |comparison| comparison.report.tool.as_str());
    let is_refused = |variant: &Variant<'_>| variant.comparison.report.status == Status::Refused;
    let opened = variants.iter().position(is_refused).filter(|_| has_focus);
    html! {
        section class={ "tool " (worst.name()) } {
            h2 {
                @if let Some(server) = &tool.server { bdi.muted { (UntrustedText(server)) } " " }
                bdi { (UntrustedText(name)) } " " (symbol(worst))
            }
            @for (number, variant) in variants.iter().enumerate() {
                @let is_opened = opened == Some(number);
                details.variant open[is_opened] {
                    // The focus scrolls to the first refused tool, without a script. A fragment has
                    // precedence.
                    summary autofocus[is_opened] {
                        @for (position, dialect) in variant.dialects.iter().enumerate() {
                            @if position > 0 { " · " }
                            (label(tool, *dialect))
                        }
                    }
                    // Browsers open `details` if the target of a link is inside.
                    @let id = id(index, number);
                    div id=(id) {
                        (pair(&Pair::new(variant.comparison), &format!("{id}-")))
                        (sampled(tool, variant, &format!("{id}-"), arguments))
                    }
                }
            }
        }
    }
}

/// Renders the sampled arguments of a variant.
fn sampled(tool: &CheckedTool, variant: &Variant<'_>, id: &str, arguments: ArgumentsAs) -> Markup {
    let exchange = variant.dialects.first().and_then(|dialect| tool.samples.get(*dialect)?.as_ref());
    let Some(exchange) = exchange else { return Markup::default() };
    if arguments == ArgumentsAs::Text {
        return shown(exchange);
    }
    let pasted = tool_text(variant.comparison);
    both_ways(exchange, ArgumentsTarget { id, listed: None, pasted: Some(&pasted) })
}

/// Returns a compared tool as JSON.
fn tool_text(comparison: &Comparison) -> String {
    let Comparison { report, description, schema, .. } = comparison;
    json!({"name": report.tool, "description": description, "inputSchema": schema}).to_string()
}

fn label(tool: &CheckedTool, dialect: usize) -> Markup {
    let Some(comparison) = tool.comparisons.get(dialect) else { return Markup::default() };
    let size = comparison.definition.as_ref().map(|definition| tokens(&definition.value));
    chip(comparison.report.dialect, comparison.report.status, size)
}
