//! The life of one server, as a machine that never awaits.
//!
//! Its driver feeds it what happened, with the time and a random number, and carries out the actions it answers with. A server
//! that dies is started again after a while that doubles; one that keeps dying is left alone for longer, then tried once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// One server's life.
#[derive(Clone, Debug)]
pub struct Machine {
    policy: Policy,
    state: State,
    /// Attempts that failed since the server last proved itself.
    failures: u32,
    /// When it died, within the window.
    deaths: VecDeque<Instant>,
    /// Times in a row that the circuit opened.
    openings: u32,
    /// When the last attempt ended.
    ended: Option<Instant>,
}

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
    pub longest_pause: Duration,
    /// As many deaths within the window open the circuit.
    pub deaths: usize,
    pub window: Duration,
    /// How long the circuit stays open, the first time; each further time twice as long.
    pub rest: Duration,
    pub longest_rest: Duration,
    /// A server that stays ready this long has proved itself, and its past is forgotten.
    pub proof: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// An attempt is under way; `probe` if it is the one after the circuit was open.
    Connecting {
        probe: bool,
    },
    Ready {
        since: Instant,
        probe: bool,
    },
    /// It will be tried again at `until`.
    BackingOff {
        until: Instant,
        reason: String,
    },
    /// It died too often, or failed for good: nothing is tried before `until`, or, if that is `None`, before somebody asks.
    Broken {
        until: Option<Instant>,
        reason: String,
    },
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The attempt gave a session.
    Connected,
    /// The attempt failed. `permanent`: trying again by itself cannot help, as with a command that does not exist.
    ConnectFailed {
        reason: String,
        permanent: bool,
    },
    /// The session ended, and nobody here ended it.
    Died {
        reason: String,
    },
    /// The time of the last [`Action::WakeAt`] has come.
    Timer,
    StopRequested,
    /// A person wants it tried now.
    RetryNow,
    /// A call waits for the server.
    CallWanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start an attempt to connect.
    Connect,
    /// Send [`Event::Timer`] at this time; an earlier request of this kind is void.
    WakeAt(Instant),
    /// Read the tools, and offer them.
    Offer,
    /// Offer the tools no longer, and fail the calls that are under way.
    Withdraw,
    /// End the attempt or the session, and await its end.
    Close,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            deaths: 5,
            window: Duration::from_secs(120),
            rest: Duration::from_secs(60),
            longest_rest: Duration::from_secs(600),
            proof: Duration::from_secs(60),
        }
    }
}

