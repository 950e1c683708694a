//! Tools bound to a dialect: their definitions, and the way back for arguments.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Dialect, Options, Report};

/// Tool definitions as text for a request, with the report.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// JSON text: what belongs into the request's `tools` field, or the one definition when one bare tool came in.
    /// `None` when one bare tool came in and was refused.
    pub definitions: Option<String>,
    pub reports: Vec<Report>,
}

/// The input is not JSON, or not a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct ReadError {
    pub message: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// Converts JSON text in `from`'s form (one tool, an array, `{"tools":[…]}` or a `tools/list` response) to `to`.
pub fn convert(text: &str, from: Dialect, to: Dialect, options: &Options) -> Result<Conversion, ReadError> {
    let _ = (text, from, to, options);
    unimplemented!()
}

/// Tools bound to a dialect: their definitions, and the way back for arguments.
#[derive(Debug)]
pub struct Toolset {}

/// A model's arguments, as MCP's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    /// The tool's own name.
    pub name: String,
    pub arguments: Map<String, Value>,
    /// What was mended on the way, if anything.
    pub repairs: Vec<Repair>,
}

/// MCP arguments, as a model of the dialect would have written them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Encoded {
    /// The name the model sees.
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// One mended place in a model's arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// RFC 6901 pointer into the arguments.
    pub pointer: String,
    /// What was done, in words.
    pub detail: String,
}

/// One way in which arguments do not fit a tool's schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// RFC 6901 pointer into the arguments.
    pub pointer: String,
    pub expected: String,
    pub found: String,
}

/// Arguments that cannot be turned into a call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    #[error("no tool is named `{name}`")]
    UnknownTool { name: String, nearest: Vec<String> },
    #[error("the arguments are not JSON: {message}")]
    NotJson { message: String },
    #[error("the arguments must be an object, not {found}")]
    NotAnObject { found: String },
    #[error("the arguments do not fit the tool `{tool}`")]
    Invalid { tool: String, violations: Vec<Violation>, arguments: Map<String, Value> },
}

impl Toolset {
    /// Reads `text` as [`convert`] does (in MCP's form) and binds the tools to `dialect`.
    pub fn from_json(text: &str, dialect: Dialect, options: &Options) -> Result<Toolset, ReadError> {
        let _ = (text, dialect, options);
        unimplemented!()
    }

    /// One definition per tool that was not refused, in input order.
    pub fn definitions(&self) -> Vec<&Value> {
        unimplemented!()
    }

    /// One report per tool, in input order.
    pub fn reports(&self) -> &[Report] {
        unimplemented!()
    }

    /// Turns the arguments a model sent (an object, or JSON text of one) into the tool's own.
    pub fn decode(&self, name: &str, arguments: &Value) -> Result<Decoded, ArgumentError> {
        let _ = (name, arguments);
        unimplemented!()
    }

    /// Turns a tool's own arguments into what a model of this dialect would have sent.
    pub fn encode(&self, tool: &str, arguments: &Value) -> Result<Encoded, ArgumentError> {
        let _ = (tool, arguments);
        unimplemented!()
    }
}

impl ArgumentError {
    /// A word for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            ArgumentError::UnknownTool { .. } => "unknown_tool",
            ArgumentError::NotJson { .. } => "not_json",
            ArgumentError::NotAnObject { .. } => "not_an_object",
            ArgumentError::Invalid { .. } => "invalid_arguments",
        }
    }
}
