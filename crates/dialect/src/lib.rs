#![doc = include_str!("../README.md")]

mod dialect;
mod options;
mod report;

mod arguments;
mod check;
mod convert;
mod definition;
mod json;
mod names;
mod schema;
mod source;
mod toolset;

mod answers;
mod calls;
mod explain;
mod ids;
mod requests;
mod results;

mod anthropic;
mod bedrock;
mod cohere;
mod gemini;
mod mcp;
mod ollama;
mod openai_chat;
mod openai_responses;

pub use answers::{AnswerError, AnswerStream, read_answer};
pub use arguments::{ArgumentError, Checker, Decoded, Encoded, Repair, RepairKind};
pub use calls::{CallError, CallId, CallKind, CallStream, ReceivedCall, read_calls, write_calls};
pub use check::check_definition;
pub use convert::{Conversion, ReadError, convert};
pub use dialect::{Dialect, Family, UnknownDialect};
pub use explain::{Explanation, explain};
pub use ids::wire_id;
pub use names::{disambiguated_tool_name, is_valid_tool_name, to_valid_tool_name};
pub use options::{Defaults, Layout, Options};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use requests::{OutputLimit, RequestError, RequestOptions, write_request};
pub use results::{Answered, ResultError, ResultOptions, write_results};
pub use toolset::Toolset;
pub use toolwire_validation::{Requirement, Violation, ViolationKind};

/// Runs the example on the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
