//! `toolwire tools`: lists the tools of the configured servers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_contract::text::counted;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::{Dialect, Options};
use toolwire_hub::{Hub, ServerStatus};

use crate::check;
use crate::command_error::{CommandError, ERROR, HINT, NOTE, print_stderr};
use crate::convert::{DefaultsMode, defaults};
use crate::dialect_name;
use crate::output::{self, to_json};
use crate::pins;
use crate::refusals::{self, Severity};
use crate::servers::{self, unavailable_reason};
use crate::terminal_text::{sanitize, truncate};

const NAME: Style = Style::new().bold();
/// A longer name has its own line.
const MAX_NAME_COLUMNS: usize = 40;
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// List the tools of the configured servers
///
/// Connects to all servers in parallel. Failed servers and skipped tools are listed with the reason, and the
/// exit code is 1.
#[derive(Args)]
#[command(after_long_help = include_str!("help/tools.txt"))]
pub(crate) struct ToolsArgs {
    /// Only the tools of this server
    #[arg(long, value_name = "S")]
    server: Option<String>,
    /// Print the `tools` array for a request in this dialect
    #[arg(long = "as", value_name = "D", value_parser = dialect_name::any(), conflicts_with = "json")]
    dialect: Option<Dialect>,
    /// With `--as`: drop, describe or keep the keyword `default`, as `toolwire convert` does
    #[arg(long, value_name = "MODE", value_enum, requires = "dialect")]
    defaults: Option<DefaultsMode>,
    /// Print JSON: `[{"server","tools":[…],"tool_count"}]`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ToolsArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::load_config(config)?.only(args.server.as_deref())?;
    loaded.with_hub(async |hub| {
        servers::wait_until_settled(hub).await;
        let status = hub.status();
        let refused = print_tools(args, hub, &status)?;
        let is_complete =
            |server: &ServerStatus| unavailable_reason(server).is_none() && server.quarantined.is_empty();
        let has_blocked = pins::changes(&status).any(|(_, drift)| drift.is_blocked);
        let has_all_tools = refused == 0 && !has_blocked && status.iter().all(is_complete);
        Ok(if has_all_tools { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Prints the tools, and returns how many of them the dialect refuses.
fn print_tools(args: &ToolsArgs, hub: &Hub, status: &[ServerStatus]) -> Result<usize, CommandError> {
    print_problems(hub);
    if let Some(dialect) = args.dialect {
        let toolset = hub.get_tools(dialect, &Options::default().with_defaults(defaults(args.defaults)));
        let hint = |them: &str| format!("`toolwire check` shows which dialects accept {them}");
        let refused = refusals::print(toolset.reports(), Severity::Error, hint);
        output::print_untrusted(&to_json(&toolset.request_tools(), false))?;
        return Ok(refused);
    }
    if args.json {
        let servers: Vec<Value> = status.iter().map(|server| as_json(hub, server)).collect();
        output::print_untrusted(&to_json(&servers, false))?;
    } else {
        output::print_styled(&page(hub, status, check::terminal_columns()))?;
    }
    Ok(0)
}

fn as_json(hub: &Hub, server: &ServerStatus) -> Value {
    let tools = hub.tools_of(&server.name).unwrap_or_default();
    let tools: Vec<Value> = tools.into_iter().map(|tool| tool_as_json(hub, tool)).collect();
    let mut json = json!({"server": server.name, "tools": tools, "tool_count": tools.len()});
    if let Some(reason) = unavailable_reason(server) {
        json["error"] = reason.into();
        if !server.stderr.is_empty() {
            json["stderr"] = server.stderr.iter().map(String::as_str).collect();
        }
    }
    if !server.quarantined.is_empty() {
        let quarantined = server.quarantined.iter();
        json["quarantined"] =
            quarantined.map(|tool| json!({"tool": tool.name, "reason": tool.reason})).collect();
    }
    let changed: Vec<Value> =
        pins::changes(std::slice::from_ref(server)).map(|(_, drift)| pins::to_value(drift)).collect();
    if !changed.is_empty() {
        json["changed"] = changed.into();
    }
    json
}

/// Returns a tool as JSON, with the server's own name of a renamed tool.
fn tool_as_json(hub: &Hub, tool: Tool) -> Value {
    let original = hub.origin(&tool.name).map(|(_, original)| original).filter(|name| *name != tool.name);
    let mut json = Value::from(tool);
    if let Some(original) = original {
        json["original_name"] = original.into();
    }
    json
}

/// Prints failed servers, quarantined and changed tools, and other problems of the servers to standard error.
pub(crate) fn print_problems(hub: &Hub) {
    let status = hub.status();
    print_server_problems(&status);
    pins::print_changes(hub, &status);
}

/// Prints all problems except changed tools.
pub(crate) fn print_server_problems(status: &[ServerStatus]) {
    for server in status {
        if let Some(reason) = unavailable_reason(server) {
            print_stderr(&format!(
                "{ERROR}error:{ERROR:#} server `{}` failed: {}\n",
                sanitize(&server.name),
                sanitize(&reason)
            ));
            for line in server.stderr_excerpt() {
                print_stderr(&format!("  {QUIET}{}{QUIET:#}\n", sanitize(&line)));
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
        for warning in warnings(server) {
            print_warning(server, &warning);
        }
    }
}

pub(crate) fn print_warning(server: &ServerStatus, warning: &str) {
    print_stderr(&format!(
        "{NOTE}warning:{NOTE:#} server `{}`: {}\n",
        sanitize(&server.name),
        sanitize(warning)
    ));
}

/// Returns the problems of a server that do not prevent the use of its tools.
pub(crate) fn warnings(server: &ServerStatus) -> Vec<String> {
    let duplicates = server
        .duplicates
        .iter()
        .map(|tool| format!("tool `{tool}` is listed more than once; the first definition is used"));
    let unused_patterns = server
        .unused_patterns
        .iter()
        .map(|pattern| format!("`{pattern}` in `tools.allow` or `tools.deny` matches none of its tools"));
    let corrected_type = server.info.as_ref().and_then(|info| info.corrected_type);
    let wrong_type = corrected_type.map(|kind| {
        format!("its `type` is wrong, and `{kind}` is used instead; correct it in the configuration")
    });
    server.incomplete.iter().cloned().chain(wrong_type).chain(duplicates).chain(unused_patterns).collect()
}

fn page(hub: &Hub, status: &[ServerStatus], columns: usize) -> String {
    let mut text = String::new();
    let total = hub.tools().len();
    for server in status.iter().filter(|server| unavailable_reason(server).is_none()) {
        let tools = hub.tools_of(&server.name).unwrap_or_default();
        let protocol = server
            .info
            .as_ref()
            .map_or_else(String::new, |info| format!(", MCP {}", sanitize(&info.protocol)));
        let count = counted(tools.len(), "tool");
        let _ = writeln!(text, "{NAME}{}{NAME:#}  {QUIET}{count}{protocol}{QUIET:#}", sanitize(&server.name));
        let longest_name = tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
        let name_width = longest_name.min(MAX_NAME_COLUMNS);
        for tool in &tools {
            let summary = summary(tool, columns.saturating_sub(name_width + 5).max(20));
            if tool.name.len() > name_width {
                // Names are copied by users, so they are never truncated.
                let _ = writeln!(text, "  {}\n  {:name_width$}  {QUIET}{summary}{QUIET:#}", tool.name, "");
            } else {
                let _ = writeln!(text, "  {:name_width$}  {QUIET}{summary}{QUIET:#}", tool.name);
            }
        }
        text.push('\n');
    }
    let ready = status.iter().filter(|server| unavailable_reason(server).is_none()).count();
    let _ =
        writeln!(text, "{} of {} ready, {}", ready, counted(status.len(), "server"), counted(total, "tool"));
    text
}

/// Returns the first line of the description, truncated.
fn summary(tool: &Tool, columns: usize) -> String {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let line = description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    truncate(&sanitize(line), columns)
}
