//! The view of the dialects.

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_dialect::comparison::{Comparison, compare};
use toolwire_dialect::{Dialect, Options, Report, Toolset, convert};
use toolwire_page::dialects::{
    self, ArgumentsTarget, CheckedTool, ComparedTool, Exchange, Pasted, Route, ShownDialects, Side,
    ToolReports,
};
use toolwire_page::shell::View;

use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{Format, PageRequest, accepts_html};
use super::super::{Content, Context};

/// The maximum size of a pasted text, and the maximum number of its tools.
const MAX_PASTED_BYTES: usize = 256 * 1024;
const MAX_PASTED_TOOLS: usize = 50;

/// Responds to the paths below `/dialects` and `/-/dialects`.
pub(super) fn respond(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    match request.path().as_slice() {
        ["dialects"] => Ok(overview(context, request)),
        ["dialects", "try"] => match request.query("example") {
            None => Ok(paste(context, request, "", Dialect::Mcp, &Pasted::Nothing)),
            Some(_) => {
                let text = dialects::EXAMPLE;
                Ok(paste(context, request, text, Dialect::Mcp, &pasted(text, Dialect::Mcp)?))
            }
        },
        ["-", "dialects", "try"] => {
            request.require_post()?;
            let text = request.field("text")?.unwrap_or_default();
            let from = match request.field("from")? {
                Some(name) => dialect_named(&name)?,
                None => Dialect::Mcp,
            };
            Ok(paste(context, request, &text, from, &pasted(&text, from)?))
        }
        ["-", "dialects", "arguments"] => arguments(context, request, None),
        ["-", "dialects", name, "arguments"] => arguments(context, request, Some(find(context, name)?)),
        ["dialects", name] => open(context, request, &find(context, name)?, None),
        _ => Err(PageFailure::not_found("there is no such page below `/dialects`")),
    }
}

fn find(context: &Context<'_>, name: &str) -> Result<Tool, PageFailure> {
    let tools = context.tools.tools();
    tools.iter().find(|tool| tool.name == name).cloned().ok_or_else(|| {
        PageFailure::not_found(format!("no server offers a tool named `{name}`"))
            .with_hint("its server may be unavailable; `/servers` shows the reason")
    })
}

/// Returns the dialects in which models get tools.
pub(super) fn targets() -> Vec<Dialect> {
    Dialect::all().filter(|dialect| *dialect != Dialect::Mcp).collect()
}

/// Converts all tools to all dialects, and passes the reports to a function.
fn with_reports<T>(context: &Context<'_>, use_reports: impl FnOnce(&[ToolReports<'_>]) -> T) -> T {
    let toolbox = &*context.tools;
    let tools = toolbox.tools();
    let owners: Vec<_> = tools.iter().map(|tool| toolbox.server_of(&tool.name)).collect();
    let tool_reports: Vec<ToolReports<'_>> = tools
        .iter()
        .zip(&owners)
        .map(|(tool, server)| ToolReports {
            tool: &tool.name,
            server: server.as_ref().map(|server| server.name.as_str()),
            reports: reports(tool),
        })
        .collect();
    use_reports(&tool_reports)
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
    with_reports(context, |tool_reports| {
        if request.format != Format::Html {
            let reports: Vec<Value> = tool_reports
                .iter()
                .map(|entry| json!({"tool": entry.tool, "server": entry.server, "reports": entry.reports}))
                .collect();
            return Reply::json(json!({"tools": reports}));
        }
        let query = request.query("q").unwrap_or_default();
        if !accepts_html(&request.head.headers) {
            return Reply::changes(&[Event::put(
                "dialect-entries",
                dialects::entries(tool_reports, &query, None),
            )]);
        }
        context.page(Content {
            view: View::Dialects,
            title: "Dialects",
            topics: &[],
            has_item: true,
            list: Some(dialects::list(tool_reports, &query, None)),
            main: dialects::overview(&targets(), tool_reports),
        })
    })
}

