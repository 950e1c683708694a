//! The view of the dialects.

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_dialect::comparison::{Comparison, compare};
use toolwire_dialect::{Dialect, Options, Report, convert};
use toolwire_page::dialects::{self, CheckedTool, Pasted, Survey};
use toolwire_page::shell::View;

use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{Format, PageRequest};
use super::super::{Content, Context};

/// The maximum size of a pasted text, and the maximum number of its tools.
const MAX_PASTED_BYTES: usize = 256 * 1024;
const MAX_PASTED_TOOLS: usize = 50;

/// Responds to the paths below `/dialects` and `/-/dialects`.
pub(super) fn respond(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    match request.path().as_slice() {
        ["dialects"] => Ok(overview(context, request)),
        ["dialects", "try"] => Ok(paste(context, request, "", &Pasted::Nothing)),
        ["-", "dialects", "try"] => {
            request.require_post()?;
            let text = request.field("text")?.unwrap_or_default();
            Ok(paste(context, request, &text, &pasted(&text)?))
        }
        ["dialects", name] => open(context, request, name),
        _ => Err(PageFailure::not_found("there is no such page below `/dialects`")),
    }
}

/// Returns the dialects in which models get tools.
pub(super) fn targets() -> Vec<Dialect> {
    Dialect::all().filter(|dialect| *dialect != Dialect::Mcp).collect()
}

/// Converts all tools to all dialects. The servers of the tools are `owners`.
fn with_surveys<T>(context: &Context<'_>, use_surveys: impl FnOnce(&[Survey<'_>]) -> T) -> T {
    let toolbox = &*context.tools;
    let tools = toolbox.tools();
    let owners: Vec<_> = tools.iter().map(|tool| toolbox.server_of(&tool.name)).collect();
    let surveys: Vec<Survey<'_>> = tools
        .iter()
        .zip(&owners)
        .map(|(tool, server)| Survey {
            tool: &tool.name,
            server: server.as_ref().map(|server| server.name.as_str()),
            reports: reports(tool),
        })
        .collect();
    use_surveys(&surveys)
}

pub(super) fn reports(tool: &Tool) -> Vec<Report> {
    let text = text(tool);
    let report = |dialect| {
        let conversion = convert(&text, Dialect::Mcp, dialect, &Options::default()).ok()?;
        conversion.reports.into_iter().next()
    };
    targets().into_iter().filter_map(report).collect()
}

fn text(tool: &Tool) -> String {
    serde_json::to_string(tool).unwrap_or_default()
}

fn overview(context: &Context<'_>, request: &PageRequest) -> Reply {
    with_surveys(context, |surveys| {
        if request.format != Format::Html {
            let reports: Vec<Value> = surveys
                .iter()
                .map(
                    |survey| json!({"tool": survey.tool, "server": survey.server, "reports": survey.reports}),
                )
                .collect();
            return Reply::json(json!({"tools": reports}));
        }
        context.page(Content {
            view: View::Dialects,
            title: "Dialects",
            topics: &[],
            has_item: true,
            list: Some(dialects::list(surveys, None)),
            main: dialects::overview(&targets(), surveys),
        })
    })
}

fn open(context: &Context<'_>, request: &PageRequest, name: &str) -> Result<Reply, PageFailure> {
    let toolbox = &*context.tools;
    let tools = toolbox.tools();
    let tool = tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        PageFailure::not_found(format!("no server offers a tool named `{name}`"))
            .with_hint("its server may be unavailable; `/servers` shows the reason")
    })?;
    let chosen = chosen(request)?;
    let text = text(tool);
    let mut comparisons: Vec<Comparison> = Vec::new();
    for dialect in targets() {
        let compared = compare(&text, dialect, &Options::default())
            .map_err(|error| PageFailure::invalid(format!("the tool cannot be converted: {error}")))?;
        comparisons.extend(compared);
    }
    if request.format != Format::Html {
        return Ok(Reply::json(comparison_json(&comparisons, chosen)));
    }
    let position = match chosen {
        Some(dialect) => comparisons.iter().position(|comparison| comparison.report.dialect == dialect),
        None => None,
    };
    let server = toolbox.server_of(name).map(|server| server.name.to_string());
    Ok(with_surveys(context, |surveys| {
        context.page(Content {
            view: View::Dialects,
            title: name,
            topics: &[],
            has_item: true,
            list: Some(dialects::list(surveys, Some(name))),
            main: dialects::open(server.as_deref(), name, &comparisons, position),
        })
    }))
}

/// Returns the dialect of the address. `None` for all dialects.
fn chosen(request: &PageRequest) -> Result<Option<Dialect>, PageFailure> {
    let Some(name) = request.query("to") else { return Ok(None) };
    match targets().into_iter().find(|dialect| dialect.name() == name) {
        Some(dialect) => Ok(Some(dialect)),
        None => {
            let names: Vec<&str> = targets().into_iter().map(Dialect::name).collect();
            Err(PageFailure::not_found(format!("there is no dialect `{name}`"))
                .with_hint(format!("the dialects are {}", names.join(", "))))
        }
    }
}

fn comparison_json(comparisons: &[Comparison], chosen: Option<Dialect>) -> Value {
    let is_wanted =
        |comparison: &&Comparison| chosen.is_none_or(|dialect| comparison.report.dialect == dialect);
    let comparisons = comparisons.iter().filter(is_wanted).map(|comparison| {
        let definition = comparison.definition.as_ref().map(|definition| &definition.value);
        json!({"report": comparison.report, "definition": definition})
    });
    json!({"comparisons": comparisons.collect::<Vec<Value>>()})
}

/// Compares the tools of a pasted text.
fn pasted(text: &str) -> Result<Pasted, PageFailure> {
    if text.len() > MAX_PASTED_BYTES {
        return Err(PageFailure::invalid(format!("the text is longer than {} KiB", MAX_PASTED_BYTES / 1024))
            .with_hint("`toolwire check FILE --html PAGE` has no such limit"));
    }
    let mut tools: Vec<CheckedTool> = Vec::new();
    for dialect in targets() {
        let comparisons = match compare(text, dialect, &Options::default()) {
            Ok(comparisons) => comparisons,
            Err(error) => return Ok(Pasted::Invalid(error.to_string())),
        };
        if comparisons.len() > MAX_PASTED_TOOLS {
            return Err(PageFailure::invalid(format!("the text has more than {MAX_PASTED_TOOLS} tools"))
                .with_hint("`toolwire check FILE --html PAGE` has no such limit"));
        }
        tools.resize_with(comparisons.len(), || CheckedTool { server: None, comparisons: Vec::new() });
        for (tool, comparison) in tools.iter_mut().zip(comparisons) {
            tool.comparisons.push(comparison);
        }
    }
    Ok(Pasted::Tools(tools))
}

fn paste(context: &Context<'_>, request: &PageRequest, text: &str, pasted: &Pasted) -> Reply {
    if let (Format::Json, Pasted::Tools(tools)) = (request.format, pasted) {
        let reports: Vec<&Report> =
            tools.iter().flat_map(|tool| &tool.comparisons).map(|comparison| &comparison.report).collect();
        return Reply::json(json!({"reports": reports}));
    }
    with_surveys(context, |surveys| {
        context.page(Content {
            view: View::Dialects,
            title: "Paste a tool",
            topics: &[],
            has_item: true,
            list: Some(dialects::list(surveys, Some(""))),
            main: dialects::paste(text, &targets(), pasted),
        })
    })
}
