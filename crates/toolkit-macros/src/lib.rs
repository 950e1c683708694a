//! The `#[tool]` attribute of `toolwire-toolkit`, which has its documentation.

mod attributes;
mod body;
mod docs;
mod expand;
mod parameters;
mod returns;

use proc_macro::TokenStream;

/// Makes a tool of an `async fn`; a server's builder takes it by its name.
///
/// The name then stands for a function that makes the tool, and the function that was written is the tool's `call`:
/// `name().call(..)`, with the parameters it was written with. Variables and modules may be called like tools.
///
/// # Parameters
///
/// - `cx: &Context`, anywhere or nowhere: what the tool knows of its call. It is never part of the schema.
/// - One parameter named `args` is the whole set of arguments: a struct that derives `serde::Deserialize` and
///   `schemars::JsonSchema`, with a doc comment on each field.
/// - Otherwise every parameter is one argument, described by its doc comment and without the `_` that its name may begin with. An `Option` may be left out;
///   `#[tool(default = 10)]` gives a default, `#[tool(default)]` the one of the type. `#[serde(..)]` and `#[schemars(..)]` work
///   as on a field.
///
/// # What it says of the tool
///
/// | attribute | means |
/// |---|---|
/// | `name = ".."` | another name than the function's |
/// | `prefix = ".."` | another prefix than the server's; `""` for none |
/// | `title = ".."` | a name for people |
/// | `explicit = "ACTION"` | runs only when the argument `explicit_action` says so: what needs the user's own word |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | MCP's hints; `= false` denies one |
/// | `task`, `task(required)`, `task(when_told)` | calls may become tasks, must, or do so where the function says it |
///
/// # What it returns
///
/// An `Outcome<T>`, in which `?` works on ordinary errors; a `ToolResult`, served as it is; any value that derives `Serialize` and
/// `JsonSchema`, or nothing, served as `Outcome::ok`; or a `Result` of these. The attribute reads the type as it is written, so
/// `Outcome` and `Result` must stand there by these names: another name for one of them does not compile.
///
/// In a function that returns an `Outcome<T>`, `return outcome` works too, but not inside of a macro such as `select!`: there,
/// return a `Result<Outcome<T>, Failure>`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(attribute.into(), item.into()).unwrap_or_else(|error| error.into_compile_error()).into()
}
