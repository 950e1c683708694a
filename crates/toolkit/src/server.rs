//! A set of tools that can be served.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::{CallError, CallOptions, Tool, ToolResult, Toolbox, nearest_names};

use crate::check::Checker;
use crate::context::{Context, States};
use crate::declare::{BuildError, IntoTool, ToolFunction};
use crate::guard::{CheckedTool, ToolRunner};
use crate::handler::{Handler, Registered};
use crate::lint::{Lint, lint_tool};
use crate::names;
use crate::offers::Offers;
use crate::schema::Arguments;
use crate::secret::has_secrets;
use crate::tasks::TaskSupport;

/// A set of tools that can be served: the builder names them, nothing else adds any.
///
/// Copies are the same tools with the same state, so one server can be served in several ways at once.
#[derive(Clone)]
pub struct Server {
    pub name: String,
    pub version: String,
    /// For the model, about the server as a whole.
    pub instructions: Option<String>,
    tools: Arc<[Tool]>,
    registered: Vec<Registered>,
    has_secrets: bool,
    pub(crate) toolboxes: Vec<Arc<dyn Toolbox>>,
    pub(crate) lints: Vec<Lint>,
    /// What is served beside tools.
    pub(crate) offers: Offers,
}

/// Puts a [`Server`] together.
pub struct ServerBuilder {
    pub(crate) server: Server,
    entries: Vec<Entry>,
    states: States,
    prefix: Option<String>,
    /// Stands for the variables of the process.
    environment: Option<HashMap<String, String>>,
}

/// What the builder was given, in its order.
enum Entry {
    Function(Box<dyn ToolFunction>),
    Registered(Box<Registered>),
}

/// The variable whose prefix stands above the builder's.
const PREFIX_VARIABLE: &str = "MCP_TOOL_PREFIX";

impl Server {
    pub fn builder(name: impl Into<String>) -> ServerBuilder {
        ServerBuilder {
            server: Server {
                name: name.into(),
                version: "0.0.0".to_owned(),
                instructions: None,
                tools: Arc::default(),
                registered: Vec::new(),
                has_secrets: false,
                toolboxes: Vec::new(),
                lints: Vec::new(),
                offers: Offers::default(),
            },
            entries: Vec::new(),
            states: States::default(),
            prefix: None,
            environment: None,
        }
    }

    /// What the builder named: each tool under its served name, with the schema of its arguments and what runs it.
    pub fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// All tools: those of the builder first, then those of each toolbox. Of two with one name the first is offered, as it is the
    /// one that a call reaches.
    pub fn tools(&self) -> Arc<[Tool]> {
        if self.toolboxes.is_empty() {
            return self.tools.clone();
        }
        let mut names = HashSet::new();
        let others = self.toolboxes.iter().flat_map(|toolbox| toolbox.tools().to_vec());
        let all = self.tools.iter().cloned().chain(others);
        all.filter(|tool| names.insert(tool.name.clone())).collect()
    }

    /// Whether calls of a tool may become tasks. Those of toolboxes do not: they are not ours to hold on to.
    pub(crate) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.registered.iter().find(|each| each.tool.name == tool)?.handler.task_support()
    }

    /// Whether there may be arguments that must not be seen. What toolboxes have is known only when one looks.
    pub(crate) fn may_have_secrets(&self) -> bool {
        self.has_secrets || !self.toolboxes.is_empty()
    }

    /// What the arguments of a tool look like, if there is such a tool.
    pub(crate) fn input_schema(&self, tool: &str) -> Option<Value> {
        let among = |tools: &[Tool]| {
            let found = tools.iter().find(|each| each.name == tool)?;
            Some(found.input_schema.clone().unwrap_or_default())
        };
        let others = || self.toolboxes.iter().find_map(|toolbox| among(&toolbox.tools()));
        among(&self.tools).or_else(others)
    }

    /// Calls a tool by the name it is served under.
    pub fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Option<Map<String, Value>>,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let arguments = arguments.unwrap_or_default();
            if let Some(registered) = self.registered.iter().find(|each| each.tool.name == tool) {
                return Ok(registered.handler.run(arguments, context).await);
            }
            let holder = self
                .toolboxes
                .iter()
                .find(|toolbox| toolbox.tools().iter().any(|offered| offered.name == tool));
            let Some(holder) = holder else {
                let tools = self.tools();
                let nearest = nearest_names(tool, tools.iter().map(|tool| tool.name.as_str()));
                let nearest = nearest.into_iter().map(str::to_owned).collect();
                let missing = self.toolboxes.iter().flat_map(|toolbox| toolbox.missing_servers()).collect();
                return Err(CallError::UnknownTool { tool: tool.to_owned(), nearest, missing });
            };
            let client = context.client.clone();
            let options = CallOptions {
                progress: Some(Arc::new(move |progress| client.progress(progress))),
                ..CallOptions::default()
            };
            holder.call(tool, &Value::Object(arguments), options).await
        })
    }
}

impl ServerBuilder {
    /// A function that has `#[tool]`, by its name.
    pub fn tool<Way>(mut self, tool: impl IntoTool<Way>) -> ServerBuilder {
        self.entries.push(Entry::Function(tool.into_tool()));
        self
    }

