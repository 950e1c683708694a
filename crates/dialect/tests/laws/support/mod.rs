//! What the integration tests share: real tools, a judge per dialect, and a sampler of arguments.
//!
//! Nothing here uses the engine under test; it is written from the documented rules alone.

#![allow(unreachable_pub, reason = "the benches read a part of it")]

pub mod acceptance;
pub mod corpus;
pub mod openapi;
pub mod place;
pub mod random;
pub mod sample;
pub mod schemas;
