//! Ollama's own API: whole calls with object arguments, results by the tool's name.

mod answer;
mod calls;
mod request;

pub(crate) use answer::Reader;
pub(crate) use calls::{CARRIER, Stream, read_calls, write_calls, write_results};
pub(crate) use request::write_request;
