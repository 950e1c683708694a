//! Shared by the tests: real tools, a validator per dialect, and a sampler of arguments.
//!
//! Nothing here uses the engine under test.

#![allow(unreachable_pub, reason = "the benches use a part of it")]

pub mod api_validator;
pub mod argument_schema;
pub mod corpus;
pub mod random;
pub mod sampler;
pub mod schema_path;
pub mod schemas;
