//! The time limits for the head of a request: how long a connection may be idle before it, and how long a
//! head may take once it has begun.
//!
//! Hyper has one limit for both: it starts a timer when it waits for a head. The timer here also knows when
//! the first byte has arrived.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// Creates the timers of one connection.
#[derive(Clone)]
pub(crate) struct HeadTimer {
    /// The maximum duration of a head. It is also the maximum time until the first request has arrived.
    head: Duration,
    /// The maximum time before each later head.
    idle: Duration,
    waiting: Arc<Mutex<Waiting>>,
}

/// What the connection waits for.
#[derive(Clone, Copy)]
enum Waiting {
    /// Nothing: the connection is new.
    Nothing,
    /// The head of the first request.
    FirstHead,
    /// The first byte of a later head.
    NextHead,
    /// The rest of a later head, which began at this time.
    RestOfHead(Instant),
}

impl HeadTimer {
    pub(crate) fn new(head: Duration, idle: Duration) -> HeadTimer {
        HeadTimer { head, idle, waiting: Arc::new(Mutex::new(Waiting::Nothing)) }
    }

    /// Records that bytes have arrived.
    pub(crate) fn record_bytes(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*waiting, Waiting::NextHead) {
            *waiting = Waiting::RestOfHead(Instant::now());
        }
    }

    /// Returns the deadline of a head that the connection has been waiting for since `start`.
    fn deadline(&self, start: Instant) -> Instant {
        match *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Waiting::Nothing | Waiting::FirstHead => start + self.head,
            Waiting::NextHead => start + self.idle,
            Waiting::RestOfHead(begun) => begun + self.head,
        }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now())
    }

    /// Starts to wait for a head. The deadline of hyper, which does not depend on what has arrived, is
    /// ignored.
    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = match *waiting {
            Waiting::Nothing => Waiting::FirstHead,
            _ => Waiting::NextHead,
        };
        drop(waiting);
        let start = Instant::now();
        let sleep = Box::pin(tokio::time::sleep_until(self.deadline(start).into()));
        Box::pin(HeadSleep { timer: self.clone(), start, sleep })
    }
}

/// Waits until the deadline of a head, which changes when its first byte arrives.
struct HeadSleep {
    timer: HeadTimer,
    start: Instant,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline = tokio::time::Instant::from_std(self.timer.deadline(self.start));
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(context)
    }
}
