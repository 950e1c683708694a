//! Opens the store of conversations: a SQLite file or Redis.

use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toolwire_contract::conversations::{Conversations, StoreError};
use toolwire_contract::keys::{KeyTable, UsageCounter};
use toolwire_contract::state::StateStore;
use toolwire_contract::text::parse_duration;
use toolwire_store::{InMemory, InMemoryKeys, InMemoryState, Sqlite, SqliteKeys, SqliteOptions, SqliteState};
#[cfg(feature = "redis")]
use toolwire_store::{Redis, RedisOptions};

use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::servers::data_folder;
use crate::terminal_text::sanitize;

/// The time to open a store after which a note says what the command waits for.
const SILENT_TIME: Duration = Duration::from_secs(1);

/// The key `toolwire.store`: the path of a file, the URL of a Redis server, or an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum StoreSettings {
    /// `conversations.db` in the user's data folder.
    #[default]
    Default,
    PathOrUrl(String),
    Redis(RedisSettings),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedisSettings {
    redis: RedisUrls,
    prefix: Option<String>,
    /// The time from the last message of a conversation until it expires.
    time_to_live: Option<Period>,
    /// The maximum wait for the server.
    timeout: Option<Period>,
    /// The number of replicas that must confirm a write before it counts as stored.
    #[serde(default)]
    replicas: u32,
}

/// A length of time in the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected seconds, or a string such as \"12h\"")]
pub(crate) enum Period {
    Seconds(u32),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a URL, or an array of URLs")]
enum RedisUrls {
    /// A server, or the master that sentinels name.
    Server(String),
    /// Some nodes of a cluster.
    Cluster(Vec<String>),
}

impl<'de> Deserialize<'de> for StoreSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoreSettings, D::Error> {
        deserializer.deserialize_any(StoreVisitor)
    }
}

/// Written by hand, because the errors of an untagged enum do not name the invalid key.
struct StoreVisitor;

