//! `toolwire doctor`: what is wrong, and how to mend it.

mod endpoint;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use clap::Args;
use toolwire_dialect::{Dialect, Options, Status};
use toolwire_hub::{Hub, ServerStatus};

use crate::command_error::CommandError;
use crate::output;
use crate::servers::{self, trouble};
use crate::settings;
use crate::source::in_words;
use crate::terminal_text::{counted, sanitize};
use crate::tools;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();
const NAME: Style = Style::new().bold();

/// Check the configuration, the servers and their tools, and the model
///
/// Says what is wrong and how to mend it. The configured model is asked for one word. The exit code is 1 when
/// something is wrong.
#[derive(Args)]
#[command(after_long_help = include_str!("help/doctor.txt"))]
pub(crate) struct DoctorArgs {
    /// Accept the tools whose definition changed: from now on they are what later ones are compared with
    #[arg(long)]
    accept: bool,
}

pub(crate) fn run(args: &DoctorArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let found = servers::find(config)?;
    let settings = settings::read(found.config.toolwire.as_ref(), &found.place)?;
    found.with_hub(async |hub| {
        let started = Instant::now();
        servers::settled(hub).await;
        let took = started.elapsed();
        let status = hub.status();
        let mut text = String::new();
        let place = &found.place;
        let disabled = found.config.servers.iter().filter(|server| server.disabled).count();
        let enabled = found.config.servers.len() - disabled;
        let _ = write!(text, "{GOOD}✓{GOOD:#} configuration  {QUIET}{place}, {}", counted(enabled, "server"));
        if disabled > 0 {
            let _ = write!(text, ", {disabled} disabled");
        }
        let _ = writeln!(text, "{QUIET:#}");
        let mut wrong = 0;
        for server in &status {
            wrong += tell_server(&mut text, server);
            wrong += tell_changes(&mut text, server, args.accept);
        }
        if args.accept {
            hub.accept_changes().map_err(|error| {
                CommandError::work(format!("cannot accept the changes: {}", in_words(&error)))
            })?;
        }
        wrong += tell_schemas(&mut text, hub);
        wrong += endpoint::tell_model(&mut text, &settings).await?;
        let _ = writeln!(text, "\n{}", verdict(wrong, took));
        output::print_styled(&text)?;
        Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// One server; how many things are wrong with it.
fn tell_server(text: &mut String, server: &ServerStatus) -> usize {
    let name = sanitize(&server.name);
    let mut wrong = 0;
    match trouble(server) {
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
                "{GOOD}✓{GOOD:#} {NAME}{name}{NAME:#}  {QUIET}{}{}, MCP {}{}{QUIET:#}",
                counted(server.tool_count, "tool"),
                if server.denied > 0 { format!(" ({} denied)", server.denied) } else { String::new() },
                sanitize(protocol),
                sanitize(&version)
            );
        }
        Some(reason) => {
            wrong += 1;
            let _ = writeln!(text, "{BAD}✗{BAD:#} {NAME}{name}{NAME:#}  {}", sanitize(&reason));
            if let Some(hint) = &server.hint {
                let _ = writeln!(text, "    {}", sanitize(hint));
            }
        }
    }
    for tool in &server.quarantined {
        wrong += 1;
        let _ = writeln!(
            text,
            "  {ODD}!{ODD:#} tool `{}` was skipped: {}",
            sanitize(&tool.name),
            sanitize(&tool.reason)
        );
    }
    if let Some(cut) = &server.incomplete {
        wrong += 1;
        let _ = writeln!(text, "  {ODD}!{ODD:#} {}", sanitize(cut));
    }
    for oddity in tools::oddities(server) {
        wrong += 1;
        let _ = writeln!(text, "  {ODD}!{ODD:#} {}", sanitize(&oddity));
    }
    if server.ignored_output.unreadable > 0 {
        let last = server.ignored_output.last_unreadable.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {ODD}!{ODD:#} {} on stdout that {} no message; the last: {}",
            counted(usize::try_from(server.ignored_output.unreadable).unwrap_or(usize::MAX), "line"),
            if server.ignored_output.unreadable == 1 { "is" } else { "are" },
            sanitize(last)
        );
        let _ = writeln!(text, "    logs belong on stderr; please report this to the author of the server");
    }
    if trouble(server).is_some() {
        for line in server.stderr.iter().rev().take(10).rev() {
            let _ = writeln!(text, "    {QUIET}stderr: {}{QUIET:#}", sanitize(line));
        }
    }
    wrong
}

/// Tools that are not what they were when they were first seen or last accepted; how many are still to be
/// accepted.
fn tell_changes(text: &mut String, server: &ServerStatus, accept: bool) -> usize {
    let changes = tools::changes(server);
    for change in &changes {
        let accepted = if accept { "; accepted" } else { "" };
        let _ = writeln!(text, "  {ODD}!{ODD:#} {}{accepted}", sanitize(change));
    }
    if accept || changes.is_empty() {
        return 0;
    }
    let _ = writeln!(text, "    {}", tools::ACCEPT);
    changes.len()
}

/// Tools that some dialect refuses although their server is fine.
fn tell_schemas(text: &mut String, hub: &Hub) -> usize {
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
        let _ =
            writeln!(text, "{GOOD}✓{GOOD:#} schemas  {QUIET}every tool converts to every dialect{QUIET:#}");
    }
    for (tool, dialects) in &refused {
        let _ = writeln!(
            text,
            "{ODD}!{ODD:#} tool `{}` is refused for {}  {QUIET}`toolwire check` shows the reason{QUIET:#}",
            sanitize(tool),
            dialects.join(", ")
        );
    }
    refused.len()
}

fn verdict(wrong: usize, took: Duration) -> String {
    let took = format!("{:.1} s", took.as_secs_f64());
    match wrong {
        0 => format!("no problems found ({took})"),
        1 => format!("1 problem found ({took})"),
        many => format!("{many} problems found ({took})"),
    }
}
