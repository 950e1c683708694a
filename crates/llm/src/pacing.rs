//! Time and chance between the attempts of a request.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// Time and chance between the attempts of a request; a test brings its own.
pub trait Pacing: Send + Sync {
    /// The time of day, for dates in answers and for signatures.
    fn now(&self) -> SystemTime;

    /// A number from 0 to 1, another one each time.
    fn chance(&self) -> f64;

    fn wait(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Pacing for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn chance(&self) -> f64 {
        fastrand::f64()
    }

    fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
