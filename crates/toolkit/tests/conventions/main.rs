//! The conventions of the toolkit, tested through real clients.
//!
//! Tests use [`support::call`] and [`support::list`], which run over every transport.

#![allow(clippy::unwrap_used)]

mod arguments;
mod descriptions;
mod dialects;
mod explicit_action;
mod in_process;
mod isolation;
mod lints;
mod logging;
mod names;
mod outcomes;
mod support;

#[test]
fn the_guide_shows_the_example() {
    let guide = include_str!("../../../../docs/guide/toolkit.md");
    let example = include_str!("../../examples/words.rs");
    assert!(guide.contains(example), "docs/guide/toolkit.md differs from examples/words.rs");
    assert!(example.lines().count() < 30);
}
