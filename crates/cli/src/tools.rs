//! `toolwire tools`: the tools of the configured servers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};
use toolwire_contract::{Tool, Toolbox};
use toolwire_dialect::{Dialect, Options};
use toolwire_hub::{Hub, ServerStatus};

use crate::check;
use crate::convert::json as to_json;
use crate::dialect_name;
use crate::failure::{ERROR, Failure, NOTE, say};
use crate::output;
use crate::refused::{self, Weight};
use crate::servers::{self, trouble};
use crate::shown::shown;

const NAME: Style = Style::new().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// List the tools of the configured servers
///
/// Connects to all servers at once; one that fails is named with its reason, and the exit code is 1.
#[derive(Args)]
#[command(after_long_help = include_str!("help/tools.txt"))]
pub(crate) struct ToolsArgs {
    /// Only the tools of this server
    #[arg(long, value_name = "S")]
    server: Option<String>,
    /// Print the `tools` array for a request in this dialect
    #[arg(long = "as", value_name = "D", value_parser = dialect_name::any(), conflicts_with = "json")]
    dialect: Option<Dialect>,
    /// Print JSON: `[{"server","tools":[…],"tool_count"}]`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ToolsArgs, config: Option<&Path>) -> Result<ExitCode, Failure> {
    let found = servers::find(config)?.only(args.server.as_deref())?;
    servers::run(async {
        let hub = found.connect().await;
        let status = hub.status();
        let outcome = show(args, &hub, &status);
        hub.close().await;
        outcome?;
        let failed = status.iter().filter(|server| trouble(server).is_some()).count();
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn show(args: &ToolsArgs, hub: &Hub, status: &[ServerStatus]) -> Result<(), Failure> {
    if let Some(dialect) = args.dialect {
        tell_of_failed(status);
        let toolset = hub.get_tools(dialect, &Options::default());
        refused::tell(toolset.reports(), Weight::Warning, "`toolwire check` shows which dialects take them");
        return output::print(&to_json(&toolset.request_tools(), false));
    }
    if args.json {
        let servers: Vec<Value> = status.iter().map(|server| as_json(hub, server)).collect();
        return output::print(&to_json(&servers, false));
    }
    tell_of_failed(status);
    output::print_styled(&page(hub, status, check::columns()))
}

fn as_json(hub: &Hub, server: &ServerStatus) -> Value {
    let tools = hub.tools_of(&server.name).unwrap_or_default();
    let tools: Vec<Value> = tools.into_iter().map(Value::from).collect();
    let mut answer = json!({"server": server.name, "tools": tools, "tool_count": tools.len()});
    if let Some(reason) = trouble(server) {
        answer["error"] = reason.into();
    }
    if !server.quarantined.is_empty() {
        let kept_back = server.quarantined.iter();
        answer["quarantined"] =
            kept_back.map(|tool| json!({"tool": tool.tool, "reason": tool.reason})).collect();
    }
    answer
}

/// Each failed server and each tool that is kept back, on standard error.
pub(crate) fn tell_of_failed(status: &[ServerStatus]) {
    for server in status {
        if let Some(reason) = trouble(server) {
            say(&format!(
                "{ERROR}error:{ERROR:#} server `{}` failed: {}\n",
                shown(&server.name),
                shown(&reason)
            ));
            for line in server.stderr.iter().rev().take(3).rev() {
                say(&format!("  {QUIET}{}{QUIET:#}\n", shown(line)));
            }
        }
        for tool in &server.quarantined {
            say(&format!(
                "{NOTE}warning:{NOTE:#} tool `{}` of server `{}` is kept back: {}\n",
                shown(&tool.tool),
                shown(&server.name),
                shown(&tool.reason)
            ));
        }
        if let Some(cut) = &server.cut {
            say(&format!("{NOTE}warning:{NOTE:#} server `{}`: {}\n", shown(&server.name), shown(cut)));
        }
    }
}

fn page(hub: &Hub, status: &[ServerStatus], width: usize) -> String {
    let mut text = String::new();
    let total = hub.tools().len();
    for server in status.iter().filter(|server| trouble(server).is_none()) {
        let tools = hub.tools_of(&server.name).unwrap_or_default();
        let about =
            server.facts.as_ref().map_or_else(String::new, |facts| format!(", MCP {}", facts.protocol));
        let count = counted(tools.len(), "tool");
        let _ = writeln!(text, "{NAME}{}{NAME:#}  {QUIET}{count}{about}{QUIET:#}", shown(&server.name));
        let longest = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0).min(40);
        for tool in &tools {
            let room = width.saturating_sub(longest + 5).max(20);
            let _ = writeln!(text, "  {:longest$}  {QUIET}{}{QUIET:#}", tool.name, summary(tool, room));
        }
        text.push('\n');
    }
    let ready = status.iter().filter(|server| trouble(server).is_none()).count();
    let _ =
        writeln!(text, "{} of {} ready, {}", ready, counted(status.len(), "server"), counted(total, "tool"));
    text
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The first sentence of the description, cut to fit.
fn summary(tool: &Tool, room: usize) -> String {
    let words = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = shown(line);
    match line.char_indices().nth(room.saturating_sub(1)) {
        Some((end, _)) if line.chars().count() > room => format!("{}…", &line[..end]),
        _ => line,
    }
}
