#![doc = include_str!("../README.md")]

mod auth;
mod call;
mod catalog;
mod config;
mod host;
mod hub;
mod last_words;
mod memory;
mod pins;
mod private_file;
mod results;
mod route;
mod session;
mod spill;
mod supervise;
mod tee; // what rmcp's typed layer would lose, kept below it
mod transport;
mod wire; // ours ⇄ the SDK's

pub use auth::{AuthConfig, AuthError, Bearer, Browser, GrantKind, OAuth};
pub use catalog::Quarantined;
pub use config::{
    Auth, CALL_TIMEOUT, CONNECT_TIMEOUT, Candidate, Concern, Config, ConfigError, Fault, Origin, Place,
    ServerConfig, ServerName, Transport, Warning, shown_url,
};
pub use host::{ElicitAnswer, ElicitKind, ElicitRequest, Host, NoHost, Refusal, Root};
pub use hub::{Hub, HubOptions};
pub use pins::{Change, Drift, DriftKind, Pins, ServerId};
pub use route::{Known, RESERVED, Route, Routes, ServerTools};
pub use session::{
    CallOptions, ConnectContext, ConnectError, Era, Facts, LeftOut, Listing, Session, SessionError,
    SessionEvent,
};
pub use spill::{Budget, Fitted, Page, ReadError, Spill, SpillId, fit};
pub use supervise::state::{Action, Event, Machine, Policy, State};
pub use supervise::{Phase, ServerStatus};
pub use tee::{Noise, Progress};
pub use toolwire_contract::{Glob, Secret};
pub use transport::{Ending, Failure, HttpKind, SpawnError, Target};
