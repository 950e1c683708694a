//! Anthropic Messages.

mod calls;
mod results;
mod stream;

pub(crate) use calls::{read_calls, write_calls};
pub(crate) use results::{CARRIER, write_results};
pub(crate) use stream::Stream;
