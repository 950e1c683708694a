//! One test for each convention, on what a client sees.
//!
//! Tests go through [`support::call`] and [`support::list`] alone, so the same tables hold for any way to reach a server.

#![allow(clippy::unwrap_used)]

mod arguments;
mod descriptions;
mod dialects;
mod explicit;
mod in_process;
mod isolation;
mod lints;
mod logging;
mod names;
mod outcomes;
mod support;
