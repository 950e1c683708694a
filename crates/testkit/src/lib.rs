//! For tests only: servers that misbehave, fake providers, scripted models, installed real servers, and
//! functions that inspect the processes a test starts.

pub mod conformance;
#[cfg(feature = "provider")]
pub mod provider;

mod api_keys;
mod haproxy;
#[cfg(feature = "provider")]
mod http_client;
mod installed_servers;
mod log;
mod misbehaving_server;
mod ports;
mod processes;
mod random;
mod redis;
mod redis_cluster;
mod running_server;
mod scripted_model;

pub use api_keys::api_key_variables;
pub use haproxy::HaProxy;
#[cfg(feature = "provider")]
pub use http_client::{http_client, install_tls_provider};
pub use installed_servers::{InstalledServers, ServerCommand};
pub use log::with_subscriber;
pub use misbehaving_server::{enter_example_folder, misbehaving_server, start_misbehaving_http};
pub use ports::lasting_port;
pub use processes::{Process, open_file_count, peak_bytes, processes_with_variable, resident_bytes};
pub use random::Random;
pub use redis::{RedisSentinel, RedisSentinels, RedisServer};
pub use redis_cluster::RedisCluster;
pub use running_server::RunningServer;
pub use scripted_model::{ScriptedModel, ScriptedTurn, check_messages};
