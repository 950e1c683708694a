//! The inputs of the benchmarks: real tools, schemas of any size, and a typical call.

#![allow(dead_code, unreachable_pub, reason = "each benchmark uses a part of it")]

#[path = "../../tests/laws/support/corpus.rs"]
mod corpus;
pub mod sized;

use serde_json::json;
use toolwire_dialect::{Dialect, Options, convert};

/// Real tools as their servers send them: one `tools/list` result per server.
pub struct CorpusTexts {
    pub name: &'static str,
    pub texts: Vec<String>,
    pub tools: usize,
    pub bytes: usize,
}

/// Returns the captured tools if they are available, else the committed shapes.
pub fn tools() -> CorpusTexts {
    let (name, servers) = corpus::real_tools();
    let tools = servers.iter().map(|server| server.tools.len()).sum();
    let texts: Vec<String> =
        servers.into_iter().map(|server| json!({"tools": server.tools}).to_string()).collect();
    let bytes = texts.iter().map(String::len).sum();
    CorpusTexts { name, texts, tools, bytes }
}

/// Returns the same tools as values, one list per server.
pub fn servers() -> Vec<Vec<toolwire_contract::Tool>> {
    let parse = |tool| toolwire_contract::Tool::try_from(tool).ok();
    corpus::real_tools()
        .1
        .into_iter()
        .map(|server| server.tools.into_iter().filter_map(parse).collect())
        .collect()
}

/// Parses and serializes `text` with `serde_json`, as the baseline. Returns the number of bytes written.
pub fn round_trip(text: &str) -> usize {
    let value: serde_json::Value = serde_json::from_str(text).expect("valid JSON");
    serde_json::to_string(&value).expect("valid JSON").len()
}

/// Converts JSON text to definitions. Returns the number of bytes written.
pub fn conversion(text: &str, dialect: Dialect, options: &Options) -> usize {
    let conversion = convert(text, Dialect::Mcp, dialect, options).expect("a list of tools");
    conversion.definitions.map_or(0, |definitions| definitions.len())
}

/// A tool of typical size.
pub const TYPICAL_TOOL: &str = r#"{"name":"search_issues","description":"Search the issues of a repository","inputSchema":{
"type":"object","properties":{"owner":{"type":"string","description":"Who owns the repository"},
"repository":{"type":"string","description":"Its name"},"query":{"type":"string","minLength":1,"maxLength":256},
"state":{"type":"string","enum":["open","closed","all"],"default":"open"},
"labels":{"type":"array","items":{"type":"string"},"description":"All of them must be there"},
"sort":{"type":"object","properties":{"by":{"type":"string","enum":["created","updated","comments"]},
"descending":{"type":"boolean","default":true}},"required":["by"],"additionalProperties":false},
"since":{"type":"string","format":"date-time"},"page":{"type":"integer","minimum":1},
"per_page":{"type":"integer","minimum":1,"maximum":100,"default":30}},
"required":["owner","repository","query"],"additionalProperties":false}}"#;

/// A call of the tool as JSON text, with some optional arguments omitted.
pub const TYPICAL_CALL: &str = r#"{"owner":"rust-lang","repository":"rust","query":"stack overflow in parser","state":"open","labels":["C-bug","P-high"],"sort":{"by":"updated","descending":false},"page":2}"#;

/// The same call in a dialect where every argument is required and `null` means omitted.
pub const TYPICAL_STRICT_CALL: &str = r#"{"owner":"rust-lang","repository":"rust","query":"stack overflow in parser","state":"open","labels":["C-bug","P-high"],"sort":{"by":"updated","descending":false},"since":null,"page":2,"per_page":null}"#;

/// Returns the call as a model of `dialect` sends it.
pub fn typical_call(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiStrict | Dialect::ResponsesStrict => TYPICAL_STRICT_CALL,
        _ => TYPICAL_CALL,
    }
}
