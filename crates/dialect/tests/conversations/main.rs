//! Whole requests and answers in every dialect: the cases are data, in the files beside this one.
//!
//! `TOOLWIRE_BLESS=1` writes the expectations anew; the difference is then for a person to read.
#![allow(clippy::unwrap_used)]

mod answers;
mod explain;
mod hostile;
mod moving;
mod requests;
mod rules;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolwire_contract::{ModelResponse, StopReason, Tool};
use toolwire_dialect::{AnswerError, Dialect, Options, Toolset};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conversations")
}

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Compares with a file of expectations, or writes it.
#[track_caller]
fn check_file(path: &str, actual: &Value) {
    if std::env::var_os("TOOLWIRE_BLESS").is_some() {
        std::fs::create_dir_all(folder().join(path).parent().unwrap()).unwrap();
        std::fs::write(folder().join(path), serde_json::to_string_pretty(actual).unwrap() + "\n").unwrap();
        return;
    }
    let expected = read(path);
    for (key, value) in actual.as_object().unwrap() {
        assert_eq!(value, &expected[key], "`{key}` in {path}");
    }
    assert_eq!(actual.as_object().unwrap().len(), expected.as_object().unwrap().len(), "{path}");
}

/// A plain tool, and one whose name and one of whose keys most APIs refuse.
fn tools() -> Vec<Tool> {
    let tools = json!([
        {"name": "get_weather", "description": "The weather of a city.", "inputSchema": {"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}},
        {"name": "db.query", "description": "Rows.", "inputSchema": {"type": "object", "properties": {
            "$filter": {"type": "string"}, "limit": {"type": "integer"}}}},
    ]);
    tools.as_array().unwrap().iter().map(|tool| Tool::try_from(tool.clone()).unwrap()).collect()
}

fn toolset(dialect: Dialect) -> Toolset {
    Toolset::new(&tools(), dialect, &Options::default())
}

/// `$QUERY` stands for what the dialect calls the tool `db.query`.
fn filled(template: &Value, tools: &Toolset) -> Value {
    match template {
        Value::String(text) if text == "$QUERY" => json!(tools.wire_name("db.query").unwrap()),
        Value::Array(items) => items.iter().map(|item| filled(item, tools)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), filled(value, tools))).collect::<Value>()
        }
        other => other.clone(),
    }
}

fn answer_json(answer: &ModelResponse) -> Value {
    let stop = match &answer.stop {
        StopReason::Other(word) => json!({"other": word}),
        stop => serde_json::to_value(stop).unwrap(),
    };
    json!({
        "message": answer.message,
        "stop": stop,
        "usage": answer.usage,
        "unusable": answer.unusable,
    })
}

fn outcome(answer: &Result<ModelResponse, AnswerError>) -> Value {
    match answer {
        Ok(answer) => answer_json(answer),
        Err(AnswerError::Provider { message, .. }) => json!({"provider": message}),
        Err(AnswerError::Cut { answer }) => json!({"cut": answer_json(answer)}),
        Err(AnswerError::Failed { reason, message }) => json!({"failed": reason, "message": message}),
        Err(error @ AnswerError::Malformed { .. }) => json!({"malformed": error.to_string()}),
    }
}
