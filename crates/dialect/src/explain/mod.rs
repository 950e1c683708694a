//! Explains why an API rejected a request: which MCP tool, where in its schema, the cause, and what to do.
//!
//! The APIs report this only as text, so the text is matched against tables of known messages.

mod location;
mod problem;

use self::location::Location;
use self::problem::Problem;
use crate::{Dialect, Toolset};

/// An explanation of an API's error message in terms of the MCP tool that caused it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The tool's own name, if the message identifies one tool.
    pub tool: Option<String>,
    /// RFC 6901 pointer into the tool's schema as it was sent, if the message contains a location.
    pub pointer: Option<String>,
    /// The problem, in one line.
    pub cause: String,
    /// A one-line suggestion for the user.
    pub hint: String,
}

/// Explains an API's error message, if it is a known one or identifies a tool of the request.
///
/// ```
/// use toolwire_dialect::{Dialect, Options, Toolset, explain};
///
/// let tools = r#"[{"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}}]"#;
/// let tools = Toolset::from_json(tools, Dialect::Anthropic, &Options::default())?;
/// let message = "tools.1.custom.input_schema.type: Field required";
/// let explanation = explain(Dialect::Anthropic, &tools, message).unwrap();
/// assert_eq!(explanation.to_string(), "tool `b`, at `/type` of its schema: the root of the schema must have the type `object`");
/// # Ok::<(), toolwire_dialect::ReadError>(())
/// ```
pub fn explain(dialect: Dialect, tools: &Toolset, message: &str) -> Option<Explanation> {
    let Location { tool, pointer } = Location::find(tools, message);
    let (cause, hint) = match Problem::of(message) {
        Some(problem) => (problem.cause().to_owned(), problem.hint().to_owned()),
        None if tool.is_some() => {
            (format!("`{dialect}` rejected it: {message}"), "exclude the tool".to_owned())
        }
        None => return None,
    };
    Some(Explanation { tool, pointer, cause, hint })
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
