//! What the benches work on: real tools, schemas of any size, and a call as models make them.

#![allow(dead_code, unreachable_pub, reason = "each bench uses its own part")]

#[path = "../../tests/laws/support/corpus.rs"]
mod corpus;
pub mod sized;

use serde_json::json;
use toolwire_dialect::{Dialect, Options, convert};

/// Real tools as their servers send them: one `tools/list` result a server.
pub struct Material {
    pub name: &'static str,
    pub texts: Vec<String>,
    pub tools: usize,
    pub bytes: usize,
}

/// The captured tools where they are at hand, else the committed shapes.
pub fn tools() -> Material {
    let (name, servers) = corpus::real();
    let tools = servers.iter().map(|server| server.tools.len()).sum();
    let texts: Vec<String> =
        servers.into_iter().map(|server| json!({"tools": server.tools}).to_string()).collect();
    let bytes = texts.iter().map(String::len).sum();
    Material { name, texts, tools, bytes }
}

/// What everything is measured against: a plain `serde_json` parse and serialise. Answers the bytes written.
pub fn round_trip(text: &str) -> usize {
    let value: serde_json::Value = serde_json::from_str(text).expect("the material is JSON");
    serde_json::to_string(&value).expect("a value has text keys only").len()
}

/// JSON text in, definitions and report out. Answers the bytes written.
pub fn conversion(text: &str, dialect: Dialect, options: &Options) -> usize {
    let conversion = convert(text, Dialect::Mcp, dialect, options).expect("the material is a list of tools");
    conversion.definitions.map_or(0, |definitions| definitions.len())
}

/// A tool of the usual size, and a call of it with some optional arguments left out.
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

/// The call as JSON text, as models send it, in the words of a dialect that leaves optional arguments out.
pub const TYPICAL_CALL: &str = r#"{"owner":"rust-lang","repository":"rust","query":"stack overflow in parser","state":"open","labels":["C-bug","P-high"],"sort":{"by":"updated","descending":false},"page":2}"#;

/// The same call where every argument must be there and `null` stands for left out.
pub const TYPICAL_STRICT_CALL: &str = r#"{"owner":"rust-lang","repository":"rust","query":"stack overflow in parser","state":"open","labels":["C-bug","P-high"],"sort":{"by":"updated","descending":false},"since":null,"page":2,"per_page":null}"#;

/// The call as a model of `dialect` makes it.
pub fn typical_call(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiStrict | Dialect::ResponsesStrict => TYPICAL_STRICT_CALL,
        _ => TYPICAL_CALL,
    }
}
