#![doc = include_str!("../README.md")]

mod dialect;
mod options;
mod report;

mod arguments;
mod definition;
mod json;
mod names;
mod schema;
mod source;
mod toolset;

mod explain;

mod ids;
mod request;
mod response;
mod result;

mod families; // depend on the modules above

mod read;
mod write;

pub use arguments::{ArgumentError, Checker, Decoded, Encoded, Repair, Violation};
pub use dialect::{Dialect, Family, UnknownDialect};
pub use explain::{Explanation, explain};
pub use ids::wire_id;
pub use names::{is_legal_name, legal_name, marked_name, nearest};
pub use options::{Defaults, Layout, Options};
pub use read::{CallStream, ResponseStream, read_calls, read_response};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use request::{OutputLimit, RequestError, RequestOptions};
pub use response::{CallId, CallKind, ReceivedCall, ResponseError};
pub use result::{CallOutcome, ResultOptions};
pub use toolset::{Conversion, ReadError, Toolset, convert};
pub use write::{write_calls, write_request, write_results};

/// The example on the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
