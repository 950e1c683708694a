//! The view of the tools.

mod call;
mod history;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use toolwire_agent::approval::Verdict;
use toolwire_agent::search::ToolIndex;
use toolwire_contract::Tool;
use toolwire_contract::toolbox::{ToolServer, Toolbox};
use toolwire_page::form::{Filling, Problem, Shape};
use toolwire_page::shell::View;
use toolwire_page::tools::{self, Entry, OpenTool};

use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{Format, PageRequest, accepts_html};
use super::super::{Content, Context};
pub(in crate::page) use history::CallHistory;

/// The maximum number of hits of a search.
const MAX_HITS: usize = 50;

/// The timeout of a call, in seconds.
const DEFAULT_TIMEOUT: u64 = 60;
const MAX_TIMEOUT: u64 = 3_600;

/// The index of the search, for the tools that it was created from.
#[derive(Default)]
pub(in crate::page) struct CachedIndex(Mutex<Option<IndexOf>>);

type IndexOf = (Arc<[Tool]>, Arc<ToolIndex>);

impl CachedIndex {
    fn get(&self, toolbox: &dyn Toolbox) -> Arc<ToolIndex> {
        let tools = toolbox.tools();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, index)) = &*cached
            && Arc::ptr_eq(known, &tools)
        {
            return index.clone();
        }
        let servers: Vec<Option<ToolServer>> =
            tools.iter().map(|tool| toolbox.server_of(&tool.name)).collect();
        let index = Arc::new(ToolIndex::with_servers(tools.clone(), &servers));
        *cached = Some((tools, index.clone()));
        index
    }
}

/// Responds to the paths below `/tools` and `/-/tools`.
pub(super) async fn respond(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    match request.path().as_slice() {
        ["tools"] => Ok(overview(context, request)),
        ["tools", name] => open(context, request, &find(context, name)?),
        ["-", "tools", name, "call"] => call::call(context, request, &find(context, name)?).await,
        ["-", "tools", name, "calls", id, "result"] => call::result(context, name, id),
        ["-", "tools", name, "calls", id, "media", position] => call::media(context, name, id, position),
        _ => Err(PageFailure::not_found("there is no such page below `/tools`")),
    }
}

fn find(context: &Context<'_>, name: &str) -> Result<Tool, PageFailure> {
    let tools = context.tools.tools();
    tools.iter().find(|tool| tool.name == name).cloned().ok_or_else(|| {
        PageFailure::not_found(format!("no server offers a tool named `{name}`"))
            .with_hint("its server may be unavailable; `/servers` shows the reason")
    })
}

/// Returns the tools as the search ranks them, or all tools without a query.
fn with_entries<T>(context: &Context<'_>, query: &str, use_entries: impl FnOnce(&[Entry<'_>]) -> T) -> T {
    let toolbox = &*context.tools;
    if query.trim().is_empty() {
        let tools = toolbox.tools();
        let servers: Vec<Option<ToolServer>> =
            tools.iter().map(|tool| toolbox.server_of(&tool.name)).collect();
        let with_server = tools.iter().zip(&servers);
        let entries: Vec<Entry<'_>> = with_server
            .map(|(tool, server)| Entry {
                tool,
                server: server.as_ref().map(|server| &*server.name),
                score: None,
            })
            .collect();
        return use_entries(&entries);
    }
    let index = context.page.index.get(toolbox);
    let hits = index.search(query, MAX_HITS);
    let entries: Vec<Entry<'_>> = hits
        .iter()
        .map(|hit| Entry {
            tool: hit.tool,
            server: hit.server.map(|server| server.name.as_str()),
            score: Some(hit.score),
        })
        .collect();
    use_entries(&entries)
}

