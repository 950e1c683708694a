//! What a provider's refusal of a request means: which MCP tool, where in its schema, why, and what to do.

mod known;
mod place;

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
///
/// ```
/// use toolwire_dialect::{Dialect, Options, Toolset, explain};
///
/// let tools = r#"[{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}}]"#;
/// let tools = Toolset::from_json(tools, Dialect::Anthropic, &Options::default())?;
/// let message = "tools.1.custom.input_schema.type: Field required";
/// let explanation = explain(Dialect::Anthropic, &tools, message).unwrap();
/// assert_eq!(explanation.to_string(), "tool `b`, at `/type` of its schema: the root of the schema must be of the type `object`");
/// # Ok::<(), toolwire_dialect::ReadError>(())
/// ```
pub fn explain(dialect: Dialect, tools: &Toolset, message: &str) -> Option<Explanation> {
    let place = place::find(tools, message);
    let known = known::find(message);
    if known.is_none() && place.tool.is_none() {
        return None;
    }
    let (cause, hint) = match known {
        Some(known) => (known.cause.to_owned(), known.hint.to_owned()),
        None => (format!("`{dialect}` refused it: {message}"), "leave the tool out to go on".to_owned()),
    };
    Some(Explanation { tool: place.tool, pointer: place.pointer, cause, hint })
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(tool) = &self.tool {
            write!(formatter, "tool `{tool}`")?;
            match self.pointer.as_deref() {
                Some("") | None => {}
                Some(pointer) => write!(formatter, ", at `{pointer}` of its schema")?,
            }
            formatter.write_str(": ")?;
        }
        formatter.write_str(&self.cause)
    }
}
