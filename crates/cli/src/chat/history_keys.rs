//! The keys Up and Down: they move through the history, or search it for entries that start like the typed text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustyline::{Cmd, ConditionalEventHandler, Event, EventContext, RepeatCount};

const UNDECIDED: u8 = 0;
const MOVING: u8 = 1;
const SEARCHING: u8 = 2;

/// The use of the keys for the current line, which the first press decides.
#[derive(Clone, Default)]
pub(super) struct HistoryMode(Arc<AtomicU8>);

impl HistoryMode {
    /// Leaves the decision to the next press.
    pub(super) fn reset(&self) {
        self.0.store(UNDECIDED, Ordering::Relaxed);
    }

    /// Whether Up searches. A line that came from the history is not typed text.
    fn searches(&self, line: &str) -> bool {
        let mode = match self.0.load(Ordering::Relaxed) {
            _ if line.is_empty() => MOVING,
            // Up moves through the lines of a message first.
            UNDECIDED if line.contains('\n') => UNDECIDED,
            UNDECIDED => SEARCHING,
            mode => mode,
        };
        self.0.store(mode, Ordering::Relaxed);
        mode == SEARCHING
    }
}

pub(super) struct OnUp(pub(super) HistoryMode);

impl ConditionalEventHandler for OnUp {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let is_first_line = !context.line()[..context.pos()].contains('\n');
        (is_first_line && self.0.searches(context.line())).then_some(Cmd::HistorySearchBackward)
    }
}

pub(super) struct OnDown(pub(super) HistoryMode);

impl ConditionalEventHandler for OnDown {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let is_last_line = !context.line()[context.pos()..].contains('\n');
        let searches = self.0.0.load(Ordering::Relaxed) == SEARCHING;
        (is_last_line && searches).then_some(Cmd::HistorySearchForward)
    }
}
