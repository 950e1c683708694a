//! The calls of one answer, until each has its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_contract::{
    Block, Content, MAX_NESTING_DEPTH, Tool, ToolCall, ToolResult, nesting_depth, object_nesting_depth,
};

use crate::approval::{PendingCall, Policy, Verdict};

/// From so many failures of the same call on, the model is told that it repeats itself.
const SAME_FAILURES: u32 = 3;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) call: ToolCall,
    /// Whether it may be made again when nobody knows whether it was.
    pub(super) repeatable: bool,
    pub(super) state: CallState,
    /// Whether its result is among what is to be kept, or kept.
    pub(super) is_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CallState {
    /// A person must decide.
    Waiting {
        why: String,
    },
    Ready,
    /// Somebody was told to make it.
    Started,
    Answered {
        result: ToolResult,
        /// Whether whoever listens knows of the result.
        is_told: bool,
    },
}

impl OpenCall {
    pub(super) fn is_of_unknown_outcome(&self) -> bool {
        matches!(&self.state, CallState::Answered { result, .. } if *result == outcome_unknown_result(&self.call.name))
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, CallState::Waiting { .. })
    }

    pub(super) fn is_being_made(&self) -> bool {
        matches!(self.state, CallState::Ready | CallState::Started)
    }

    pub(super) fn pending(&self, tool: Option<&Tool>) -> Option<PendingCall> {
        let CallState::Waiting { why } = &self.state else { return None };
        Some(PendingCall::new(&self.id, &self.call, tool, why.clone()))
    }

    pub(super) fn result(self) -> Option<Block> {
        match self.state {
            CallState::Answered { result, .. } => Some(Block::Result { id: self.id, result }),
            _ => None,
        }
    }

    /// Nobody will answer it any more.
    pub(super) fn give_up(&mut self) {
        let name = &self.call.name;
        let text = match &self.state {
            CallState::Answered { .. } => return,
            CallState::Started if !self.repeatable => {
                format!(
                    "the call of `{name}` was cancelled while it was under way; whether it did its work is not known. \
                     Look before calling it again"
                )
            }
            CallState::Started => format!("the call of `{name}` was cancelled while it was under way"),
            CallState::Waiting { .. } | CallState::Ready => {
                format!("the call of `{name}` was cancelled before it was made")
            }
        };
        self.state = answered(ToolResult::error(text));
    }
}

/// A result that nobody has heard of yet.
pub(super) fn answered(result: ToolResult) -> CallState {
    CallState::Answered { result, is_told: false }
}

pub(super) fn by_policy(policy: &Policy, always: &[String], name: &str, tool: Option<&Tool>) -> CallState {
    match policy.verdict(name, tool) {
        Verdict::Allow => CallState::Ready,
        Verdict::Ask(_) if always.iter().any(|allowed| allowed == name) => CallState::Ready,
        Verdict::Ask(why) => CallState::Waiting { why },
        Verdict::Deny(reason) => {
            answered(ToolResult::error(format!("`{name}` was not run: {reason}. Go on without it")))
        }
    }
}

pub(super) fn refused(name: &str, because: Option<&str>) -> CallState {
    let because = because.map(str::trim).filter(|because| !because.is_empty());
    answered(ToolResult::error(match because {
        Some(because) => format!("`{name}` was not run: the user said no, because: {because}"),
        None => {
            format!("`{name}` was not run: the user said no. Go on without it, or ask what they want instead")
        }
    }))
}

pub(super) fn undecided(name: &str, why: &str) -> CallState {
    answered(ToolResult::error(format!(
        "`{name}` was not run: {why}. Go on without it, and say that it was not run"
    )))
}

pub(super) fn outcome_unknown(name: &str) -> CallState {
    answered(outcome_unknown_result(name))
}

pub(super) fn outcome_unknown_result(name: &str) -> ToolResult {
    ToolResult::error(format!(
        "the program ended while `{name}` was called; whether it did its work is not known. Do not simply call it again: \
         look first whether the work was done, or ask the user"
    ))
}

/// What is nested too deeply to be kept becomes text: the model reads the same, and the conversation goes on.
pub(super) fn of_few_levels(mut result: ToolResult) -> ToolResult {
    let is_deep = |value: &Value| nesting_depth(value) > MAX_NESTING_DEPTH;
    let structured = result.structured_content.take_if(|value| is_deep(value));
    for content in result.content.iter_mut().flatten() {
        let is_deep = match content {
            Content::Other(value) => is_deep(value),
            Content::Resource { resource, extra } => {
                object_nesting_depth(extra).max(object_nesting_depth(&resource.extra)) > MAX_NESTING_DEPTH
            }
            Content::ResourceLink(link) => object_nesting_depth(&link.extra) > MAX_NESTING_DEPTH,
            Content::Text { extra, .. } | Content::Image { extra, .. } | Content::Audio { extra, .. } => {
                let is_deep = object_nesting_depth(extra) > MAX_NESTING_DEPTH;
                if is_deep {
                    extra.clear();
                }
                false
            }
        };
        if is_deep {
            *content = Content::text(Value::from(content.clone()).to_string());
        }
    }
    if let (Some(value), true) = (structured, result.blocks().is_empty()) {
        result.content = Some(vec![Content::text(value.to_string())]);
    }
    if object_nesting_depth(&result.extra) > MAX_NESTING_DEPTH {
        result.extra.clear();
    }
    result
}

/// Counts failures of the same call, and adds a note for the model when it goes round in circles.
pub(super) fn with_note_on_repeated_failure(
    call: &ToolCall,
    mut result: ToolResult,
    failures: &mut BTreeMap<String, u32>,
) -> ToolResult {
    let key = format!("{} {}", call.name, serde_json::to_string(&call.arguments).unwrap_or_default());
    if !result.is_error() {
        failures.remove(&key);
        return result;
    }
    let count = failures.entry(key).or_default();
    *count += 1;
    if *count >= SAME_FAILURES {
        let note = format!(
            "The same call has now failed {count} times. Do not repeat it: change the arguments, take another way, or tell \
             the user what is wrong."
        );
        result.content.get_or_insert_default().push(Content::text(note));
    }
    result
}
