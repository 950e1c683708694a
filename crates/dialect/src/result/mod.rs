//! Shared code for writing results. It depends on no family.
//!
//! A result is prepared once, within the [`ContentLimits`] of the API: text is cleaned and truncated, media
//! is validated or replaced by a note, and structured content is sent once. A family then only writes the
//! parts in its own JSON.

mod attached;
mod client_part;
mod media;
mod prepare;
mod text;

use toolwire_contract::ToolResult;

pub use crate::write::write_results;
pub use attached::{FileContent, UnknownFileType};
pub(crate) use client_part::{MediaKind, client_part, is_provider_data};
pub(crate) use media::Media;
pub use media::{image_size, media_type};
pub(crate) use prepare::{
    ContentLimits, ContentPart, IMAGE_DETAIL, PreparedResult, StructuredContent, check_content, content_part,
    error_text, image_detail,
};
pub(crate) use text::{NO_OUTPUT, clean};

use crate::Dialect;
use crate::response::ReceivedCall;

/// A call and its result.
#[derive(Clone, Copy, Debug)]
pub struct CallOutcome<'a> {
    pub call: &'a ReceivedCall,
    /// `None` if there is no result: the call timed out, was cancelled or crashed. An error is sent instead,
    /// because every API rejects a conversation in which a call has no result.
    pub result: Option<&'a ToolResult>,
}

/// Options for writing results. The defaults suit the API's current models.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultOptions {
    /// Maximum characters of text in one result. The rest is truncated, with a marker that contains the
    /// number of missing characters.
    pub text_budget: Option<usize>,
    /// Whether the model accepts images. Otherwise each image becomes a note.
    pub images: bool,
    /// Whether the model accepts files such as PDF. Otherwise each file becomes a note.
    pub files: bool,
    /// Gemini: whether media is inside the `functionResponse`, as Gemini 3 and later accept it. Otherwise it
    /// follows the responses in the same turn.
    pub nested_media: bool,
    /// Bedrock: whether the result has a `status`. Otherwise (some models reject it) the text reports an
    /// error.
    pub error_flag: bool,
}

impl Default for ResultOptions {
    fn default() -> ResultOptions {
        ResultOptions { text_budget: None, images: true, files: true, nested_media: true, error_flag: true }
    }
}

/// Returns the result of a call that has none.
pub(crate) fn missing_result() -> ToolResult {
    ToolResult::error("the tool returned no result: the call timed out, was cancelled or failed")
}

/// The results of one turn, and how to write them.
pub(crate) struct ResultTurn<'a> {
    pub(crate) dialect: Dialect,
    /// Never empty.
    pub(crate) outcomes: &'a [CallOutcome<'a>],
    pub(crate) options: &'a ResultOptions,
}

impl<'a> ResultTurn<'a> {
    pub(crate) fn prepare(&self, limits: ContentLimits) -> Vec<PreparedResult<'a>> {
        let limits = limits.with_options(self.options);
        self.outcomes.iter().map(|outcome| PreparedResult::new(self.dialect, outcome, &limits)).collect()
    }
}
