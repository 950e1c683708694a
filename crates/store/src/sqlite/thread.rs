//! A connection on a thread of its own, so that no runtime waits for a disk.

use std::panic::{self, AssertUnwindSafe};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// How many jobs may wait; past that, callers wait to hand theirs over.
const QUEUE: usize = 64;

/// Owns the thread, and with it the connection: dropping it does the jobs that are waiting, closes the connection and
/// ends the thread.
pub(super) struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread and opens a connection there.
    pub(super) async fn start(
        name: &str,
        open: impl FnOnce() -> Result<Connection, Failure> + Send + 'static,
    ) -> Result<Worker, Failure> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
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
                while let Some(job) = waiting.blocking_recv() {
                    // A panic costs the one job: its transaction rolls back as it is dropped.
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
                }
            })
            .map_err(|error| Failure::Gone(error.to_string()))?;
        let worker = Worker { jobs: Some(jobs), thread: Some(thread) };
        is_open.await.unwrap_or_else(|_| Err(Failure::Gone("its thread ended".to_owned())))?;
        Ok(worker)
    }

    /// Does a job on the thread. Dropping the future does not stop a job that was handed over.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let _ = answer.send(job(connection));
        });
        let jobs = self.jobs.as_ref().expect("the queue is there until the worker is dropped");
        jobs.send(job).await.map_err(|_| Failure::Gone("its thread ended".to_owned()))?;
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
