//! Everything that was acknowledged, and must exist in the end.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::{Client, Dialect, Outcome};

/// The maximum number of violations that are described.
const MAX_VIOLATIONS: usize = 20;

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) violations: Vec<String>,
    pub(crate) violation_count: usize,
    /// How often each outcome occurred.
    pub(crate) outcomes: BTreeMap<String, usize>,
    /// How often each kind of work had each result.
    pub(crate) works: BTreeMap<String, usize>,
    pub(crate) responses: Vec<StoredResponse>,
    pub(crate) backgrounds: Vec<BackgroundResponse>,
    pub(crate) conversations: Vec<Conversation>,
    /// The ids of calls whose result the client has.
    pub(crate) effects: Vec<String>,
    /// The tokens of responses with the limited key.
    pub(crate) tokens: u64,
}

/// A response that the client has received completely.
pub(crate) struct StoredResponse {
    pub(crate) client: Client,
    pub(crate) body: Value,
    /// Whether the client has removed it.
    pub(crate) is_removed: bool,
}

/// A response in the background whose id the client has.
pub(crate) struct BackgroundResponse {
    pub(crate) client: Client,
    pub(crate) id: String,
    /// The text that it must have if it is complete.
    pub(crate) expected: String,
    /// Whether the cancellation was confirmed.
    pub(crate) is_cancelled: bool,
}

/// A conversation, with the messages that were sent to it, in order.
pub(crate) struct Conversation {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) turns: Vec<Turn>,
}

/// A message with a mark.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) mark: String,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Acknowledged,
    /// The request was refused before it could change anything.
    Refused,
    Unknown,
}

impl Fate {
    pub(crate) fn of(outcome: &Outcome) -> Fate {
        match outcome {
            Outcome::Done(_) => Fate::Acknowledged,
            // The client has an error: the request is wrong, or too much at this time.
            Outcome::Refused(400..=499) => Fate::Refused,
            Outcome::Refused(_) | Outcome::Lost(_) => Fate::Unknown,
        }
    }
}

impl Conversation {
    pub(crate) fn check(&self, found: &[String]) -> Result<(), String> {
        check(&self.turns, found)
    }
}

/// Checks that the marks are in order, that no acknowledged one is missing, and that none occurs twice.
fn check(turns: &[Turn], found: &[String]) -> Result<(), String> {
    let mut next = 0;
    for mark in found {
        let position = turns[next..].iter().position(|turn| turn.mark == *mark);
        let Some(position) = position.map(|position| next + position) else {
            return Err(format!("`{mark}` occurs twice, is not in order, or was never sent"));
        };
        if turns[position].fate == Fate::Refused {
            return Err(format!("`{mark}` was refused, but it exists"));
        }
        missing(&turns[next..position])?;
        next = position + 1;
    }
    missing(&turns[next..])
}

fn missing(turns: &[Turn]) -> Result<(), String> {
    match turns.iter().find(|turn| turn.fate == Fate::Acknowledged) {
        Some(turn) => Err(format!("`{}` was acknowledged, but it is missing", turn.mark)),
        None => Ok(()),
    }
}

impl Ledger {
    pub(crate) fn violation(&mut self, text: String) {
        self.violation_count += 1;
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(text);
        }
    }

    pub(crate) fn count(&mut self, dialect: Dialect, outcome: &Outcome, is_cut: bool) {
        let result = match outcome {
            Outcome::Done(_) => "done".to_owned(),
            Outcome::Refused(status) => format!("refused with {status}"),
            Outcome::Lost(_) if is_cut => "connection cut".to_owned(),
            Outcome::Lost(_) => "error of the proxy".to_owned(),
        };
        *self.outcomes.entry(format!("{dialect:?}: {result}")).or_default() += 1;
    }

    pub(crate) fn worked(&mut self, work: &str) {
        *self.works.entry(work.to_owned()).or_default() += 1;
    }
}

#[test]
fn a_lost_repeated_or_moved_message_is_found() {
    let turn = |mark: &str, fate| Turn { mark: mark.to_owned(), fate };
    let turns = [
        turn("#1", Fate::Acknowledged),
        turn("#2", Fate::Unknown),
        turn("#3", Fate::Refused),
        turn("#4", Fate::Acknowledged),
    ];
    let is_right = |found: &str| {
        let found: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
        check(&turns, &found).is_ok()
    };
    assert!(is_right("#1 #4") && is_right("#1 #2 #4"));
    for wrong in ["", "#1", "#4", "#4 #1", "#1 #1 #4", "#1 #4 #4", "#1 #4 #2", "#1 #3 #4", "#1 #4 #5"] {
        assert!(!is_right(wrong), "{wrong}");
    }
}
