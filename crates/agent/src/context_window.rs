//! Reduces requests to the size of the context window.
//!
//! The history itself is never changed; only the request becomes shorter. When the window is nearly full, old
//! results are shortened first, then the oldest turns are omitted, then the oldest steps of the current turn.
//! A call is never separated from its result, and the last user message always stays. A part that was omitted
//! once stays omitted. Each reduction omits more than necessary, so that the following requests have the same
//! prefix and prompt caches stay valid. A summary, if there is one, replaces the messages that it covers.

mod compaction;
mod history_index;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::Message;
use toolwire_contract::text::estimate_tokens;

use crate::event::ContextReduction;
use crate::settings::AgentSettings;
use compaction::{Compaction, MessageSize};
pub(crate) use compaction::{shorten_result, starts_turn};
use history_index::HistoryIndex;

/// The smallest estimate that the provider's count is compared with. Below it, the provider's overhead
/// dominates.
const MIN_CALIBRATION_TOKENS: u64 = 200;

/// The number of requests in a row that may be refused as too long.
const MAX_REFUSALS: u32 = 5;

/// The assumed size of the window if a provider refuses a request without stating it: a share of the request,
/// in percent.
const ASSUMED_WINDOW_PERCENT: u64 = 70;

/// The state of the context window of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextWindow {
    #[serde(rename = "cut")]
    compaction: Compaction,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    /// The estimated size of the last request.
    estimated: u64,
    /// The provider's count for it.
    counted: Option<u64>,
    /// The provider's tokens per thousand estimated tokens; never below a thousand.
    per_thousand: Option<u64>,
    /// The size of the window, derived from refused requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<u64>,
    /// The model that `per_thousand`, `counted` and `learned` apply to.
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    /// The number of requests in a row that were refused as too long.
    #[serde(skip)]
    refusals: u32,
    /// The reduction that was reported last.
    #[serde(skip)]
    reported: Compaction,
    /// The sizes of the messages in the history. The last message may still grow.
    #[serde(skip)]
    sizes: Vec<MessageSize>,
    /// The `result_characters` that `sizes` were computed with.
    #[serde(skip)]
    measured_for: usize,
}

/// A summary of the start of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) text: String,
    /// The number of messages that it replaces in requests. The message after them starts a turn.
    pub(crate) messages: usize,
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
        if self.is_nearly_full(history, fixed, window, settings)
            && let Some(available) = self.available(window, settings)
        {
            let target = share(available, settings.context.until_percent);
            let index = HistoryIndex::new(history, &self.sizes);
            let mut compaction = self.compaction.clone();
            let needed = |compaction: &Compaction| self.needed(compaction.tokens_in(&index), fixed);
            while needed(&compaction) > target && compaction.advance(&index) {}
            self.compaction = compaction;
        }
        self.estimated = self.estimate(self.compaction.tokens(&self.sizes), fixed);
        self.counted = None;
        self.compaction.apply(history, self.summary.as_ref(), &settings.context)
    }

    /// Whether a request with these messages needs so much of the window that it is reduced.
    pub(crate) fn is_nearly_full(
        &mut self,
        history: &[Arc<Message>],
        fixed: u64,
        window: Option<u64>,
        settings: &AgentSettings,
    ) -> bool {
        self.measure(history, settings.context.result_characters);
        self.available(window, settings).is_some_and(|available| {
            let needed = self.needed(self.compaction.tokens(&self.sizes), fixed);
            needed > share(available, settings.context.begin_percent)
        })
    }

    /// Discards what was measured with another model.
    pub(crate) fn set_model(&mut self, model: &str) {
        if self.model == model {
            return;
        }
        if !self.model.is_empty() {
            (self.learned, self.per_thousand, self.counted) = (None, None, None);
        }
        self.model = model.to_owned();
    }

    /// Records the provider's count for the last request. A count below the estimate is not trusted: some
    /// providers leave out what they have cached.
    pub(crate) fn calibrate(&mut self, counted: u64) {
        self.refusals = 0;
        if counted == 0 {
            return;
        }
        self.counted = Some(counted);
        if self.estimated >= MIN_CALIBRATION_TOKENS {
            self.per_thousand = Some((counted.saturating_mul(1_000) / self.estimated).clamp(1_000, 3_000));
        }
    }

    /// Records that the provider refused the last request as too long, and the size of the window if it
    /// states it. Returns whether the next request can be shorter.
    pub(crate) fn refused(
        &mut self,
        history: &[Arc<Message>],
        stated: Option<u64>,
        window: Option<u64>,
    ) -> bool {
        self.refusals += 1;
        let needed = self.calibrated(self.estimated);
        let learned = stated.unwrap_or(needed * ASSUMED_WINDOW_PERCENT / 100);
        let learned =
            [Some(learned), self.learned, window].into_iter().flatten().min().unwrap_or(learned).max(1);
        self.learned = Some(learned);
        if needed <= learned && self.estimated > 0 {
            // The request had more tokens than estimated.
            self.per_thousand =
                Some((learned.saturating_mul(1_000) / self.estimated + 1).clamp(1_000, 10_000));
        }
        let index = HistoryIndex::new(history, &[]);
        self.refusals <= MAX_REFUSALS && self.compaction.clone().advance(&index)
    }

    /// Returns the size of the last request in tokens: the larger of the provider's count and the estimate.
    pub(crate) fn used(&self) -> u64 {
        match self.counted {
            Some(counted) => counted.max(self.estimated),
            None => self.calibrated(self.estimated),
        }
    }

    /// Returns the size of the window: what is known, or less if a request was refused.
    pub(crate) fn size(&self, known: Option<u64>) -> Option<u64> {
        [known, self.learned].into_iter().flatten().min()
    }

    pub(crate) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Replaces the start of the history with a summary, in requests.
    pub(crate) fn set_summary(&mut self, summary: Summary) {
        self.compaction.omit_before(summary.messages);
        self.reported = self.compaction.clone();
        self.summary = Some(summary);
        self.counted = None;
    }

    /// Returns what requests omit now, if it changed since the last call.
    pub(crate) fn take_reduction(&mut self) -> Option<ContextReduction> {
        if self.compaction == self.reported {
            return None;
        }
        self.reported = self.compaction.clone();
        let summarized = self.summary.as_ref().map_or(0, |summary| summary.messages);
        Some(self.compaction.reduction(&self.sizes, summarized))
    }

    /// Returns the part of the window for requests: the response needs space too.
    fn available(&self, window: Option<u64>, settings: &AgentSettings) -> Option<u64> {
        let window = self.size(window)?;
        Some(window.saturating_sub(settings.max_output_tokens.unwrap_or(0).min(window / 2)))
    }

    /// Returns the calibrated size of a request with these messages.
    fn needed(&self, messages: u64, fixed: u64) -> u64 {
        self.calibrated(self.estimate(messages, fixed))
    }

    fn estimate(&self, messages: u64, fixed: u64) -> u64 {
        let summary = self.summary.as_ref().map_or(0, |summary| estimate_tokens(&summary.text));
        fixed + summary + messages
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

fn share(tokens: u64, percent: u8) -> u64 {
    tokens.saturating_mul(u64::from(percent)) / 100
}
