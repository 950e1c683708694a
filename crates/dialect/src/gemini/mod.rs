//! Google Gemini, on the Developer API and on Vertex.

mod answer;
mod calls;
mod partial;
mod request;
mod results;

pub(crate) use answer::Reader;
pub(crate) use calls::{Stream, read_calls, write_calls};
pub(crate) use request::{USER_CARRIER, write_request};
pub(crate) use results::{CARRIER, write_results};
