//! `toolwire check`: shows how each tool converts to each dialect.

mod html;
mod losses;
mod reasons;
mod summary;
mod survey;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::Value;
use toolwire_dialect::{Dialect, Options, Status};
use toolwire_hub::ServerStatus;

use crate::command_error::CommandError;
use crate::convert::accepted_forms;
use crate::dialect_name;
use crate::output;
use crate::servers;
use crate::source::Source;
use crate::tools;
use survey::{ServerTools, Survey};

/// Show how tools convert to each dialect
///
/// Prints a table of tools and dialects, and below it the reasons: each place that is rewritten, lossy or
/// refused. For the configured servers, prints a summary by server and the tools that lose something. The
/// exit code is 1 if a tool is refused in one of the dialects, or if a server failed.
#[derive(Args)]
#[command(after_long_help = include_str!("help/check.txt"))]
pub(crate) struct CheckArgs {
    /// The file with the tools; `-` is standard input; default: the tools of the configured servers
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The dialects to check, separated by commas; default: all except `mcp`
    #[arg(long = "for", value_name = "D,…", value_delimiter = ',', value_parser = dialect_name::any())]
    dialects: Vec<Dialect>,
    /// Check strict dialects with the conversion of `convert --reshape`
    #[arg(long)]
    reshape: bool,
    /// Print the table and the reasons of all tools of the configured servers
    #[arg(long)]
    all: bool,
    /// Print the reports as one JSON array: for each tool, its report in each dialect
    #[arg(long)]
    json: bool,
    /// Also write a page with all comparisons to this file, for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &CheckArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let options = Options::default().with_reshape(args.reshape);
    let dialects = selected_dialects(&args.dialects);
    let (survey, tools) = match args.file.as_deref() {
        Some(file) => {
            let input = Source::new(Some(file)).read("tools as JSON")?;
            let survey = Survey::new(&input.text, dialects, &options)
                .map_err(|error| input.parse_error(&error, &accepted_forms(Dialect::Mcp)))?;
            (survey, input.text)
        }
        None => {
            let (servers, tools) = server_tools(config)?;
            let survey = Survey::new(&tools, dialects, &options).map_err(|error| {
                CommandError::work(format!("the tools of the servers cannot be parsed: {error}"))
            })?;
            (survey.with_servers(servers), tools)
        }
    };
    if let Some(file) = &args.html {
        html::write(file, &survey, &tools, &options)?;
    }
    if args.json {
        output::print(&output::to_json(&survey.to_json(), false))?;
    } else {
        output::print_styled(&page(&survey, args.all, terminal_columns()))?;
    }
    let has_failed_server = survey.servers.iter().any(|server| server.error.is_some());
    Ok(if has_failed_server || survey.count(Status::Refused) > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the given dialects without duplicates, or all except `mcp` if none is given.
fn selected_dialects(dialects: &[Dialect]) -> Vec<Dialect> {
    let mut selected = Vec::new();
    for dialect in dialects {
        if !selected.contains(dialect) {
            selected.push(*dialect);
        }
    }
    if selected.is_empty() {
        selected.extend(Dialect::all().filter(|dialect| *dialect != Dialect::Mcp));
    }
    selected
}

/// Returns the configured servers, and all their tools in the same order, as a JSON array.
fn server_tools(config: Option<&Path>) -> Result<(Vec<ServerTools>, String), CommandError> {
    servers::load_config(config)?.with_hub(async |hub| {
        servers::wait_until_settled(hub).await;
        tools::print_problems(hub);
        let mut servers = Vec::new();
        let mut all: Vec<Value> = Vec::new();
        for status in hub.status() {
            let tools = hub.tools_of(&status.name).unwrap_or_default();
            let error = servers::unavailable_reason(&status);
            let ServerStatus { name: server, quarantined, .. } = status;
            servers.push(ServerTools { server, count: tools.len(), quarantined, error });
            all.extend(tools.into_iter().map(Value::from));
        }
        Ok((servers, Value::Array(all).to_string()))
    })
}

/// Returns the output for people, for a terminal of this many columns. `all` lists all tools of servers.
fn page(survey: &Survey, all: bool, columns: usize) -> String {
    if survey.tool_count() == 0 && survey.servers.iter().all(|server| server.error.is_none()) {
        return "no tools\n".to_owned();
    }
    let mut text = table::headline(survey, columns);
    if !survey.servers.is_empty() {
        text.push_str(&summary::render_servers(survey, columns));
        if !all {
            text.push_str(&losses::render(survey, columns));
            return text;
        }
    }
    text.push('\n');
    text.push_str(&table::render(survey, columns));
    // The summary is not needed for a few rows.
    if survey.tool_count() > 4 {
        text.push_str(&summary::render_dialects(survey, columns));
    }
    text.push_str(&reasons::render(survey, columns));
    text
}

/// Returns the width of the output: `COLUMNS`, the width of the terminal, or 100.
pub(crate) fn terminal_columns() -> usize {
    const DEFAULT_COLUMNS: usize = 100;
    const MIN_COLUMNS: usize = 20;

    let from_env = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    from_env
        .or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0)))
        .filter(|columns| *columns > 0)
        .unwrap_or(DEFAULT_COLUMNS)
        .max(MIN_COLUMNS)
}

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

const STATUSES: [Status; 4] = [Status::Exact, Status::Rewritten, Status::Lossy, Status::Refused];

/// Returns a symbol, so that statuses can be distinguished without colours.
const fn symbol(status: Status) -> &'static str {
    match status {
        Status::Exact => "✓",
        Status::Rewritten => "~",
        Status::Lossy => "!",
        Status::Refused => "✗",
    }
}

const fn style(status: Status) -> Style {
    match status {
        Status::Exact => AnsiColor::Green.on_default(),
        Status::Rewritten => AnsiColor::Cyan.on_default(),
        Status::Lossy => AnsiColor::Yellow.on_default().bold(),
        Status::Refused => AnsiColor::Red.on_default().bold(),
    }
}

#[cfg(test)]
mod tests;