/// Responds with a tool: two sides of it, or all dialects. `typed` are arguments of one side.
fn open(
    context: &Context<'_>,
    request: &PageRequest,
    tool: &Tool,
    typed: Option<(Side, &str)>,
) -> Result<Reply, PageFailure> {
    let wanted = |name: &str| match typed {
        Some(_) => request.field(name),
        None => Ok(request.query(name)),
    };
    let (from, to) = (wanted("from")?, wanted("to")?);
    let from = from.map(|name| dialect_named(&name)).transpose()?;
    let to = to.map(|name| dialect_named(&name)).transpose()?;
    let text = text(tool);
    let comparisons = comparisons(&text)?;
    if request.format != Format::Html {
        return Ok(Reply::json(comparison_json(&comparisons, to)));
    }
    let index =
        |dialect: Dialect| comparisons.iter().position(|comparison| comparison.report.dialect == dialect);
    let left = from.unwrap_or(Dialect::Mcp);
    let shown =
        to.map_or(ShownDialects::All, |to| ShownDialects::Pair { left: index(left), right: index(to) });
    let exchange = to.and_then(|to| Sides::of(&text, left, to)?.exchange(typed));
    let server = context.tools.server_of(&tool.name).map(|server| server.name.to_string());
    let main = dialects::open(&ComparedTool {
        tool: &tool.name,
        server: server.as_deref(),
        comparisons: &comparisons,
        shown,
        exchange: exchange.as_ref(),
    });
    let query = request.query("q").unwrap_or_default();
    Ok(with_reports(context, |tool_reports| {
        context.page(Content {
            view: View::Dialects,
            title: &tool.name,
            topics: &[],
            has_item: true,
            list: Some(dialects::list(tool_reports, &query, Some(&tool.name))),
            main,
        })
    }))
}

/// Compares the tools of a text with their definitions in all dialects, in the order of the dialects.
fn comparisons(text: &str) -> Result<Vec<Comparison>, PageFailure> {
    let mut comparisons = Vec::new();
    for dialect in targets() {
        let compared = compare(text, dialect, &Options::default())
            .map_err(|error| PageFailure::invalid(format!("the tool cannot be converted: {error}")))?;
        comparisons.extend(compared);
    }
    Ok(comparisons)
}

/// Returns the dialect with a name.
fn dialect_named(name: &str) -> Result<Dialect, PageFailure> {
    Dialect::all().find(|dialect| dialect.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Dialect::all().map(Dialect::name).collect();
        PageFailure::not_found(format!("there is no dialect `{name}`"))
            .with_hint(format!("the dialects are {}", names.join(", ")))
    })
}

/// One tool, bound to the dialects of both sides.
struct Sides {
    tool: String,
    schema: Value,
    left: Toolset,
    right: Toolset,
    mcp: Toolset,
}

impl Sides {
    /// Returns the sides of the first tool of a text.
    fn of(text: &str, left: Dialect, right: Dialect) -> Option<Sides> {
        let bound = |dialect| Toolset::from_json(text, dialect, &Options::default()).ok();
        let mcp = bound(Dialect::Mcp)?;
        let tool = mcp.reports().first()?.tool.clone();
        let schema = mcp.definitions().first()?.get("inputSchema").cloned().unwrap_or_default();
        Some(Sides { tool, schema, left: bound(left)?, right: bound(right)?, mcp })
    }

    /// Converts typed arguments, or sampled ones. `None` if a side has no definition of the tool.
    fn exchange(&self, typed: Option<(Side, &str)>) -> Option<Exchange> {
        let route = Route { tool: &self.tool, left: &self.left, right: &self.right };
        match typed {
            Some((side, text)) => Exchange::typed(route, side, text),
            None => Exchange::sampled(route, &self.mcp, &self.schema),
        }
    }
}

