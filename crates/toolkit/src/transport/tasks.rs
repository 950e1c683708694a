//! The tasks of a server: running calls without a request, and their results until they expire.
//!
//! The id alone gives access to a task, because MCP 2026-07-28 has no sessions. It is therefore as long as a
//! key, and tasks cannot be listed.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::task_manager::current_timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::task_questions::Questions;
use crate::tasks::TaskOptions;

/// The result of a call as JSON, or a protocol error.
pub(super) type TaskOutcome = Result<Map<String, Value>, ErrorData>;

/// A running call that can be moved from its request to a task.
pub(super) type Work = Pin<Box<dyn Future<Output = TaskOutcome> + Send>>;

/// All tasks of a server.
pub(super) struct Tasks {
    options: TaskOptions,
    stored: Mutex<StoredTasks>,
    /// Cancels all tasks.
    pub(super) ended: CancellationToken,
}

#[derive(Default)]
struct StoredTasks {
    by_id: HashMap<String, Arc<Task>>,
    /// The size of all results together.
    bytes: usize,
}

/// The reason why no task was created.
#[derive(Debug)]
pub(super) enum TaskRefusal {
    Full,
    NoRandomness,
}

/// A call that continues after its first response.
pub(super) struct Task {
    id: String,
    created_at: String,
    expires: Instant,
    /// The token of the tool.
    cancelled: CancellationToken,
    state: Mutex<TaskState>,
    pub(super) questions: Questions,
}

struct TaskState {
    phase: TaskPhase,
    updated_at: String,
    message: Option<String>,
    /// The bytes reserved for the result.
    bytes: usize,
}

enum TaskPhase {
    Working,
    Completed(Map<String, Value>),
    Failed(ErrorData),
    Cancelled,
}

impl Tasks {
    pub(super) fn new(options: TaskOptions, ended: CancellationToken) -> Tasks {
        Tasks { options, stored: Mutex::default(), ended }
    }

    /// Creates a task. `cancelled` is the token of its tool.
    pub(super) fn open(&self, cancelled: CancellationToken) -> Result<Arc<Task>, TaskRefusal> {
        let mut key = [0_u8; 16];
        getrandom::fill(&mut key).map_err(|_| TaskRefusal::NoRandomness)?;
        let now = current_timestamp();
        let task = Arc::new(Task {
            id: format!("{:032x}", u128::from_be_bytes(key)),
            created_at: now.clone(),
            expires: expires(self.options.lifetime),
            cancelled,
            state: Mutex::new(TaskState {
                phase: TaskPhase::Working,
                updated_at: now,
                message: None,
                bytes: 0,
            }),
            questions: Questions::default(),
        });
        let mut stored = self.stored();
        if stored.by_id.len() >= self.options.max_tasks || self.ended.is_cancelled() {
            return Err(TaskRefusal::Full);
        }
        stored.by_id.insert(task.id.clone(), task.clone());
        Ok(task)
    }

    pub(super) fn find(&self, id: &str) -> Result<Arc<Task>, ErrorData> {
        // An expired task may not have been removed yet.
        let found = self.stored().by_id.get(id).filter(|task| Instant::now() < task.expires).cloned();
        found.ok_or_else(|| ErrorData::invalid_params("unknown or expired task", None))
    }

    /// Runs a task, stores its result, and removes the task when it expires.
    pub(super) async fn run(&self, task: &Task, mut work: Work) {
        let outcome = tokio::select! {
            biased;
            () = task.cancelled.cancelled() => None,
            () = self.ended.cancelled() => None,
            () = tokio::time::sleep_until(task.expires) => None,
            outcome = &mut work => Some(outcome),
        };
        match outcome {
            Some(outcome) => self.finish(task, outcome),
            None => task.cancel(),
        }
        // Release the resources of the tool now, not when the task expires.
        drop(work);
        tokio::select! {
            () = tokio::time::sleep_until(task.expires) => (),
            () = self.ended.cancelled() => (),
        }
        let mut stored = self.stored();
        stored.by_id.remove(&task.id);
        stored.bytes -= task.state().bytes;
    }

