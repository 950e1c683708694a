//! Keeps what is sent within the context window.
//!
//! The history stays whole; only what the model is shown becomes shorter. When the window is nearly full, old results are
//! shortened first, then the oldest turns are left out, then the oldest steps of the turn that is under way. A call is
//! never parted from its result, and the last message of the person always stays. Once something is cut it stays cut,
//! and so much is cut at a time that the next requests begin with the same bytes: prompt caches hold.

mod cut;
mod estimate;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::Message;

use crate::settings::Settings;
use cut::{Cut, Size};
pub use estimate::estimate_tokens;
pub(crate) use estimate::{message_tokens, tool_tokens};

/// What was decided about the history so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Memory {
    cut: Cut,
    /// Our estimate of the last request.
    estimated: u64,
    /// What the provider counted for it.
    counted: Option<u64>,
    /// Tokens counted for a thousand estimated.
    per_thousand: Option<u64>,
    /// Of each message of the history; the last one may still grow.
    #[serde(skip)]
    sizes: Vec<Size>,
    #[serde(skip)]
    measured_for: usize,
}

impl Memory {
    /// The messages to send: the history itself while it fits.
    pub(crate) fn view(
        &mut self,
        history: &[Arc<Message>],
        fixed: u64,
        size: Option<u64>,
        settings: &Settings,
    ) -> Vec<Arc<Message>> {
        self.measure(history, settings.context.result_characters);
        if let Some(size) = size {
            // The answer needs room too.
            let room = size.saturating_sub(settings.max_output_tokens.unwrap_or(0).min(size / 2));
            let percent = |percent: u8| room.saturating_mul(u64::from(percent)) / 100;
            let needed = |cut: &Cut| self.calibrated(fixed + cut.size(history, &self.sizes));
            let mut cut = self.cut.clone();
            if needed(&cut) > percent(settings.context.begin_percent) {
                let until = percent(settings.context.until_percent);
                while needed(&cut) > until && cut.further(history) {}
            }
            self.cut = cut;
        }
        self.estimated = fixed + self.cut.size(history, &self.sizes);
        self.counted = None;
        self.cut.apply(history, &settings.context)
    }

    /// The provider has counted the last request.
    pub(crate) fn calibrate(&mut self, counted: u64) {
        if counted == 0 {
            return;
        }
        self.counted = Some(counted);
        // Small requests say little: what providers add around messages outweighs them.
        if self.estimated >= 200 {
            self.per_thousand = Some((counted.saturating_mul(1_000) / self.estimated).clamp(300, 3_000));
        }
    }

    /// What the last request took.
    pub(crate) fn used(&self) -> u64 {
        self.counted.unwrap_or_else(|| self.calibrated(self.estimated))
    }

    fn calibrated(&self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.per_thousand.unwrap_or(1_000)) / 1_000
    }

    fn measure(&mut self, history: &[Arc<Message>], result_characters: usize) {
        // Settings may change between two turns; what was measured by others does not count.
        if self.measured_for != result_characters {
            self.sizes.clear();
            self.measured_for = result_characters;
        }
        // The last one that was measured may have grown since.
        self.sizes.truncate(self.sizes.len().saturating_sub(1).min(history.len()));
        let new = history[self.sizes.len()..].iter().map(|message| Size::of(message, result_characters));
        self.sizes.extend(new);
    }
}
