//! Items used by the code that `#[tool]` generates. Not part of the API.

pub use crate::check::read;
pub use crate::declare::{Declaration, Hints};
pub use crate::reply::{CompletedCall, Reply};
pub use crate::schema::{Arguments, arguments};
pub use futures_core::future::BoxFuture;
pub use schemars;
pub use serde;
pub use serde_json::{Map, Value};

/// Implemented once for plain values. For an alias of `Outcome`, `Result` or `ToolResult` there are two
/// implementations, so that its use is ambiguous and does not compile.
pub trait NoAliasOfOutcomeOrResult<Way> {
    fn check() {}
}

impl<T: ?Sized> NoAliasOfOutcomeOrResult<()> for T {}
impl<T: SpelledOut> NoAliasOfOutcomeOrResult<Alias> for T {}

pub struct Alias;

/// Types that must be written with their own names.
pub trait SpelledOut {}

impl<T> SpelledOut for crate::Outcome<T> {}
impl<T, E> SpelledOut for Result<T, E> {}
impl SpelledOut for crate::ToolResult {}

/// An empty set of arguments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NoArguments {}
