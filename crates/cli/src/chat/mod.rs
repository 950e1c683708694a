//! `toolwire chat`: a conversation in the terminal.
#![allow(dead_code)]

mod calls;
mod canvas;
mod line;
mod markdown;
#[cfg(test)]
mod testing;
mod view;
