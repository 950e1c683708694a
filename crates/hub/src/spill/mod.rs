//! Results that are too large to hand on whole.
//!
//! [`fit`] decides, and touches no file: text beyond the budget is cut with a mark that says so, and comes back beside the
//! result. [`Spill`] keeps that text in a file, from which it can be read page by page.

mod fit;
mod folder;

pub use fit::{Budget, Fitted, fit};
pub use folder::{Page, ReadError, Spill};

use std::fmt;

/// The name of a result that was kept: letters and digits, nothing that could lead to another file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpillId(String);

impl SpillId {
    /// `None` for text that is no id.
    pub fn parse(text: &str) -> Option<SpillId> {
        let digits = text.strip_prefix('r')?;
        let is_id =
            digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| SpillId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpillId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
