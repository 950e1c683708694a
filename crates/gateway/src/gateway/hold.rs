//! What a request uses while it runs, such as its place among the concurrent requests.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Values that are kept until the response is complete, if it continues after the request. Cheap to clone: the
/// values are dropped with the last clone.
#[derive(Clone, Default)]
pub(crate) struct Hold(Arc<Held>);

#[derive(Default)]
struct Held {
    is_background: AtomicBool,
    values: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Hold {
    /// Records that the response continues in the background.
    pub(crate) fn begin_background(&self) {
        self.0.is_background.store(true, Ordering::Release);
    }

    pub(crate) fn is_background(&self) -> bool {
        self.0.is_background.load(Ordering::Acquire)
    }

    pub(crate) fn keep(&self, value: impl Send + 'static) {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(value));
    }
}
