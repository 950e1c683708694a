#![doc = include_str!("../README.md")]

pub mod auth;
mod call;
mod catalog;
pub mod config;
mod drift;
mod host;
mod hub;
mod last_words;
pub mod pins;
mod private_file;
mod results;
mod route;
mod session;
mod spill;
mod supervise;
mod sync;
mod tee; // what rmcp's typed layer would lose, kept below it
mod transport;
mod wire; // ours ⇄ the SDK's

pub use auth::Browser;
pub use catalog::Quarantined;
pub use config::{Config, ServerConfig, ServerName, Transport};
pub use host::{ElicitKind, ElicitReply, ElicitRequest, Host, NoHost, Root, SamplingError};
pub use hub::{Hub, HubOptions};
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
