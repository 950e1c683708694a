//! Servers and their builder.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_contract::elicitation::{ElicitHandler, ElicitKind, ElicitReply, SampleHandler};
use toolwire_contract::log::{LogMessage, LogReceiver};
use toolwire_contract::offers::ServerOffers;
use toolwire_contract::text::nearest_names;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};

use crate::check::Checker;
use crate::client::{Client, Form, FormReply};
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

/// A set of tools that can be served. Only the builder adds tools.
///
/// Clones share tools and state, so one server can be served over several transports at once.
#[derive(Clone)]
pub struct Server {
    pub name: String,
    pub version: String,
    /// Instructions for the model about the whole server.
    pub instructions: Option<String>,
    tools: Arc<[Tool]>,
    registered: Vec<Registered>,
    has_secrets: bool,
    pub(crate) toolboxes: Vec<Arc<dyn Toolbox>>,
    pub(crate) lints: Vec<Lint>,
    /// Prompts, resources and their options.
    pub(crate) offers: Offers,
    /// The time that a request waits for servers of toolboxes that are starting.
    start_timeout: Duration,
}

/// Builds a [`Server`].
pub struct ServerBuilder {
    pub(crate) server: Server,
    entries: Vec<AddedTool>,
    states: States,
    prefix: Option<String>,
    /// Replaces the environment variables of the process.
    environment: Option<HashMap<String, String>>,
}

/// A tool that was passed to the builder.
enum AddedTool {
    Function(Box<dyn ToolFunction>),
    Registered(Box<Registered>),
}

/// The environment variable that overrides the builder's prefix.
const PREFIX_VARIABLE: &str = "MCP_TOOL_PREFIX";

const START_TIMEOUT: Duration = Duration::from_secs(5);

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
                start_timeout: START_TIMEOUT,
            },
            entries: Vec::new(),
            states: States::default(),
            prefix: None,
            environment: None,
        }
    }

    /// Returns the registered tools with their served names, schemas and handlers.
    pub fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// Returns the same server with another toolbox and other offers instead of its own ones.
    pub(crate) fn with_parts(
        &self,
        toolbox: Arc<dyn Toolbox>,
        foreign: Option<Arc<dyn ServerOffers>>,
    ) -> Server {
        let offers = Offers { foreign, ..self.offers.clone() };
        Server { toolboxes: vec![toolbox], offers, ..self.clone() }
    }

    /// Whether a tool is one of the builder, not of a toolbox.
    pub(crate) fn has_function(&self, tool: &str) -> bool {
        self.registered.iter().any(|each| each.tool.name == tool)
    }

    /// Returns all tools: those of the builder, then those of each toolbox. If two have the same name, the
    /// first is listed and called.
    pub fn tools(&self) -> Arc<[Tool]> {
        if self.toolboxes.is_empty() {
            return self.tools.clone();
        }
        let mut names = HashSet::new();
        let others = self.toolboxes.iter().flat_map(|toolbox| toolbox.tools().to_vec());
        let all = self.tools.iter().cloned().chain(others);
        all.filter(|tool| names.insert(tool.name.clone())).collect()
    }

    /// Whether calls of a tool may become tasks. Tools of toolboxes do not support tasks.
    pub(crate) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.registered.iter().find(|each| each.tool.name == tool)?.handler.task_support()
    }

    /// Whether a tool may have secret arguments. The tools of toolboxes can change, so they may.
    pub(crate) fn may_have_secrets(&self) -> bool {
        self.has_secrets || !self.toolboxes.is_empty()
    }

    /// Returns the input schema of a tool, if the tool exists.
    pub(crate) fn input_schema(&self, tool: &str) -> Option<Value> {
        self.with_input_schema(tool, |schema| schema.cloned().unwrap_or_default())
    }

    /// Calls a function with the input schema of a tool, if the tool exists.
    pub(crate) fn with_input_schema<T>(
        &self,
        tool: &str,
        use_schema: impl Fn(Option<&Value>) -> T,
    ) -> Option<T> {
        let among = |tools: &[Tool]| {
            let found = tools.iter().find(|each| each.name == tool)?;
            Some(use_schema(found.input_schema.as_ref()))
        };
        let others = || self.toolboxes.iter().find_map(|toolbox| among(&toolbox.tools()));
        among(&self.tools).or_else(others)
    }

    fn toolbox_with(&self, tool: &str) -> Option<&Arc<dyn Toolbox>> {
        self.toolboxes.iter().find(|toolbox| toolbox.tools().iter().any(|offered| offered.name == tool))
    }

    /// Waits for the first start of the toolboxes' servers, for a limited time.
    pub(crate) async fn wait_until_started(&self) {
        let starting = |toolbox: &Arc<dyn Toolbox>| -> Vec<String> {
            let missing = toolbox.missing_servers().into_iter();
            missing.filter(|missing| missing.is_starting).map(|missing| missing.server).collect()
        };
        let waiting = async {
            for toolbox in &self.toolboxes {
                let servers = starting(toolbox);
                if !servers.is_empty() {
                    toolbox.started(&servers).await;
                }
            }
        };
        // The others do not wait for a server that hangs.
        let _ = tokio::time::timeout(self.start_timeout, waiting).await;
    }

    /// Calls a tool by its served name.
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
            let mut holder = self.toolbox_with(tool);
            if holder.is_none() {
                // A server that is starting may have it.
                self.wait_until_started().await;
                holder = self.toolbox_with(tool);
            }
            let Some(holder) = holder else {
                let tools = self.tools();
                let nearest = nearest_names(tool, tools.iter().map(|tool| tool.name.as_str()));
                let nearest = nearest.into_iter().map(str::to_owned).collect();
                let missing = self.toolboxes.iter().flat_map(|toolbox| toolbox.missing_servers()).collect();
                return Err(CallError::UnknownTool { tool: tool.to_owned(), nearest, missing });
            };
            let client = context.client.clone();
            let mut options = CallOptions::default();
            options.elicitation = Some(elicitation(client.clone()));
            options.sampling = Some(sampling(client.clone()));
            options.log = log(client.clone());
            options.accepts_task = client.supports_tasks();
            options.progress = Some(Arc::new(move |progress| client.progress(progress)));
            holder.call(tool, &Value::Object(arguments), options).await
        })
    }
}