    fn finish(&self, task: &Task, outcome: TaskOutcome) {
        let (phase, bytes) = match outcome {
            Err(error) => (TaskPhase::Failed(error), 0),
            Ok(result) => {
                let bytes = serde_json::to_vec(&result).map_or(0, |text| text.len());
                match self.reserve_bytes(bytes) {
                    true => (TaskPhase::Completed(result), bytes),
                    false => {
                        let text = format!(
                            "the result has {bytes} bytes, which exceeds the space left for task results"
                        );
                        (TaskPhase::Failed(ErrorData::internal_error(text, None)), 0)
                    }
                }
            }
        };
        if !task.end(phase, bytes) {
            self.stored().bytes -= bytes;
        }
    }

    fn reserve_bytes(&self, bytes: usize) -> bool {
        let mut stored = self.stored();
        let has_room = bytes <= self.options.max_result_bytes.saturating_sub(stored.bytes);
        if has_room {
            stored.bytes += bytes;
        }
        has_room
    }

    /// Returns the response to the call that became a task.
    pub(super) fn creation_response(&self, task: &Task) -> Map<String, Value> {
        let mut fields = self.fields(task, &task.state(), "working");
        fields.insert("resultType".to_owned(), json!("task"));
        fields
    }

    /// Returns the status of a task.
    pub(super) fn status(&self, task: &Task) -> Map<String, Value> {
        let state = task.state();
        let open = task.questions.open();
        let (status, detail) = match &state.phase {
            TaskPhase::Working if open.is_empty() => ("working", None),
            TaskPhase::Working => ("input_required", Some(("inputRequests", Value::Object(open)))),
            TaskPhase::Completed(result) => ("completed", Some(("result", Value::Object(result.clone())))),
            TaskPhase::Failed(error) => ("failed", Some(("error", json!(error)))),
            TaskPhase::Cancelled => ("cancelled", None),
        };
        let mut fields = self.fields(task, &state, status);
        if let Some((key, value)) = detail {
            fields.insert(key.to_owned(), value);
        }
        fields
    }

    fn fields(&self, task: &Task, state: &TaskState, status: &str) -> Map<String, Value> {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut fields = Map::new();
        fields.insert("taskId".to_owned(), json!(task.id));
        fields.insert("status".to_owned(), json!(status));
        if let Some(message) = &state.message {
            fields.insert("statusMessage".to_owned(), json!(message));
        }
        fields.insert("createdAt".to_owned(), json!(task.created_at));
        fields.insert("lastUpdatedAt".to_owned(), json!(state.updated_at));
        fields.insert("ttlMs".to_owned(), json!(milliseconds(self.options.lifetime)));
        fields.insert("pollIntervalMs".to_owned(), json!(milliseconds(self.options.poll_interval).max(1)));
        fields
    }

    fn stored(&self) -> MutexGuard<'_, StoredTasks> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limits the lifetime, so that adding it cannot overflow.
fn expires(lifetime: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + lifetime.min(YEAR)
}

impl Task {
    /// Cancels the task, unless it has ended.
    pub(super) fn cancel(&self) {
        if self.end(TaskPhase::Cancelled, 0) {
            self.cancelled.cancel();
        }
    }

    /// Sets the status message.
    pub(super) fn set_message(&self, message: String) {
        let mut state = self.state();
        state.message = Some(message);
        state.updated_at = current_timestamp();
    }

    /// Passes replies to the tool's questions. Replies without an open question are ignored.
    pub(super) fn reply(&self, replies: impl IntoIterator<Item = (String, Value)>) {
        self.questions.reply(replies);
        self.touch();
    }

    /// Updates the time of the last change.
    pub(super) fn touch(&self) {
        self.state().updated_at = current_timestamp();
    }

    /// Ends the task. Returns `false` if it had already ended.
    fn end(&self, phase: TaskPhase, bytes: usize) -> bool {
        let mut state = self.state();
        let is_first = matches!(state.phase, TaskPhase::Working);
        if is_first {
            state.phase = phase;
            state.bytes = bytes;
            state.updated_at = current_timestamp();
        }
        is_first
    }

    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
