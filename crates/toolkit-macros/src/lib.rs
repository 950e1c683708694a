#![doc = include_str!("../README.md")]

mod attributes;
mod body;
mod docs;
mod expand;
mod parameters;
mod returns;

use proc_macro::TokenStream;

/// Turns an `async fn` into a tool that can be passed to a server's builder by its name.
///
/// The name becomes a function that returns the tool. The original function is the tool's method `call`, with
/// the same parameters: `name().call(..)`. Variables and modules may have the names of tools.
///
/// # Parameters
///
/// - `cx: &Context`, optional, at any position: information about the call. It is never part of the schema.
/// - One parameter named `args` holds all arguments: a struct that derives `serde::Deserialize` and
///   `schemars::JsonSchema`, with a doc comment on each field.
/// - Otherwise every parameter is one argument, described by its doc comment. A leading `_` is removed from
///   its name. An `Option` can be omitted; `#[tool(default = 10)]` sets a default, `#[tool(default)]` uses
///   that of the type. `#[serde(..)]` and `#[schemars(..)]` work as on a field.
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `name = ".."` | the name, if it differs from the function's |
/// | `prefix = ".."` | the prefix, if it differs from the server's; `""` for none |
/// | `title = ".."` | a display name |
/// | `explicit = "ACTION"` | runs only if the argument `explicit_action` has this value; for actions that need the user's consent |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | MCP's behaviour hints; `= false` states the opposite |
/// | `task`, `task(required)`, `task(on_request)` | calls may become tasks, must become tasks, or become tasks when the function requests it |
///
/// # Return type
///
/// An `Outcome<T>`, in which `?` works on ordinary errors; a `ToolResult`, which is served unchanged; any
/// value that derives `Serialize` and `JsonSchema`, or nothing, which is served as `Outcome::ok`; or a
/// `Result` of these. The attribute reads the type as it is written, so an alias of `Outcome` or `Result`
/// does not compile.
///
/// In a function that returns an `Outcome<T>`, `return outcome` works too, except inside a macro such as
/// `select!`. Return a `Result<Outcome<T>, Failure>` there.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(attribute.into(), item.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}
