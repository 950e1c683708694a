//! What the code that `#[tool]` writes needs to reach. No part of the API.

pub use crate::check::read;
pub use crate::declare::{Declaration, Hints};
pub use crate::reply::{Answered, Reply};
pub use crate::schema::{Arguments, arguments};
pub use futures_core::future::BoxFuture;
pub use schemars;
pub use serde;
pub use serde_json::{Map, Value};

/// An empty set of arguments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NoArguments {}
