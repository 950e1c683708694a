//! Answers questions about a history in constant time, so that reducing a request takes time proportional to
//! its number of messages.

use std::ops::Range;
use std::sync::Arc;

use toolwire_contract::Message;

use super::compaction::{MessageSize, has_results, starts_turn};

/// The sizes of the messages of a history, and the positions of those with results and those that start a turn.
#[derive(Debug)]
pub(super) struct HistoryIndex<'h> {
    pub(super) history: &'h [Arc<Message>],
    pub(super) sizes: &'h [MessageSize],
    /// For each number of messages, their size together.
    full: Vec<u64>,
    /// The same with shortened results.
    shortened: Vec<u64>,
    /// For each index, the first message from there on that has results.
    results: Vec<usize>,
    /// For each index, the first message from there on that starts a turn.
    turns: Vec<usize>,
}

impl<'h> HistoryIndex<'h> {
    /// Creates the index of a history whose messages have these sizes.
    pub(super) fn new(history: &'h [Arc<Message>], sizes: &'h [MessageSize]) -> HistoryIndex<'h> {
        HistoryIndex {
            history,
            sizes,
            full: sums(sizes, |size| size.full),
            shortened: sums(sizes, |size| size.shortened),
            results: next(history, has_results),
            turns: next(history, starts_turn),
        }
    }

    /// Returns the first message in a range that has results.
    pub(super) fn next_results(&self, range: Range<usize>) -> Option<usize> {
        first(&self.results, range)
    }

    /// Returns the first message from an index on that starts a turn.
    pub(super) fn next_turn(&self, from: usize) -> Option<usize> {
        first(&self.turns, from..self.history.len())
    }

    /// Returns the size of a range of messages. Results before `shortened` are shortened.
    pub(super) fn tokens(&self, range: Range<usize>, shortened: usize) -> u64 {
        let middle = shortened.clamp(range.start, range.end);
        let of = |sums: &[u64], range: Range<usize>| sums[range.end].saturating_sub(sums[range.start]);
        of(&self.shortened, range.start..middle) + of(&self.full, middle..range.end)
    }
}

/// Returns the sum of the first sizes, for each number of sizes.
fn sums(sizes: &[MessageSize], size: impl Fn(&MessageSize) -> u64) -> Vec<u64> {
    let mut sum = 0_u64;
    let mut sums = vec![0];
    sums.extend(sizes.iter().map(|message| {
        sum = sum.saturating_add(size(message));
        sum
    }));
    sums
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