impl Machine {
    /// A server about to be connected for the first time, and what to do for that.
    pub fn start(policy: Policy) -> (Machine, Vec<Action>) {
        let machine = Machine {
            policy,
            state: State::Connecting { probe: false },
            failures: 0,
            deaths: VecDeque::new(),
            openings: 0,
            ended: None,
        };
        (machine, vec![Action::Connect])
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// What to do now that `event` happened. `jitter` is a random number from 0 to 1: pauses are that part of their full
    /// length, so that servers which died together do not come back together.
    pub fn step(&mut self, event: Event, now: Instant, jitter: f64) -> Vec<Action> {
        match (&self.state, event) {
            (State::Stopped, Event::Connected) => vec![Action::Close],
            (State::Stopped, _) => Vec::new(),
            (state, Event::StopRequested) => {
                let actions = match state {
                    State::Ready { .. } => vec![Action::Withdraw, Action::Close],
                    State::Connecting { .. } => vec![Action::Close],
                    _ => Vec::new(),
                };
                self.state = State::Stopped;
                actions
            }

            (State::Connecting { probe }, Event::Connected) => {
                self.state = State::Ready { since: now, probe: *probe };
                vec![Action::Offer]
            }
            // Nobody waits for a session now, so it must not be left alone.
            (State::BackingOff { .. } | State::Broken { .. }, Event::Connected) => vec![Action::Close],

            (State::Connecting { .. }, Event::ConnectFailed { reason, permanent: true }) => {
                self.ended = Some(now);
                self.state = State::Broken { until: None, reason };
                Vec::new()
            }
            (State::Connecting { probe: true }, Event::ConnectFailed { reason, .. }) => {
                self.open(reason, now)
            }
            // A session can die before its beginning was told.
            (State::Connecting { .. }, Event::ConnectFailed { reason, .. } | Event::Died { reason }) => {
                self.back_off(reason, now, jitter)
            }

            (State::Ready { since, probe }, Event::Died { reason }) => {
                let has_proved = now.saturating_duration_since(*since) >= self.policy.proof;
                let failed_probe = *probe && !has_proved;
                let mut actions = vec![Action::Withdraw];
                actions.extend(self.died(reason, now, jitter, has_proved, failed_probe));
                actions
            }

            (State::BackingOff { until, .. } | State::Broken { until: Some(until), .. }, Event::Timer)
                if now < *until =>
            {
                vec![Action::WakeAt(*until)]
            }
            (State::BackingOff { .. }, Event::Timer | Event::RetryNow) => self.connect(false),
            (State::Broken { until: Some(_), .. }, Event::Timer) => self.connect(true),
            (State::Broken { .. }, Event::RetryNow) => self.connect(self.openings > 0),
            // A call may shorten a pause, but calls in a row do not become attempts in a row.
            (State::BackingOff { .. }, Event::CallWanted) if self.is_rested(now) => self.connect(false),

            _ => Vec::new(),
        }
    }

    fn connect(&mut self, probe: bool) -> Vec<Action> {
        self.state = State::Connecting { probe };
        vec![Action::Connect]
    }

    fn died(
        &mut self,
        reason: String,
        now: Instant,
        jitter: f64,
        has_proved: bool,
        failed_probe: bool,
    ) -> Vec<Action> {
        if has_proved {
            self.failures = 0;
            self.openings = 0;
        }
        self.deaths.push_back(now);
        let window = self.policy.window;
        self.deaths.retain(|death| now.saturating_duration_since(*death) <= window);
        if failed_probe || self.deaths.len() >= self.policy.deaths {
            return self.open(reason, now);
        }
        self.back_off(reason, now, jitter)
    }

    fn back_off(&mut self, reason: String, now: Instant, jitter: f64) -> Vec<Action> {
        let whole = doubled(self.policy.pause, self.failures, self.policy.longest_pause);
        // `clamp` lets NaN through, and a pause must be some time.
        let part = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
        let until = now + whole.mul_f64(part);
        self.failures = self.failures.saturating_add(1);
        self.ended = Some(now);
        self.state = State::BackingOff { until, reason };
        vec![Action::WakeAt(until)]
    }

    fn open(&mut self, reason: String, now: Instant) -> Vec<Action> {
        let until = now + doubled(self.policy.rest, self.openings, self.policy.longest_rest);
        self.openings = self.openings.saturating_add(1);
        self.deaths.clear();
        self.ended = Some(now);
        self.state = State::Broken { until: Some(until), reason };
        vec![Action::WakeAt(until)]
    }

    fn is_rested(&self, now: Instant) -> bool {
        self.ended.is_none_or(|ended| now.saturating_duration_since(ended) >= self.policy.pause)
    }
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with a clock that only the test moves.
    struct Life {
        machine: Machine,
        zero: Instant,
        seconds: u64,
        jitter: f64,
    }

    impl Life {
        fn start() -> Life {
            let (machine, actions) = Machine::start(Policy::default());
            assert_eq!(actions, [Action::Connect]);
            Life { machine, zero: Instant::now(), seconds: 0, jitter: 1.0 }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.zero + Duration::from_secs(seconds)
        }

        /// Lets time pass, then tells of the event.
        #[track_caller]
        fn after(&mut self, seconds: u64, event: Event, expected: &[Action]) -> &mut Life {
            self.seconds += seconds;
            let actions = self.machine.step(event.clone(), self.at(self.seconds), self.jitter);
            assert_eq!(actions, expected, "{event:?} at {} s", self.seconds);
            self
        }

        #[track_caller]
        fn is(&self, expected: State) {
            assert_eq!(*self.machine.state(), expected);
        }

        fn wake(&self, seconds: u64) -> Action {
            Action::WakeAt(self.at(self.seconds + seconds))
        }

        /// Connected, and dead a second later; `pause` is what follows.
        #[track_caller]
        fn lives_and_dies(&mut self, pause: u64) -> &mut Life {
            self.after(0, Event::Connected, &[Action::Offer]);
            let wake = self.wake(1 + pause);
            self.after(1, died(), &[Action::Withdraw, wake]);
            self.after(pause, Event::Timer, &[Action::Connect])
        }
    }

    fn died() -> Event {
        Event::Died { reason: "exit 1".to_owned() }
    }

    fn failed() -> Event {
        Event::ConnectFailed { reason: "no answer".to_owned(), permanent: false }
    }

    fn failed_for_good() -> Event {
        Event::ConnectFailed { reason: "no such command".to_owned(), permanent: true }
    }

    #[test]
    fn a_server_that_connects_is_ready() {
        let mut life = Life::start();
        life.after(2, Event::Connected, &[Action::Offer]);
        life.is(State::Ready { since: life.at(2), probe: false });
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut life = Life::start();
        for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let wake = life.wake(pause);
            life.after(0, failed(), &[wake]).after(pause, Event::Timer, &[Action::Connect]);
        }
        for _ in 0..100 {
            let wake = life.wake(60);
            life.after(0, failed(), &[wake]).after(60, Event::Timer, &[Action::Connect]);
        }
    }

