#![doc = include_str!("../README.md")]

mod blocks;
mod highlight;
mod parse;
mod unfinished;

pub use blocks::{blocks, settled_blocks};
pub use highlight::{Highlighter, TokenKind};
pub use parse::{event, parse};
pub use unfinished::{complete, ends_in_code_fence};
