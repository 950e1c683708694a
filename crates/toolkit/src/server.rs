//! A set of tools that can be served.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::{CallError, CallOptions, Tool, ToolResult, Toolbox};

use crate::context::{Context, States};
use crate::handler::Registered;
use crate::offers::Offers;

/// A set of tools that can be served: the builder names them, nothing else adds any.
pub struct Server {
    pub name: String,
    pub version: String,
    /// For the model, about the server as a whole.
    pub instructions: Option<String>,
    tools: Arc<[Tool]>,
    registered: Vec<Registered>,
    pub(crate) toolboxes: Vec<Arc<dyn Toolbox>>,
    states: Arc<States>,
    /// What is served beside tools.
    pub(crate) offers: Offers,
}

/// Puts a [`Server`] together.
pub struct ServerBuilder {
    pub(crate) server: Server,
}

impl Server {
    pub fn builder(name: impl Into<String>) -> ServerBuilder {
        ServerBuilder {
            server: Server {
                name: name.into(),
                version: "0.0.0".to_owned(),
                instructions: None,
                tools: Arc::default(),
                registered: Vec::new(),
                toolboxes: Vec::new(),
                states: Arc::default(),
                offers: Offers::default(),
            },
        }
    }

    pub fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// All tools: those of the builder first, then those of each toolbox.
    pub fn tools(&self) -> Arc<[Tool]> {
        if self.toolboxes.is_empty() {
            return self.tools.clone();
        }
        let others = self.toolboxes.iter().flat_map(|toolbox| toolbox.tools().to_vec());
        self.tools.iter().cloned().chain(others).collect()
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
                let context = Context { states: self.states.clone(), ..context.clone() };
                return Ok(registered.handler.run(arguments, &context).await);
            }
            let holder = self
                .toolboxes
                .iter()
                .find(|toolbox| toolbox.tools().iter().any(|offered| offered.name == tool));
            let Some(holder) = holder else {
                return Err(CallError::UnknownTool { tool: tool.to_owned(), nearest: Vec::new() });
            };
            let client = context.client.clone();
            let options = CallOptions {
                timeout: None,
                progress: Some(Arc::new(move |progress| client.progress(progress))),
            };
            holder.call(tool, &Value::Object(arguments), options).await
        })
    }
}

impl ServerBuilder {
    /// A tool that is already put together.
    pub fn register(mut self, registered: Registered) -> ServerBuilder {
        self.server.registered.push(registered);
        self
    }

    /// All tools of a toolbox, under the names it gives them.
    pub fn toolbox(mut self, toolbox: Arc<dyn Toolbox>) -> ServerBuilder {
        self.server.toolboxes.push(toolbox);
        self
    }

    pub fn build(mut self) -> Server {
        self.server.tools = self.server.registered.iter().map(|each| each.tool.clone()).collect();
        self.server
    }
}
