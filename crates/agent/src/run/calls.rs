//! The calls of one response, until each has a result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwire_contract::text::{MAX_NESTING_DEPTH, nesting_depth, object_nesting_depth};
use toolwire_contract::{Block, Content, Tool, ToolCall, ToolResult};
use toolwire_validation::{Validator, Violation};

use crate::approval::{ApprovalPolicy, PendingCall, Verdict};

/// After this many failures of the same call, its result asks the model not to repeat it.
const MAX_SAME_FAILURES: u32 = 3;

/// The `_meta` field that states the outcome of a call whose tool returned no result.
const OUTCOME_KEY: &str = "toolwire/outcome";
/// The call may or may not have taken effect, because it was interrupted: its process ended, or its client
/// disconnected.
const OUTCOME_UNKNOWN: &str = "unknown";
/// The call was not made, because a user or a rule denied it.
const OUTCOME_DENIED: &str = "denied";

/// The `_meta` field with the arguments of a call that the user changed.
const EDITED_ARGUMENTS_KEY: &str = "toolwire/editedArguments";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) call: ToolCall,
    /// Whether it may be made again if its outcome is unknown.
    pub(super) repeatable: bool,
    /// Whether the user replaced the model's arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_edited: bool,
    pub(super) state: CallState,
    /// Whether its result is in an unsaved or a stored message.
    #[serde(rename = "isKept")]
    pub(super) is_recorded: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CallState {
    /// It needs approval.
    Waiting {
        why: String,
    },
    Ready,
    /// The caller runs it and reports the result.
    External,
    /// It was part of [`Step::CallTools`](super::Step::CallTools).
    Started,
    #[serde(rename = "answered")]
    Completed {
        result: ToolResult,
        /// Whether the driver has emitted the result or will receive it from
        /// [`Run::take_unreported_results`].
        ///
        /// [`Run::take_unreported_results`]: super::Run::take_unreported_results
        #[serde(rename = "is_told")]
        is_reported: bool,
    },
}

impl OpenCall {
    pub(super) fn is_outcome_unknown(&self) -> bool {
        matches!(&self.state, CallState::Completed { result, .. } if is_outcome_unknown(result))
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, CallState::Waiting { .. })
    }

    pub(super) fn is_external(&self) -> bool {
        self.state == CallState::External
    }

    pub(super) fn is_in_progress(&self) -> bool {
        matches!(self.state, CallState::Ready | CallState::Started)
    }

    pub(super) fn pending(&self, tool: Option<&Tool>) -> Option<PendingCall> {
        let CallState::Waiting { why } = &self.state else { return None };
        Some(PendingCall::new(&self.id, &self.call, tool, why.clone()))
    }

    /// Replaces the model's arguments with those of the user.
    pub(super) fn edit(&mut self, arguments: Map<String, Value>) {
        self.call.arguments = Some(arguments);
        self.call.validation = None;
        self.is_edited = true;
    }

    /// Adds to the result the arguments of the call, if the user changed them.
    pub(super) fn note_edit(&self, result: ToolResult) -> ToolResult {
        if self.is_edited { note_edit(&self.call, result) } else { result }
    }

    pub(super) fn into_result(self) -> Option<Block> {
        match self.state {
            CallState::Completed { result, .. } => Some(Block::Result { id: self.id, result }),
            _ => None,
        }
    }

    /// Completes the call with an error, unless it already has a result.
    pub(super) fn abort(&mut self) {
        let name = &self.call.name;
        let text = match &self.state {
            CallState::Completed { .. } => return,
            CallState::Started if !self.repeatable => format!(
                "the call to `{name}` was cancelled while it was running; it is unknown whether it took effect. Check \
                 before you call it again"
            ),
            CallState::Started => format!("the call to `{name}` was cancelled while it was running"),
            CallState::External => format!("the call to `{name}` has no result: it was not run"),
            CallState::Waiting { .. } | CallState::Ready => {
                format!("the call to `{name}` was cancelled before it started")
            }
        };
        self.state = CallState::error(text);
    }
}

impl CallState {
    /// Returns the state of a call that was completed without being made.
    pub(super) fn completed(result: ToolResult) -> CallState {
        CallState::Completed { result, is_reported: false }
    }

    pub(super) fn error(text: impl Into<String>) -> CallState {
        CallState::completed(ToolResult::error(text))
    }

    pub(super) fn outcome_unknown(name: &str) -> CallState {
        CallState::completed(outcome_unknown_result(name))
    }

    /// Returns the state of a call that does not run because a user, or a rule, decided so.
    fn denied(text: impl Into<String>) -> CallState {
        let mut result = ToolResult::error(text);
        result.extra.insert("_meta".to_owned(), json!({OUTCOME_KEY: OUTCOME_DENIED}));
        CallState::completed(result)
    }

    pub(super) fn denied_by_user(name: &str, reason: Option<&str>) -> CallState {
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        CallState::denied(match reason {
            Some(reason) => format!("`{name}` was not run: the user denied it: {reason}"),
            None => format!(
                "`{name}` was not run: the user denied it. Continue without it, or ask what the user wants instead"
            ),
        })
    }

