//! For tests only: servers that misbehave, scripted providers and models, real servers to run against, and a look at the
//! processes they leave.

pub mod conformance;
#[cfg(feature = "provider")]
pub mod provider;

mod misbehaving;
mod processes;
mod redis;
mod running;
mod scripted;
mod servers;

pub use misbehaving::{misbehaving_http, misbehaving_server};
pub use processes::{Process, descendants, marked, open_files, peak_bytes, resident_bytes, wait_gone};
pub use redis::{RedisCluster, RedisServer};
pub use running::RunningServer;
pub use scripted::{Scripted, ScriptedModel, check_messages};
pub use servers::{Launch, Servers};
