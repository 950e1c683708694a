//! Options for tasks: calls that continue after the first response.

use std::time::Duration;

use crate::server::ServerBuilder;

/// Lets calls of a tool become tasks (MCP's extension `io.modelcontextprotocol/tasks`). The client receives a
/// task id, polls the status, replies to the tool's questions there, and can cancel the task.
///
/// Only clients that support the extension get tasks; other clients make ordinary calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSupport {
    /// Reject clients that do not support tasks.
    pub is_required: bool,
    pub start: TaskStart,
}

/// When a call becomes a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskStart {
    /// Before the tool runs.
    #[default]
    AtOnce,
    /// When the tool calls [`crate::client::Client::continue_as_task`]. A question before that is
    /// the response to the call. A tool that finishes before that returns an ordinary result.
    OnRequest,
}

impl TaskSupport {
    /// Returns the value of `taskSupport` in a tool's `execution`.
    pub(crate) fn mcp_value(self) -> &'static str {
        if self.is_required { "required" } else { "optional" }
    }
}

/// Limits for the tasks of a server. Finished tasks count until they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// The lifetime of a task, counted from its creation. A task that is still running at the end is
    /// cancelled; until then, a result can be fetched repeatedly.
    pub lifetime: Duration,
    /// The maximum number of tasks. Beyond it, a call runs without a task, or is rejected if a task
    /// is required.
    pub max_tasks: usize,
    /// The maximum size of all stored results together, as JSON. A task whose result exceeds it fails.
    pub max_result_bytes: usize,
    /// The interval at which clients should poll.
    pub poll_interval: Duration,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        TaskOptions {
            lifetime: Duration::from_secs(30 * 60),
            max_tasks: 1024,
            max_result_bytes: 64 * 1024 * 1024,
            poll_interval: Duration::from_secs(1),
        }
    }
}

impl ServerBuilder {
    /// Sets the limits for tasks. Each tool states whether it supports tasks.
    #[must_use]
    pub fn tasks(mut self, options: TaskOptions) -> ServerBuilder {
        self.server.offers.tasks = options;
        self
    }
}
