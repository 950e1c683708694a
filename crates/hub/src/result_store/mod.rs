//! Results that are too large for the model's context.
//!
//! [`truncate_result`] cuts a result to a budget: the cut text ends with a note, and the full text is
//! returned next to the result. [`ResultStore`] stores the full text in a file, from which it is read page by
//! page.

mod files;
mod truncate;

pub(crate) use files::ResultStore;
pub use truncate::ResultBudget;
pub(crate) use truncate::{is_truncated, truncate_result};

use std::fmt;

/// The id of a stored result: `r` and 16 hexadecimal digits, so it cannot name any other file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoredResultId(String);

impl StoredResultId {
    /// Returns `None` if the text is not an id.
    pub(crate) fn parse(text: &str) -> Option<StoredResultId> {
        let digits = text.strip_prefix('r')?;
        let is_id =
            digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| StoredResultId(text.to_owned()))
    }
}

impl fmt::Display for StoredResultId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
