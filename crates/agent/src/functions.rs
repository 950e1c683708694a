//! Rust functions as a toolbox, without a server around them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};
use toolwire_contract::{CallError, CallOptions, Tool, ToolResult, Toolbox};

type Function = Box<dyn Fn(Map<String, Value>) -> BoxFuture<'static, ToolResult> + Send + Sync>;

/// How long a function may take when nobody says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// Rust functions as a toolbox.
///
/// Arguments come as the model sent them, not checked against the schema; for typed arguments, generated schemas and
/// checks, use a server of `toolwire-toolkit`, which is a toolbox too.
pub struct Functions {
    tools: Arc<[Tool]>,
    functions: BTreeMap<String, Function>,
    limit: Duration,
}

/// What a function may return.
pub trait IntoResult {
    fn into_result(self) -> ToolResult;
}

impl Functions {
    pub fn new() -> Functions {
        Functions { tools: Arc::new([]), functions: BTreeMap::new(), limit: LIMIT }
    }

    /// Adds a function as a tool; one of the same name takes the place of the earlier.
    #[must_use]
    pub fn with<F, R>(mut self, tool: Tool, function: F) -> Functions
    where
        F: Fn(Map<String, Value>) -> R + Send + Sync + 'static,
        R: Future<Output: IntoResult> + Send + 'static,
    {
        let function: Function =
            Box::new(move |arguments| function(arguments).map(IntoResult::into_result).boxed());
        self.functions.insert(tool.name.clone(), function);
        let mut tools = self.tools.to_vec();
        tools.retain(|one| one.name != tool.name);
        tools.push(tool);
        self.tools = tools.into();
        self
    }

    /// How long a call may take, where its caller does not say; 60 seconds unless set.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Functions {
        Functions { limit, ..self }
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
            let limit = options.timeout.unwrap_or(self.limit);
            tokio::time::timeout(limit, function(arguments)).await.map_err(|_| CallError::TimedOut {
                server: "in-process".to_owned(),
                tool: tool.to_owned(),
                after: limit,
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
            serde_json::from_str(text).map_err(|error| format!("they are no JSON object: {error}"))
        }
        _ => Err("they must be an object".to_owned()),
    }
}

impl IntoResult for ToolResult {
    fn into_result(self) -> ToolResult {
        self
    }
}

impl IntoResult for String {
    fn into_result(self) -> ToolResult {
        ToolResult::text(self)
    }
}

impl IntoResult for &str {
    fn into_result(self) -> ToolResult {
        ToolResult::text(self)
    }
}

/// Structured content.
impl IntoResult for Value {
    fn into_result(self) -> ToolResult {
        ToolResult::structured(self)
    }
}

/// An error is for the model to read.
impl<T: IntoResult, E: Display> IntoResult for Result<T, E> {
    fn into_result(self) -> ToolResult {
        self.map_or_else(|error| ToolResult::error(error.to_string()), T::into_result)
    }
}
