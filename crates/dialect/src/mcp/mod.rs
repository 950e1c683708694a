//! MCP itself, as a dialect: messages as sampling with tools writes them.

mod answer;
mod calls;
mod request;

pub(crate) use answer::Reader;
pub(crate) use calls::{Stream, read_calls, write_calls, write_results};
pub(crate) use request::{CARRIER, write_request};
