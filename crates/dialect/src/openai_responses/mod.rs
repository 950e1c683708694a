//! OpenAI Responses.

mod answer;
mod calls;
mod request;
mod results;
mod stream;

pub(crate) use answer::Reader;
pub(crate) use calls::{read_calls, write_calls};
pub(crate) use request::write_request;
pub(crate) use results::{CARRIER, write_results};
pub(crate) use stream::Stream;
