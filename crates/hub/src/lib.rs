#![doc = include_str!("../README.md")]

mod auth;
mod config;
mod host;
mod pins;
mod private_file;
mod route;
mod secret;
mod session;
mod spill;
mod supervise;
mod tee; // what rmcp's typed layer would lose, kept below it
mod transport;

pub use config::{
    Auth, AuthConfig, CALL_TIMEOUT, CONNECT_TIMEOUT, Candidate, Concern, Config, ConfigError, Fault, Glob,
    GrantKind, HttpKind, Origin, Place, ServerConfig, ServerName, Transport, Warning, shown_url,
};
pub use pins::{Change, Drift, DriftKind, Pins};
pub use route::{Known, Offered, RESERVED, Route, Routes, ServerTools};
pub use secret::Secret;
pub use spill::{Budget, Fitted, Page, ReadError, Spill, SpillId, fit};
pub use supervise::state::{Action, Event, Machine, Policy, State};
