//! Displays responses, calls and stored messages on a terminal or as plain text.

pub(crate) mod calls;
mod canvas;
pub(crate) mod images;
mod line;
pub(crate) mod markdown;
mod replay;
#[cfg(test)]
mod testing;
pub(crate) mod view;