/// Returns a handler that asks the user of a client.
fn elicitation(client: Arc<dyn Client>) -> Arc<ElicitHandler> {
    Arc::new(move |_server, request| {
        let client = client.clone();
        Box::pin(async move {
            let is_form = matches!(request.kind, ElicitKind::Form { .. });
            let form = match request.kind {
                ElicitKind::Form { schema } => Form::Fields { message: request.message, schema },
                ElicitKind::Url { url, id } => Form::Url { message: request.message, url, id },
                _ => return ElicitReply::Decline,
            };
            let asking = match &request.key {
                Some(key) => client.elicit_as(key, form),
                None => client.elicit(form),
            };
            match asking.await {
                Ok(FormReply::Accepted(values)) => {
                    ElicitReply::Accept(is_form.then_some(Value::Object(values)))
                }
                Ok(FormReply::Declined) => ElicitReply::Decline,
                Ok(FormReply::Cancelled) => ElicitReply::Cancel,
                // The client cannot ask anyone, or has disconnected.
                Err(_) => ElicitReply::Decline,
            }
        })
    })
}

/// Returns a receiver that passes log messages to a client, if it wants any.
fn log(client: Arc<dyn Client>) -> Option<LogReceiver> {
    let level = client.log_level()?;
    let receive = move |message: LogMessage| {
        client.log(message.level, message.logger.as_deref().unwrap_or_default(), message.data);
    };
    Some(LogReceiver { level, receive: Arc::new(receive) })
}

/// Returns a handler that requests samples from the model of a client.
fn sampling(client: Arc<dyn Client>) -> Arc<SampleHandler> {
    Arc::new(move |_server, params| {
        let client = client.clone();
        Box::pin(async move {
            let Value::Object(params) = params else {
                return Err("the parameters are not an object".to_owned());
            };
            client.sample(params).await.map_err(|error| error.to_string())
        })
    })
}

impl ServerBuilder {
    /// Adds a function with `#[tool]`, by its name.
    pub fn tool<Way>(mut self, tool: impl IntoTool<Way>) -> ServerBuilder {
        self.entries.push(AddedTool::Function(tool.into_tool()));
        self
    }

    /// Adds a registered tool; its name is served unchanged.
    pub fn register(mut self, registered: Registered) -> ServerBuilder {
        self.entries.push(AddedTool::Registered(Box::new(registered)));
        self
    }

    /// Adds all tools of a toolbox, with unchanged names.
    pub fn toolbox(mut self, toolbox: Arc<dyn Toolbox>) -> ServerBuilder {
        self.server.toolboxes.push(toolbox);
        self
    }

    /// Sets the version of the server; usually `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: impl Into<String>) -> ServerBuilder {
        self.server.version = version.into();
        self
    }

    /// Sets instructions for the model about the whole server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> ServerBuilder {
        self.server.instructions = Some(instructions.into());
        self
    }

    /// Adds state that all tools share, one value per type; see [`Context::state`].
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> ServerBuilder {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// Sets how long a list of tools, or a call of an unknown tool, waits for servers of toolboxes that are
    /// starting; five seconds by default.
    pub fn start_timeout(mut self, limit: Duration) -> ServerBuilder {
        self.server.start_timeout = limit;
        self
    }

    /// Sets the prefix of the tools' names; empty for no prefix. `MCP_TOOL_PREFIX` and a tool's own prefix
    /// override it. The default is the server's name.
    pub fn prefix(mut self, prefix: impl Into<String>) -> ServerBuilder {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets variables to use instead of the environment of the process.
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> ServerBuilder {
        self.environment =
            Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        self
    }

    /// Builds the server.
    ///
    /// This is the only place that reads an environment variable: `MCP_TOOL_PREFIX` (ADR 0008).
    pub fn build(mut self) -> Result<Server, BuildError> {
        let prefix = self.served_prefix()?;
        let states = Arc::new(self.states);
        for entry in self.entries {
            let registered = match entry {
                AddedTool::Function(function) => {
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
                    let runner = ToolRunner::Function { function, checker, explicit, task };
                    checked_tool(tool, declaration.name.to_owned(), runner, &states)
                }
                AddedTool::Registered(registered) => {
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

fn checked_tool(mut tool: Tool, plain_name: String, runner: ToolRunner, states: &Arc<States>) -> Registered {
    let schema = tool.input_schema.clone().unwrap_or_default();
    let has_secrets = has_secrets(&schema);
    let handler =
        CheckedTool { plain_name: plain_name.clone(), schema, has_secrets, states: states.clone(), runner };
    if let Some(support) = handler.task_support() {
        tool.extra.insert("execution".to_owned(), json!({"taskSupport": support.mcp_value()}));
    }
    Registered { tool, plain_name, handler: Arc::new(handler) }
}