fn overview(context: &Context<'_>, request: &PageRequest) -> Reply {
    let query = request.query("q").unwrap_or_default();
    with_entries(context, &query, |entries| match request.format {
        Format::Json | Format::Markdown => Reply::json(json!({
            "tools": entries.iter().map(|entry| json!({
                "name": entry.tool.name, "server": entry.server, "score": entry.score, "description": entry.tool.description,
            })).collect::<Vec<Value>>(),
        })),
        Format::Html if !accepts_html(&request.head.headers) => {
            Reply::changes(&[Event::put("tool-entries", tools::entries_list(entries, &query, None))])
        }
        Format::Html => context.page(Content {
            view: View::Tools,
            title: "Tools",
            topics: &[],
            has_item: false,
            list: Some(tools::list(entries, &query, None)),
            main: tools::introduction(context.tools.tools().len()),
        }),
    })
}

/// The arguments of a call, as far as they are known.
struct Arguments {
    shape: Shape,
    filling: Filling,
    /// `None` if they were not checked.
    problems: Option<Vec<Problem>>,
    timeout: u64,
}

impl Arguments {
    fn new(tool: &Tool, value: Option<&Value>) -> Arguments {
        let shape = shape(tool);
        let filling = Filling::new(&shape, value);
        Arguments { shape, filling, problems: None, timeout: DEFAULT_TIMEOUT }
    }
}

fn shape(tool: &Tool) -> Shape {
    Shape::of(tool.input_schema.as_ref().unwrap_or(&Value::Null))
}

fn open(context: &Context<'_>, request: &PageRequest, tool: &Tool) -> Result<Reply, PageFailure> {
    if request.format == Format::Json {
        return Ok(Reply::json(serde_json::to_value(tool).unwrap_or_default()));
    }
    let given = request.query("args").map(|text| {
        serde_json::from_str::<Value>(&text)
            .map_err(|error| PageFailure::invalid(format!("`args` is not valid JSON: {error}")))
    });
    let given = given.transpose()?;
    let arguments = Arguments::new(tool, given.as_ref());
    Ok(page(context, request, tool, &arguments, given.is_some()))
}

/// Returns the page of a tool.
fn page(
    context: &Context<'_>,
    request: &PageRequest,
    tool: &Tool,
    arguments: &Arguments,
    is_from_link: bool,
) -> Reply {
    let query = request.query("q").unwrap_or_default();
    with_entries(context, &query, |entries| {
        with_open(context, tool, arguments, is_from_link, |open| {
            context.page(Content {
                view: View::Tools,
                title: &tool.name,
                topics: &[],
                has_item: true,
                list: Some(tools::list(entries, &query, Some(&tool.name))),
                main: tools::open(open),
            })
        })
    })
}

fn with_open<T>(
    context: &Context<'_>,
    tool: &Tool,
    arguments: &Arguments,
    is_from_link: bool,
    use_open: impl FnOnce(&OpenTool<'_>) -> T,
) -> T {
    let toolbox = &*context.tools;
    let server = toolbox.server_of(&tool.name);
    let original = toolbox.original_name(&tool.name);
    let value = arguments.filling.value(&arguments.shape).ok();
    let denied = denied(context, tool);
    let calls = context.page.calls.of(&context.principal, &tool.name);
    use_open(&OpenTool {
        tool,
        server: server.as_ref().map(|server| server.name.as_str()),
        original_name: original.as_deref(),
        shape: &arguments.shape,
        filling: &arguments.filling,
        problems: arguments.problems.as_deref(),
        arguments: value.as_ref(),
        is_from_link,
        denied: denied.as_deref(),
        timeout: arguments.timeout,
        calls: &calls,
    })
}

/// Returns why the policy does not allow calls of a tool. A tool that needs approval is approved by the
/// person who calls it.
fn denied(context: &Context<'_>, tool: &Tool) -> Option<String> {
    match context.inner.settings.agent.approvals.verdict(&tool.name, Some(tool)) {
        Verdict::Deny(reason) => Some(reason),
        Verdict::Allow | Verdict::Ask(_) => None,
    }
}
