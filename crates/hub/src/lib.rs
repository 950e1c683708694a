#![doc = include_str!("../README.md")]

mod allowed_hosts; // URLs from untrusted sources
pub mod auth;
mod call;
mod call_times;
mod calls_in_progress;
mod catalog;
mod client_service; // responds to requests of servers
pub mod config;
mod drift;
mod excerpt;
pub mod host;
mod hub;
pub mod pins;
mod private_file;
mod process_table;
mod processor;
mod raw_capture; // the raw JSON that the SDK's typed layer would lose
mod result_limiter;
mod result_store;
mod route;
mod session;
pub mod status;
mod stderr_tail;
mod supervise;
mod sync;
mod transport;

use toolwire_contract::Secret;

pub use allowed_hosts::{AllowedHosts, PatternError, UrlRefusal};
pub use auth::Browser;
pub use config::{Config, ServerConfig, ServerName, Transport};
pub use host::Host;
pub use hub::{Hub, HubOptions};
pub use result_store::ResultBudget;
pub use status::{Phase, ServerStatus};
pub use transport::guard::run_as_guard;
