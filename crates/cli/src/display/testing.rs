//! A virtual terminal for tests.

use std::num::NonZero;

pub(crate) fn terminal(rows: u16, columns: u16) -> vt100::Parser {
    let size = |number| NonZero::new(number).expect("a non-zero size");
    vt100::Parser::new(size(rows), size(columns), 0)
}
