#![doc = include_str!("../README.md")]
// The error of a model holds what its provider said, whole; it is rare, and moved once.
#![allow(clippy::result_large_err)]

mod config;
mod name;
mod providers;
mod settings; // name + configuration + variables

mod client;
mod endpoint;
mod models;
mod stream; // asks and reads

mod collect;
mod frames;
mod pacing;
mod refusal;
mod retry;
mod sign;
mod toolsets;

mod demo;

pub use collect::collect;
pub use config::{Api, ConfigError, EndpointConfig, EndpointConfigs, Price, Timeouts};
pub use demo::Demo;
pub use endpoint::Endpoint;
pub use frames::Framing;
pub use models::Models;
pub use name::{InvalidModelName, ModelName};
pub use pacing::{Clock, Pacing};
pub use providers::{Auth, Key, PROVIDERS, Provider};
pub use retry::Retries;
pub use settings::EndpointError;
pub use toolwire_contract::Secret;
