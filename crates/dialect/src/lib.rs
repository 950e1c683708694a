#![doc = include_str!("../README.md")]

mod dialect;
mod options;
mod report;
mod toolset;

pub use dialect::{Dialect, Family, UnknownDialect};
pub use options::{Defaults, Layout, Options};
pub use report::{Change, Effect, Refusal, Report, Status};
pub use toolset::{
    ArgumentError, Conversion, Decoded, Encoded, ReadError, Repair, Toolset, Violation, convert,
};
