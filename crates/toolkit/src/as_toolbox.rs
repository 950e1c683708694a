//! Calls a server's tools in process, without a transport.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolwire_contract::log::{LogMessage, LogReceiver};
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, Progress, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};

use crate::client::{Client, ClientError, Form, FormReply, Level, NoClient};
use crate::context::Context;
use crate::server::Server;

impl Toolbox for Server {
    fn tools(&self) -> Arc<[Tool]> {
        Server::tools(self)
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let of_toolbox = self.toolboxes.iter().find_map(|toolbox| toolbox.server_of(tool));
        Some(of_toolbox.unwrap_or_else(|| ToolServer { name: self.name.clone(), title: None }))
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.toolboxes.iter().flat_map(|toolbox| toolbox.missing_servers()).collect()
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for toolbox in &self.toolboxes {
                toolbox.started(servers).await;
            }
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let arguments = object(tool, arguments)?;
            if options.permission.is_some()
                && let Some(listed) = Server::tools(self).iter().find(|listed| listed.name == tool)
            {
                options.check_permission(tool, listed)?;
            }
            let cancelled = CancellationToken::new();
            // Tasks that the tool spawned are notified when the call is dropped or times out.
            let _guard = cancelled.clone().drop_guard();
            let client = Caller { progress: options.progress, log: options.log };
            let context = Context::new("in-process", Arc::new(client), cancelled);
            let call = Server::call(self, tool, arguments, &context);
            let Some(limit) = options.timeout else { return call.await };
            tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
                Err(CallError::TimedOut { server: self.name.clone(), tool: tool.to_owned(), after: limit })
            })
        })
    }
}

/// Returns the arguments of a call, which models send as an object, as JSON text, or not at all.
fn object(tool: &str, arguments: &Value) -> Result<Option<Map<String, Value>>, CallError> {
    let invalid = |problem: String| CallError::InvalidArguments { tool: tool.to_owned(), problem };
    match arguments {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields.clone())),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => serde_json::from_str(text)
            .map(Some)
            .map_err(|error| invalid(format!("not a JSON object: {error}"))),
        _ => Err(invalid("not a JSON object".to_owned())),
    }
}

/// An in-process caller. It can receive progress and log messages, and nothing else.
struct Caller {
    progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    log: Option<LogReceiver>,
}

impl Client for Caller {
    fn progress(&self, progress: Progress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }

    fn log(&self, level: Level, logger: &str, data: Value) {
        if let Some(log) = self.log.as_ref().filter(|log| level >= log.level) {
            let logger = (!logger.is_empty()).then(|| logger.to_owned());
            (log.receive)(LogMessage { level, logger, data });
        }
    }

    fn log_level(&self) -> Option<Level> {
        self.log.as_ref().map(|log| log.level)
    }

    fn elicit<'a>(&'a self, form: Form) -> BoxFuture<'a, Result<FormReply, ClientError>> {
        NoClient.elicit(form)
    }

    fn sample<'a>(&'a self, params: Map<String, Value>) -> BoxFuture<'a, Result<Value, ClientError>> {
        NoClient.sample(params)
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, ClientError>> {
        NoClient.roots()
    }
}
