//! `toolwire pins`: tools whose definition changed since it was pinned.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anstyle::Style;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolwire_hub::pins::{DefinitionChange, Drift, DriftKind, PinPolicy};
use toolwire_hub::{Hub, ServerStatus};

use crate::check::terminal_columns;
use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::output::{self, to_json};
use crate::servers::{self, unavailable_reason};
use crate::source::describe_io_error;
use crate::terminal_text::{sanitize, wrapped};
use crate::tools;

const NAME: Style = Style::new().bold();

/// List or accept tool definitions that changed
///
/// The definition of each tool is pinned when it is first seen. If a server changes it later, it is reported
/// until you accept it; with `"pins": "block"` under the key `toolwire` of the configuration, the tool is not
/// offered until then.
#[derive(Args)]
#[command(after_long_help = include_str!("help/pins.txt"))]
pub(crate) struct PinsArgs {
    #[command(subcommand)]
    command: PinsCommand,
}

#[derive(Subcommand)]
enum PinsCommand {
    /// List the tools whose definition changed, with the accepted and the current text
    List {
        /// Only the tools of this server
        #[arg(long, value_name = "S")]
        server: Option<String>,
        /// Print JSON: `[{"server","tool","changed":[…],"blocked","definition","difference"}]`. `difference`
        /// is `[{"part","pointer","before"?,"after"?}]`, or `null` if the accepted text is unknown
        #[arg(long)]
        json: bool,
    },
    /// Accept changed definitions; later changes are compared with them
    Accept {
        /// The names of the tools on their server, as `toolwire pins list` prints them; default: all
        #[arg(value_name = "TOOL")]
        tools: Vec<String>,
        /// Only the tools of this server
        #[arg(long, value_name = "S")]
        server: Option<String>,
    },
}

