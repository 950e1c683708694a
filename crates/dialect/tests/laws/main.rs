//! Laws that hold for every tool (real, generated or hostile) in every dialect.
//!
//! They are one program, so that the validators and the sampler are compiled once and the long tests share
//! the cores.

#![allow(clippy::unwrap_used)]

mod api_validator;
mod corpus;
mod fuzz;
mod graphs;
mod hostile;
mod law;
mod reference_graphs;
mod sampler;
mod support;

/// The same allocator as in the command `toolwire`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
