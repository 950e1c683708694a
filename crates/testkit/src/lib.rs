//! For tests only: servers that misbehave, real ones to run against, a look at the processes they leave, and models that
//! play a script.

pub mod conformance;

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
