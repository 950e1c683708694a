//! The keys Up and Down: they move through the history, or search it for entries that start like the typed
//! text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustyline::history::SearchDirection;
use rustyline::{Cmd, ConditionalEventHandler, Context, Event, EventContext, RepeatCount};

/// The effect of the keys on the current line. The first press decides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Undecided,
    Moving,
    Searching,
}

#[derive(Default)]
struct HistoryState {
    mode: Mode,
    /// The text before the cursor when the history was last searched for it.
    typed: String,
    has_earlier: bool,
    has_later: bool,
}

/// The state that both keys share.
#[derive(Clone, Default)]
pub(super) struct HistoryKeys(Arc<Mutex<HistoryState>>);

impl HistoryKeys {
    fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the decision to the next press, because a new line begins.
    pub(super) fn reset(&self) {
        *self.state() = HistoryState::default();
    }

    /// Records whether a search would find an entry, because the editor's own search loses its position if it
    /// finds none.
    pub(super) fn observe(&self, typed: &str, context: &Context<'_>) {
        let has_entry = |start: Option<usize>, direction| {
            let found = start.map(|start| context.history().starts_with(typed, start, direction));
            matches!(found, Some(Ok(Some(_))))
        };
        let index = context.history_index();
        let mut state = self.state();
        typed.clone_into(&mut state.typed);
        state.has_earlier = has_entry(index.checked_sub(1), SearchDirection::Reverse);
        state.has_later = has_entry(index.checked_add(1), SearchDirection::Forward);
    }
}

impl HistoryState {
    fn on_up(&mut self, line: &str, typed: &str) -> Option<Cmd> {
        self.mode = match self.mode {
            _ if line.is_empty() => Mode::Moving,
            // Up moves through the lines of a message first.
            Mode::Undecided if line.contains('\n') => Mode::Undecided,
            Mode::Undecided => Mode::Searching,
            mode => mode,
        };
        let is_search = self.mode == Mode::Searching && !typed.contains('\n') && typed == self.typed;
        is_search.then_some(if self.has_earlier { Cmd::HistorySearchBackward } else { Cmd::Noop })
    }

    fn on_down(&self, typed: &str, rest: &str) -> Option<Cmd> {
        let is_search = self.mode == Mode::Searching && !rest.contains('\n') && typed == self.typed;
        is_search.then_some(if self.has_later { Cmd::HistorySearchForward } else { Cmd::Noop })
    }
}

/// The handler of Up. `None` is the editor's own action: the line above, or the previous entry.
pub(super) struct OnUp(pub(super) HistoryKeys);

impl ConditionalEventHandler for OnUp {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        self.0.state().on_up(context.line(), &context.line()[..context.pos()])
    }
}

pub(super) struct OnDown(pub(super) HistoryKeys);

impl ConditionalEventHandler for OnDown {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        let (typed, rest) = context.line().split_at(context.pos());
        self.0.state().on_down(typed, rest)
    }
}

#[cfg(test)]
mod tests {
    use rustyline::history::{History, MemHistory};

    use super::*;

    /// Returns keys that have observed the text at the end of this history.
    fn keys(typed: &str) -> HistoryKeys {
        let mut history = MemHistory::new();
        for entry in ["what is one", "who are you"] {
            history.add(entry).expect("added");
        }
        let keys = HistoryKeys::default();
        keys.observe(typed, &Context::new(&history));
        keys
    }

    #[test]
    fn up_searches_for_typed_text_only() {
        assert_eq!(keys("what").state().on_up("what", "what"), Some(Cmd::HistorySearchBackward));
        assert_eq!(keys("when").state().on_up("when", "when"), Some(Cmd::Noop));
        assert_eq!(keys("one\ntwo").state().on_up("one\ntwo", "one\ntwo"), None);
        let keys = keys("");
        assert_eq!(keys.state().on_up("", ""), None);
        // The line is now an entry of the history, not typed text.
        assert_eq!(keys.state().on_up("who are you", "who are you"), None);
        assert_eq!(keys.state().on_down("who are you", ""), None);
    }

    #[test]
    fn down_searches_after_up() {
        let keys = keys("what");
        assert_eq!(keys.state().on_down("what", ""), None);
        keys.state().on_up("what", "what");
        assert_eq!(keys.state().on_down("what", " is one"), Some(Cmd::Noop));
        keys.reset();
        assert_eq!(keys.state().on_down("what", " is one"), None);
    }
}
