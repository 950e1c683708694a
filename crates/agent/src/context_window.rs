//! Reduces requests to the size of the context window.
//!
//! The history itself is never changed; only the request becomes shorter. When the window is nearly full, old
//! results are shortened first, then the oldest turns are omitted, then the oldest steps of the current turn.
//! A call is never separated from its result, and the last user message always stays. A part that was omitted
//! once stays omitted. Each reduction omits more than necessary, so that the following requests have the same
//! prefix and prompt caches stay valid.

mod compaction;
mod estimate;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::Message;

use crate::settings::AgentSettings;
use compaction::{Compaction, MessageSize};
pub use estimate::estimate_tokens;
pub(crate) use estimate::{message_tokens, tool_tokens};

/// The smallest estimate that the provider's count is compared with. Below it, the provider's overhead
/// dominates.
const MIN_CALIBRATION_TOKENS: u64 = 200;

/// The state of the context window of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextWindow {
    #[serde(rename = "cut")]
    compaction: Compaction,
    /// The estimated size of the last request.
    estimated: u64,
    /// The provider's count for it.
    counted: Option<u64>,
    /// The provider's tokens per thousand estimated tokens.
    per_thousand: Option<u64>,
    /// The sizes of the messages in the history. The last message may still grow.
    #[serde(skip)]
    sizes: Vec<MessageSize>,
    /// The `result_characters` that `sizes` were computed with.
    #[serde(skip)]
    measured_for: usize,
}

impl ContextWindow {
    /// Returns the messages to send: the complete history as long as it is small enough.
    ///
    /// `fixed` is the size of the instructions and tools, `window` that of the context window, both in
    /// tokens.
    pub(crate) fn select_messages(
        &mut self,
        history: &[Arc<Message>],
        fixed: u64,
        window: Option<u64>,
        settings: &AgentSettings,
    ) -> Vec<Arc<Message>> {
        self.measure(history, settings.context.result_characters);
        if let Some(window) = window {
            // The response needs space too.
            let available = window.saturating_sub(settings.max_output_tokens.unwrap_or(0).min(window / 2));
            let share = |percent: u8| available.saturating_mul(u64::from(percent)) / 100;
            let needed =
                |compaction: &Compaction| self.calibrated(fixed + compaction.tokens(history, &self.sizes));
            let mut compaction = self.compaction.clone();
            if needed(&compaction) > share(settings.context.begin_percent) {
                let target = share(settings.context.until_percent);
                while needed(&compaction) > target && compaction.advance(history) {}
            }
            self.compaction = compaction;
        }
        self.estimated = fixed + self.compaction.tokens(history, &self.sizes);
        self.counted = None;
        self.compaction.apply(history, &settings.context)
    }

    /// Records the provider's count for the last request.
    pub(crate) fn calibrate(&mut self, counted: u64) {
        if counted == 0 {
            return;
        }
        self.counted = Some(counted);
        if self.estimated >= MIN_CALIBRATION_TOKENS {
            self.per_thousand = Some((counted.saturating_mul(1_000) / self.estimated).clamp(300, 3_000));
        }
    }

    /// Returns the size of the last request in tokens.
    pub(crate) fn used(&self) -> u64 {
        self.counted.unwrap_or_else(|| self.calibrated(self.estimated))
    }

    fn calibrated(&self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.per_thousand.unwrap_or(1_000)) / 1_000
    }

    fn measure(&mut self, history: &[Arc<Message>], result_characters: usize) {
        // The settings may have changed since the last turn.
        if self.measured_for != result_characters {
            self.sizes.clear();
            self.measured_for = result_characters;
        }
        // The last measured message may have grown.
        self.sizes.truncate(self.sizes.len().saturating_sub(1).min(history.len()));
        let new = history[self.sizes.len()..].iter();
        self.sizes.extend(new.map(|message| MessageSize::of(message, result_characters)));
    }
}
