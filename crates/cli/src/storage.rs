//! Where conversations are kept: a file of this user's, another file, or Redis.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toolwire_contract::{Conversations, StoreError, parse_duration};
use toolwire_store::{Redis, RedisOptions, Sqlite, SqliteOptions};

use crate::command_error::CommandError;
use crate::servers::data_folder;
use crate::terminal_text::sanitize;

/// The key `toolwire.store`: the path of a file, the address of a Redis, or an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum StoreSettings {
    /// `conversations.db` in the user's data folder.
    #[default]
    Usual,
    Place(String),
    Redis(RedisSettings),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedisSettings {
    /// One server, or some nodes of a cluster.
    redis: Addresses,
    prefix: Option<String>,
    /// After its last message a conversation is kept for so long: seconds, or text such as `"12h"`.
    time_to_live: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected seconds, or a string such as \"12h\"")]
enum Time {
    Seconds(u32),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a URL, or an array of URLs")]
enum Addresses {
    One(String),
    Cluster(Vec<String>),
}

impl<'de> Deserialize<'de> for StoreSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoreSettings, D::Error> {
        deserializer.deserialize_any(StoreVisitor)
    }
}

/// By hand, because a choice among shapes would say only that none of them fits.
struct StoreVisitor;

impl<'de> Visitor<'de> for StoreVisitor {
    type Value = StoreSettings;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the path of a file, the URL of a Redis server, or an object with `redis`")
    }

    fn visit_str<E>(self, place: &str) -> Result<StoreSettings, E> {
        Ok(StoreSettings::Place(place.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<StoreSettings, E> {
        Ok(StoreSettings::Usual)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StoreSettings, A::Error> {
        RedisSettings::deserialize(MapAccessDeserializer::new(map)).map(StoreSettings::Redis)
    }
}

/// Opens the store; one that cannot be opened is told with what to try.
pub(crate) async fn open(settings: &StoreSettings) -> Result<Arc<dyn Conversations>, CommandError> {
    match settings {
        StoreSettings::Usual => {
            let folder = data_folder().ok_or_else(|| {
                CommandError::work("no folder for conversations: neither XDG_DATA_HOME nor HOME is set")
                    .with_hint("set one of them, or configure a file as `toolwire.store`")
            })?;
            open_file(folder.join("conversations.db")).await
        }
        StoreSettings::Place(place) if is_redis(place) => {
            connect(&Addresses::One(place.clone()), RedisOptions::default()).await
        }
        StoreSettings::Place(place) => open_file(at_home(place)).await,
        StoreSettings::Redis(redis) => {
            let usual = RedisOptions::default();
            let time_to_live = redis.time_to_live.as_ref().map(kept_for).transpose()?;
            let prefix = redis.prefix.clone().unwrap_or(usual.prefix);
            connect(&redis.redis, RedisOptions { prefix, time_to_live, ..RedisOptions::default() }).await
        }
    }
}

/// A path as people write it: `~/` is their own folder.
fn at_home(place: &str) -> PathBuf {
    match (place.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(place),
    }
}

fn is_redis(place: &str) -> bool {
    ["redis://", "rediss://", "redis+unix://"].iter().any(|scheme| place.starts_with(scheme))
}

/// A time that may be longer than a call's: days are written as `"30d"`.
fn kept_for(time: &Time) -> Result<Duration, CommandError> {
    let text = match time {
        Time::Seconds(seconds) => return Ok(Duration::from_secs(u64::from(*seconds))),
        Time::Text(text) => text,
    };
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u32>().ok());
    days.map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60))
        .or_else(|| parse_duration(text))
        .ok_or_else(|| {
            CommandError::usage(format!(
                "`toolwire.store.timeToLive`: `{}` is not a duration",
                sanitize(text)
            ))
            .with_hint("write seconds, \"12h\" or \"30d\"")
        })
}

async fn open_file(path: PathBuf) -> Result<Arc<dyn Conversations>, CommandError> {
    if let Some(folder) = path.parent() {
        // What is wrong with the folder, opening the file tells.
        let _ = std::fs::create_dir_all(folder);
    }
    let store = Sqlite::open(path, SqliteOptions::default()).await.map_err(failure)?;
    Ok(Arc::new(store))
}

async fn connect(
    addresses: &Addresses,
    options: RedisOptions,
) -> Result<Arc<dyn Conversations>, CommandError> {
    let store = match addresses {
        Addresses::One(address) => Redis::connect(address, options).await,
        Addresses::Cluster(addresses) => {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            Redis::connect_cluster(&addresses, options).await
        }
    };
    Ok(Arc::new(store.map_err(failure)?))
}

/// What a store says, as the failure of a command.
pub(crate) fn failure(error: StoreError) -> CommandError {
    let failure = CommandError::work(sanitize(&error.to_string()));
    if matches!(error, StoreError::UnknownConversation { .. }) {
        return failure.with_hint("`/resume` in `toolwire chat` lists the conversations");
    }
    match error.hint() {
        Some(hint) => failure.with_hint(sanitize(hint)),
        None => failure,
    }
}
