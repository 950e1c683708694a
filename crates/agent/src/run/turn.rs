//! One message of the person and all that is done for it: what it has cost, and when it is enough.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolwire_contract::{Message, StopReason, Usage};

use super::Run;
use crate::outcome::{Ending, Limit};

/// So many empty answers in a row, and the model is not asked again.
const EMPTY_ANSWERS: u32 = 3;

/// What belongs to one message of the person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Turn {
    pub(super) steps: u32,
    pub(super) usage: Usage,
    /// Tokens in and out, estimated where nobody counted.
    pub(super) tokens: u64,
    /// What was paid for answers that are in no message; it goes with the next one.
    pub(super) unattributed: Usage,
    pub(super) empty: u32,
    /// What the model has written of the answer that is under way.
    pub(super) partial: String,
    pub(super) text: String,
    pub(super) stop: Option<StopReason>,
    /// How often the same call has failed.
    pub(super) failures: BTreeMap<String, u32>,
}

impl Run {
    pub(super) fn model_said_nothing(&mut self, stop: &StopReason, limit: Option<Limit>) {
        self.turn.empty += 1;
        self.turn.text.clear();
        match (stop, limit) {
            (StopReason::Length, _) => self.end(Ending::Stopped(Limit::Output)),
            (StopReason::Refusal, _) => self.end(Ending::Finished),
            (_, Some(limit)) => self.end(Ending::Stopped(limit)),
            _ if self.turn.empty >= EMPTY_ANSWERS => self.end(Ending::Stopped(Limit::EmptyAnswers)),
            // It is asked once more: the same request often gets an answer the second time.
            _ => {}
        }
    }

    pub(super) fn count(&mut self, message: &Message, usage: Option<Usage>) {
        let answered = crate::memory::message_tokens(message);
        self.turn.tokens += usage.map_or_else(
            || self.memory.used() + answered,
            |usage| usage.input_tokens.saturating_add(usage.output_tokens),
        );
        if let Some(usage) = usage {
            self.memory.calibrate(usage.input_tokens);
            self.usage = self.usage.plus(&usage);
            self.turn.usage = self.turn.usage.plus(&usage);
            self.turn.unattributed = self.turn.unattributed.plus(&usage);
        }
    }

    pub(super) fn limit_reached(&self) -> Option<Limit> {
        if self.turn.steps >= self.settings.max_steps {
            return Some(Limit::Steps);
        }
        let budget = self.settings.token_budget?;
        (self.turn.tokens >= budget).then_some(Limit::Tokens)
    }
}
