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
mod wire; // ours ⇄ the SDK's

pub use auth::{AuthConfig, AuthError, Bearer, Browser, GrantKind, OAuth};
pub use host::{ElicitAnswer, ElicitKind, ElicitRequest, Host, NoHost, Refusal, Root};
pub use secret::Secret;
pub use session::{
    CallOptions, ConnectContext, ConnectError, Era, Facts, LeftOut, Listing, Session, SessionError,
    SessionEvent,
};
pub use tee::{Noise, Progress};
pub use transport::{Ending, Failure, HttpKind, SpawnError, Target};
