//! `toolwire decode` and `toolwire encode`: convert calls, one per line.
//!
//! A line that cannot be converted produces an error, so that line N of the output always belongs to line N
//! of the input, and a program that waits for a line always gets one.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::error::Category;
use serde_json::{Map, Value};
use toolwire_dialect::arguments::{ArgumentError, Repair, Violation};
use toolwire_dialect::{Dialect, Options, Toolset};

use crate::command_error::CommandError;
use crate::convert::accepted_forms;
use crate::dialect_name;
use crate::output;
use crate::refusals::{self, Severity};
use crate::source::{Source, describe_io_error, print_input_prompt};

#[derive(Args)]
pub(crate) struct CodecArgs {
    /// The dialect of the model
    #[arg(long, value_name = "D", value_parser = dialect_name::any())]
    dialect: Dialect,
    /// The MCP tools that were converted
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,
    /// The tools were converted with `--reshape`
    #[arg(long)]
    reshape: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From the model to MCP.
    Decode,
    /// From MCP to the model.
    Encode,
}

pub(crate) fn run(direction: Direction, args: &CodecArgs) -> Result<ExitCode, CommandError> {
    if args.tools == Path::new("-") {
        return Err(CommandError::usage("`--tools` cannot be standard input, which is used for the calls")
            .with_hint("pass the tools as a file"));
    }
    let tools = Source::new(Some(&args.tools)).read("tools as JSON")?;
    let options = Options::default().with_reshape(args.reshape);
    let toolset = Toolset::from_json(&tools.text, args.dialect, &options)
        .map_err(|error| tools.parse_error(&error, &accepted_forms(Dialect::Mcp)))?;
    refusals::print(toolset.reports(), Severity::Warning, |them| format!("calls to {them} return an error"));

    print_input_prompt("calls, one {\"name\":…,\"arguments\":…} per line,");
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = input.read_until(b'\n', &mut line).map_err(|error| {
            CommandError::work(format!("cannot read standard input: {}", describe_io_error(&error)))
        })?;
        if count == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let converted = match convert_line(&toolset, direction, &line) {
            Ok(call) => output::to_json(&call, true),
            Err(error) => output::to_json(&ErrorLine { error }, true),
        };
        // The program at the other end may wait for this line before it sends the next.
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(converted.as_bytes()).and_then(|()| stdout.flush()) {
            return output::ignore_broken_pipe(error).map(|()| ExitCode::SUCCESS);
        }
    }
}

#[derive(Serialize)]
struct ConvertedCall {
    name: String,
    arguments: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<Repair>,
}

#[derive(Serialize)]
struct ErrorLine {
    error: LineError,
}

#[derive(Serialize)]
struct LineError {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Violation>,
}

fn convert_line(toolset: &Toolset, direction: Direction, line: &[u8]) -> Result<ConvertedCall, LineError> {
    let (name, arguments) =
        parse(line).map_err(|message| LineError { code: "bad_line", message, violations: Vec::new() })?;
    Ok(match direction {
        Direction::Decode => {
            let call = toolset.decode(&name, &arguments)?;
            ConvertedCall { name: call.name, arguments: call.arguments, repairs: call.repairs }
        }
        Direction::Encode => {
            let call = toolset.encode(&name, &arguments)?;
            ConvertedCall { name: call.name, arguments: call.arguments, repairs: Vec::new() }
        }
    })
}

/// Returns the name and the arguments of a line. Missing arguments are `null`; the tool's schema decides
/// whether they are required.
fn parse(line: &[u8]) -> Result<(String, Value), String> {
    const EXPECTED: &str = r#"expected {"name":…,"arguments":…}"#;

    if line.trim_ascii().is_empty() {
        return Err(format!("the line is empty; {EXPECTED}"));
    }
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    // Without the line break, after which columns would be counted from 0 again.
    let value: Value = serde_json::from_str(text.trim_end()).map_err(|error| {
        // The error's own message would name line 1 of this text, whichever line of the input it is.
        let problem = match error.classify() {
            Category::Eof => "unexpected end",
            _ => "syntax error",
        };
        format!("the line is not JSON: {problem} at column {}", error.column())
    })?;
    let Value::Object(mut call) = value else {
        return Err(format!("the line is not an object; {EXPECTED}"));
    };
    match (call.remove("name"), call.remove("arguments")) {
        (Some(Value::String(name)), arguments) => Ok((name, arguments.unwrap_or_default())),
        (Some(_), _) => Err("`name` is not a string".to_owned()),
        (None, _) => Err(format!("`name` is missing; {EXPECTED}")),
    }
}

impl From<ArgumentError> for LineError {
    /// The message is complete, for models; the code and the violations are for programs.
    fn from(error: ArgumentError) -> Self {
        let code = error.code();
        let message = error.to_string();
        let violations = match error {
            ArgumentError::Invalid { violations, .. } => violations,
            _ => Vec::new(),
        };
        Self { code, message, violations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(line: &str, expected: Result<(&str, Value), &str>) {
        let expected = expected.map(|(name, value)| (name.to_owned(), value)).map_err(str::to_owned);
        assert_eq!(parse(line.as_bytes()), expected);
    }

    #[test]
    fn arguments_are_an_object_or_a_string_or_missing() {
        check(r#"{"name":"a","arguments":{"x":1}}"#, Ok(("a", json!({"x": 1}))));
        check(r#"{"arguments":"{}","name":"a"}"#, Ok(("a", json!("{}"))));
        check(r#"{"name":"a"}"#, Ok(("a", Value::Null)));
    }

    #[test]
    fn invalid_lines_are_rejected_with_a_reason() {
        check("\r\n", Err(r#"the line is empty; expected {"name":…,"arguments":…}"#));
        check("[1]", Err(r#"the line is not an object; expected {"name":…,"arguments":…}"#));
        check(r#"{"name":7}"#, Err("`name` is not a string"));
        check(r#"{"arguments":{}}"#, Err(r#"`name` is missing; expected {"name":…,"arguments":…}"#));
        check(r#"{"name":"a""#, Err("the line is not JSON: unexpected end at column 11"));
        check("{\"name\":\"a\"\r\n", Err("the line is not JSON: unexpected end at column 11"));
        check(r#"{"name":a}"#, Err("the line is not JSON: syntax error at column 9"));
    }

    #[test]
    fn the_digits_of_numbers_are_preserved() {
        let (_, arguments) =
            parse(br#"{"name":"a","arguments":{"n":12345678901234567890.10}}"#).expect("valid line");
        assert_eq!(arguments.to_string(), r#"{"n":12345678901234567890.10}"#);
    }

    #[test]
    fn every_violation_is_in_the_message() {
        let schema = json!({"properties": {"limit": {"type": "integer"}}, "required": ["query"]});
        let tools = json!({"name": "search", "inputSchema": schema}).to_string();
        let toolset = Toolset::from_json(&tools, Dialect::OpenAi, &Options::default()).expect("valid tool");
        let error = toolset.decode("search", &json!({"limit": "many"})).expect_err("invalid arguments");
        assert_eq!(
            LineError::from(error).message,
            "invalid arguments for `search`: at /limit: \"many\" is not an integer; \
             missing required property \"query\""
        );
    }
}
