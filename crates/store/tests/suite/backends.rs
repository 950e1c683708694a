//! The stores that the cases run on.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use toolwire_contract::conversations::Conversations;
use toolwire_store::{InMemory, Redis, RedisOptions, Sqlite, SqliteOptions};
use toolwire_testkit::{RedisCluster, RedisSentinels, RedisServer};

/// An empty store.
pub(crate) enum Backend {
    Sqlite { folder: TempDir },
    Redis { server: RedisServer },
    Memory { store: Arc<InMemory> },
    Cluster { cluster: Arc<RedisCluster>, prefix: String },
    Sentinels { sentinels: Arc<RedisSentinels>, prefix: String },
}

impl Backend {
    pub(crate) fn sqlite() -> Backend {
        Backend::Sqlite { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn redis() -> Backend {
        Backend::Redis { server: RedisServer::start() }
    }

    pub(crate) fn memory() -> Backend {
        Backend::Memory { store: Arc::default() }
    }

    pub(crate) fn cluster(cluster: &Arc<RedisCluster>, prefix: &str) -> Backend {
        Backend::Cluster { cluster: Arc::clone(cluster), prefix: prefix.to_owned() }
    }

    pub(crate) fn sentinels(sentinels: &Arc<RedisSentinels>, prefix: &str) -> Backend {
        Backend::Sentinels { sentinels: Arc::clone(sentinels), prefix: prefix.to_owned() }
    }

    /// Opens the store; each call opens it again.
    pub(crate) async fn open(&self) -> Arc<dyn Conversations> {
        match self {
            Backend::Sqlite { folder } => {
                let path: PathBuf = folder.path().join("conversations.db");
                Arc::new(Sqlite::open(path, SqliteOptions::default()).await.unwrap())
            }
            Backend::Memory { store } => store.clone(),
            _ => Arc::new(self.connect().await),
        }
    }

    /// Connects to Redis.
    pub(crate) async fn connect(&self) -> Redis {
        let mut options = RedisOptions::default();
        let connected = match self {
            Backend::Sqlite { .. } | Backend::Memory { .. } => panic!("not a Redis server"),
            Backend::Redis { server } => Redis::connect(&server.url(), options).await,
            Backend::Cluster { cluster, prefix } => {
                let urls: Vec<String> = cluster.nodes().iter().map(RedisServer::url).collect();
                let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                options.prefix = prefix.clone();
                Redis::connect_cluster(&urls, options).await
            }
            Backend::Sentinels { sentinels, prefix } => {
                options.prefix = prefix.clone();
                Redis::connect(&sentinels.url(), options).await
            }
        };
        connected.unwrap()
    }
}
