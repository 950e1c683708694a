//! A connection on its own thread, so that disk I/O never blocks the async runtime.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::error::SqliteFailure;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The maximum number of queued jobs; further callers wait.
const MAX_QUEUED_JOBS: usize = 64;

/// The time without jobs after which the thread runs its `idle` job.
const IDLE_AFTER: Duration = Duration::from_millis(20);

/// Owns the thread and its connection. Dropping it finishes the queued jobs, closes the connection and joins
/// the thread.
pub(super) struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    queue_slots: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread and opens a connection there. `idle` runs once after each burst of jobs.
    pub(super) async fn start(
        name: &str,
        open: impl FnOnce() -> Result<Connection, SqliteFailure> + Send + 'static,
        idle: fn(&mut Connection),
    ) -> Result<Worker, SqliteFailure> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (opened, is_open) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let mut connection = match open() {
                    Ok(connection) => connection,
                    Err(failure) => {
                        let _ = opened.send(Err(failure));
                        return;
                    }
                };
                if opened.send(Ok(())).is_err() {
                    return;
                }
                // A panic fails only its own job: the transaction is rolled back when it is dropped.
                let mut run = |job: Job| {
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
                };
                while let Ok(job) = queue.recv() {
                    run(job);
                    loop {
                        match queue.recv_timeout(IDLE_AFTER) {
                            Ok(job) => run(job),
                            Err(RecvTimeoutError::Timeout) => break run(Box::new(idle)),
                            Err(RecvTimeoutError::Disconnected) => return,
                        }
                    }
                }
            })
            .map_err(|error| SqliteFailure::Unavailable(error.to_string()))?;
        let queue_slots = Arc::new(Semaphore::new(MAX_QUEUED_JOBS));
        let worker = Worker { jobs: Some(jobs), queue_slots, thread: Some(thread) };
        is_open
            .await
            .unwrap_or_else(|_| Err(SqliteFailure::Unavailable("its worker thread exited".to_owned())))?;
        Ok(worker)
    }

    /// Runs a job on the thread. Dropping the future does not stop a queued job.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Result<T, SqliteFailure> {
        let unavailable = || SqliteFailure::Unavailable("its worker thread exited".to_owned());
        let slot = self.queue_slots.clone().acquire_owned().await.map_err(|_| unavailable())?;
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let done = job(connection);
            drop(slot);
            let _ = sender.send(done);
        });
        let jobs = self.jobs.as_ref().expect("the queue exists until the worker is dropped");
        jobs.send(job).map_err(|_| unavailable())?;
        receiver
            .await
            .unwrap_or_else(|_| Err(SqliteFailure::Unavailable("the operation panicked".to_owned())))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing the queue ends the thread.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