    /// A tool that is already put together; its name is served as it is.
    pub fn register(mut self, registered: Registered) -> ServerBuilder {
        self.entries.push(Entry::Registered(Box::new(registered)));
        self
    }

    /// All tools of a toolbox, under the names it gives them.
    pub fn toolbox(mut self, toolbox: Arc<dyn Toolbox>) -> ServerBuilder {
        self.server.toolboxes.push(toolbox);
        self
    }

    /// What the server's own version is; `env!("CARGO_PKG_VERSION")` is usually right.
    pub fn version(mut self, version: impl Into<String>) -> ServerBuilder {
        self.server.version = version.into();
        self
    }

    /// Words for the model, about the server as a whole.
    pub fn instructions(mut self, instructions: impl Into<String>) -> ServerBuilder {
        self.server.instructions = Some(instructions.into());
        self
    }

    /// Something that all tools share, one of each type: [`Context::state`] gives it back.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> ServerBuilder {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// What stands before the tools' names, unless `MCP_TOOL_PREFIX` or a tool says otherwise; empty for nothing. Without
    /// it, it is the server's name.
    pub fn prefix(mut self, prefix: impl Into<String>) -> ServerBuilder {
        self.prefix = Some(prefix.into());
        self
    }

    /// Variables to use instead of those of the process.
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> ServerBuilder {
        self.environment =
            Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// The server; or why these tools do not make one.
    ///
    /// Here, and nowhere else, a variable of the process is read: `MCP_TOOL_PREFIX` (ADR 0008).
    pub fn build(mut self) -> Result<Server, BuildError> {
        let prefix = self.served_prefix()?;
        let states = Arc::new(self.states);
        for entry in self.entries {
            let registered = match entry {
                Entry::Function(function) => {
                    let declaration = function.declaration();
                    let (tool, arguments) = declaration.tool(&prefix)?;
                    let Arguments { checked, aliases, hidden_defaults, .. } = arguments;
                    self.server.lints.extend(lint_tool(
                        &tool,
                        declaration.name,
                        declaration.description,
                        &checked,
                        &hidden_defaults,
                    ));
                    let checker = Checker::new(checked, aliases).map_err(|reason| {
                        BuildError::InvalidSchema { tool: declaration.name.to_owned(), reason }
                    })?;
                    let (explicit, task) = (declaration.explicit, declaration.task);
                    let runs = ToolRunner::Function { function, checker, explicit, task };
                    checked_tool(tool, declaration.name.to_owned(), runs, &states)
                }
                Entry::Registered(registered) => {
                    let Registered { tool, plain_name, handler } = *registered;
                    let description = tool.description.clone().unwrap_or_default();
                    let arguments = tool.input_schema.clone().unwrap_or_default();
                    self.server.lints.extend(lint_tool(&tool, &plain_name, &description, &arguments, &[]));
                    checked_tool(tool, plain_name, ToolRunner::Handler(handler), &states)
                }
            };
            let name = &registered.tool.name;
            if self.server.registered.iter().any(|other| other.tool.name == *name) {
                return Err(BuildError::DuplicateName { name: name.clone() });
            }
            self.server.registered.push(registered);
        }
        self.server.tools = self.server.registered.iter().map(|each| each.tool.clone()).collect();
        self.server.has_secrets =
            self.server.tools.iter().any(|tool| tool.input_schema.as_ref().is_some_and(has_secrets));
        Ok(self.server)
    }

    fn served_prefix(&self) -> Result<String, BuildError> {
        let variable = match &self.environment {
            Some(variables) => variables.get(PREFIX_VARIABLE).cloned(),
            None => match std::env::var(PREFIX_VARIABLE) {
                Ok(prefix) => Some(prefix),
                Err(std::env::VarError::NotPresent) => None,
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(BuildError::UnreadableVariable { variable: PREFIX_VARIABLE });
                }
            },
        };
        let own = || names::prefix_of(&self.server.name);
        let (prefix, given_by) = match (variable, &self.prefix) {
            (Some(prefix), _) => (prefix, "the variable `MCP_TOOL_PREFIX`"),
            (None, Some(prefix)) => (prefix.clone(), "the server's builder"),
            (None, None) => (own(), "the server's name"),
        };
        match prefix.is_empty() || names::is_legal(&prefix) {
            true => Ok(prefix),
            false => Err(BuildError::IllegalPrefix { prefix, given_by }),
        }
    }
}

fn checked_tool(mut tool: Tool, plain_name: String, runs: ToolRunner, states: &Arc<States>) -> Registered {
    let schema = tool.input_schema.clone().unwrap_or_default();
    let has_secrets = has_secrets(&schema);
    let handler =
        CheckedTool { plain_name: plain_name.clone(), schema, has_secrets, states: states.clone(), runs };
    if let Some(support) = handler.task_support() {
        tool.extra.insert("execution".to_owned(), json!({"taskSupport": support.word()}));
    }
    Registered { tool, plain_name, handler: Arc::new(handler) }
}
