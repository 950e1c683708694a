//! OpenAI Chat Completions and the many APIs shaped like it.

mod answer;
mod calls;
mod request;
mod results;
mod stream;

pub(crate) use answer::Reader;
pub(crate) use calls::{draft, read_calls, take_call, write_calls};
pub(crate) use request::{calls_of, user_carrier, write_request};
pub(crate) use results::{carrier, write_results};
pub(crate) use stream::Stream;
