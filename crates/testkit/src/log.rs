//! Captures the log of one thread.

use std::sync::Once;

use tracing::span::{Attributes, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Id, Metadata, Subscriber};

/// Runs `work` with a subscriber that receives everything this thread logs, whatever other tests of the
/// same process log at the same time.
///
/// `tracing` caches, for all threads, whether a log statement is enabled. The first thread that reaches the
/// statement sets the cached value; if that thread is a test without a subscriber, the statement is disabled
/// for every test. The default subscriber of the process therefore prevents the caching.
pub fn with_subscriber<T>(
    subscriber: impl Subscriber + Send + Sync + 'static,
    work: impl FnOnce() -> T,
) -> T {
    static SET_DEFAULT: Once = Once::new();
    SET_DEFAULT.call_once(|| {
        tracing::subscriber::set_global_default(UncachedSubscriber)
            .expect("the process has no default subscriber");
    });
    tracing::subscriber::with_default(subscriber, work)
}

/// Records nothing, and makes `tracing` query the current subscriber for every log statement.
struct UncachedSubscriber;

impl Subscriber for UncachedSubscriber {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
