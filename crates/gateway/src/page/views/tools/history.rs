//! The last calls that people made by hand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use toolwire_contract::ToolResult;
use toolwire_page::tools::RecordedCall;

use crate::principal::Principal;

/// The limits for each key, and of all keys. Above them, the oldest calls are removed.
const MAX_CALLS: usize = 20;
const MAX_TOOLS: usize = 100;
const MAX_KEYS: usize = 100;
/// The maximum size of a recorded result. A larger one is replaced by a note.
const MAX_RESULT_BYTES: usize = 4 * 1024 * 1024;

/// The last calls of each key and tool.
#[derive(Default)]
pub(in crate::page) struct CallHistory(Mutex<HashMap<Principal, CallsOfKey>>);

/// The last calls of each tool. The tool that was called last is at the end.
type CallsOfKey = VecDeque<(String, VecDeque<RecordedCall>)>;

impl CallHistory {
    /// Adds a call.
    pub(super) fn add(&self, principal: &Principal, tool: &str, mut call: RecordedCall) {
        if let Ok(result) = &call.outcome {
            let bytes = serde_json::to_vec(result).map_or(0, |text| text.len());
            if bytes > MAX_RESULT_BYTES {
                let note = format!("the result had {bytes} bytes and was too large to be recorded");
                call.outcome = Ok(ToolResult { is_error: result.is_error, ..ToolResult::text(note) });
            }
        }
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS && !keys.contains_key(principal) {
            keys.clear();
        }
        let tools = keys.entry(principal.clone()).or_default();
        let known =
            tools.iter().position(|(name, _)| name == tool).and_then(|position| tools.remove(position));
        let (name, mut calls) = known.unwrap_or_else(|| (tool.to_owned(), VecDeque::new()));
        calls.push_front(call);
        calls.truncate(MAX_CALLS);
        tools.push_back((name, calls));
        if tools.len() > MAX_TOOLS {
            tools.pop_front();
        }
    }

    /// Returns the last calls of a tool, the newest first.
    pub(super) fn of(&self, principal: &Principal, tool: &str) -> Vec<RecordedCall> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = keys.get(principal).into_iter().flatten();
        tools.filter(|(name, _)| name == tool).flat_map(|(_, calls)| calls.iter().cloned()).collect()
    }

    /// Returns a call.
    pub(super) fn find(&self, principal: &Principal, tool: &str, id: &str) -> Option<RecordedCall> {
        self.of(principal, tool).into_iter().find(|call| call.id == id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;
    use crate::principal::tests::principals;

    fn call(id: usize) -> RecordedCall {
        let (at, elapsed) = (SystemTime::UNIX_EPOCH, Duration::ZERO);
        RecordedCall {
            id: id.to_string(),
            at,
            elapsed,
            arguments: json!({}),
            outcome: Ok(ToolResult::text("x")),
        }
    }

    #[test]
    fn calls_belong_to_their_key_and_are_bounded() {
        let history = CallHistory::default();
        let [one, other, _] = principals();
        for id in 0..MAX_CALLS + 5 {
            history.add(&one, "f", call(id));
        }
        let ids: Vec<String> = history.of(&one, "f").into_iter().map(|call| call.id).collect();
        assert_eq!((ids.len(), ids[0].as_str()), (MAX_CALLS, "24"));
        assert!(history.of(&other, "f").is_empty() && history.find(&other, "f", "24").is_none());
        for tool in 0..MAX_TOOLS {
            history.add(&one, &format!("t{tool}"), call(0));
        }
        assert!(history.of(&one, "f").is_empty());
    }

    #[test]
    fn large_results_are_not_kept() {
        let history = CallHistory::default();
        let [one, ..] = principals();
        let large = RecordedCall { outcome: Ok(ToolResult::text("x".repeat(MAX_RESULT_BYTES))), ..call(1) };
        history.add(&one, "f", large);
        let kept = history.find(&one, "f", "1").expect("the call").outcome.expect("a result");
        assert_eq!(
            kept,
            ToolResult::text(format!(
                "the result had {} bytes and was too large to be recorded",
                MAX_RESULT_BYTES + 39
            ))
        );
    }
}
