//! A terminal whose screen can be read.

use std::num::NonZero;

pub(crate) fn terminal(rows: u16, columns: u16) -> vt100::Parser {
    let size = |number| NonZero::new(number).expect("a terminal has rows and columns");
    vt100::Parser::new(size(rows), size(columns), 0)
}
