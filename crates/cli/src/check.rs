//! `toolwire check`: which tools survive which dialects, and what it costs them.

mod reasons;
mod summary;
mod survey;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use toolwire_contract::Toolbox;
use toolwire_dialect::{Dialect, Options, Status};

use crate::command_error::CommandError;
use crate::convert::{forms_of, json};
use crate::dialect_name;
use crate::output;
use crate::servers;
use crate::source::Source;
use crate::tools;
use survey::Survey;

/// Show which tools survive which dialects
///
/// A table of tools and dialects, and below it the reasons: each place that is said in other words, loses
/// something, or cannot be said at all. The exit code is 1 when a tool is refused in a dialect that was asked
/// for.
#[derive(Args)]
#[command(after_long_help = include_str!("help/check.txt"))]
pub(crate) struct CheckArgs {
    /// The tools; `-` reads standard input; nothing asks the configured servers
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The dialects to check, separated by commas; all but `mcp` when left out
    #[arg(long = "for", value_name = "D,…", value_delimiter = ',', value_parser = dialect_name::any())]
    dialects: Vec<Dialect>,
    /// Check strict dialects as `convert --reshape` would say the tools
    #[arg(long)]
    reshape: bool,
    /// Print the reports as one JSON array: for each tool, its report in each dialect
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let options = Options::default().with_reshape(args.reshape);
    let dialects = asked_for(&args.dialects);
    let survey = match args.file.as_deref() {
        Some(file) => {
            let input = Source::new(Some(file)).read("tools as JSON")?;
            Survey::new(&input.text, dialects, &options)
                .map_err(|error| input.fault(&error, &forms_of(Dialect::Mcp)))?
        }
        None => {
            let tools = of_servers(config)?;
            Survey::new(&tools, dialects, &options).map_err(|error| {
                CommandError::work(format!("the tools of the servers cannot be parsed: {error}"))
            })?
        }
    };
    if args.json {
        output::print(&json(&survey.by_tool().flatten().collect::<Vec<_>>(), false))?;
    } else {
        output::print_styled(&page(&survey, columns()))?;
    }
    Ok(if survey.count(Status::Refused) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The dialects in the order they were asked for, each once; without a wish, all that change something.
fn asked_for(dialects: &[Dialect]) -> Vec<Dialect> {
    let mut asked = Vec::new();
    for dialect in dialects {
        if !asked.contains(dialect) {
            asked.push(*dialect);
        }
    }
    if asked.is_empty() {
        asked.extend(Dialect::all().filter(|dialect| *dialect != Dialect::Mcp));
    }
    asked
}

/// Everything a person sees, for a terminal of this many columns.
fn page(survey: &Survey, columns: usize) -> String {
    if survey.tools() == 0 {
        return "no tools\n".to_owned();
    }
    let mut text = table::render(survey, columns);
    // A few rows are counted at a glance.
    if survey.tools() > 4 {
        text.push_str(&summary::render(survey, columns));
    }
    text.push_str(&reasons::render(survey, columns));
    text
}

/// How wide the page may be.
pub(crate) fn columns() -> usize {
    const WITHOUT_A_TERMINAL: usize = 100;

    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0)))
        .filter(|columns| *columns > 0)
        .unwrap_or(WITHOUT_A_TERMINAL)
        .max(20)
}

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

const STATUSES: [Status; 4] = [Status::Exact, Status::Rewritten, Status::Lossy, Status::Refused];

/// A sign that tells the statuses apart without colour too.
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

/// The tools of the configured servers, as a list.
fn of_servers(config: Option<&Path>) -> Result<String, CommandError> {
    let found = servers::find(config)?;
    found.with_hub(async |hub| {
        servers::settled(hub).await;
        tools::tell_of_failed(&hub.status());
        let tools: Vec<serde_json::Value> =
            hub.tools().iter().cloned().map(serde_json::Value::from).collect();
        Ok(serde_json::Value::Array(tools).to_string())
    })
}
