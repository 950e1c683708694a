//! Cases for a Redis master that sentinels replace.

use std::time::Duration;

use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversations, StoreError};
use toolwire_store::{Redis, RedisOptions};
use toolwire_testkit::{RedisSentinels, RedisServer};

use crate::storing::{begin_with, texts};

/// Returns options with a timeout that is longer than every failover, also on a busy machine.
fn with_long_timeout() -> RedisOptions {
    let mut options = RedisOptions::default();
    options.timeout = Duration::from_secs(120);
    options
}

async fn error_of(url: &str) -> StoreError {
    let error = Redis::connect(url, RedisOptions::default()).await.err().unwrap();
    assert!(!format!("{error} {error:?}").contains("wrong-password"));
    error
}

fn message(number: u64) -> Vec<toolwire_contract::conversations::NewEntry> {
    vec![Message::user(number.to_string()).into()]
}

/// An open store uses the new master after each failover: one that was requested, a crash, and a machine that
/// no longer responds but closes no connection.
#[tokio::test]
async fn an_open_store_follows_every_failover() {
    let mut sentinels = RedisSentinels::start();
    let store = Redis::connect(&sentinels.url(), with_long_timeout()).await.unwrap();
    let id = begin_with(&store, "", &[]).await;
    assert_eq!(store.append(&id, message(1), Some(0)).await, Ok(1));
    sentinels.fail_over();
    assert_eq!(store.append(&id, message(2), Some(1)).await, Ok(2));

    sentinels.until_replicated();
    let killed = sentinels.kill_master();
    assert_eq!(store.append(&id, message(3), Some(2)).await, Ok(3));
    sentinels.restart(killed);
    assert_eq!(store.append(&id, message(4), Some(3)).await, Ok(4));

    sentinels.until_replicated();
    let paused = sentinels.pause_master();
    // Concurrent requests wait for the new master together.
    let (appended, listed) = tokio::join!(store.append(&id, message(5), Some(4)), store.list(10, None));
    assert_eq!(appended, Ok(5));
    assert_eq!(listed.unwrap().conversations.len(), 1);
    sentinels.resume(paused);
    assert_eq!(store.append(&id, message(6), Some(5)).await, Ok(6));
    assert_eq!(texts(&store, &id).await, ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn a_sentinel_that_is_missing_is_not_needed() {
    let sentinels = RedisSentinels::start();
    let first = sentinels.addresses().split(',').next().unwrap().to_owned();
    // Nothing listens on port 1.
    let url = format!("redis+sentinel://127.0.0.1:1,{first},127.0.0.1:1/mymaster");
    let store = Redis::connect(&url, RedisOptions::default()).await.unwrap();
    let id = begin_with(&store, "", &["a"]).await;
    assert_eq!(texts(&store, &id).await, ["a"]);
}

#[tokio::test]
async fn problems_with_sentinels_are_explained() {
    let sentinels = RedisSentinels::start_with(Some("of-redis"), Some("of-sentinels"));
    let addresses = sentinels.addresses();
    let refused = async |url: String, expected: &str| {
        let error = error_of(&url).await;
        assert_eq!(error.code(), "refused", "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(addresses.split(',').next().unwrap()), "{error}");
    };
    let with = |password: &str, name: &str, of_sentinels: &str| {
        format!("redis+sentinel://:{password}@{addresses}/{name}?sentinel_password={of_sentinels}")
    };
    refused(with("of-redis", "other", "of-sentinels"), "redis master `other` of the sentinels at").await;
    refused(with("of-redis", "other", "of-sentinels"), "no sentinel knows a master with the name `other`")
        .await;
    refused(with("of-redis", "mymaster", "wrong-password"), "sentinel at 127.0.0.1:").await;
    refused(format!("redis+sentinel://:of-redis@{addresses}/mymaster"), "sentinel at 127.0.0.1:").await;
    let master = format!("the master at 127.0.0.1:{}", sentinels.master().port());
    refused(with("wrong-password", "mymaster", "of-sentinels"), &master).await;
    let without = format!("redis+sentinel://{addresses}/mymaster?sentinel_password=of-sentinels");
    refused(without, &master).await;

    let error = error_of("redis+sentinel://:wrong-password@127.0.0.1:1,127.0.0.1:2/mymaster").await;
    assert_eq!(error.code(), "unavailable");
    let text = error.to_string();
    assert!(text.contains("sentinel at 127.0.0.1:1") && text.contains("sentinel at 127.0.0.1:2"), "{text}");

    // A server that is not a sentinel.
    let server = RedisServer::start();
    let error = error_of(&format!("redis+sentinel://127.0.0.1:{}/mymaster", server.port())).await;
    assert_eq!(error.code(), "refused", "{error}");

    let error = error_of("redis+sentinel://:wrong-password@127.0.0.1").await;
    assert_eq!(
        (error.code(), error.to_string().contains("the name of the master is missing")),
        ("refused", true)
    );
    let urls = ["redis+sentinel://:wrong-password@127.0.0.1/mymaster"];
    let error = Redis::connect_cluster(&urls, RedisOptions::default()).await.err().unwrap();
    assert!(error.to_string().contains("a URL of sentinels cannot be in an array"), "{error}");
    assert!(!format!("{error} {error:?}").contains("wrong-password"));
}
