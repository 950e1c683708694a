#![doc = include_str!("../README.md")]

mod allowed_hosts; // URLs from untrusted sources
pub mod auth;
mod call;
mod call_times;
mod callers;
mod catalog;
mod client_service; // responds to requests of servers
pub mod config;
mod drift;
mod excerpt;
mod host;
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
mod stderr_tail;
mod supervise;
mod sync;
mod transport;

use toolwire_contract::Secret;

pub use allowed_hosts::{AllowedHosts, PatternError, UrlRefusal};
pub use auth::Browser;
pub use call_times::CallStatistics;
pub use catalog::QuarantinedTool;
pub use config::{Config, ServerConfig, ServerName, Transport};
pub use host::{ElicitKind, ElicitReply, ElicitRequest, Host, Root, SamplingError};
pub use hub::{Hub, HubOptions};
pub use raw_capture::IgnoredOutput;
pub use result_store::ResultBudget;
pub use session::{ProtocolEra, ServerInfo, SlowStart};
pub use supervise::{Attempt, Phase, ServerStatus, StartProgress};
pub use transport::HttpKind;
pub use transport::guard::run_as_guard;
