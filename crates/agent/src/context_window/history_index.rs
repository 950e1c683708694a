//! Sizes and positions in a history, computed once, so that reducing a request takes time proportional to its
//! number of messages.

use std::ops::Range;
use std::sync::Arc;

use toolwire_contract::Message;

use super::compaction::{MessageSize, has_results, starts_turn};

/// The sizes of the messages of a history, and the positions of those with results and those that start a
/// turn.
#[derive(Debug)]
pub(super) struct HistoryIndex<'h> {
    pub(super) history: &'h [Arc<Message>],
    pub(super) sizes: &'h [MessageSize],
    /// The total size of the first `n` messages, at index `n`.
    full_totals: Vec<u64>,
    /// The same with shortened results.
    shortened_totals: Vec<u64>,
    /// The next message with results, at or after each index.
    next_results: Vec<usize>,
    /// The next message that starts a turn, at or after each index.
    next_turns: Vec<usize>,
}

impl<'h> HistoryIndex<'h> {
    /// Creates the index of a history whose messages have these sizes.
    pub(super) fn new(history: &'h [Arc<Message>], sizes: &'h [MessageSize]) -> HistoryIndex<'h> {
        HistoryIndex {
            history,
            sizes,
            full_totals: totals(sizes, |size| size.full),
            shortened_totals: totals(sizes, |size| size.shortened),
            next_results: next(history, has_results),
            next_turns: next(history, starts_turn),
        }
    }

    /// Returns the first message in a range that has results.
    pub(super) fn next_results(&self, range: Range<usize>) -> Option<usize> {
        first(&self.next_results, range)
    }

    /// Returns the first message that starts a turn, at or after an index.
    pub(super) fn next_turn(&self, from: usize) -> Option<usize> {
        first(&self.next_turns, from..self.history.len())
    }

    /// Returns the size of a range of messages. Results before `shortened` are shortened.
    pub(super) fn tokens(&self, range: Range<usize>, shortened: usize) -> u64 {
        let middle = shortened.clamp(range.start, range.end);
        let size =
            |totals: &[u64], range: Range<usize>| totals[range.end].saturating_sub(totals[range.start]);
        size(&self.shortened_totals, range.start..middle) + size(&self.full_totals, middle..range.end)
    }
}

/// Returns the total of the first 0, 1, 2, … sizes.
fn totals(sizes: &[MessageSize], size: impl Fn(&MessageSize) -> u64) -> Vec<u64> {
    let mut total = 0_u64;
    let mut totals = vec![0];
    totals.extend(sizes.iter().map(|message| {
        total = total.saturating_add(size(message));
        total
    }));
    totals
}

/// Returns the index of the next matching message for each index; the number of messages means none.
fn next(history: &[Arc<Message>], matches: impl Fn(&Message) -> bool) -> Vec<usize> {
    let mut found = history.len();
    let mut next = vec![found; history.len()];
    for (index, message) in history.iter().enumerate().rev() {
        if matches(message) {
            found = index;
        }
        next[index] = found;
    }
    next
}

fn first(next: &[usize], range: Range<usize>) -> Option<usize> {
    next.get(range.start).copied().filter(|found| *found < range.end)
}
