//! Sessions with real third-party servers, and with small shell servers that misbehave.
//!
//! The real servers are in the folder `$TOOLWIRE_TEST_SERVERS`, or in `target/servers`.

#![allow(clippy::unwrap_used)]

mod everything;
mod http;
mod http_failures;
mod misbehaving;
mod processes;
mod support;
mod time;
