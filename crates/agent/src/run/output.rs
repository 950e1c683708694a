//! The required format of the final response.
//!
//! A response that does not have this format is rejected: it is added to the history only if the run ends
//! before it is corrected. The next request ends with the rejected response and the reason, and the model
//! must not call tools. If the second response is rejected too, the run fails. If an API does not allow tools
//! together with a format, the format is required only after the model has stopped calling tools.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwire_contract::model::{OutputFormat, StopReason};
use toolwire_contract::text::json_kind;
use toolwire_contract::{Block, Content, Message};
use toolwire_validation::{Validator, Violation};

use super::Run;
use crate::outcome::{Ending, RunError, RunLimit};

/// Asks for the final response in the format that the request now requires.
const LAST_REQUEST: &str = "Give the final response now, in the required JSON format.";

/// The progress of one turn towards a response of the required format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OutputState {
    stage: OutputStage,
    /// Whether the last request required the format.
    is_required: bool,
    /// The last response, and the reason why it was rejected.
    rejected: Option<(Arc<Message>, String)>,
    /// The final response.
    pub(super) value: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OutputStage {
    /// The model may call tools.
    #[default]
    Open,
    /// The model has stopped calling tools, and must respond in the required format.
    Last,
    /// The model must correct its response.
    Correction,
}

impl OutputState {
    pub(super) fn is_default(&self) -> bool {
        *self == OutputState::default()
    }

    /// Whether the model must not call tools.
    pub(super) fn forbids_calls(&self) -> bool {
        self.stage != OutputStage::Open
    }

    /// Removes and returns the rejected response, if there is one.
    pub(super) fn take_rejected(&mut self) -> Option<Arc<Message>> {
        self.rejected.take().map(|(message, _)| message)
    }

    /// Returns the messages at the end of the next request that are not in the history.
    pub(super) fn messages(&self) -> Vec<Arc<Message>> {
        let rejected = self.rejected.iter();
        rejected.flat_map(|(message, reason)| [message.clone(), Message::user(&**reason).into()]).collect()
    }
}

impl Run {
    /// Whether text is shown only when the final response has the required format.
    pub(crate) fn hides_text(&self) -> bool {
        !self.settings.output.is_text()
    }

    /// Returns the format of the next request, which has these tools or none.
    pub(super) fn request_output(&mut self, has_tools: bool) -> OutputFormat {
        let is_separate = self.catalog.limits().separate_output
            && matches!(self.settings.output, OutputFormat::Schema { .. });
        let state = &mut self.turn.output;
        state.is_required = !(is_separate && has_tools && state.stage == OutputStage::Open);
        if state.is_required { self.settings.output.clone() } else { OutputFormat::Text }
    }

    /// Checks the format of a response without calls. Returns the message to add; `None` if the response is
    /// rejected.
    pub(super) fn check_output(
        &mut self,
        mut message: Message,
        stop: &StopReason,
        limit: Option<RunLimit>,
    ) -> Option<Message> {
        if self.settings.output.is_text() || matches!(stop, StopReason::Length | StopReason::Refusal) {
            return Some(message);
        }
        let problem = match read(&self.settings.output, &self.turn.text) {
            Ok(value) => {
                if serde_json::from_str::<Value>(&self.turn.text).is_err() {
                    self.turn.text = value.to_string();
                    message.content.retain(|block| !matches!(block, Block::Content(Content::Text { .. })));
                    message.content.push(Block::Content(Content::text(&*self.turn.text)));
                }
                self.turn.output.value = Some(value);
                return Some(message);
            }
            Err(problem) => problem,
        };
        let (stage, reason) = match self.turn.output.stage {
            OutputStage::Open if !self.turn.output.is_required => {
                (OutputStage::Last, LAST_REQUEST.to_owned())
            }
            OutputStage::Open | OutputStage::Last => {
                let reason = format!(
                    "The response does not have the required format: {problem}. Respond again, with the corrected JSON only."
                );
                (OutputStage::Correction, reason)
            }
            OutputStage::Correction => {
                self.add_response(message);
                self.end(Ending::Failed(RunError::InvalidOutput { problem }.into()));
                return None;
            }
        };
        // The request for a correction may exceed the step limit; otherwise, the response would have the
        // wrong format.
        if let Some(limit) = limit.filter(|limit| *limit != RunLimit::Steps) {
            self.add_response(message);
            self.end(Ending::Stopped(limit));
            return None;
        }
        self.turn.output.stage = stage;
        self.turn.output.rejected = Some((message.into(), reason));
        None
    }
}

/// Returns the response as JSON, or the reason why it does not have the required format.
fn read(format: &OutputFormat, text: &str) -> Result<Value, String> {
    let value: Value =
        serde_json::from_str(without_fence(text)).map_err(|error| format!("it is not JSON ({error})"))?;
    match format {
        OutputFormat::Schema { schema, .. } => {
            let validator = Validator::new(schema.clone()).map_err(|error| error.to_string())?;
            let violations = validator.violations(&value).map_err(|error| error.to_string())?;
            let problems: Vec<String> = violations.iter().map(Violation::to_string).collect();
            if problems.is_empty() { Ok(value) } else { Err(problems.join("; ")) }
        }
        _ if value.is_object() => Ok(value),
        _ => Err(format!("it must be an object, not {}", json_kind(&value))),
    }
}

/// Returns the text in a Markdown code fence, which many models add, or the text itself.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    fenced.and_then(|fenced| fenced.split_once('\n')).map_or(text, |(_, body)| body)
}
