#![doc = include_str!("../README.md")]

extern crate self as toolwire_toolkit;

mod failure;
mod instruction;
mod outcome;
mod secret;

mod check;
mod declare;
mod describe;
mod lint;
mod names;
mod reply;
mod schema;
mod violation;

mod as_toolbox;
mod changes;
mod client;
mod context;
mod guard; // logging, validation and panic handling of calls
mod handler;
mod offers;
mod prompts;
mod resources;
mod server;
mod tasks;
mod transport;
mod wire; // conversions to and from the SDK's types

#[doc(hidden)]
pub mod macro_support;

pub use changes::Changes;
pub use client::{Client, ClientError, Form, FormReply, Level, NoClient};
pub use context::Context;
pub use declare::{BuildError, Declaration, Hints, IntoTool, ToolFunction};
pub use failure::{Failure, OrFailure};
pub use handler::{Handler, Registered};
pub use instruction::{Instruction, Mode};
pub use lint::{Lint, LintProblem, lint};
pub use offers::{Caching, OfferError};
pub use outcome::Outcome;
pub use prompts::{FilledPrompt, Prompt, PromptArgument, PromptHandler, PromptMessage};
pub use reply::{CompletedCall, Reply};
pub use resources::{CompletionRequest, ResourceTemplate, Resources};
pub use schema::Arguments;
pub use secret::Secret;
pub use server::{Server, ServerBuilder};
pub use tasks::{TaskOptions, TaskStart, TaskSupport};
pub use toolwire_contract::{Content, ToolResult};
pub use toolwire_toolkit_macros::tool;
pub use transport::{
    HttpOptions, HttpServer, HttpService, ServeError, StreamServer, http_service, in_process, serve_http,
    serve_stdio, serve_stream,
};
