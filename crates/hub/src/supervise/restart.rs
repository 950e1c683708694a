//! Decides when a server is connected again. It never awaits.
//!
//! The supervisor reports what happened, with the time and a random number, and follows the state. A server
//! that fails is restarted after a pause that doubles each time. If it keeps dying, a circuit breaker opens:
//! the server is left alone for longer, and then connected once as a probe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The restart state of one server.
#[derive(Clone, Debug)]
pub(super) struct RestartMachine {
    policy: RestartPolicy,
    state: RestartState,
    /// Failures since the server was last stable.
    failures: u32,
    /// When the server died, within the window.
    deaths: VecDeque<Instant>,
    /// The number of times in a row that the circuit opened.
    openings: u32,
    last_failure: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RestartPolicy {
    /// The first pause; each further pause is twice as long.
    min_pause: Duration,
    max_pause: Duration,
    /// This many deaths within the window open the circuit.
    max_deaths: usize,
    death_window: Duration,
    /// The time for which the circuit is open the first time; each further time is twice as long.
    min_open_time: Duration,
    max_open_time: Duration,
    /// A server that is ready this long counts as stable, and its failures are forgotten.
    stable_after: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RestartState {
    /// An attempt is running; `is_probe` if the circuit was open before.
    Connecting {
        is_probe: bool,
    },
    Ready {
        since: Instant,
        is_probe: bool,
    },
    /// The next attempt is at `until`.
    BackingOff {
        until: Instant,
        reason: String,
    },
    /// The server died too often or cannot work. The next attempt is at `until`, or on request if that is
    /// `None`.
    CircuitOpen {
        until: Option<Instant>,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RestartEvent {
    Connected,
    /// The attempt failed; `is_permanent` if a retry without any change is pointless.
    ConnectFailed {
        reason: String,
        is_permanent: bool,
    },
    /// The session ended unexpectedly.
    Died {
        reason: String,
    },
    /// The time of the next attempt has come.
    Timer,
    /// A user requested an attempt.
    RetryRequested,
    /// A call waits for the server.
    CallWaiting,
}

impl Default for RestartPolicy {
    fn default() -> RestartPolicy {
        RestartPolicy {
            min_pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(60),
            max_deaths: 5,
            death_window: Duration::from_secs(120),
            min_open_time: Duration::from_secs(60),
            max_open_time: Duration::from_secs(600),
            stable_after: Duration::from_secs(60),
        }
    }
}

impl RestartMachine {
    /// Starts with the first attempt to connect.
    pub(super) fn new(policy: RestartPolicy) -> RestartMachine {
        RestartMachine {
            policy,
            state: RestartState::Connecting { is_probe: false },
            failures: 0,
            deaths: VecDeque::new(),
            openings: 0,
            last_failure: None,
        }
    }

    pub(super) fn state(&self) -> &RestartState {
        &self.state
    }

    /// Handles an event. `jitter` is a random number from 0 to 1: pauses have this fraction of their full
    /// length, so that servers that died together are not restarted together.
    pub(super) fn handle(&mut self, event: RestartEvent, now: Instant, jitter: f64) {
        use RestartEvent::{CallWaiting, ConnectFailed, Connected, Died, RetryRequested, Timer};
        use RestartState::{BackingOff, CircuitOpen, Connecting, Ready};
        match (&self.state, event) {
            (Connecting { is_probe }, Connected) => {
                self.state = Ready { since: now, is_probe: *is_probe };
            }
            (Connecting { .. }, ConnectFailed { reason, is_permanent: true }) => {
                self.last_failure = Some(now);
                self.state = CircuitOpen { until: None, reason };
            }
            (Connecting { is_probe: true }, ConnectFailed { reason, .. }) => self.open_circuit(reason, now),
            // A session can die before the attempt is reported as successful.
            (Connecting { .. }, ConnectFailed { reason, .. } | Died { reason }) => {
                self.back_off(reason, now, jitter);
            }
            (Ready { since, is_probe }, Died { reason }) => {
                let was_stable = now.saturating_duration_since(*since) >= self.policy.stable_after;
                let probe_failed = *is_probe && !was_stable;
                self.record_death(now, was_stable);
                match probe_failed || self.deaths.len() >= self.policy.max_deaths {
                    true => self.open_circuit(reason, now),
                    false => self.back_off(reason, now, jitter),
                }
            }
            (BackingOff { until, .. } | CircuitOpen { until: Some(until), .. }, Timer) if now < *until => {}
            (BackingOff { .. }, Timer | RetryRequested) => self.connect(false),
            (CircuitOpen { until: Some(_), .. }, Timer) => self.connect(true),
            (CircuitOpen { .. }, RetryRequested) => self.connect(self.openings > 0),
            // A call shortens a pause, but consecutive calls do not cause consecutive attempts.
            (BackingOff { .. }, CallWaiting) if self.min_pause_elapsed(now) => self.connect(false),
            _ => {}
        }
    }

    fn connect(&mut self, is_probe: bool) {
        self.state = RestartState::Connecting { is_probe };
    }

    fn record_death(&mut self, now: Instant, was_stable: bool) {
        if was_stable {
            self.failures = 0;
            self.openings = 0;
        }
        self.deaths.push_back(now);
        let window = self.policy.death_window;
        self.deaths.retain(|death| now.saturating_duration_since(*death) <= window);
    }

    fn back_off(&mut self, reason: String, now: Instant, jitter: f64) {
        let pause = doubled(self.policy.min_pause, self.failures, self.policy.max_pause);
        // `clamp` returns NaN unchanged.
        let fraction = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(now);
        self.state = RestartState::BackingOff { until: now + pause.mul_f64(fraction), reason };
    }

    fn open_circuit(&mut self, reason: String, now: Instant) {
        let open_time = doubled(self.policy.min_open_time, self.openings, self.policy.max_open_time);
        self.openings = self.openings.saturating_add(1);
        self.deaths.clear();
        self.last_failure = Some(now);
        self.state = RestartState::CircuitOpen { until: Some(now + open_time), reason };
    }

    fn min_pause_elapsed(&self, now: Instant) -> bool {
        let is_over = |failure| now.saturating_duration_since(failure) >= self.policy.min_pause;
        self.last_failure.is_none_or(is_over)
    }
}

fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTING: RestartState = RestartState::Connecting { is_probe: false };
    const PROBING: RestartState = RestartState::Connecting { is_probe: true };

    /// A machine with a clock that only the test advances.
    struct TestMachine {
        machine: RestartMachine,
        start: Instant,
        seconds: u64,
        jitter: f64,
    }

    impl TestMachine {
        fn new() -> TestMachine {
            let machine = RestartMachine::new(RestartPolicy::default());
            assert_eq!(*machine.state(), CONNECTING);
            TestMachine { machine, start: Instant::now(), seconds: 0, jitter: 1.0 }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// Advances the clock, and then handles the event.
        #[track_caller]
        fn after(&mut self, seconds: u64, event: RestartEvent, expected: RestartState) -> &mut TestMachine {
            self.seconds += seconds;
            self.machine.handle(event.clone(), self.at(self.seconds), self.jitter);
            assert_eq!(*self.machine.state(), expected, "{event:?} at {} s", self.seconds);
            self
        }

        /// Handles an event that must not change the state.
        #[track_caller]
        fn ignores(&mut self, seconds: u64, event: RestartEvent) -> &mut TestMachine {
            let state = self.machine.state().clone();
            self.after(seconds, event, state)
        }

        #[track_caller]
        fn connects(&mut self) -> &mut TestMachine {
            let RestartState::Connecting { is_probe } = *self.machine.state() else {
                panic!("not connecting")
            };
            let since = self.at(self.seconds);
            self.after(0, RestartEvent::Connected, RestartState::Ready { since, is_probe })
        }

        /// Fails to connect, and connects again after `pause` seconds.
        #[track_caller]
        fn fails(&mut self, pause: u64) -> &mut TestMachine {
            let backing_off = self.backing_off(pause, "no response");
            self.after(0, failed(), backing_off).after(pause, RestartEvent::Timer, CONNECTING)
        }

        /// Connects, dies a second later, and connects again after `pause` seconds.
        #[track_caller]
        fn connects_and_dies(&mut self, pause: u64) -> &mut TestMachine {
            self.connects();
            let backing_off = self.backing_off(1 + pause, "exit 1");
            self.after(1, died(), backing_off).after(pause, RestartEvent::Timer, CONNECTING)
        }

        fn backing_off(&self, seconds: u64, reason: &str) -> RestartState {
            RestartState::BackingOff { until: self.at(self.seconds + seconds), reason: reason.to_owned() }
        }

        fn circuit_open(&self, seconds: u64, reason: &str) -> RestartState {
            let until = Some(self.at(self.seconds + seconds));
            RestartState::CircuitOpen { until, reason: reason.to_owned() }
        }
    }

    fn died() -> RestartEvent {
        RestartEvent::Died { reason: "exit 1".to_owned() }
    }

    fn failed() -> RestartEvent {
        RestartEvent::ConnectFailed { reason: "no response".to_owned(), is_permanent: false }
    }

    fn failed_permanently() -> RestartEvent {
        RestartEvent::ConnectFailed { reason: "no such command".to_owned(), is_permanent: true }
    }

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let mut machine = TestMachine::new();
        for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            machine.fails(pause);
        }
        for _ in 0..100 {
            machine.fails(60);
        }
    }

    #[test]
    fn jitter_shortens_the_pause() {
        for (jitter, milliseconds) in
            [(0.0, 0), (0.25, 250), (0.5, 500), (1.0, 1000), (7.0, 1000), (-1.0, 0), (f64::NAN, 1000)]
        {
            let mut machine = TestMachine::new();
            machine.jitter = jitter;
            let until = machine.start + Duration::from_millis(milliseconds);
            machine.after(0, failed(), RestartState::BackingOff { until, reason: "no response".to_owned() });
        }
    }

    #[test]
    fn a_server_that_dies_is_restarted() {
        let mut machine = TestMachine::new();
        machine.connects();
        let backing_off = machine.backing_off(11, "exit 1");
        machine.after(10, died(), backing_off).after(1, RestartEvent::Timer, CONNECTING).connects();
    }

    #[test]
    fn a_stable_server_starts_again_with_the_first_pause() {
        let mut machine = TestMachine::new();
        machine.connects_and_dies(1).connects_and_dies(2).connects_and_dies(4).connects();
        let backing_off = machine.backing_off(61, "exit 1");
        machine.after(60, died(), backing_off);
    }

    #[test]
    fn a_server_that_keeps_dying_is_paused_and_then_probed() {
        let mut machine = TestMachine::new();
        machine.connects_and_dies(1).connects_and_dies(2).connects_and_dies(4).connects_and_dies(8);
        machine.connects();
        let open = machine.circuit_open(60, "exit 1");
        machine.after(0, died(), open);
        // Calls do not shorten the pause, and an early timer is ignored.
        machine.ignores(30, RestartEvent::CallWaiting).ignores(0, RestartEvent::Timer);
        machine.after(30, RestartEvent::Timer, PROBING);

        // If the probe fails, or connects and dies immediately, the pause doubles, up to the maximum.
        let open = machine.circuit_open(120, "no response");
        machine.after(0, failed(), open).after(120, RestartEvent::Timer, PROBING).connects();
        let open = machine.circuit_open(241, "exit 1");
        machine.after(1, died(), open).after(240, RestartEvent::Timer, PROBING);
        for open_time in [480, 600, 600] {
            let open = machine.circuit_open(open_time, "no response");
            machine.after(0, failed(), open).after(open_time, RestartEvent::Timer, PROBING);
        }

        // After a successful probe, earlier failures do not count.
        machine.connects();
        let backing_off = machine.backing_off(61, "exit 1");
        machine.after(60, died(), backing_off);
    }

    #[test]
    fn rare_deaths_do_not_open_the_circuit() {
        let mut machine = TestMachine::new();
        for _ in 0..20 {
            machine.connects();
            let backing_off = machine.backing_off(101, "exit 1");
            machine.after(100, died(), backing_off).after(1, RestartEvent::Timer, CONNECTING);
        }
    }

    #[test]
    fn a_permanent_failure_waits_for_a_user() {
        let mut machine = TestMachine::new();
        let open = RestartState::CircuitOpen { until: None, reason: "no such command".to_owned() };
        machine.after(0, failed_permanently(), open);
        machine.ignores(9999, RestartEvent::Timer).ignores(0, RestartEvent::CallWaiting);
        machine.after(0, RestartEvent::RetryRequested, CONNECTING);
    }

    #[test]
    fn a_user_can_skip_a_pause() {
        let mut machine = TestMachine::new();
        let backing_off = machine.backing_off(1, "no response");
        machine.after(0, failed(), backing_off).after(0, RestartEvent::RetryRequested, CONNECTING);
        // The timer of the skipped pause is ignored.
        machine.ignores(1, RestartEvent::Timer).ignores(0, RestartEvent::RetryRequested);
        machine.connects().ignores(0, RestartEvent::RetryRequested);
    }

    #[test]
    fn a_call_shortens_a_pause_but_not_the_first_second() {
        let mut machine = TestMachine::new();
        machine.fails(1).fails(2).fails(4);
        let backing_off = machine.backing_off(8, "no response");
        machine.after(0, failed(), backing_off).ignores(0, RestartEvent::CallWaiting);
        machine.after(1, RestartEvent::CallWaiting, CONNECTING).ignores(0, RestartEvent::CallWaiting);
        let backing_off = machine.backing_off(16, "no response");
        machine.after(0, failed(), backing_off).ignores(0, RestartEvent::CallWaiting);
    }

    #[test]
    fn late_events_are_ignored() {
        let mut machine = TestMachine::new();
        machine.ignores(0, RestartEvent::Timer).ignores(0, RestartEvent::CallWaiting).connects();
        machine.ignores(0, RestartEvent::Connected).ignores(0, failed()).ignores(0, RestartEvent::Timer);
        let backing_off = machine.backing_off(1, "exit 1");
        machine.after(0, died(), backing_off).ignores(0, died()).ignores(0, failed());
        machine.ignores(0, RestartEvent::Connected);
    }
}
