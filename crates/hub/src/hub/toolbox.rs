//! The hub as a toolbox.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};

use super::Hub;
use crate::call;
use crate::result_limiter::{READ_RESULT, read_result};

impl Toolbox for Hub {
    fn tools(&self) -> Arc<[Tool]> {
        self.state.routes().tools().clone()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let routes = self.state.routes();
        let name = routes.lookup(tool)?.server.as_str();
        let session = self.state.server(name)?.snapshot().session;
        let stated = |key: &str| session.as_ref()?.info().implementation.get(key)?.as_str();
        let title = stated("title").or_else(|| stated("name")).filter(|title| *title != name);
        Some(ToolServer { name: name.to_owned(), title: title.map(str::to_owned) })
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        let routes = self.state.routes();
        routes.lookup(tool).map(|route| route.tool.clone()).filter(|original| original != tool)
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let missing = self.missing(|server| server.snapshot().phase.unavailable_reason());
        if !self.state.has_settled.load(Ordering::Relaxed) {
            // The tools of a server that has just become ready are listed, because the server is no longer
            // missing.
            self.state.refresh_tools();
        }
        missing
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for(|server| servers.iter().any(|name| server.config.name.as_str() == name)))
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes = Hub::changes(self);
        Some(Box::pin(stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        })))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let state = &self.state;
            if tool == READ_RESULT
                && let Some(store) = state.results.store()
            {
                return read_result(store, options.owner.as_deref(), arguments).await;
            }
            let (timeout, owner) = (options.timeout, options.owner.clone());
            let route = match state.routes().lookup(tool) {
                Some(route) => route.clone(),
                None => self.wait_for_tool(tool, timeout).await?,
            };
            let route = match state.may_conflict(&route) {
                true => self.resolve_conflict(tool, timeout).await?,
                false => route,
            };
            let Some(server) = state.server(route.server.as_str()) else {
                return Err(self.unknown_tool(tool));
            };
            match call::call(&server, &state.drift_monitor, &route, arguments, options).await {
                Ok(result) => {
                    let (result, is_first) = state.results.limit(result, owner.as_deref()).await;
                    if is_first {
                        state.rebuild_tools();
                    }
                    Ok(result)
                }
                Err(CallError::UnknownTool { .. }) => Err(self.unknown_tool(tool)),
                Err(other) => Err(other),
            }
        })
    }
}
