#![doc = include_str!("../README.md")]

mod arguments;
mod definition;
mod dialect;
mod json;
mod names;
mod options;
mod report;
mod schema;
mod source;
mod toolset;

pub use arguments::{ArgumentError, Decoded, Encoded, Repair, Violation};
pub use dialect::{Dialect, Family, UnknownDialect};
pub use options::{Defaults, Layout, Options};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use toolset::{Conversion, ReadError, Toolset, convert};
