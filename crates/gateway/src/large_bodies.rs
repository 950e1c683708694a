//! Work on large bodies, which would delay other requests on a thread of the runtime.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use toolwire_dialect::client::ErrorKind;

use crate::response::Failure;

/// Smaller bodies are read on the thread that received them, which is faster.
const LARGE_BODY_BYTES: usize = 256 * 1024;

/// The maximum number of large bodies that are read at the same time.
const MAX_AT_ONCE: usize = 4;

/// Whether a body of this size is read on a thread of its own.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LARGE_BODY_BYTES
}

/// Threads for work on large bodies.
pub(crate) struct LargeBodies(Arc<Semaphore>);

impl Default for LargeBodies {
    fn default() -> LargeBodies {
        LargeBodies(Arc::new(Semaphore::new(MAX_AT_ONCE)))
    }
}

impl LargeBodies {
    /// Does work on another thread. Work that has begun is completed even if the future is dropped, so it
    /// counts until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let failed = || Failure::new(ErrorKind::Internal, "the body could not be read");
        let permit = self.0.clone().acquire_owned().await.map_err(|_| failed())?;
        let result = spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        result.await.map_err(|_| failed())
    }
}
