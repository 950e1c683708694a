#![doc = include_str!("../README.md")]

mod clock;
mod in_memory;
mod nesting;
mod observed;
#[cfg(feature = "redis")]
mod redis;
mod search_text; // the search terms of a message, the same for every backend
mod sqlite;

pub use in_memory::InMemory;
pub use observed::{Observed, StoreObserver};
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisOptions};
pub use sqlite::{CachedEmbedder, Sqlite, SqliteOptions};
