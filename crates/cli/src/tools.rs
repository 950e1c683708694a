//! `toolwire tools`: the tools of the configured servers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};
use toolwire_contract::{Tool, Toolbox};
use toolwire_dialect::{Dialect, Options};
use toolwire_hub::pins::{DefinitionPart, DriftKind};
use toolwire_hub::{Hub, ServerStatus};

use crate::check;
use crate::command_error::{CommandError, ERROR, HINT, NOTE, print_stderr};
use crate::convert::json as to_json;
use crate::dialect_name;
use crate::output;
use crate::refusals::{self, Severity};
use crate::servers::{self, trouble};
use crate::terminal_text::{counted, sanitize, truncate};

const NAME: Style = Style::new().bold();
/// Longer names have a line of their own.
const LONGEST_NAME: usize = 40;
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// List the tools of the configured servers
///
/// Connects to all servers at once. One that fails is named with its reason, a tool that cannot be offered
/// with its own, and the exit code is 1.
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

pub(crate) fn run(args: &ToolsArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let found = servers::find(config)?.only(args.server.as_deref())?;
    found.with_hub(async |hub| {
        servers::settled(hub).await;
        let status = hub.status();
        let refused = show(args, hub, &status)?;
        let is_whole = |server: &ServerStatus| trouble(server).is_none() && server.quarantined.is_empty();
        let is_well = refused == 0 && status.iter().all(is_whole);
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// How many tools the dialect that was asked for refuses.
fn show(args: &ToolsArgs, hub: &Hub, status: &[ServerStatus]) -> Result<usize, CommandError> {
    tell_of_failed(status);
    if let Some(dialect) = args.dialect {
        let toolset = hub.get_tools(dialect, &Options::default());
        let hint = "`toolwire check` shows which dialects accept them";
        let refused = refusals::print(toolset.reports(), Severity::Error, hint);
        output::print_of_strangers(&to_json(&toolset.request_tools(), false))?;
        return Ok(refused);
    }
    if args.json {
        let servers: Vec<Value> = status.iter().map(|server| as_json(hub, server)).collect();
        output::print_of_strangers(&to_json(&servers, false))?;
    } else {
        output::print_styled(&page(hub, status, check::columns()))?;
    }
    Ok(0)
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
            kept_back.map(|tool| json!({"tool": tool.name, "reason": tool.reason})).collect();
    }
    answer
}

/// Each failed server and each tool that is kept back, on standard error.
pub(crate) fn tell_of_failed(status: &[ServerStatus]) {
    for server in status {
        if let Some(reason) = trouble(server) {
            print_stderr(&format!(
                "{ERROR}error:{ERROR:#} server `{}` failed: {}\n",
                sanitize(&server.name),
                sanitize(&reason)
            ));
            for line in server.stderr.iter().rev().take(3).rev() {
                print_stderr(&format!("  {QUIET}{}{QUIET:#}\n", sanitize(line)));
            }
            if let Some(hint) = &server.hint {
                print_stderr(&format!("{HINT}hint:{HINT:#} {}\n", sanitize(hint)));
            }
        }
        for tool in &server.quarantined {
            print_stderr(&format!(
                "{NOTE}warning:{NOTE:#} tool `{}` of server `{}` was skipped: {}\n",
                sanitize(&tool.name),
                sanitize(&server.name),
                sanitize(&tool.reason)
            ));
        }
        if let Some(cut) = &server.incomplete {
            print_stderr(&format!(
                "{NOTE}warning:{NOTE:#} server `{}`: {}\n",
                sanitize(&server.name),
                sanitize(cut)
            ));
        }
        for oddity in oddities(server) {
            print_stderr(&format!(
                "{NOTE}warning:{NOTE:#} server `{}`: {}\n",
                sanitize(&server.name),
                sanitize(&oddity)
            ));
        }
    }
    tell_of_changes(status);
}

/// What is odd about a server's tools, though they can be used.
pub(crate) fn oddities(server: &ServerStatus) -> Vec<String> {
    let doubled = server.duplicates.iter();
    let doubled =
        doubled.map(|tool| format!("tool `{tool}` is listed more than once; the first definition is used"));
    let idle = server.unused_patterns.iter();
    let idle =
        idle.map(|pattern| format!("`{pattern}` in `tools.allow` or `tools.deny` matches none of its tools"));
    doubled.chain(idle).collect()
}

/// Each tool whose definition is not the one that was first seen, on standard error, until somebody accepts
/// it.
pub(crate) fn tell_of_changes(status: &[ServerStatus]) {
    let mut any = false;
    for server in status {
        for change in changes(server) {
            any = true;
            print_stderr(&format!(
                "{NOTE}warning:{NOTE:#} server `{}`: {}\n",
                sanitize(&server.name),
                sanitize(&change)
            ));
        }
    }
    if any {
        print_stderr(&format!("{HINT}hint:{HINT:#} {ACCEPT}\n"));
    }
}

pub(crate) const ACCEPT: &str =
    "review it with `toolwire tools --json`, then accept it with `toolwire doctor --accept`";

/// The tools whose definition changed, and what of it.
pub(crate) fn changes(server: &ServerStatus) -> Vec<String> {
    let changed = server.drifts.iter().filter_map(|drift| match &drift.kind {
        DriftKind::Changed(parts) => Some((drift, parts)),
        _ => None,
    });
    changed
        .map(|(drift, parts)| {
            let parts: Vec<&str> = parts.iter().map(part_name).collect();
            format!(
                "tool `{}` changed since it was reviewed: its {} changed",
                drift.tool,
                parts.join(" and ")
            )
        })
        .collect()
}

fn part_name(part: &DefinitionPart) -> &'static str {
    match part {
        DefinitionPart::Title => "title",
        DefinitionPart::Description => "description",
        DefinitionPart::InputSchema => "input schema",
        DefinitionPart::OutputSchema => "output schema",
        DefinitionPart::Annotations => "annotations",
    }
}

fn page(hub: &Hub, status: &[ServerStatus], width: usize) -> String {
    let mut text = String::new();
    let total = hub.tools().len();
    for server in status.iter().filter(|server| trouble(server).is_none()) {
        let tools = hub.tools_of(&server.name).unwrap_or_default();
        let about = server
            .info
            .as_ref()
            .map_or_else(String::new, |info| format!(", MCP {}", sanitize(&info.protocol)));
        let count = counted(tools.len(), "tool");
        let _ = writeln!(text, "{NAME}{}{NAME:#}  {QUIET}{count}{about}{QUIET:#}", sanitize(&server.name));
        let longest = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0).min(LONGEST_NAME);
        for tool in &tools {
            let room = width.saturating_sub(longest + 5).max(20);
            let summary = summary(tool, room);
            if tool.name.len() > longest {
                // The name is what people copy: it is never cut, and its summary stands under the others.
                let _ = writeln!(text, "  {}\n  {:longest$}  {QUIET}{summary}{QUIET:#}", tool.name, "");
            } else {
                let _ = writeln!(text, "  {:longest$}  {QUIET}{summary}{QUIET:#}", tool.name);
            }
        }
        text.push('\n');
    }
    let ready = status.iter().filter(|server| trouble(server).is_none()).count();
    let _ =
        writeln!(text, "{} of {} ready, {}", ready, counted(status.len(), "server"), counted(total, "tool"));
    text
}

/// The first sentence of the description, cut to fit.
fn summary(tool: &Tool, room: usize) -> String {
    let words = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    truncate(&sanitize(line), room)
}
