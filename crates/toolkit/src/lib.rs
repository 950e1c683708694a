#![doc = include_str!("../README.md")]

extern crate self as toolwire_toolkit;

mod failure;
mod instruction;
mod outcome;
mod secret;

mod check;
mod declare;
mod describe;
pub mod lint;
mod names;
mod reply;
mod schema;
mod violation;

mod as_toolbox;
mod changes;
pub mod client;
mod context;
mod guard; // logging, validation and panic handling of calls
pub mod handler;
mod offers;
pub mod prompts;
pub mod resources;
mod server;
pub mod tasks;
pub mod transport;
mod wire; // conversions to and from the SDK's types

#[doc(hidden)]
pub mod macro_support;

pub use context::Context;
pub use declare::{BuildError, Declaration, Hints, IntoTool, ToolFunction};
pub use failure::{Failure, OrFailure};
pub use instruction::{Instruction, Mode};
pub use outcome::Outcome;
pub use schema::Arguments;
pub use secret::Secret;
pub use server::{Server, ServerBuilder};
pub use toolwire_contract::{Content, ToolResult};
pub use toolwire_toolkit_macros::tool;
