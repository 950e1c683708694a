//! What keeping a message costs, and how fast a conversation of 1,000 messages is there again; beside the least that any
//! store could do: appending lines of the same JSON to a plain file, and reading them from it.

#![allow(clippy::unwrap_used)]

fn main() {}
