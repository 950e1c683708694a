//! What holds for every tool: real ones, generated ones and hostile ones, in every dialect.
//!
//! One program, so that the judges and the sampler are built once and the long tests share the cores.

#![allow(clippy::unwrap_used)]

mod acceptance;
mod corpus;
mod fuzz;
mod hostile;
mod law;
mod sampler;
mod support;

/// As in the binary: thousands of tools are read and dropped here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
