//! A connection on a thread of its own, so that no runtime waits for a disk.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::failure::Failure;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// How many jobs may wait; past that, callers wait to hand theirs over.
const QUEUE: usize = 64;

/// How long nothing must have come before the thread rests.
const QUIET: Duration = Duration::from_millis(20);

/// Owns the thread, and with it the connection: dropping it does the jobs that are waiting, closes the connection and
/// ends the thread.
pub(super) struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread and opens a connection there. `rest` is done once after each burst of jobs.
    pub(super) async fn start(
        name: &str,
        open: impl FnOnce() -> Result<Connection, Failure> + Send + 'static,
        rest: fn(&mut Connection),
    ) -> Result<Worker, Failure> {
        let (jobs, waiting) = mpsc::channel::<Job>();
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
                // A panic costs the one job: its transaction rolls back as it is dropped.
                let mut guarded = |job: Job| {
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
                };
                while let Ok(job) = waiting.recv() {
                    guarded(job);
                    loop {
                        match waiting.recv_timeout(QUIET) {
                            Ok(job) => guarded(job),
                            Err(RecvTimeoutError::Timeout) => break guarded(Box::new(rest)),
                            Err(RecvTimeoutError::Disconnected) => return,
                        }
                    }
                }
            })
            .map_err(|error| Failure::Gone(error.to_string()))?;
        let room = Arc::new(Semaphore::new(QUEUE));
        let worker = Worker { jobs: Some(jobs), room, thread: Some(thread) };
        is_open.await.unwrap_or_else(|_| Err(Failure::Gone("its thread ended".to_owned())))?;
        Ok(worker)
    }

    /// Does a job on the thread. Dropping the future does not stop a job that was handed over.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = || Failure::Gone("its thread ended".to_owned());
        let place = self.room.clone().acquire_owned().await.map_err(|_| gone())?;
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let done = job(connection);
            drop(place);
            let _ = answer.send(done);
        });
        let jobs = self.jobs.as_ref().expect("the queue is there until the worker is dropped");
        jobs.send(job).map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(Failure::Gone("the work failed inside".to_owned())))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The closed queue is what ends the thread.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