pub(crate) fn run(args: &PinsArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let (PinsCommand::List { server, .. } | PinsCommand::Accept { server, .. }) = &args.command;
    let loaded = servers::load_config(config)?.only(server.as_deref())?;
    loaded.with_hub(async |hub| {
        servers::wait_until_settled(hub).await;
        let status = hub.status();
        tools::print_server_problems(&status);
        match &args.command {
            PinsCommand::List { json, .. } => list(hub, &status, *json)?,
            PinsCommand::Accept { tools, .. } => accept(hub, &status, tools)?,
        }
        let is_complete = status.iter().all(|server| unavailable_reason(server).is_none());
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn list(hub: &Hub, status: &[ServerStatus], as_json: bool) -> Result<(), CommandError> {
    if as_json {
        let changes = changes(status).map(|(server, drift)| {
            let mut change = to_value(drift);
            change["server"] = server.name.as_str().into();
            change["definition"] = hub.definition(&server.name, &drift.tool).map(Value::from).into();
            change["difference"] = difference_to_value(hub.difference(&server.name, &drift.tool).as_deref());
            change
        });
        return output::print_untrusted(&to_json(&changes.collect::<Vec<_>>(), false));
    }
    let mut text = String::new();
    for (server, drift) in changes(status) {
        let (name, tool) = (sanitize(&server.name), sanitize(&drift.tool));
        let blocked = if drift.is_blocked { "; blocked" } else { "" };
        let _ = writeln!(text, "{NAME}{name} {tool}{NAME:#}  {}{blocked}", drift.kind);
        match hub.difference(&server.name, &drift.tool) {
            Some(changes) => changes.iter().for_each(|change| write_change(&mut text, change)),
            None => {
                let definition = hub.definition(&server.name, &drift.tool);
                let description = definition.and_then(|tool| tool.description).unwrap_or_default();
                write_indented(&mut text, "    ", &description);
            }
        }
    }
    if text.is_empty() {
        text.push_str("no tool definition changed\n");
    }
    output::print_styled(&text)?;
    print_pins_problem(hub);
    Ok(())
}

/// Writes the place of a change, the accepted value and the current value.
fn write_change(text: &mut String, change: &DefinitionChange) {
    let pointer = sanitize(&change.pointer);
    let separator = if pointer.is_empty() { "" } else { " " };
    let _ = writeln!(text, "    {}{separator}{pointer}", change.part.name());
    for (sign, value) in [("    - ", &change.before), ("    + ", &change.after)] {
        match value {
            None => {}
            Some(Value::String(value)) => write_indented(text, sign, value),
            Some(value) => write_indented(text, sign, &to_json(value, false)),
        }
    }
}

/// Writes the lines of an untrusted text, each after a sign, wrapped at the width of the terminal.
fn write_indented(text: &mut String, sign: &str, value: &str) {
    let width = terminal_columns() - sign.len();
    for line in value.lines().flat_map(|line| wrapped(&sanitize(line), width)) {
        let _ = writeln!(text, "{sign}{line}");
    }
}

/// Returns the places of a changed definition as JSON; `null` if they are unknown.
fn difference_to_value(changes: Option<&[DefinitionChange]>) -> Value {
    let to_value = |change: &DefinitionChange| {
        let mut value = json!({"part": change.part.key(), "pointer": change.pointer});
        for (key, side) in [("before", &change.before), ("after", &change.after)] {
            if let Some(side) = side {
                value[key] = side.clone();
            }
        }
        value
    };
    changes.map(|changes| changes.iter().map(to_value).collect::<Vec<_>>()).into()
}

fn accept(hub: &Hub, status: &[ServerStatus], tools: &[String]) -> Result<(), CommandError> {
    let is_selected = |tool: &str| tools.is_empty() || tools.iter().any(|selected| selected == tool);
    let had_problem = hub.pins_problem().is_some();
    let is_unknown = |tool: &&String| !had_problem && !changes(status).any(|(_, drift)| drift.tool == **tool);
    if let Some(unknown) = tools.iter().find(is_unknown) {
        return Err(CommandError::usage(format!("tool `{}` has no changed definition", sanitize(unknown)))
            .with_hint("`toolwire pins list` lists the changed tools"));
    }
    hub.accept_changes(|_, tool| is_selected(tool)).map_err(accept_error)?;
    let mut text = String::new();
    for (server, drift) in changes(status).filter(|(_, drift)| is_selected(&drift.tool)) {
        let _ = writeln!(text, "accepted `{}` of server `{}`", sanitize(&drift.tool), sanitize(&server.name));
    }
    if text.is_empty() {
        text = match had_problem {
            true => "pinned the current definition of every tool\n".to_owned(),
            false => "no tool definition changed\n".to_owned(),
        };
    }
    output::print_styled(&text)
}

pub(crate) fn accept_error(error: std::io::Error) -> CommandError {
    let message = format!("cannot accept the changes: {}", describe_io_error(&error));
    match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            CommandError::usage(message).with_hint("accept all tools with `toolwire pins accept`")
        }
        _ => CommandError::work(message),
    }
}

/// Returns the tools that the user should review.
pub(crate) fn changes(status: &[ServerStatus]) -> impl Iterator<Item = (&ServerStatus, &Drift)> {
    let needs_review = |drift: &&Drift| matches!(drift.kind, DriftKind::Changed(_) | DriftKind::Unknown);
    status
        .iter()
        .flat_map(move |server| server.drifts.iter().filter(needs_review).map(move |drift| (server, drift)))
}

/// Returns a changed tool as JSON, without its server.
pub(crate) fn to_value(drift: &Drift) -> Value {
    let parts = match &drift.kind {
        DriftKind::Changed(parts) => parts.iter().map(|part| part.key()).collect(),
        _ => Value::Null,
    };
    json!({"tool": drift.tool, "changed": parts, "blocked": drift.is_blocked})
}

pub(crate) const REVIEW_HINT: &str =
    "review it with `toolwire pins list`, then accept it with `toolwire pins accept`";

/// Prints each changed tool to standard error, and whether the pins can be read.
pub(crate) fn print_changes(hub: &Hub, status: &[ServerStatus]) {
    print_pins_problem(hub);
    let mut has_changes = false;
    for (server, drift) in changes(status) {
        // Without pins, every tool would be listed.
        if drift.kind != DriftKind::Unknown {
            has_changes = true;
            tools::print_warning(server, &drift.to_string());
        }
    }
    if has_changes {
        print_stderr(&format!("{HINT}hint:{HINT:#} {REVIEW_HINT}\n"));
    }
}

fn print_pins_problem(hub: &Hub) {
    if let Some((problem, hint)) = pins_problem(hub) {
        print_stderr(&format!("{NOTE}warning:{NOTE:#} {problem}\n{HINT}hint:{HINT:#} {hint}\n"));
    }
}

/// Returns the reason why changed definitions are not detected, and a hint.
pub(crate) fn pins_problem(hub: &Hub) -> Option<(String, &'static str)> {
    let problem = sanitize(&hub.pins_problem()?);
    let effect = match hub.pin_policy() {
        PinPolicy::Block => "all tools are blocked",
        _ => "changed tool definitions are not detected",
    };
    let hint = "review the tools with `toolwire tools --json`, then pin them with `toolwire pins accept`";
    Some((format!("{effect}: {problem}"), hint))
}
