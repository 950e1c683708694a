//! Toolboxes that wrap another toolbox.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::Value;

use crate::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use crate::{Tool, ToolResult};

/// A [`Toolbox`] that changes some methods of another one. It implements these methods; the others call the
/// inner toolbox.
///
/// This is a separate trait, so that code with a `dyn Toolbox` cannot reach the inner one, which may have
/// tools that the decorator hides.
pub trait ToolboxDecorator: Send + Sync {
    /// Returns the toolbox that is wrapped.
    fn inner(&self) -> &dyn Toolbox;

    fn tools(&self) -> Arc<[Tool]> {
        self.inner().tools()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.inner().server_of(tool)
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.inner().original_name(tool)
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.inner().missing_servers()
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        self.inner().started(servers)
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        self.inner().changes()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        self.inner().call(tool, arguments, options)
    }
}

// The lint finds a method with a default implementation in `Toolbox` that is missing here.
#[warn(clippy::missing_trait_methods)]
impl<D: ToolboxDecorator> Toolbox for D {
    fn tools(&self) -> Arc<[Tool]> {
        ToolboxDecorator::tools(self)
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        ToolboxDecorator::server_of(self, tool)
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        ToolboxDecorator::original_name(self, tool)
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        ToolboxDecorator::missing_servers(self)
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        ToolboxDecorator::started(self, servers)
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        ToolboxDecorator::changes(self)
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        ToolboxDecorator::call(self, tool, arguments, options)
    }
}