    #[test]
    fn jitter_takes_a_part_of_the_pause() {
        for (jitter, milliseconds) in
            [(0.0, 0), (0.25, 250), (0.5, 500), (1.0, 1000), (7.0, 1000), (-1.0, 0), (f64::NAN, 1000)]
        {
            let mut life = Life::start();
            life.jitter = jitter;
            let wake = Action::WakeAt(life.zero + Duration::from_millis(milliseconds));
            life.after(0, failed(), &[wake]);
        }
    }

    #[test]
    fn a_server_that_dies_is_withdrawn_at_once_and_tried_again() {
        let mut life = Life::start();
        life.after(0, Event::Connected, &[Action::Offer]);
        let wake = life.wake(11);
        life.after(10, died(), &[Action::Withdraw, wake]);
        life.is(State::BackingOff { until: life.at(11), reason: "exit 1".to_owned() });
        life.after(1, Event::Timer, &[Action::Connect]).after(0, Event::Connected, &[Action::Offer]);
    }

    #[test]
    fn a_server_that_proved_itself_starts_from_the_first_pause() {
        let mut life = Life::start();
        life.lives_and_dies(1).lives_and_dies(2).lives_and_dies(4);
        life.after(0, Event::Connected, &[Action::Offer]);
        let wake = life.wake(61);
        life.after(60, died(), &[Action::Withdraw, wake]);
    }

    #[test]
    fn a_server_that_keeps_dying_is_left_alone_then_tried_once() {
        let mut life = Life::start();
        life.lives_and_dies(1).lives_and_dies(2).lives_and_dies(4).lives_and_dies(8);
        life.after(0, Event::Connected, &[Action::Offer]);
        let wake = life.wake(60);
        life.after(0, died(), &[Action::Withdraw, wake]);
        life.is(State::Broken { until: Some(life.at(life.seconds + 60)), reason: "exit 1".to_owned() });
        // Calls do not hurry it, and a timer that comes early is set again.
        life.after(30, Event::CallWanted, &[]);
        let wake = life.wake(30);
        life.after(0, Event::Timer, &[wake]).after(30, Event::Timer, &[Action::Connect]);
        life.is(State::Connecting { probe: true });

        // The probe fails: twice the rest. It connects and dies at once: twice again. Then up to the longest.
        let wake = life.wake(120);
        life.after(0, failed(), &[wake]).after(120, Event::Timer, &[Action::Connect]);
        life.after(0, Event::Connected, &[Action::Offer]);
        let wake = life.wake(241);
        life.after(1, died(), &[Action::Withdraw, wake]).after(240, Event::Timer, &[Action::Connect]);
        for rest in [480, 600, 600] {
            let wake = life.wake(rest);
            life.after(0, failed(), &[wake]).after(rest, Event::Timer, &[Action::Connect]);
        }

        // The probe holds: all is forgotten.
        life.after(0, Event::Connected, &[Action::Offer]);
        let wake = life.wake(61);
        life.after(60, died(), &[Action::Withdraw, wake]);
    }

