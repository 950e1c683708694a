#![doc = include_str!("../README.md")]

mod dialect;
mod options;
mod report;

pub mod arguments;
mod check;
pub mod comparison;
mod convert;
mod definition;
mod json;
pub mod names;
mod schema;
mod source;
mod strict_choice;
mod toolset;

mod explain;

mod ids;
mod native_tools;
pub mod request;
pub mod response;
pub mod result;

pub mod client;

mod output;

mod families; // depend on the modules above

mod read;
mod verbatim;
mod write;

pub use check::check_definition;
pub use convert::{Conversion, ReadError, convert};
pub use dialect::{Dialect, Family, UnknownDialect};
pub use explain::{Explanation, explain};
pub use options::{Defaults, Layout, Options};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use toolset::Toolset;

/// Runs the example on the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
