//! Captured tools, if available, and questions for them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test and benchmark uses a part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::Tool;

/// Returns the first `count` captured tools, with the servers in the order 1, 6, 11, …, 2, 7, 12, ….
/// Returns `None` if the corpus is missing.
pub fn tools(count: usize) -> Option<Arc<[Tool]>> {
    let configured = std::env::var_os("TOOLWIRE_CORPUS").map(PathBuf::from);
    let folder =
        configured.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"));
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let interleaved = (0..5).flat_map(|first| paths.iter().skip(first).step_by(5));
    let tools = interleaved.flat_map(|path| {
        let text = fs::read_to_string(path).expect("a readable file");
        let mut captured: Value = serde_json::from_str(&text).expect("valid JSON");
        let tools: Vec<Tool> = serde_json::from_value(captured["tools"].take()).expect("a list of tools");
        tools
    });
    Some(tools.take(count).collect())
}

/// Returns 1,500 tools without descriptions, as a substitute for captured tools.
pub fn plain_tools() -> Arc<[Tool]> {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}});
    (0..1_500).map(|number| Tool::new(format!("tool_{number}_does_work"), schema.clone())).collect()
}

/// Questions, each with the names of suitable tools.
pub type Questions = Vec<(&'static str, Vec<&'static str>)>;

pub fn questions() -> Questions {
    parse(include_str!("../questions.tsv"))
}

/// Returns fifty more questions, written after the search was tuned.
pub fn later_questions() -> Questions {
    parse(include_str!("../later_questions.tsv"))
}

fn parse(text: &'static str) -> Questions {
    text.lines()
        .map(|line| {
            let (question, tools) = line.split_once('\t').expect("a question and its tools");
            (question, tools.split(',').collect())
        })
        .collect()
}
