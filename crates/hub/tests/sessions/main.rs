//! Sessions with real servers, which nobody here wrote, and with small ones that misbehave.
//!
//! The real ones are found in the folder that `TOOLWIRE_TEST_SERVERS` names, or in `target/servers`.

#![allow(clippy::unwrap_used)]

mod everything;
mod http;
mod misbehaving;
mod processes;
mod support;
mod time;
