//! Dialects side by side: one tool and its definition in a dialect, with every change marked in place and its
//! reason below; and the status of every tool in every dialect.

mod align;
mod arguments;
mod grid;
mod matrix;
mod notations;
mod origins;
mod pair;
mod reasons;
mod sample;
mod standalone;
#[cfg(test)]
mod tests;
mod view;

use serde_json::Value;
use toolwire_contract::text::estimate_tokens;
use toolwire_dialect::{Effect, Status};

pub use arguments::{ArgumentsTarget, Exchange, Route, Side, arguments_form, both_ways, ids, notes};
pub use grid::grid;
pub use matrix::{MatrixRow, MatrixTarget, counts, matrix};
pub use pair::{Pair, pair};
pub use standalone::{CheckedTool, standalone};
pub use view::{
    ComparedTool, EXAMPLE, Pasted, ShownDialects, ToolReports, address, entries, list, open, overview, paste,
    pasted_tool,
};

use maud::{Markup, html};

/// Estimates the tokens of a definition.
pub fn tokens(definition: &Value) -> usize {
    usize::try_from(estimate_tokens(&definition.to_string())).unwrap_or(usize::MAX)
}

/// Returns the symbol of a status, as the terminal prints it.
pub(crate) fn symbol(status: Status) -> &'static str {
    match status {
        Status::Exact => "✓",
        Status::Rewritten => "~",
        Status::Lossy => "!",
        Status::Refused => "✗",
    }
}

/// Returns the symbol of a status in a box. Screen readers ignore it, so the word must be beside it.
fn glyph(status: Status) -> Markup {
    html! { span class={ "glyph " (status.name()) } aria-hidden="true" { (symbol(status)) } }
}

fn status_of(effect: Effect) -> Status {
    match effect {
        Effect::Dropped | Effect::Rewritten => Status::Rewritten,
        Effect::Widened | Effect::Narrowed => Status::Lossy,
    }
}
