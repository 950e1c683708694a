//! What `#[tool]` says of a function.

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::Tool;

use crate::context::Context;
use crate::describe::description;
use crate::names;
use crate::reply::CompletedCall;
use crate::schema::Arguments;
use crate::tasks::TaskSupport;

/// A function with `#[tool]`. The attribute implements this trait; a server's builder accepts it.
pub trait ToolFunction: Send + Sync + 'static {
    fn declaration(&self) -> Declaration;

    /// Runs the function. The arguments match the schema of the declaration.
    fn run<'a>(&'a self, arguments: Map<String, Value>, context: &'a Context)
    -> BoxFuture<'a, CompletedCall>;
}

/// Types that a server's builder accepts as a tool: a function with `#[tool]`, or the value it returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "put `#[tool]` on the function and pass its name"
)]
pub trait IntoTool<Way> {
    fn into_tool(self) -> Box<dyn ToolFunction>;
}

impl<F: FnOnce() -> T, T: ToolFunction> IntoTool<fn() -> T> for F {
    fn into_tool(self) -> Box<dyn ToolFunction> {
        Box::new(self())
    }
}

impl<T: ToolFunction> IntoTool<()> for T {
    fn into_tool(self) -> Box<dyn ToolFunction> {
        Box::new(self)
    }
}

/// What `#[tool]` says of a function.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The name without prefix.
    pub name: &'static str,
    pub title: Option<&'static str>,
    /// The doc comment.
    pub description: &'static str,
    /// The tool's own prefix, which overrides the server's; empty for no prefix.
    pub prefix: Option<&'static str>,
    /// The value of `explicit_action` that is required to run the function.
    pub explicit: Option<&'static str>,
    pub hints: Hints,
    /// Whether calls may become tasks.
    pub task: Option<TaskSupport>,
    pub arguments: Arguments,
    pub output: Option<Value>,
}

/// MCP's behaviour hints; `None` if not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// The argument that confirms an explicit action.
pub(crate) const EXPLICIT_ACTION: &str = "explicit_action";

/// A set of tools that cannot be built into a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("duplicate tool name `{name}`")]
    DuplicateName { name: String },
    #[error("invalid name `{name}` for the tool `{tool}`")]
    IllegalName { tool: String, name: String },
    #[error("invalid prefix `{prefix}` from {given_by}")]
    IllegalPrefix { prefix: String, given_by: &'static str },
    #[error("the environment variable `{variable}` is not valid Unicode")]
    UnreadableVariable { variable: &'static str },
    #[error("the arguments of the tool `{tool}` are not a struct with named fields")]
    NotAStruct { tool: String },
    #[error("the tool `{tool}` declares the reserved argument `explicit_action`")]
    ReservedArgument { tool: String },
    #[error("invalid schema of the tool `{tool}`: {reason}")]
    InvalidSchema { tool: String, reason: String },
}

impl BuildError {
    /// Returns a suggestion for fixing the error.
    pub fn hint(&self) -> String {
        match self {
            BuildError::DuplicateName { .. } => "rename one of them, or give it its own `prefix`".to_owned(),
            BuildError::IllegalName { .. } => {
                format!("use at most {} letters, digits, `_` and `-`", names::MAX_MCP_NAME_CHARS)
            }
            BuildError::IllegalPrefix { given_by, .. } => {
                format!("use letters, digits, `_` and `-` in {given_by}, or an empty string for no prefix")
            }
            BuildError::UnreadableVariable { variable } => {
                format!("set `{variable}` to letters, digits, `_` and `-`")
            }
            BuildError::NotAStruct { .. } => {
                "use a struct as the type of `args`, or rename the parameter".to_owned()
            }
            BuildError::ReservedArgument { .. } => {
                "rename the argument; `explicit` adds one with this name".to_owned()
            }
            BuildError::InvalidSchema { .. } => {
                "check the `#[schemars(..)]` attributes of the struct".to_owned()
            }
        }
    }
}

impl Declaration {
    /// Returns the tool as it is listed with this prefix, and its arguments.
    pub(crate) fn tool(&self, prefix: &str) -> Result<(Tool, Arguments), BuildError> {
        let tool = self.name.to_owned();
        let name = names::served(self.prefix.unwrap_or(prefix), self.name);
        if !names::is_legal(&name) {
            return Err(BuildError::IllegalName { tool, name });
        }
        if !self.arguments.is_object() {
            return Err(BuildError::NotAStruct { tool });
        }
        let mut arguments = self.arguments.clone();
        if let Some(action) = self.explicit {
            let words = "Provide this only if the user has explicitly requested exactly this action";
            if !arguments.add_constant(EXPLICIT_ACTION, action, words) {
                return Err(BuildError::ReservedArgument { tool });
            }
        }
        let tool = Tool {
            name,
            title: self.title.map(str::to_owned),
            description: Some(description(self.description, self.explicit, &arguments.served)),
            input_schema: Some(arguments.served.clone()),
            output_schema: self.output.clone(),
            annotations: self.annotations(),
            ..Tool::default()
        };
        Ok((tool, arguments))
    }

    fn annotations(&self) -> Option<Map<String, Value>> {
        let mut hints = self.hints;
        // An action that needs consent changes something important, unless the tool states otherwise.
        if self.explicit.is_some() && hints.read_only != Some(true) {
            hints.read_only = hints.read_only.or(Some(false));
            hints.destructive = hints.destructive.or(Some(true));
        }
        let given = [
            ("readOnlyHint", hints.read_only),
            ("destructiveHint", hints.destructive),
            ("idempotentHint", hints.idempotent),
            ("openWorldHint", hints.open_world),
        ];
        let given: Map<String, Value> =
            given.into_iter().filter_map(|(hint, flag)| Some((hint.to_owned(), flag?.into()))).collect();
        (!given.is_empty()).then_some(given)
    }
}