/// Converts arguments that were typed on one side. Without `listed`, the tool is in the form.
fn arguments(
    context: &Context<'_>,
    request: &PageRequest,
    listed: Option<Tool>,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let field = |name: &str| request.field(name).map(Option::unwrap_or_default);
    let side = Side::from_name(&field("side")?)
        .ok_or_else(|| PageFailure::invalid("`side` must be `left` or `right`"))?;
    let typed = field("arguments")?;
    let is_page = accepts_html(&request.head.headers);
    if let (Some(tool), true) = (&listed, is_page) {
        return open(context, request, tool, Some((side, &typed)));
    }
    let (from, to) = (dialect_named(&field("from")?)?, dialect_named(&field("to")?)?);
    let text = match &listed {
        Some(tool) => text(tool),
        None => field("tool")?,
    };
    let exchange = Sides::of(&text, from, to).and_then(|sides| sides.exchange(Some((side, &typed))));
    let exchange = exchange.ok_or_else(|| {
        PageFailure::invalid("the tool has no definition in one of the dialects")
            .with_hint("load the page again; the definition of the tool may have changed")
    })?;
    if is_page {
        let comparisons = comparisons(&text)?;
        let of = |dialect| comparisons.iter().find(|comparison| comparison.report.dialect == dialect);
        let Some(any) = comparisons.first() else { return Err(PageFailure::invalid("there is no tool")) };
        let main = dialects::pasted_tool(&text, [of(from), of(to)], any, &exchange);
        return Ok(with_reports(context, |tool_reports| {
            context.page(Content {
                view: View::Dialects,
                title: "Pasted tool",
                topics: &[],
                has_item: true,
                list: Some(dialects::list(tool_reports, "", Some(""))),
                main,
            })
        }));
    }
    let id: String = field("id")?.chars().filter(|one| one.is_ascii_alphanumeric() || *one == '-').collect();
    let pasted = listed.is_none().then_some(text.as_str());
    let target = ArgumentsTarget { id: &id, listed: listed.as_ref().map(|tool| tool.name.as_str()), pasted };
    let other = if side == Side::Left { Side::Right } else { Side::Left };
    Ok(Reply::changes(&[
        Event::put(dialects::ids(&id, side).1, dialects::notes(&exchange, side, &id)),
        Event::put(dialects::ids(&id, other).0, dialects::arguments_form(&exchange, other, target)),
    ]))
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

/// Compares the tools of a pasted text in the format of `from`.
fn pasted(text: &str, from: Dialect) -> Result<Pasted, PageFailure> {
    if !from.is_readable() {
        return Err(PageFailure::invalid(format!("definitions of `{from}` cannot be read as tools")));
    }
    if text.len() > MAX_PASTED_BYTES {
        return Err(PageFailure::invalid(format!("the text is longer than {} KiB", MAX_PASTED_BYTES / 1024))
            .with_hint("`toolwire check FILE --html PAGE` has no such limit"));
    }
    // Definitions of an API become tools first.
    let read = match from {
        Dialect::Mcp => None,
        _ => match convert(text, from, Dialect::Mcp, &Options::default()) {
            Ok(conversion) => Some(conversion),
            Err(error) => return Ok(Pasted::Invalid(error.to_string())),
        },
    };
    let mut text = text;
    if let Some(conversion) = &read {
        let refused = conversion.reports.iter().find_map(|report| report.reason.as_ref());
        match (&conversion.definitions, refused) {
            (Some(definitions), None) => text = definitions,
            (_, reason) => {
                let message = reason.map_or("the text has no definition", |reason| &reason.message);
                return Ok(Pasted::Invalid(message.to_owned()));
            }
        }
    }
    let mut tools: Vec<CheckedTool> = Vec::new();
    let mcp = match Toolset::from_json(text, Dialect::Mcp, &Options::default()) {
        Ok(mcp) => mcp,
        Err(error) => return Ok(Pasted::Invalid(error.to_string())),
    };
    if mcp.reports().len() > MAX_PASTED_TOOLS {
        return Err(PageFailure::invalid(format!("the text has more than {MAX_PASTED_TOOLS} tools"))
            .with_hint("`toolwire check FILE --html PAGE` has no such limit"));
    }
    tools.resize_with(mcp.reports().len(), CheckedTool::default);
    for dialect in targets() {
        let (Ok(comparisons), Ok(toolset)) = (
            compare(text, dialect, &Options::default()),
            Toolset::from_json(text, dialect, &Options::default()),
        ) else {
            continue;
        };
        for (tool, comparison) in tools.iter_mut().zip(comparisons) {
            tool.add(comparison, &mcp, &toolset);
        }
    }
    Ok(Pasted::Tools(tools))
}

fn paste(context: &Context<'_>, request: &PageRequest, text: &str, from: Dialect, pasted: &Pasted) -> Reply {
    if let (Format::Json, Pasted::Tools(tools)) = (request.format, pasted) {
        let reports: Vec<&Report> =
            tools.iter().flat_map(|tool| &tool.comparisons).map(|comparison| &comparison.report).collect();
        return Reply::json(json!({"reports": reports}));
    }
    with_reports(context, |tool_reports| {
        context.page(Content {
            view: View::Dialects,
            title: "Paste a tool",
            topics: &[],
            has_item: true,
            list: Some(dialects::list(tool_reports, "", Some(""))),
            main: dialects::paste(text, from, &targets(), pasted),
        })
    })
}