    #[test]
    fn deaths_that_are_far_apart_do_not_break_it() {
        let mut life = Life::start();
        for _ in 0..20 {
            life.after(0, Event::Connected, &[Action::Offer]);
            let wake = life.wake(101);
            life.after(100, died(), &[Action::Withdraw, wake]).after(1, Event::Timer, &[Action::Connect]);
        }
    }

    #[test]
    fn a_failure_for_good_waits_for_a_person() {
        let mut life = Life::start();
        life.after(0, failed_for_good(), &[]);
        life.is(State::Broken { until: None, reason: "no such command".to_owned() });
        life.after(9999, Event::Timer, &[]).after(0, Event::CallWanted, &[]);
        life.after(0, Event::RetryNow, &[Action::Connect]);
        life.is(State::Connecting { probe: false });
    }

    #[test]
    fn a_person_hurries_what_waits() {
        let mut life = Life::start();
        let wake = life.wake(1);
        life.after(0, failed(), &[wake]).after(0, Event::RetryNow, &[Action::Connect]);
        // The timer of the pause that was cut short still comes, and means nothing.
        life.after(1, Event::Timer, &[]).after(0, Event::RetryNow, &[]);
        life.after(0, Event::Connected, &[Action::Offer]).after(0, Event::RetryNow, &[]);
    }

    #[test]
    fn a_call_shortens_a_pause_but_not_the_first_second() {
        let mut life = Life::start();
        for pause in [1, 2, 4] {
            let wake = life.wake(pause);
            life.after(0, failed(), &[wake]).after(pause, Event::Timer, &[Action::Connect]);
        }
        let wake = life.wake(8);
        life.after(0, failed(), &[wake]);
        life.after(0, Event::CallWanted, &[]).after(1, Event::CallWanted, &[Action::Connect]);
        life.after(0, Event::CallWanted, &[]);
        let wake = life.wake(16);
        life.after(0, failed(), &[wake]).after(0, Event::CallWanted, &[]);
    }

    #[test]
    fn stopping_ends_whatever_there_is_and_is_final() {
        let pairs: [(&[Event], &[Action]); 4] = [
            (&[], &[Action::Close]),
            (&[Event::Connected], &[Action::Withdraw, Action::Close]),
            (&[failed()], &[]),
            (&[failed_for_good()], &[]),
        ];
        for (events, expected) in pairs {
            let mut life = Life::start();
            for event in events {
                life.machine.step(event.clone(), life.zero, 1.0);
            }
            life.after(0, Event::StopRequested, expected);
            for event in
                [Event::Timer, Event::RetryNow, Event::CallWanted, died(), failed(), Event::StopRequested]
            {
                life.after(1, event, &[]);
            }
            // A session that came too late is not left alone.
            life.after(0, Event::Connected, &[Action::Close]).is(State::Stopped);
        }
    }

    #[test]
    fn events_that_come_late_change_nothing() {
        let mut life = Life::start();
        life.after(0, Event::Timer, &[]).after(0, Event::CallWanted, &[]);
        life.after(0, Event::Connected, &[Action::Offer]);
        life.after(0, Event::Connected, &[]).after(0, failed(), &[]).after(0, Event::Timer, &[]);
        life.is(State::Ready { since: life.at(0), probe: false });
        let wake = life.wake(1);
        life.after(0, died(), &[Action::Withdraw, wake]).after(0, died(), &[]).after(0, failed(), &[]);
        life.after(0, Event::Connected, &[Action::Close]);
        life.is(State::BackingOff { until: life.at(1), reason: "exit 1".to_owned() });
    }
}
