//! Calls that go on after they were answered: what a tool and a server say about them.

use std::time::Duration;

use crate::server::ServerBuilder;

/// That calls of a tool may become tasks (MCP's extension `io.modelcontextprotocol/tasks`): the client gets the id of a task
/// at once, asks how it is when it likes, answers the tool's questions there, and may cancel it.
///
/// Only clients that know the extension get tasks; for others the call is a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSupport {
    /// Clients that know no tasks are refused.
    pub is_required: bool,
    pub start: TaskStart,
}

/// When a call becomes a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskStart {
    /// Before the tool runs.
    #[default]
    AtOnce,
    /// When the tool says so with [`crate::Client::continue_as_task`]. What it asks before that ends the call with the
    /// question; if it ends before that, the call has an ordinary answer.
    WhenTold,
}

impl TaskSupport {
    /// As MCP names it in a tool's `execution`.
    pub(crate) fn word(self) -> &'static str {
        if self.is_required { "required" } else { "optional" }
    }
}

/// How many tasks a server keeps, and for how long. Finished ones count: their results wait to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// How long a task lives from its creation on. What still runs then is cancelled, and a result is kept until then, as often
    /// as it may be fetched.
    pub lifetime: Duration,
    /// How many there may be. Above that a call stays a call, or is refused where a task is required.
    pub max_tasks: usize,
    /// How large all kept results may be together, as JSON. A result that has no room makes its task fail.
    pub max_result_bytes: usize,
    /// How often clients should ask.
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
    /// How many tasks are kept, and for how long. Which tools may become tasks is said by each.
    #[must_use]
    pub fn tasks(mut self, options: TaskOptions) -> ServerBuilder {
        self.server.offers.tasks = options;
        self
    }
}
