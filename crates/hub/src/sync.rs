//! Locking without poison errors.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex even after a panic: values here are set in one step, so they are never half-updated.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
