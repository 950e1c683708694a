#![doc = include_str!("../README.md")]

mod clock;
mod in_memory;
mod in_memory_keys;
mod in_memory_state;
mod key_json;
mod nesting;
mod observed;
#[cfg(feature = "redis")]
mod redis;
mod search_text; // the search terms of a message, the same for every backend
mod sqlite;
mod usage;

pub use in_memory::InMemory;
pub use in_memory_keys::InMemoryKeys;
pub use in_memory_state::InMemoryState;
pub use observed::{Observed, StoreObserver};
#[cfg(feature = "redis")]
pub use redis::{Redis, RedisOptions};
pub use sqlite::{CachedEmbedder, Sqlite, SqliteKeys, SqliteOptions, SqliteState};
