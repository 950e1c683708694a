//! `toolwire convert`: tool definitions in, what belongs into the request's `tools` field out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use toolwire_dialect::{Defaults, Dialect, Layout, Options, Report, Status, convert};

use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::dialect_name;
use crate::output;
use crate::refusals::{self, Severity};
use crate::source::Source;
use crate::terminal_text::sanitize;

/// Convert tool definitions
///
/// Reads one tool, an array of tools, `{"tools":[…]}` or a `tools/list` response, and prints what belongs
/// into the request's `tools` field, in input order. One bare tool in: its one definition out. A tool that
/// cannot be said honestly in the dialect is left out and named on standard error, and the exit code is 1.
#[derive(Args)]
#[command(after_long_help = include_str!("help/convert.txt"))]
pub(crate) struct ConvertArgs {
    /// The tools; `-` or nothing reads standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The dialect to convert to
    #[arg(long, value_name = "D", value_parser = dialect_name::any())]
    to: Dialect,
    /// The dialect the input is in
    #[arg(long, value_name = "D", value_parser = dialect_name::readable(), default_value = "mcp")]
    from: Dialect,
    /// What becomes of `default`
    ///
    /// Not given: kept for dialects whose models profit from it (`anthropic`, `bedrock`, `mcp`), dropped for
    /// the others.
    #[arg(long, value_name = "WAY", value_enum)]
    defaults: Option<WayOfDefaults>,
    /// Keep tools strict by reshaping what a strict dialect cannot say
    ///
    /// Maps become lists of key/value entries, free-form values JSON text, and tuples objects; `toolwire
    /// decode --reshape` undoes it. Without it such a tool goes out non-strict, alone, with `strict: false`.
    #[arg(long)]
    reshape: bool,
    /// Write the report to FILE; `-` prints it instead of the definitions
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write JSON without white space
    #[arg(long)]
    compact: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum WayOfDefaults {
    /// Gone, with a line in the report
    Drop,
    /// Said in the description instead
    Describe,
    /// Left where it is, if the dialect takes it at all
    Keep,
}

pub(crate) fn run(args: &ConvertArgs) -> Result<ExitCode, CommandError> {
    let defaults = match args.defaults {
        None => Defaults::PerDialect,
        Some(WayOfDefaults::Drop) => Defaults::Drop,
        Some(WayOfDefaults::Describe) => Defaults::Describe,
        Some(WayOfDefaults::Keep) => Defaults::Keep,
    };
    let layout = if args.compact { Layout::Compact } else { Layout::Indented };
    let options = Options::default().with_defaults(defaults).with_reshape(args.reshape).with_layout(layout);
    let source = Source::new(args.file.as_deref());
    let input = source.read("tools as JSON")?;
    let conversion = convert(&input.text, args.from, args.to, &options)
        .map_err(|error| input.fault(&error, &forms_of(args.from)))?;

    let definitions = conversion.definitions.map(|mut definitions| {
        definitions.push('\n');
        definitions
    });
    match args.report.as_deref() {
        Some(path) if path == Path::new("-") => output::print(&json(&conversion.reports, args.compact))?,
        Some(path) => {
            // The file first: when it cannot be written, nothing else has been.
            output::write_file(path, &json(&conversion.reports, args.compact))?;
            output::print(definitions.as_deref().unwrap_or_default())?;
        }
        None => {
            output::print(definitions.as_deref().unwrap_or_default())?;
            tell_of_losses(&conversion.reports);
        }
    }
    tell_of_more_pages(&input.text);
    tell_of_too_many(&conversion.reports, args.to);
    Ok(verdict(&conversion.reports, args))
}

/// A page of a longer list looks like a whole one.
fn tell_of_more_pages(text: &str) {
    if !text.contains("\"nextCursor\"") {
        return;
    }
    let cursor = |value: &serde_json::Value| value.get("nextCursor").is_some_and(|cursor| !cursor.is_null());
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    if cursor(&value) || value.get("result").is_some_and(cursor) {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} the list has a `nextCursor`: these are not all of the server's tools\n"
        ));
    }
}

/// One tool too many, and the API refuses all of them.
fn tell_of_too_many(reports: &[Report], to: Dialect) {
    let count = reports.iter().filter(|report| report.status != Status::Refused).count();
    if let Some(most) = to.max_tools().filter(|most| count > *most) {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} {count} tools, but one request to `{to}` accepts {most}; select the ones to send\n"
        ));
    }
}

/// What the input may look like, as a hint.
pub(crate) fn forms_of(from: Dialect) -> String {
    match from {
        Dialect::Mcp => {
            "pass one tool, an array of tools, {\"tools\":[…]} or a tools/list response; `--from` reads other dialects"
                .to_owned()
        }
        other => format!("pass one `{other}` definition, an array of them, or {{\"tools\":[…]}}"),
    }
}

/// JSON text of `value`, ending with a newline.
pub(crate) fn json(value: &(impl Serialize + ?Sized), compact: bool) -> String {
    let text = if compact { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) };
    let mut text = text.expect("a report has no map with keys that are not text");
    text.push('\n');
    text
}

/// A person who sees only definitions would not learn that some say less than their tools. Scripts ask for
/// the report.
fn tell_of_losses(reports: &[Report]) {
    use std::io::IsTerminal;

    let lossy: Vec<&Report> = reports.iter().filter(|report| report.status == Status::Lossy).collect();
    let Some(first) = lossy.first() else { return };
    if std::io::stderr().is_terminal() {
        let and_others = match lossy.len() {
            1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} `{}`{and_others} is lossy in `{}`; `--report -` lists each place\n",
            sanitize(&first.tool),
            first.dialect
        ));
    }
}

fn verdict(reports: &[Report], args: &ConvertArgs) -> ExitCode {
    let file = args.file.as_deref().filter(|path| *path != Path::new("-") && args.from == Dialect::Mcp);
    let hint = match file {
        Some(path) => {
            format!("`toolwire check {}` shows which dialects accept it", sanitize(&path.to_string_lossy()))
        }
        None => "`--report -` prints the reasons as JSON; the other tools were converted".to_owned(),
    };
    match refusals::print(reports, Severity::Error, &hint) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
