//! One user message and the responses to it: their usage and limits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolwire_contract::model::{StopReason, Usage};
use toolwire_contract::{Block, Message};

use super::Run;
use super::output::OutputState;
use crate::outcome::{Ending, RunLimit};

/// The state of one user message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Turn {
    pub(super) steps: u32,
    /// The number of calls that count towards `max_calls`.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) calls: u32,
    pub(super) usage: Usage,
    /// Input and output tokens, estimated where the provider reports none.
    pub(super) tokens: u64,
    /// The usage of responses that were not added as messages. It is added to that of the next message.
    pub(super) unattributed: Usage,
    /// The number of empty responses in a row.
    pub(super) empty: u32,
    /// The text received so far of an incomplete response.
    pub(super) partial: String,
    pub(super) text: String,
    pub(super) stop: Option<StopReason>,
    /// The number of failures of each call.
    pub(super) failures: BTreeMap<String, u32>,
    #[serde(skip_serializing_if = "OutputState::is_default")]
    pub(super) output: OutputState,
    /// Content that the user sent while calls were open. It is added after their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) said: Vec<Block>,
    /// Whether summarizing earlier turns failed.
    #[serde(skip)]
    pub(super) has_failed_summary: bool,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Run {
    pub(super) fn handle_empty_response(&mut self, stop: &StopReason, limit: Option<RunLimit>) {
        self.turn.empty += 1;
        self.turn.text.clear();
        match (stop, limit) {
            (StopReason::Length, _) => self.end(Ending::Stopped(RunLimit::Output)),
            (StopReason::Refusal, _) => self.end(Ending::Finished),
            _ if self.turn.empty >= self.settings.max_empty_responses => {
                self.end(Ending::Stopped(RunLimit::EmptyResponses));
            }
            (_, Some(limit)) => self.end(Ending::Stopped(limit)),
            // The request is repeated; the second attempt often succeeds.
            _ => {}
        }
    }

    pub(super) fn count_usage(&mut self, message: &Message, usage: Option<Usage>) {
        let response_tokens = message.estimated_tokens();
        self.turn.tokens += usage.map_or_else(
            || self.context_window.used() + response_tokens,
            |usage| usage.input_tokens.saturating_add(usage.output_tokens),
        );
        if let Some(usage) = usage {
            self.context_window.calibrate(usage.input_tokens);
            self.usage = self.usage.plus(&usage);
            self.turn.usage = self.turn.usage.plus(&usage);
            self.turn.unattributed = self.turn.unattributed.plus(&usage);
        }
    }

    pub(super) fn limit_reached(&self) -> Option<RunLimit> {
        if self.turn.steps >= self.settings.max_steps {
            return Some(RunLimit::Steps);
        }
        let budget = self.settings.token_budget?;
        (self.turn.tokens >= budget).then_some(RunLimit::Tokens)
    }
}
