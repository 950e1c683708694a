//! `toolwire doctor`: finds problems of the configuration, the servers, the model and the gateway.

mod endpoint;
mod gateway;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use clap::Args;
use toolwire_contract::text::counted;
use toolwire_dialect::{Dialect, Options, Status};
use toolwire_hub::{Hub, ServerStatus};

use crate::command_error::CommandError;
use crate::output;
use crate::pins;
use crate::servers::{self, unavailable_reason};
use crate::settings;
use crate::terminal_text::sanitize;
use crate::tools;

const SUCCESS: Style = AnsiColor::Green.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();
const NAME: Style = Style::new().bold();

const MAX_STDERR_LINES: usize = 10;

/// Check the configuration, the servers and their tools, the model, and the gateway
///
/// Prints each problem with a hint. The check of the model sends it one short request. The store and the
/// gateway are checked if they are configured: its address, its keys, the certificate, and whether a gateway
/// that is running is ready. The exit code is 1 if there are problems.
#[derive(Args)]
#[command(after_long_help = include_str!("help/doctor.txt"))]
pub(crate) struct DoctorArgs {
    /// Accept changed tool definitions; later changes are compared with them
    #[arg(long)]
    accept: bool,
}

pub(crate) fn run(args: &DoctorArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::load_config(config)?;
    let settings = settings::read(loaded.config.toolwire.as_ref(), &loaded.origin)?;
    // What works for one user may not work for another, so only the settings of the others are checked.
    loaded.with_shared_servers().with_hub(async |hub| {
        let started = Instant::now();
        servers::wait_until_settled(hub).await;
        let elapsed = started.elapsed();
        let mut text = String::new();
        let disabled = loaded.config.servers.iter().filter(|server| server.disabled).count();
        let enabled = counted(loaded.config.servers.len() - disabled, "server");
        let _ = write!(text, "{SUCCESS}✓{SUCCESS:#} configuration  {QUIET}{}, {enabled}", loaded.origin);
        if disabled > 0 {
            let _ = write!(text, ", {disabled} disabled");
        }
        let _ = writeln!(text, "{QUIET:#}");
        let mut problems = 0;
        if let Some((problem, hint)) = pins::pins_problem(hub).filter(|_| !args.accept) {
            problems += 1;
            let _ = writeln!(text, "{WARNING}!{WARNING:#} {problem}\n    {hint}");
        }
        for server in &hub.status() {
            problems += report_server(&mut text, server);
            if let Some(config) =
                loaded.config.server(&server.name).filter(|_| unavailable_reason(server).is_some())
            {
                let withheld = config.withheld_variables(std::env::vars_os().map(|(name, _)| name));
                report_withheld(&mut text, server, &withheld);
            }
            problems += report_changes(&mut text, server, args.accept);
        }
        if args.accept {
            hub.accept_changes(|_, _| true).map_err(pins::accept_error)?;
        }
        problems += report_schemas(&mut text, hub);
        problems += endpoint::report_model(&mut text, &settings).await;
        problems += gateway::report_gateway(&mut text, &loaded, &settings).await;
        let count = if problems == 0 { "no problems".to_owned() } else { counted(problems, "problem") };
        let _ = writeln!(text, "\n{count} found ({:.1} s)", elapsed.as_secs_f64());
        output::print_styled(&text)?;
        Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Reports the state of one server, and returns the number of problems.
fn report_server(text: &mut String, server: &ServerStatus) -> usize {
    let name = sanitize(&server.name);
    let mut problems = 0;
    let unavailable = unavailable_reason(server);
    match &unavailable {
        None => {
            let info = server.info.as_ref();
            let protocol = info.map_or("", |info| info.protocol.as_str());
            let version = info
                .and_then(|info| {
                    let name = info.implementation.get("name")?.as_str()?;
                    let version = info.implementation.get("version").and_then(|version| version.as_str());
                    Some(format!(", {name} {}", version.unwrap_or_default()))
                })
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "{SUCCESS}✓{SUCCESS:#} {NAME}{name}{NAME:#}  {QUIET}{}{}, MCP {}{}{QUIET:#}",
                counted(server.tool_count, "tool"),
                if server.denied > 0 { format!(" ({} denied)", server.denied) } else { String::new() },
                sanitize(protocol),
                sanitize(&version)
            );
        }
        Some(reason) => {
            problems += 1;
            let _ = writeln!(text, "{ERROR}✗{ERROR:#} {NAME}{name}{NAME:#}  {}", sanitize(reason));
            if let Some(hint) = &server.hint {
                let _ = writeln!(text, "    {}", sanitize(hint));
            }
        }
    }
    let skipped = server.quarantined.iter();
    let skipped = skipped.map(|tool| format!("tool `{}` was skipped: {}", tool.name, tool.reason));
    for warning in skipped.chain(tools::warnings(server)) {
        problems += 1;
        let _ = writeln!(text, "  {WARNING}!{WARNING:#} {}", sanitize(&warning));
    }
    if server.ignored_output.unreadable > 0 {
        let last = server.ignored_output.last_unreadable.as_deref().unwrap_or_default();
        let count = usize::try_from(server.ignored_output.unreadable).unwrap_or(usize::MAX);
        let _ = writeln!(
            text,
            "  {WARNING}!{WARNING:#} {} on stdout that {}; the last: {}",
            counted(count, "line"),
            if count == 1 { "is not a message" } else { "are not messages" },
            sanitize(last)
        );
        let _ = writeln!(text, "    logs belong on stderr; please report this to the author of the server");
    }
    if unavailable.is_some() {
        let first = server.stderr.len().saturating_sub(MAX_STDERR_LINES);
        // A line that names the cause may be further up.
        let cause = server.stderr_cause().filter(|index| *index < first).map(|index| &server.stderr[index]);
        for line in cause.into_iter().chain(&server.stderr[first..]) {
            let _ = writeln!(text, "    {QUIET}stderr: {}{QUIET:#}", sanitize(line));
        }
    }
    problems
}

/// Reports variables that a failed server did not get: those that its stderr mentions, or else all.
fn report_withheld(text: &mut String, server: &ServerStatus, withheld: &[String]) {
    const MAX_NAMES: usize = 10;
    /// Variables of the shell and of the terminal, which no server needs.
    const SHELL_VARIABLES: [&str; 6] = ["PWD", "OLDPWD", "SHLVL", "_", "LS_COLORS", "COLORTERM"];
    let is_mentioned = |name: &&String| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        server
            .stderr
            .iter()
            .any(|line| line.split(|letter| !is_part(letter)).any(|word| word == name.as_str()))
    };
    for name in withheld.iter().filter(is_mentioned) {
        let name = sanitize(name);
        let _ = writeln!(
            text,
            "    `{name}` is set here, but the server does not get it; add it to its `env`: {{\"{name}\": \"${{{name}}}\"}}"
        );
    }
    // Without output, the process may not have started.
    if server.stderr.is_empty() || withheld.iter().any(|name| is_mentioned(&name)) {
        return;
    }
    let names: Vec<&String> =
        withheld.iter().filter(|name| !SHELL_VARIABLES.contains(&name.as_str())).collect();
    if names.is_empty() {
        return;
    }
    let listed: Vec<String> =
        names.iter().take(MAX_NAMES).map(|name| format!("`{}`", sanitize(name))).collect();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let _ = writeln!(
        text,
        "    {QUIET}variables that it does not get unless its `env` has them: {}{more}{QUIET:#}",
        listed.join(", ")
    );
}

/// Reports tools whose definition changed, and returns how many are not accepted.
fn report_changes(text: &mut String, server: &ServerStatus, accept: bool) -> usize {
    let mut count = 0;
    for (_, drift) in pins::changes(std::slice::from_ref(server)) {
        let change = match accept {
            true => format!("tool `{}` {}; accepted", drift.tool, drift.kind),
            false => drift.to_string(),
        };
        let _ = writeln!(text, "  {WARNING}!{WARNING:#} {}", sanitize(&change));
        count += 1;
    }
    if accept || count == 0 {
        return 0;
    }
    let _ = writeln!(text, "    {}", pins::REVIEW_HINT);
    count
}

/// Reports tools that are refused for a dialect, and returns their number.
fn report_schemas(text: &mut String, hub: &Hub) -> usize {
    let mut refused: Vec<(String, Vec<&'static str>)> = Vec::new();
    for dialect in Dialect::all().filter(|dialect| *dialect != Dialect::Mcp) {
        for report in hub.get_tools(dialect, &Options::default()).reports() {
            if report.status == Status::Refused {
                match refused.iter_mut().find(|(tool, _)| *tool == report.tool) {
                    Some((_, dialects)) => dialects.push(dialect.name()),
                    None => refused.push((report.tool.clone(), vec![dialect.name()])),
                }
            }
        }
    }
    if refused.is_empty() {
        let _ = writeln!(
            text,
            "{SUCCESS}✓{SUCCESS:#} schemas  {QUIET}every tool converts to every dialect{QUIET:#}"
        );
    }
    for (tool, dialects) in &refused {
        let _ = writeln!(
            text,
            "{WARNING}!{WARNING:#} tool `{}` is refused for {}  \
             {QUIET}`toolwire check` shows the reason{QUIET:#}",
            sanitize(tool),
            dialects.join(", ")
        );
    }
    refused.len()
}
