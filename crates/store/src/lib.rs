#![doc = include_str!("../README.md")]

mod clock;
mod depth;
mod in_memory;
#[cfg(feature = "redis")]
mod redis;
mod sqlite;
mod words; // what a search looks at, the same on every backend

pub use in_memory::InMemory;
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisOptions};
pub use sqlite::{Sqlite, SqliteOptions};
