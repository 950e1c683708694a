//! Reads the case files, converts their tools and compares the outputs with the expected ones.

mod case;
mod checks;
mod failures;
mod layout;
mod output;
mod variants;

pub(crate) use case::{Case, Listing, Outcome};
pub(crate) use checks::check;
pub(crate) use failures::Failures;
pub(crate) use output::Variant;
