//! A served server, as clients see it that speak MCP by hand: well, badly, and not at all.

#![allow(clippy::unwrap_used)]

#[path = "../fixture/mod.rs"]
mod fixture;

mod batches;
mod faults;
mod http;
mod limits;
mod lines;
mod secrets;
mod stateless;
mod stream;
mod support;
mod tasks;
