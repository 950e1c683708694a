//! `toolwire decode` and `toolwire encode`: calls in, calls out, one line each.
//!
//! A line that cannot be answered with a call is answered with an error, so that line N of the output always
//! belongs to line N of the input, and a program on the other end of the pipe never waits in vain.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use toolwire_dialect::{ArgumentError, Dialect, Options, Repair, Toolset, Violation};

use crate::command_error::CommandError;
use crate::convert::forms_of;
use crate::dialect_name;
use crate::output;
use crate::refusals::{self, Severity};
use crate::source::{Source, in_words, tell_what_is_awaited};

#[derive(Args)]
pub(crate) struct LinesArgs {
    /// The dialect of the model
    #[arg(long, value_name = "D", value_parser = dialect_name::any())]
    dialect: Dialect,
    /// The tools, in MCP's form, as they were converted
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

pub(crate) fn run(direction: Direction, args: &LinesArgs) -> Result<ExitCode, CommandError> {
    if args.tools == Path::new("-") {
        return Err(CommandError::usage("`--tools` cannot be standard input, which is used for the calls")
            .with_hint("pass the tools as a file"));
    }
    let tools = Source::new(Some(&args.tools)).read("tools as JSON")?;
    let options = Options::default().with_reshape(args.reshape);
    let toolset = Toolset::from_json(&tools.text, args.dialect, &options)
        .map_err(|error| tools.fault(&error, &forms_of(Dialect::Mcp)))?;
    refusals::print(toolset.reports(), Severity::Warning, "calls to it return an error");

    tell_what_is_awaited("calls, one {\"name\":…,\"arguments\":…} a line,");
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = input.read_until(b'\n', &mut line).map_err(|error| {
            CommandError::work(format!("cannot read standard input: {}", in_words(&error)))
        })?;
        if count == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let mut answer = answer(&toolset, direction, &line);
        answer.push('\n');
        // Whoever asked may be waiting for this line before sending the next.
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(answer.as_bytes()).and_then(|()| stdout.flush()) {
            return output::unless_nobody_reads(error).map(|()| ExitCode::SUCCESS);
        }
    }
}

/// A call that was turned.
#[derive(Serialize)]
struct Call {
    name: String,
    arguments: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<Repair>,
}

#[derive(Serialize)]
struct Refusal {
    error: ErrorAnswer,
}

#[derive(Serialize)]
struct ErrorAnswer {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<Violation>,
}

fn answer(toolset: &Toolset, direction: Direction, line: &[u8]) -> String {
    match parse(line) {
        Err(message) => {
            to_json(&Refusal { error: ErrorAnswer { code: "bad_line", message, violations: Vec::new() } })
        }
        Ok((name, arguments)) => {
            let call = match direction {
                Direction::Decode => toolset.decode(&name, &arguments).map(|decoded| Call {
                    name: decoded.name,
                    arguments: decoded.arguments,
                    repairs: decoded.repairs,
                }),
                Direction::Encode => toolset.encode(&name, &arguments).map(|encoded| Call {
                    name: encoded.name,
                    arguments: encoded.arguments,
                    repairs: Vec::new(),
                }),
            };
            match call {
                Ok(call) => to_json(&call),
                Err(error) => to_json(&Refusal { error: ErrorAnswer::of(error) }),
            }
        }
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an answer has no map with keys that are not text")
}

/// A line's name and arguments. Absent arguments are `null`: whether that will do is for the tool to say.
fn parse(line: &[u8]) -> Result<(String, Value), String> {
    const FORM: &str = r#"expected {"name":…,"arguments":…}"#;

    if line.trim_ascii().is_empty() {
        return Err(format!("the line is empty; {FORM}"));
    }
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let column = error.column();
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        format!("the line is not JSON: {message} at column {column}")
    })?;
    let Value::Object(mut call) = value else {
        return Err(format!("the line is not an object; {FORM}"));
    };
    match (call.remove("name"), call.remove("arguments")) {
        (Some(Value::String(name)), arguments) => Ok((name, arguments.unwrap_or_default())),
        (Some(_), _) => Err("`name` is not a string".to_owned()),
        (None, _) => Err(format!("`name` is missing; {FORM}")),
    }
}

impl ErrorAnswer {
    /// What a model can act on: the message alone says everything, the rest is for programs.
    fn of(error: ArgumentError) -> Self {
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
    fn arguments_are_an_object_or_text_or_absent() {
        check(r#"{"name":"a","arguments":{"x":1}}"#, Ok(("a", json!({"x": 1}))));
        check(r#"{"arguments":"{}","name":"a"}"#, Ok(("a", json!("{}"))));
        check(r#"{"name":"a"}"#, Ok(("a", Value::Null)));
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        check("\r\n", Err(r#"the line is empty; expected {"name":…,"arguments":…}"#));
        check("[1]", Err(r#"the line is not an object; expected {"name":…,"arguments":…}"#));
        check(r#"{"name":7}"#, Err("`name` is not a string"));
        check(r#"{"arguments":{}}"#, Err(r#"`name` is missing; expected {"name":…,"arguments":…}"#));
        check(r#"{"name":"a""#, Err("the line is not JSON: EOF while parsing an object at column 11"));
    }

    #[test]
    fn digits_survive_the_line() {
        let (_, arguments) =
            parse(br#"{"name":"a","arguments":{"n":12345678901234567890.10}}"#).expect("a good line");
        assert_eq!(arguments.to_string(), r#"{"n":12345678901234567890.10}"#);
    }

    #[test]
    fn every_violation_is_in_the_message() {
        let schema = json!({"properties": {"limit": {"type": "integer"}}, "required": ["query"]});
        let tools = json!({"name": "search", "inputSchema": schema}).to_string();
        let toolset = Toolset::from_json(&tools, Dialect::OpenAi, &Options::default()).expect("it is a tool");
        let error = toolset.decode("search", &json!({"limit": "many"})).expect_err("it is not valid");
        assert_eq!(
            ErrorAnswer::of(error).message,
            "invalid arguments for `search`: at /limit: \"many\" is not an integer; \
             missing required property \"query\""
        );
    }
}
