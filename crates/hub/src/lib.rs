#![doc = include_str!("../README.md")]

mod auth;
mod config;
mod host;
mod pins;
mod route;
mod secret;
mod session;
mod spill;
mod supervise;
mod tee; // what rmcp's typed layer would lose, kept below it
mod transport;

pub use auth::{AuthConfig, AuthError, Bearer, Browser, GrantKind, OAuth};
pub use secret::Secret;
