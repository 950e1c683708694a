//! Tools as a server stores them.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value};
use toolwire_contract::{Tool, ToolResult};

pub use crate::changes::Changes;
use crate::context::Context;
pub use crate::reply::{CompletedCall, Reply};
use crate::tasks::TaskSupport;

/// Runs a tool with unchecked arguments and returns its result, which may be an error.
pub trait Handler: Send + Sync {
    fn run<'a>(&'a self, arguments: Map<String, Value>, context: &'a Context) -> BoxFuture<'a, ToolResult>;

    /// Whether calls may become tasks.
    fn task_support(&self) -> Option<TaskSupport> {
        None
    }
}

/// A registered tool: its definition with the served name, and its handler.
#[derive(Clone)]
pub struct Registered {
    pub tool: Tool,
    /// The name without prefix, for code, docs and logs.
    pub plain_name: String,
    pub handler: Arc<dyn Handler>,
}
