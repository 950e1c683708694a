//! What the code that `#[tool]` writes needs to reach. No part of the API.

pub use crate::check::read;
pub use crate::declare::{Declaration, Hints};
pub use crate::reply::{CompletedCall, Reply};
pub use crate::schema::{Arguments, arguments};
pub use futures_core::future::BoxFuture;
pub use schemars;
pub use serde;
pub use serde_json::{Map, Value};

/// Holds for types that the attribute was right to take for plain values. For another name of an `Outcome`, a `Result` or a
/// `ToolResult` there are two ways in which it holds, and so it cannot be asked.
pub trait NoAliasOfOutcomeOrResult<Way> {
    fn check() {}
}

impl<T: ?Sized> NoAliasOfOutcomeOrResult<()> for T {}
impl<T: SpelledOut> NoAliasOfOutcomeOrResult<Alias> for T {}

pub struct Alias;

/// Types that the attribute must see by their own names.
pub trait SpelledOut {}

impl<T> SpelledOut for crate::Outcome<T> {}
impl<T, E> SpelledOut for Result<T, E> {}
impl SpelledOut for crate::ToolResult {}

/// An empty set of arguments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NoArguments {}
