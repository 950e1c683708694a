//! Tests a served server with hand-written MCP messages, both valid and invalid.

#![allow(clippy::unwrap_used)]

#[path = "../fixture/mod.rs"]
mod fixture;

mod batches;
mod http;
mod http_errors;
mod limits;
mod lines;
mod secrets;
mod stateless;
mod stream;
mod support;
mod tasks;
