//! Shared code for reading responses. It depends on no family.

mod assemble;
mod calls;
mod cursor;
mod error;
mod parts;
mod stop_sequences;
mod usage;

use std::fmt;

pub use crate::read::{CallStream, ResponseStream, read_calls, read_response};
pub use assemble::custom_call_input;
pub(crate) use assemble::{Assembly, CUSTOM_CALL, NATIVE_CALL, UNPARSED_ARGUMENTS, has_synthetic_id};
pub(crate) use calls::CallDraft;
pub use calls::{CallId, CallKind, ReceivedCall};
pub(crate) use cursor::JsonCursor;
pub(crate) use error::ReadResult;
pub use error::ResponseError;
pub use parts::is_refusal;
pub(crate) use parts::{
    CONTAINER, Ending, ParsedResponse, PartialBlock, ResponseParts, StreamedBlock, append,
};
pub(crate) use stop_sequences::StopSequences;
pub(crate) use usage::UsagePaths;
pub use usage::read_usage;

/// Reads one response of a family, complete or streamed.
pub(crate) trait ResponseReader: fmt::Debug + Send + Sync {
    /// Reads the next event of a stream.
    fn event(&mut self, event: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult;

    /// Reads a complete response: the body, or only the assistant's message. By default it has the form of an
    /// event.
    fn body(&mut self, body: &JsonCursor<'_>, response: &mut ResponseParts) -> ReadResult {
        self.event(body, response)
    }

    /// Returns the blocks of the message.
    fn finish(self: Box<Self>, response: &mut ResponseParts) -> Vec<PartialBlock>;
}
