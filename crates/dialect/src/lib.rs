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
mod strict_choice;
mod toolset;

mod explain;

mod ids;
mod native_tools;
mod request;
mod response;
mod result;

mod client;

mod output;

mod families; // depend on the modules above

mod read;
mod verbatim;
mod write;

pub use arguments::{ArgumentError, Checker, Decoded, Encoded, Repair, RepairKind};
pub use check::check_definition;
pub use client::{
    ApprovalResponse, ClientError, ClientEvent, ClientRequest, ErrorKind, HostedApproval, HostedServer,
    InvalidRequest, Problem, ResponseHead, ResponseWriter, ServerCall, StreamData, StreamEvent, ToolFilter,
    ToolForm, ToolReference, runs_at_provider,
};
pub use convert::{Conversion, ReadError, convert};
pub use dialect::{Dialect, Family, UnknownDialect};
pub use explain::{Explanation, explain};
pub use ids::wire_id;
pub use names::{disambiguated_tool_name, is_valid_tool_name, to_valid_tool_name};
pub use options::{Defaults, Layout, Options};
pub use output::{BoundOutput, OutputMethod, separates_output};
pub use read::{CallStream, ResponseStream, read_calls, read_client_request, read_response};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use request::{ApiSupport, OutputLimit, RequestError, RequestOptions};
pub use response::{CallId, CallKind, ReceivedCall, ResponseError, custom_call_input, is_refusal};
pub use result::{CallOutcome, ResultOptions, image_size, media_type};
pub use toolset::Toolset;
pub use toolwire_validation::{Requirement, Violation, ViolationKind};
pub use verbatim::{verbatim_request, write_request_text};
pub use write::{check_content, dropped_parameters, write_calls, write_request, write_results};

/// Runs the example on the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