impl<'de> Visitor<'de> for StoreVisitor {
    type Value = StoreSettings;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the path of a file, the URL of a Redis server, or an object with `redis`")
    }

    fn visit_str<E>(self, text: &str) -> Result<StoreSettings, E> {
        Ok(StoreSettings::PathOrUrl(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<StoreSettings, E> {
        Ok(StoreSettings::Default)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StoreSettings, A::Error> {
        RedisSettings::deserialize(MapAccessDeserializer::new(map)).map(StoreSettings::Redis)
    }
}

/// Opens the configured store. If it does not respond, a note says what the command waits for.
pub(crate) async fn open(settings: &StoreSettings) -> Result<Arc<dyn Conversations>, CommandError> {
    let mut opening = pin!(open_silently(settings));
    tokio::select! {
        opened = &mut opening => return opened,
        () = tokio::time::sleep(SILENT_TIME) => {}
    }
    print_stderr(&format!("{NOTE}note:{NOTE:#} waiting for the store of conversations\n"));
    opening.await
}

async fn open_silently(settings: &StoreSettings) -> Result<Arc<dyn Conversations>, CommandError> {
    match place(settings)? {
        Place::File(path) => open_file(path).await,
        Place::Redis(place) => Ok(connect(&place).await?),
    }
}

/// Where the data is.
enum Place {
    /// The file with the conversations. Other data is in files beside it.
    File(PathBuf),
    Redis(RedisPlace),
}

/// A Redis server or cluster, and the options that are configured.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "without Redis, the options have no effect"))]
struct RedisPlace {
    urls: RedisUrls,
    prefix: Option<String>,
    time_to_live: Option<Duration>,
    timeout: Option<Duration>,
    replicas: u32,
}

fn place(settings: &StoreSettings) -> Result<Place, CommandError> {
    Ok(match settings {
        StoreSettings::Default => {
            let folder = data_folder().ok_or_else(|| {
                CommandError::work("no folder for conversations: neither XDG_DATA_HOME nor HOME is set")
                    .with_hint("set one of them, or configure a file as `toolwire.store`")
            })?;
            Place::File(folder.join("conversations.db"))
        }
        StoreSettings::PathOrUrl(url) if is_redis_url(url) => {
            let urls = RedisUrls::Server(url.clone());
            Place::Redis(RedisPlace { urls, prefix: None, time_to_live: None, timeout: None, replicas: 0 })
        }
        StoreSettings::PathOrUrl(path) => Place::File(expand_home(path)),
        StoreSettings::Redis(RedisSettings { redis, prefix, time_to_live, timeout, replicas }) => {
            let parse =
                |period: &Option<Period>, key| period.as_ref().map(|period| period.parse(key)).transpose();
            Place::Redis(RedisPlace {
                urls: redis.clone(),
                prefix: prefix.clone(),
                time_to_live: parse(time_to_live, "store.timeToLive")?,
                timeout: parse(timeout, "store.timeout")?,
                replicas: *replicas,
            })
        }
    })
}

/// The keys of the gateway's clients.
pub(crate) struct KeyStore {
    pub(crate) table: Arc<dyn KeyTable>,
    pub(crate) usage: Arc<dyn UsageCounter>,
    /// The place, for messages.
    pub(crate) place: String,
}

impl KeyStore {
    /// Returns an empty table for this process.
    pub(crate) fn in_memory() -> KeyStore {
        let keys = Arc::new(InMemoryKeys::new());
        KeyStore { table: keys.clone(), usage: keys, place: "memory".to_owned() }
    }
}

/// Opens the keys in the configured store. A file is created with the first key.
pub(crate) async fn open_keys(settings: &StoreSettings) -> Result<KeyStore, CommandError> {
    Ok(match place(settings)? {
        Place::File(path) => {
            let path = path.with_extension("keys.db");
            let place = path.display().to_string();
            let keys = Arc::new(SqliteKeys::new(path));
            KeyStore { table: keys.clone(), usage: keys, place }
        }
        Place::Redis(place) => connect_keys(&place).await?,
    })
}

#[cfg(feature = "redis")]
async fn connect_keys(place: &RedisPlace) -> Result<KeyStore, CommandError> {
    let redis = connect(place).await?;
    Ok(KeyStore { table: redis.clone(), usage: redis, place: "Redis".to_owned() })
}

#[cfg(not(feature = "redis"))]
async fn connect_keys(_: &RedisPlace) -> Result<KeyStore, CommandError> {
    Err(without_redis())
}

/// Opens the store for the state of the gateway's clients, such as responses. A file is created with the
/// first one. If there is no folder for data, they are kept in memory.
pub(crate) async fn open_state(settings: &StoreSettings) -> Result<Arc<dyn StateStore>, CommandError> {
    match place(settings) {
        Ok(Place::File(path)) => Ok(Arc::new(SqliteState::new(path.with_extension("state.db")))),
        Ok(Place::Redis(place)) => connect_state(&place).await,
        Err(_) if *settings == StoreSettings::Default => Ok(Arc::new(InMemoryState::new())),
        Err(error) => Err(error),
    }
}

#[cfg(feature = "redis")]
async fn connect_state(place: &RedisPlace) -> Result<Arc<dyn StateStore>, CommandError> {
    Ok(connect(place).await?)
}

#[cfg(not(feature = "redis"))]
async fn connect_state(_: &RedisPlace) -> Result<Arc<dyn StateStore>, CommandError> {
    Err(without_redis())
}

/// Whether other gateways may use the same store.
pub(crate) fn is_shared(settings: &StoreSettings) -> bool {
    matches!(place(settings), Ok(Place::Redis(_)))
}

/// Opens the configured store. If this fails, returns a store in memory and the error.
pub(crate) async fn open_or_in_memory(
    settings: &StoreSettings,
) -> (Arc<dyn Conversations>, Option<CommandError>) {
    match open(settings).await {
        Ok(store) => (store, None),
        Err(error) => (Arc::new(InMemory::new()), Some(error)),
    }
}

/// Expands `~/` to the home folder.
pub(crate) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// Also recognizes URLs with a wrong scheme, such as `redis-sentinel://`, which are not the paths of files.
fn is_redis_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| scheme.starts_with("redis"))
}

impl Period {
    /// Parses a duration that, unlike the timeout of a call, may be in days: `"30d"`. `key` is the place of
    /// the value below `toolwire`.
    pub(crate) fn parse(&self, key: &str) -> Result<Duration, CommandError> {
        let text = match self {
            Period::Seconds(seconds) => return Ok(Duration::from_secs(u64::from(*seconds))),
            Period::Text(text) => text,
        };
        let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u32>().ok());
        days.map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60))
            .or_else(|| parse_duration(text))
            .ok_or_else(|| {
                CommandError::usage(format!("`toolwire.{key}`: `{}` is not a duration", sanitize(text)))
                    .with_hint("write seconds, \"12h\" or \"30d\"")
            })
    }
}

async fn open_file(path: PathBuf) -> Result<Arc<dyn Conversations>, CommandError> {
    if let Some(folder) = path.parent() {
        // If this fails, opening the file fails with the reason.
        let _ = std::fs::create_dir_all(folder);
    }
    let store = Sqlite::open(path, SqliteOptions::default()).await.map_err(command_error)?;
    Ok(Arc::new(store))
}

#[cfg(feature = "redis")]
async fn connect(place: &RedisPlace) -> Result<Arc<Redis>, CommandError> {
    let mut options = RedisOptions::default();
    options.prefix = place.prefix.clone().unwrap_or(options.prefix);
    options.time_to_live = place.time_to_live;
    options.timeout = place.timeout.unwrap_or(options.timeout);
    options.replicas = place.replicas;
    let store = match &place.urls {
        RedisUrls::Server(url) => Redis::connect(url, options).await,
        RedisUrls::Cluster(urls) => {
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            Redis::connect_cluster(&urls, options).await
        }
    };
    Ok(Arc::new(store.map_err(command_error)?))
}

#[cfg(not(feature = "redis"))]
async fn connect(_: &RedisPlace) -> Result<Arc<InMemory>, CommandError> {
    Err(without_redis())
}

#[cfg(not(feature = "redis"))]
fn without_redis() -> CommandError {
    CommandError::usage("this build of toolwire does not include Redis")
        .with_hint("build it with its default features, or configure a file as `toolwire.store`")
}

/// Converts a store's error, with a hint for the command line.
pub(crate) fn command_error(error: StoreError) -> CommandError {
    let hint = match &error {
        StoreError::UnknownConversation { .. } => {
            Some("`/resume` in `toolwire chat` lists the conversations")
        }
        error => error.hint(),
    };
    CommandError::work(sanitize(&error.to_string())).with_untrusted_hint(hint)
}
