#![doc = include_str!("../README.md")]

mod owned_sessions;
mod server;

pub use server::{Client, McpServer, McpServerOptions, serve_on_stdio};
pub use toolwire_toolkit::transport::{ServeError, StreamServer, ToolChanges};
