//! `toolwire convert`: converts tool definitions to the `tools` field of a request.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;
use toolwire_dialect::{Defaults, Dialect, Layout, Options, Report, Status, convert};

use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::dialect_name;
use crate::output::{self, to_json};
use crate::refusals::{self, Severity};
use crate::source::Source;
use crate::terminal_text::sanitize;

/// Convert tool definitions
///
/// Reads one tool, an array of tools, `{"tools":[…]}` or a `tools/list` response, and prints the `tools`
/// field of a request, in input order; for one tool, its definition. A tool that cannot be expressed without
/// changing its meaning is left out and reported on stderr, and the exit code is 1.
#[derive(Args)]
#[command(after_long_help = include_str!("help/convert.txt"))]
pub(crate) struct ConvertArgs {
    /// The file with the tools; standard input if it is `-` or omitted
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The dialect to convert to
    #[arg(long, value_name = "D", value_parser = dialect_name::any())]
    to: Dialect,
    /// The dialect of the input
    #[arg(long, value_name = "D", value_parser = dialect_name::readable(), default_value = "mcp")]
    from: Dialect,
    /// Drop, describe or keep the keyword `default`
    ///
    /// By default, it is kept for dialects whose models benefit from it (`anthropic`, `bedrock`, `mcp`), and
    /// dropped for the others.
    #[arg(long, value_name = "MODE", value_enum)]
    defaults: Option<DefaultsMode>,
    /// Keep tools strict by reshaping what a strict dialect does not support
    ///
    /// Maps become lists of key/value entries, free-form values become JSON text, and tuples become objects;
    /// `toolwire decode --reshape` reverses this. Without this option such a tool gets `strict: false`.
    #[arg(long)]
    reshape: bool,
    /// Write the report to FILE; `-` prints it instead of the definitions
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON without whitespace
    #[arg(long)]
    compact: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum DefaultsMode {
    /// Remove it, and list it in the report
    Drop,
    /// Move it to the description
    Describe,
    /// Keep it if the dialect accepts it
    Keep,
}

/// Returns the handling of `default` that the command line chooses.
pub(crate) fn defaults(mode: Option<DefaultsMode>) -> Defaults {
    match mode {
        None => Defaults::PerDialect,
        Some(DefaultsMode::Drop) => Defaults::Drop,
        Some(DefaultsMode::Describe) => Defaults::Describe,
        Some(DefaultsMode::Keep) => Defaults::Keep,
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<ExitCode, CommandError> {
    let defaults = defaults(args.defaults);
    let layout = if args.compact { Layout::Compact } else { Layout::Indented };
    let options = Options::default().with_defaults(defaults).with_reshape(args.reshape).with_layout(layout);
    let source = Source::new(args.file.as_deref());
    let input = source.read("tools as JSON")?;
    let conversion = convert(&input.text, args.from, args.to, &options)
        .map_err(|error| input.parse_error(&error, &accepted_forms(args.from)))?;

    let definitions = conversion.definitions.map(|mut definitions| {
        definitions.push('\n');
        definitions
    });
    match args.report.as_deref() {
        Some(path) if path == Path::new("-") => output::print(&to_json(&conversion.reports, args.compact))?,
        Some(path) => {
            // If the file cannot be written, nothing is printed.
            output::write_file(path, &to_json(&conversion.reports, args.compact))?;
            output::print(definitions.as_deref().unwrap_or_default())?;
        }
        None => {
            output::print(definitions.as_deref().unwrap_or_default())?;
            note_lossy_tools(&conversion.reports);
        }
    }
    warn_about_more_pages(&input.text);
    warn_about_tool_limit(&conversion.reports, args.to);
    Ok(print_refusals(&conversion.reports, args))
}

/// Warns if the input is only one page of a longer list.
fn warn_about_more_pages(text: &str) {
    // Most inputs have no cursor and need not be parsed again.
    if !text.contains("\"nextCursor\"") {
        return;
    }
    let has_cursor = |value: &Value| value.get("nextCursor").is_some_and(|cursor| !cursor.is_null());
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    if has_cursor(&value) || value.get("result").is_some_and(has_cursor) {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} the list has a `nextCursor`: these are not all of the server's tools\n"
        ));
    }
}

/// Warns if a request with these tools would be rejected, because there are too many.
fn warn_about_tool_limit(reports: &[Report], to: Dialect) {
    let count = reports.iter().filter(|report| report.status != Status::Refused).count();
    if let Some(max) = to.max_tools().filter(|max| count > *max) {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} {count} tools, but one request to `{to}` accepts {max}; \
             select the ones to send\n"
        ));
    }
}

/// Describes the accepted forms of the input, as a hint.
pub(crate) fn accepted_forms(from: Dialect) -> String {
    match from {
        Dialect::Mcp => "pass one tool, an array of tools, {\"tools\":[…]} or a tools/list response; \
             `--from` reads other dialects"
            .to_owned(),
        other => format!("pass one `{other}` definition, an array of them, or {{\"tools\":[…]}}"),
    }
}

/// Prints on a terminal that tools are lossy, which the definitions do not show. Scripts use the report.
fn note_lossy_tools(reports: &[Report]) {
    let mut lossy = reports.iter().filter(|report| report.status == Status::Lossy);
    let Some(first) = lossy.next() else { return };
    if io::stderr().is_terminal() {
        let predicate = match lossy.count() {
            0 => "is".to_owned(),
            more => format!("and {more} more are"),
        };
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} `{}` {predicate} lossy in `{}`; `--report -` lists the changes\n",
            sanitize(&first.tool),
            first.dialect
        ));
    }
}

/// Prints the refused tools and returns the exit code.
fn print_refusals(reports: &[Report], args: &ConvertArgs) -> ExitCode {
    let file = args.file.as_deref().filter(|path| *path != Path::new("-") && args.from == Dialect::Mcp);
    // No dialect accepts an entry that is not a tool.
    let is_tool = |report: &Report| report.reason.as_ref().is_none_or(|reason| reason.code != "not_a_tool");
    let file =
        file.filter(|_| reports.iter().any(|report| report.status == Status::Refused && is_tool(report)));
    let hint = |them: &str| match file {
        Some(path) => {
            format!(
                "`toolwire check {}` shows which dialects accept {them}",
                sanitize(&path.to_string_lossy())
            )
        }
        None if reports.iter().all(|report| report.status == Status::Refused) => {
            "`--report -` prints the reasons as JSON".to_owned()
        }
        None => "`--report -` prints the reasons as JSON; the other tools were converted".to_owned(),
    };
    match refusals::print(reports, Severity::Error, hint) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
