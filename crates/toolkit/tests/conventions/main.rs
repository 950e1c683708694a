//! One test for each convention, on what a client sees.
//!
//! Tests go through [`support::call`] and [`support::list`] alone, so the same tables hold for any way to reach a server.

#![allow(clippy::unwrap_used)]

mod arguments;
mod descriptions;
mod dialects;
mod explicit;
mod in_process;
mod isolation;
mod lints;
mod logging;
mod names;
mod outcomes;
mod support;

/// What a newcomer copies is what is built.
#[test]
fn the_guide_shows_the_example() {
    let guide = include_str!("../../../../docs/guide/toolkit.md");
    let example = include_str!("../../examples/words.rs");
    assert!(guide.contains(example), "docs/guide/toolkit.md shows another program than examples/words.rs");
    assert!(example.lines().count() < 30);
}
