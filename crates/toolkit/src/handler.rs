//! A tool as a server holds it.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::{Tool, ToolResult};

use crate::context::Context;
use crate::tasks::TaskSupport;

/// Runs a tool. What comes in was not checked yet; what comes out is the answer, good or bad.
pub trait Handler: Send + Sync {
    fn run<'a>(&'a self, arguments: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult>;

    /// Whether calls may become tasks.
    fn task_support(&self) -> Option<TaskSupport> {
        None
    }
}

/// A tool that a server's builder named: its definition under the served name, and what runs it.
#[derive(Clone)]
pub struct Registered {
    pub tool: Tool,
    /// The name without prefix, for code, docs and logs.
    pub plain_name: String,
    pub handler: Arc<dyn Handler>,
}
