//! AWS Bedrock Converse.

mod answer;
mod calls;
mod request;
mod results;

pub(crate) use answer::Reader;
pub(crate) use calls::{Stream, read_calls, write_calls};
pub(crate) use request::write_request;
pub(crate) use results::{CARRIER, write_results};
