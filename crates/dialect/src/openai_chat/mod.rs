//! OpenAI Chat Completions and the many APIs shaped like it.

mod answer;
mod calls;
mod results;
mod stream;

pub(crate) use answer::Reader;
pub(crate) use calls::{draft, read_calls, take_call, write_calls};
pub(crate) use results::{carrier, write_results};
pub(crate) use stream::Stream;
