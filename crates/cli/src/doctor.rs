//! `toolwire doctor`: what is wrong, and how to mend it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use clap::Args;
use toolwire_dialect::{Dialect, Options, Status};
use toolwire_hub::{DriftKind, Hub, Phase, ServerStatus};

use crate::failure::Failure;
use crate::output;
use crate::servers::{self, trouble};
use crate::shown::shown;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const ODD: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();
const NAME: Style = Style::new().bold();

/// Check the configuration, the servers and their tools
///
/// Says what is wrong and how to mend it. The exit code is 1 when something is.
#[derive(Args)]
#[command(after_long_help = include_str!("help/doctor.txt"))]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(_: &DoctorArgs, config: Option<&Path>) -> Result<ExitCode, Failure> {
    let found = servers::find(config)?;
    servers::run(async {
        let started = Instant::now();
        let hub = found.connect().await;
        let took = started.elapsed();
        let status = hub.status();
        let mut text = String::new();
        let place = &found.place;
        let disabled = found.config.servers.iter().filter(|server| server.disabled).count();
        let enabled = found.config.servers.len() - disabled;
        let _ = write!(text, "{GOOD}✓{GOOD:#} configuration  {QUIET}{place}, {enabled} servers");
        if disabled > 0 {
            let _ = write!(text, ", {disabled} disabled");
        }
        let _ = writeln!(text, "{QUIET:#}");
        let mut wrong = 0;
        for server in &status {
            wrong += tell_server(&mut text, server);
        }
        wrong += tell_schemas(&mut text, &hub);
        let _ = writeln!(text, "\n{}", verdict(wrong, took));
        hub.close().await;
        output::print_styled(&text)?;
        Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// One server; how many things are wrong with it.
fn tell_server(text: &mut String, server: &ServerStatus) -> usize {
    let name = shown(&server.name);
    let mut wrong = 0;
    match trouble(server) {
        None => {
            let facts = server.facts.as_ref();
            let protocol = facts.map_or("", |facts| facts.protocol.as_str());
            let version = facts
                .and_then(|facts| {
                    let name = facts.server_info.get("name")?.as_str()?;
                    let version = facts.server_info.get("version").and_then(|version| version.as_str());
                    Some(format!(", {name} {}", version.unwrap_or_default()))
                })
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "{GOOD}✓{GOOD:#} {NAME}{name}{NAME:#}  {QUIET}{} tools, MCP {protocol}{}{QUIET:#}",
                server.tool_count,
                shown(&version)
            );
        }
        Some(reason) => {
            wrong += 1;
            let _ = writeln!(text, "{BAD}✗{BAD:#} {NAME}{name}{NAME:#}  {}", shown(&reason));
            if let Some(hint) = hint(&reason, &server.phase) {
                let _ = writeln!(text, "    {hint}");
            }
        }
    }
    for tool in &server.quarantined {
        wrong += 1;
        let _ = writeln!(
            text,
            "  {ODD}!{ODD:#} tool `{}` is kept back: {}",
            shown(&tool.tool),
            shown(&tool.reason)
        );
    }
    if let Some(cut) = &server.cut {
        wrong += 1;
        let _ = writeln!(text, "  {ODD}!{ODD:#} {}", shown(cut));
    }
    for drift in &server.drifts {
        if let DriftKind::Changed(parts) = &drift.kind {
            let parts: Vec<String> = parts.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
            let _ = writeln!(
                text,
                "  {ODD}!{ODD:#} tool `{}` is not what it was when last seen: its {} changed",
                shown(&drift.tool),
                parts.join(" and ")
            );
        }
    }
    if server.noise.unreadable > 0 {
        let last = server.noise.last.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {ODD}!{ODD:#} {} lines on stdout are no messages; the last: {}",
            server.noise.unreadable,
            shown(last)
        );
        let _ = writeln!(text, "    logs belong on stderr: tell the server's author");
    }
    if trouble(server).is_some() {
        for line in server.stderr.iter().rev().take(10).rev() {
            let _ = writeln!(text, "    {QUIET}stderr: {}{QUIET:#}", shown(line));
        }
    }
    wrong
}

fn hint(reason: &str, phase: &Phase) -> Option<&'static str> {
    let has = |word: &str| reason.contains(word);
    match () {
        () if has("not found") || has("no such") => Some("install it, or give `command` with its whole path"),
        () if has("did not come up within") => {
            Some("raise its `timeout`, or run its command by hand and see what it waits for")
        }
        () if has("401") || has("403") => Some("give it a header with a token, or log in"),
        () if has("the process ended") => Some("run its command by hand: what it says on stderr is below"),
        () if matches!(phase, Phase::Down { .. }) => Some("look at its entry in the configuration"),
        () => None,
    }
}

/// Tools that some dialect refuses although their server is fine.
fn tell_schemas(text: &mut String, hub: &Hub) -> usize {
    let mut refused: Vec<(String, Vec<&'static str>)> = Vec::new();
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Mcp) {
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
            "{GOOD}✓{GOOD:#} schemas  {QUIET}every tool can be said in every dialect{QUIET:#}"
        );
    }
    for (tool, dialects) in &refused {
        let _ = writeln!(
            text,
            "{ODD}!{ODD:#} tool `{}` is refused for {}  {QUIET}`toolwire check` says why{QUIET:#}",
            shown(tool),
            dialects.join(", ")
        );
    }
    refused.len()
}

fn verdict(wrong: usize, took: Duration) -> String {
    let took = format!("{:.1} s", took.as_secs_f64());
    match wrong {
        0 => format!("all is well ({took})"),
        1 => format!("1 thing is wrong ({took})"),
        many => format!("{many} things are wrong ({took})"),
    }
}
