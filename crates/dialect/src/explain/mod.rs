//! What a provider's refusal of a request means: which MCP tool, where in its schema, why, and what to do.

use crate::{Dialect, Toolset};

/// A provider's refusal, in words about the MCP tool that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The tool's own name, if the message is about one tool and says which.
    pub tool: Option<String>,
    /// RFC 6901 pointer into the tool's schema as it was sent, if the message names a place.
    pub pointer: Option<String>,
    /// What is wrong, in one line.
    pub cause: String,
    /// The next thing to try, in one line.
    pub hint: String,
}

/// Explains the message of a refusal, if it is one that is known or it names a tool of the request.
pub fn explain(dialect: Dialect, tools: &Toolset, message: &str) -> Option<Explanation> {
    let _ = (dialect, tools, message);
    unimplemented!("the signature comes first")
}
