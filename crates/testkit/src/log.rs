//! Reliable capture of what one thread logs.

use std::sync::Once;

use tracing::span::{Attributes, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Id, Metadata, Subscriber};

/// Runs `work` with a subscriber that receives everything this thread logs, whatever other tests of the
/// same process log at the same time.
///
/// `tracing` decides once, for all threads, whether a log statement is of interest to anyone. The first
/// thread that reaches the statement decides; when that is a test without a subscriber, the statement is
/// off for every test. The default subscriber of the process therefore never decides.
pub fn with_subscriber<T>(
    subscriber: impl Subscriber + Send + Sync + 'static,
    work: impl FnOnce() -> T,
) -> T {
    static SET_DEFAULT: Once = Once::new();
    SET_DEFAULT.call_once(|| {
        tracing::subscriber::set_global_default(Undecided).expect("the process has no default subscriber");
    });
    tracing::subscriber::with_default(subscriber, work)
}

/// Records nothing and keeps every log statement active.
struct Undecided;

impl Subscriber for Undecided {
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
