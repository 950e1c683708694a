//! Rust functions as a toolbox, without a server.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};
use toolwire_contract::text::json_kind;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};

type Function = Box<dyn Fn(Map<String, Value>) -> BoxFuture<'static, ToolResult> + Send + Sync>;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Rust functions as a toolbox.
///
/// Arguments are passed as the model sent them, without validation against the schema. For typed arguments,
/// generated schemas and validation, use a server of `toolwire-toolkit`, which is also a toolbox.
#[must_use]
pub struct Functions {
    tools: Arc<[Tool]>,
    functions: BTreeMap<String, Function>,
    timeout: Duration,
}

/// A value that a function can return.
pub trait IntoToolResult {
    fn into_tool_result(self) -> ToolResult;
}

impl Functions {
    pub fn new() -> Functions {
        Functions { tools: Arc::new([]), functions: BTreeMap::new(), timeout: DEFAULT_TIMEOUT }
    }

    /// Adds a function as a tool; it replaces a tool of the same name.
    pub fn with<F, R>(mut self, tool: Tool, function: F) -> Functions
    where
        F: Fn(Map<String, Value>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoToolResult> + Send + 'static,
    {
        let function: Function =
            Box::new(move |arguments| function(arguments).map(IntoToolResult::into_tool_result).boxed());
        self.functions.insert(tool.name.clone(), function);
        let mut tools = self.tools.to_vec();
        tools.retain(|other| other.name != tool.name);
        tools.push(tool);
        self.tools = tools.into();
        self
    }

    /// Sets the timeout of calls that have none of their own; 60 seconds by default.
    pub fn timeout(self, timeout: Duration) -> Functions {
        Functions { timeout, ..self }
    }
}

impl Default for Functions {
    fn default() -> Functions {
        Functions::new()
    }
}

impl Toolbox for Functions {
    fn tools(&self) -> Arc<[Tool]> {
        self.tools.clone()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let Some(function) = self.functions.get(tool) else {
                return Err(CallError::UnknownTool {
                    tool: tool.to_owned(),
                    nearest: Vec::new(),
                    missing: Vec::new(),
                });
            };
            if let Some(listed) = self.tools.iter().find(|listed| listed.name == tool) {
                options.check_permission(tool, listed)?;
            }
            let arguments = object(arguments)
                .map_err(|problem| CallError::InvalidArguments { tool: tool.to_owned(), problem })?;
            let timeout = options.timeout.unwrap_or(self.timeout);
            tokio::time::timeout(timeout, function(arguments)).await.map_err(|_| CallError::TimedOut {
                server: "in-process".to_owned(),
                tool: tool.to_owned(),
                after: timeout,
            })
        })
    }
}

fn object(arguments: &Value) -> Result<Map<String, Value>, String> {
    match arguments {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields.clone()),
        Value::String(text) if text.trim().is_empty() => Ok(Map::new()),
        Value::String(text) => {
            serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
        }
        other => Err(format!("must be an object, not {}", json_kind(other))),
    }
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::text(self)
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::text(self)
    }
}

/// Becomes structured content.
impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::structured(self)
    }
}

/// An error becomes an error result that the model reads.
impl<T: IntoToolResult, E: Display> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        self.map_or_else(|error| ToolResult::error(error.to_string()), T::into_tool_result)
    }
}
