//! Complete requests and responses in every dialect. The cases are JSON files in this folder.
//!
//! `TOOLWIRE_BLESS=1` rewrites the expected outcomes; review the diff.
#![allow(clippy::unwrap_used)]

mod explain;
mod hostile;
mod requests;
mod responses;
mod rules;
mod switching;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_contract::model::{ModelResponse, StopReason};
use toolwire_dialect::response::ResponseError;
use toolwire_dialect::{Dialect, Options, Toolset};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conversations")
}

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Compares `actual` with a file of expected outcomes, or writes the file.
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

/// Returns a simple tool, and a tool with a name and a key that most APIs reject.
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

/// Replaces `$QUERY` with the dialect's name for the tool `db.query`.
fn fill_template(template: &Value, tools: &Toolset) -> Value {
    match template {
        Value::String(text) if text == "$QUERY" => json!(tools.wire_name("db.query").unwrap()),
        Value::Array(items) => items.iter().map(|item| fill_template(item, tools)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), fill_template(value, tools))).collect::<Value>()
        }
        other => other.clone(),
    }
}

fn response_json(response: &ModelResponse) -> Value {
    let stop = match &response.stop {
        StopReason::Other(reason) => json!({"other": reason}),
        stop => serde_json::to_value(stop).unwrap(),
    };
    json!({
        "message": response.message,
        "stop": stop,
        "usage": response.usage,
        "unusable": response.unusable,
    })
}

fn outcome(response: &Result<ModelResponse, ResponseError>) -> Value {
    match response {
        Ok(response) => response_json(response),
        Err(ResponseError::Provider { message, .. }) => json!({"provider": message}),
        Err(ResponseError::Incomplete { response }) => json!({"incomplete": response_json(response)}),
        Err(ResponseError::Rejected { reason, message }) => json!({"rejected": reason, "message": message}),
        Err(error) => json!({"malformed": error.to_string()}),
    }
}
