#![doc = include_str!("../README.md")]
// `ModelError` holds the complete error of the provider. Errors are rare and moved once.
#![allow(clippy::result_large_err)]

// Configuration: model name, user configuration and environment variables.
mod config;
mod endpoint_error;
mod limits;
mod model_name;
mod model_table;
mod providers;
mod request_url;
mod settings;

// Requests and responses.
mod balanced;
mod context_limit;
mod discovery;
mod embeddings;
mod endpoint;
mod forward;
mod frames;
mod http_clients;
mod models;
mod provider_error;
mod retry;
mod sign;
mod stream;
mod toolset_cache;

mod clock;
mod collect;
mod demo;

pub use balanced::{AttemptObserver, Balanced};
pub use clock::Clock;
pub use collect::collect;
pub use config::{Api, ConfigError, EndpointConfig, EndpointConfigs, Price, Timeouts};
pub use demo::Demo;
pub use endpoint::Endpoint;
pub use endpoint_error::EndpointError;
pub use forward::{RawBody, RawRequest, RawResponse};
pub use model_name::InvalidModelName;
pub use models::Models;
pub use providers::{PROVIDERS, Provider};
pub use toolwire_contract::Secret;
