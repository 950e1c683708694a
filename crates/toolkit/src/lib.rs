#![doc = include_str!("../README.md")]

mod changes;
mod client;
mod context;
mod handler;
mod offers;
mod prompts;
mod resources;
mod server;
mod transport;
mod wire; // ours ⇄ the SDK's

pub use changes::Changes;
pub use client::{Answer, Client, ClientError, Form, Level, NoClient};
pub use context::Context;
pub use handler::{Handler, Registered};
pub use offers::{Caching, OfferError};
pub use prompts::{Prompt, PromptArgument, PromptHandler, PromptMessage, Prompted};
pub use resources::{Completing, ResourceTemplate, Resources};
pub use server::{Server, ServerBuilder};
pub use transport::{
    HttpOptions, HttpServer, HttpService, ServeError, StreamServer, http_service, in_process, serve_http,
    serve_stdio, serve_stream,
};