    pub(super) fn not_approved(name: &str, why: &str) -> CallState {
        CallState::denied(format!(
            "`{name}` was not run: {why}. Continue without it, and tell the user that it was not run"
        ))
    }

    pub(super) fn by_policy(
        policy: &ApprovalPolicy,
        always_allowed: &[String],
        name: &str,
        tool: Option<&Tool>,
    ) -> CallState {
        match policy.verdict(name, tool) {
            Verdict::Allow => CallState::Ready,
            Verdict::Ask(_) if always_allowed.iter().any(|allowed| allowed == name) => CallState::Ready,
            Verdict::Ask(why) => CallState::Waiting { why },
            Verdict::Deny(reason) => {
                CallState::denied(format!("`{name}` was not run: {reason}. Continue without it"))
            }
        }
    }
}

/// Creates the result of a call whose outcome is unknown, because it was interrupted.
pub(super) fn outcome_unknown_result(name: &str) -> ToolResult {
    let mut result = ToolResult::error(format!(
        "the call to `{name}` was interrupted; it is unknown whether it took effect. Do not call it again blindly: check \
         first whether it took effect, or ask the user"
    ));
    result.extra.insert("_meta".to_owned(), json!({OUTCOME_KEY: OUTCOME_UNKNOWN}));
    result
}

/// Adds the changed arguments to a result: as a note for the model, and as JSON for programs.
fn note_edit(call: &ToolCall, mut result: ToolResult) -> ToolResult {
    let arguments = Value::Object(call.arguments.clone().unwrap_or_default());
    let note = format!("The user changed the arguments of this call before it ran. It ran with: {arguments}");
    result.content.get_or_insert_default().push(Content::text(note));
    let meta = result.extra.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(EDITED_ARGUMENTS_KEY.to_owned(), arguments);
    }
    result
}

/// Returns the arguments with which a call ran, if the user changed them
/// ([`Decision::OnceWith`](crate::approval::Decision::OnceWith)).
pub fn edited_arguments(result: &ToolResult) -> Option<&Map<String, Value>> {
    result.extra.get("_meta")?.get(EDITED_ARGUMENTS_KEY)?.as_object()
}

/// Whether the call of this result was interrupted, so that it is unknown whether it took effect.
pub fn is_outcome_unknown(result: &ToolResult) -> bool {
    outcome(result) == Some(OUTCOME_UNKNOWN)
}

/// Whether the call of this result was not made, because a user or a rule denied it.
pub fn is_denied(result: &ToolResult) -> bool {
    outcome(result) == Some(OUTCOME_DENIED)
}

fn outcome(result: &ToolResult) -> Option<&str> {
    result.extra.get("_meta")?.get(OUTCOME_KEY)?.as_str()
}

/// Limits the nesting of a result so that it can be stored. Content that is nested too deeply becomes text,
/// which the model can still read; extra fields that are nested too deeply are removed.
pub(super) fn limit_nesting(mut result: ToolResult) -> ToolResult {
    let is_too_deep = |value: &Value| nesting_depth(value) > MAX_NESTING_DEPTH;
    let structured = result.structured_content.take_if(|value| is_too_deep(value));
    for content in result.content.iter_mut().flatten() {
        let must_convert = match content {
            Content::Other(value) => is_too_deep(value),
            Content::Resource { resource, extra } => {
                object_nesting_depth(extra).max(object_nesting_depth(&resource.extra)) > MAX_NESTING_DEPTH
            }
            Content::ResourceLink(link) => object_nesting_depth(&link.extra) > MAX_NESTING_DEPTH,
            Content::Text { extra, .. } | Content::Image { extra, .. } | Content::Audio { extra, .. } => {
                if object_nesting_depth(extra) > MAX_NESTING_DEPTH {
                    extra.clear();
                }
                false
            }
        };
        if must_convert {
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

/// Returns the state of a call whose arguments the user changed to invalid ones.
pub(super) fn invalid_edit(name: &str, invalid: &InvalidArguments) -> CallState {
    CallState::denied(format!(
        "`{name}` was not run: the user changed its arguments, and they do not match its schema: {invalid}"
    ))
}

/// Arguments that do not match the schema of their tool.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", sentences(violations))]
pub struct InvalidArguments {
    pub violations: Vec<Violation>,
}

fn sentences(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks arguments against the schema of a tool. A schema that cannot be evaluated accepts everything: the
/// toolbox decides about such a call.
pub(super) fn check_arguments(tool: &Tool, arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
    let Some(schema) = &tool.input_schema else { return Ok(()) };
    let Ok(validator) = Validator::new(schema.clone()) else { return Ok(()) };
    let violations = validator.violations(&Value::Object(arguments.clone())).unwrap_or_default();
    if violations.is_empty() { Ok(()) } else { Err(InvalidArguments { violations }) }
}

/// Counts failures of the same call, and adds a note for the model if it repeats a failing call.
pub(super) fn note_repeated_failure(
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
    if *count >= MAX_SAME_FAILURES {
        let note = format!(
            "The same call has now failed {count} times. Do not repeat it: change the arguments, try another approach, or \
             tell the user what is wrong."
        );
        result.content.get_or_insert_default().push(Content::text(note));
    }
    result
}
