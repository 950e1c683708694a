#![doc = include_str!("../README.md")]

// Access control, limits, and reading of requests.
mod access;
mod admission;
pub mod audit;
mod body;
mod body_scan;
mod caller_tools;
mod failed_keys;
mod form;
mod head_timer;
mod idempotency;
mod ids;
mod issued_key;
mod keys;
mod large_bodies;
mod lifecycle;
mod meter;
pub mod metrics;
mod origin;
mod permitted_tools;
mod principal;
mod request_body;
mod request_options;
mod routes;
mod screened_tools;
mod settings;
pub mod spans;
mod stored_keys;
pub mod tls;
#[cfg(feature = "oidc")]
pub mod tokens;
mod top_level;
mod user_servers;
mod user_tools;

// Models, tools, runs and responses.
mod catalog;
mod complete;
mod content_check;
mod exchange;
mod fixed_tools;
mod forward;
mod forwarded_events;
mod forwarded_usage;
mod hidden_rounds;
mod hosted;
mod items;
pub mod mcp;
mod models;
mod named_tools;
mod pass_through;
mod paused_runs;
mod prepare;
mod recent;
mod request_servers;
mod response;
mod response_in_progress;
mod state;
mod tool_choice;
mod tools;
mod traffic;
mod verbatim;

// The web page.
pub mod page;

mod gateway;
mod server;

pub use catalog::{ForwardedBody, ForwardedRequest, ForwardedResponse};
pub use catalog::{ModelCatalog, ServedModel, UnknownModel, Upstream};
pub use gateway::Gateway;
pub use issued_key::IssuedKey;
pub use keys::Keys;
pub use lifecycle::{ReadinessCheck, ReadinessChecks};
pub use origin::OriginError;
pub use principal::stored_key_owner;
pub use request_servers::{RequestServer, RequestServerError, RequestServers};
pub use routes::RouteInfo;
pub use server::StartError;
pub use settings::{GatewayLimits, GatewaySettings, LimitError};
pub use state::ResponseStorage;
pub use user_servers::{ServerUser, UserLogin, UserLoginError, UserServers};
