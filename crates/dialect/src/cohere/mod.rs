//! Cohere v2: calls in the shape of Chat Completions, events and results of its own.

mod answer;
mod calls;
mod request;

pub(crate) use answer::Reader;
pub(crate) use calls::{CARRIER, Stream, read_calls, write_calls, write_results};
pub(crate) use request::{USER_CARRIER, write_request};
