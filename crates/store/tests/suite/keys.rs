//! Cases for the keys of clients, and for their limits.

use std::sync::Arc;
use std::time::Duration;

use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{
    KeyDigest, KeyId, KeyRecord, KeyRights, KeyTable, LimitReached, Reservation, UsageCounter, UsageLimits,
};
use toolwire_store::{InMemoryKeys, Redis, RedisOptions, SqliteKeys};
use toolwire_testkit::RedisServer;

use crate::backends::Backend;

/// A key table and its counters.
#[derive(Clone)]
pub(crate) struct Opened {
    table: Arc<dyn KeyTable>,
    usage: Arc<dyn UsageCounter>,
    /// Whether another process sees the requests of a minute.
    counts_minutes_together: bool,
}

fn opened<T: KeyTable + UsageCounter + 'static>(store: T, counts_minutes_together: bool) -> Opened {
    let store = Arc::new(store);
    Opened { table: store.clone(), usage: store, counts_minutes_together }
}

impl Backend {
    /// Opens the keys. Keys in memory are those of one process, so they are opened once.
    async fn open_keys(&self) -> Opened {
        match self {
            Backend::Sqlite { folder } => opened(SqliteKeys::new(folder.path().join("a/keys.db")), false),
            Backend::Memory { .. } => opened(InMemoryKeys::new(), true),
            _ => opened(self.connect().await, true),
        }
    }

    /// Opens the keys twice, as two processes would.
    async fn open_keys_twice(&self) -> [Opened; 2] {
        let first = self.open_keys().await;
        match self {
            Backend::Memory { .. } => [first.clone(), first],
            _ => [first, self.open_keys().await],
        }
    }
}

fn id(number: u64) -> KeyId {
    format!("{number:012}").parse().unwrap()
}

fn key(number: u64) -> KeyRecord {
    KeyRecord {
        id: id(number),
        name: format!("key {number} \"é\n{{}}"),
        tenant: Some("acme".to_owned()),
        digest: KeyDigest::new([number as u8; 32]),
        rights: KeyRights {
            models: Some(vec!["openai/*".to_owned()]),
            deny: vec!["hint:writes".to_owned()],
            tokens_per_month: Some(9_007_199_254_740_991),
            admin: true,
            ..KeyRights::default()
        },
        created: Timestamp(number),
        expires: Some(Timestamp(9)),
        revoked: None,
    }
}

/// Returns what a record contains. A hash cannot be compared.
fn content(key: &KeyRecord) -> serde_json::Value {
    serde_json::to_value(key).unwrap()
}

pub(crate) async fn keys_are_stored_and_revoked(backend: &Backend) {
    let [one, other] = backend.open_keys_twice().await;
    let (one, other) = (one.table, other.table);
    assert_eq!(one.count().await, Ok(0));
    assert!(one.find(&id(1)).await.unwrap().is_none() && one.list().await.unwrap().is_empty());
    assert!(one.add(key(2)).await.unwrap() && other.add(key(1)).await.unwrap());
    let changed = KeyRecord { name: "another".to_owned(), ..key(1) };
    assert!(!one.add(changed).await.unwrap(), "the id is used");
    assert_eq!(other.count().await, Ok(2));
    let listed: Vec<_> = one.list().await.unwrap().iter().map(content).collect();
    assert_eq!(listed, [content(&key(1)), content(&key(2))]);

    let revoked = one.revoke(&id(1), Timestamp(50)).await.unwrap().unwrap();
    assert_eq!(content(&revoked), content(&KeyRecord { revoked: Some(Timestamp(50)), ..key(1) }));
    let again = other.revoke(&id(1), Timestamp(60)).await.unwrap().unwrap();
    assert_eq!(again.revoked, Some(Timestamp(50)), "the first time stays");
    assert_eq!(other.find(&id(1)).await.unwrap().unwrap().revoked, Some(Timestamp(50)));
    assert_eq!(other.find(&id(2)).await.unwrap().unwrap().revoked, None);
    assert!(one.revoke(&id(3), Timestamp(1)).await.unwrap().is_none());
    assert_eq!(one.count().await, Ok(2));
}

fn reservation(number: usize, tokens: u64, limit: UsageLimits) -> Reservation {
    Reservation {
        owner: "key_a".to_owned(),
        id: format!("r{number}"),
        tokens,
        limit,
        month: "2026-11".to_owned(),
        lifetime: Duration::from_secs(600),
    }
}

/// Reserves 100 times at once, and returns how many succeeded. The requests are numbered from `first`.
async fn reserve_many(stores: &[Opened], first: usize, limit: UsageLimits) -> usize {
    let tasks = (first..first + 100).map(|number| {
        let usage = stores[number % stores.len()].usage.clone();
        tokio::spawn(async move { usage.reserve(&reservation(number, 10, limit)).await.unwrap().is_ok() })
    });
    let mut admitted = 0;
    for task in tasks.collect::<Vec<_>>() {
        admitted += usize::from(task.await.unwrap());
    }
    admitted
}

pub(crate) async fn concurrent_requests_never_exceed_the_limits_of_a_minute(backend: &Backend) {
    let stores = backend.open_keys_twice().await;
    let stores = if stores[0].counts_minutes_together { &stores[..] } else { &stores[..1] };
    let limit = UsageLimits { requests_per_minute: Some(7), ..UsageLimits::default() };
    assert_eq!(reserve_many(stores, 0, limit).await, 7);
    let refused = stores[0].usage.reserve(&reservation(100, 10, limit)).await.unwrap().unwrap_err();
    let LimitReached::Requests(left) = refused else { panic!("{refused:?}") };
    assert!(!left.is_zero() && left <= Duration::from_secs(60), "{left:?}");
    // Requests that are refused do not count.
    let limit = UsageLimits { tokens_per_minute: Some(110), ..UsageLimits::default() };
    assert_eq!(reserve_many(stores, 200, limit).await, 4);
    let too_large = stores[0].usage.reserve(&reservation(300, 111, limit)).await.unwrap();
    assert_eq!(too_large, Err(LimitReached::TooLarge));
}

pub(crate) async fn concurrent_requests_never_exceed_the_budget_of_a_month(backend: &Backend) {
    let stores = backend.open_keys_twice().await;
    let limit = UsageLimits { tokens_per_month: Some(125), ..UsageLimits::default() };
    assert_eq!(reserve_many(&stores, 0, limit).await, 12);
    let usage = &stores[0].usage;
    let refused = usage.reserve(&reservation(200, 10, limit)).await.unwrap();
    assert_eq!(refused, Err(LimitReached::Budget));
    let other = Reservation { owner: "key_b".to_owned(), ..reservation(1, 10, limit) };
    assert!(usage.reserve(&other).await.unwrap().is_ok(), "another key");
    let next = Reservation { month: "2026-12".to_owned(), ..reservation(1_000, 10, limit) };
    assert!(usage.reserve(&next).await.unwrap().is_ok(), "another month");
}

pub(crate) async fn used_tokens_replace_reserved_ones(backend: &Backend) {
    let [one, other] = backend.open_keys_twice().await;
    let limit = UsageLimits { tokens_per_month: Some(100), ..UsageLimits::default() };
    let first = reservation(1, 90, limit);
    let minute = one.usage.reserve(&first).await.unwrap().unwrap();
    assert_eq!(other.usage.used("key_a", "2026-11").await, Ok(0));
    assert_eq!(other.usage.reserve(&reservation(2, 11, limit)).await.unwrap(), Err(LimitReached::Budget));
    one.usage.settle(&first, minute, 30).await.unwrap();
    assert_eq!(other.usage.used("key_a", "2026-11").await, Ok(30));
    let second = reservation(3, 70, limit);
    let minute = other.usage.reserve(&second).await.unwrap().unwrap();
    // More than reserved: the model decides how much it writes.
    other.usage.settle(&second, minute, 75).await.unwrap();
    assert_eq!(one.usage.used("key_a", "2026-11").await, Ok(105));
    assert_eq!(one.usage.reserve(&reservation(4, 0, limit)).await.unwrap(), Err(LimitReached::Budget));
    // The tokens of the minute are corrected too.
    let limit = UsageLimits { tokens_per_minute: Some(100), ..UsageLimits::default() };
    let first = Reservation { owner: "key_c".to_owned(), ..reservation(5, 100, limit) };
    let minute = one.usage.reserve(&first).await.unwrap().unwrap();
    one.usage.settle(&first, minute, 40).await.unwrap();
    let next =
        |number, tokens| Reservation { owner: "key_c".to_owned(), ..reservation(number, tokens, limit) };
    assert!(matches!(one.usage.reserve(&next(6, 61)).await.unwrap(), Err(LimitReached::Tokens(_))));
    assert!(one.usage.reserve(&next(7, 60)).await.unwrap().is_ok());
}

pub(crate) async fn a_request_counts_although_its_reservation_has_expired(backend: &Backend) {
    let [one, other] = backend.open_keys_twice().await;
    let limit = UsageLimits { tokens_per_month: Some(100), ..UsageLimits::default() };
    let long = Reservation { lifetime: Duration::from_millis(1), ..reservation(1, 100, limit) };
    let minute = one.usage.reserve(&long).await.unwrap().unwrap();
    let mut number = 2;
    let next = loop {
        let next = reservation(number, 10, limit);
        match other.usage.reserve(&next).await.unwrap() {
            Ok(_) => break next,
            Err(_) => number += 1,
        }
        tokio::task::yield_now().await;
    };
    one.usage.settle(&long, minute, 70).await.unwrap();
    assert_eq!(other.usage.used("key_a", "2026-11").await, Ok(70));
    assert!(other.usage.reserve(&reservation(10_000, 21, limit)).await.unwrap().is_err(), "{next:?}");
}

pub(crate) async fn the_tokens_of_a_process_that_ended_are_free_again(backend: &Backend) {
    let [one, other] = backend.open_keys_twice().await;
    let limit = UsageLimits { tokens_per_month: Some(100), ..UsageLimits::default() };
    let lost = Reservation { lifetime: Duration::from_millis(1), ..reservation(1, 100, limit) };
    assert!(one.usage.reserve(&lost).await.unwrap().is_ok());
    drop(one);
    let mut number = 2;
    // The store's clock decides, so only trying shows when the time has passed.
    while other.usage.reserve(&reservation(number, 100, limit)).await.unwrap().is_err() {
        number += 1;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_file_is_created_with_the_first_key_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private/keys.db");
    let keys = SqliteKeys::new(&path);
    assert_eq!(keys.count().await, Ok(0));
    assert!(!path.exists());
    // Another process creates the first key.
    assert!(SqliteKeys::new(&path).add(key(1)).await.unwrap());
    assert_eq!(keys.count().await, Ok(1));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Without a readable file, no key must seem to be missing.
    for content in ["not a database", ""] {
        let damaged = folder.path().join("damaged.db");
        std::fs::write(&damaged, content).unwrap();
        assert_eq!(SqliteKeys::new(&damaged).count().await.is_ok(), content.is_empty());
    }
    assert!(SqliteKeys::new(folder.path()).count().await.is_err());
}

#[tokio::test]
async fn an_owner_cannot_name_other_keys_of_the_server() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url(), RedisOptions::default()).await.unwrap();
    let limit = UsageLimits { requests_per_minute: Some(1), ..UsageLimits::default() };
    for owner in ["", "a}:x{", "a b", "é", "a\n", &"a".repeat(10_000)] {
        let reservation = Reservation { owner: owner.to_owned(), ..reservation(1, 1, limit) };
        assert_eq!(redis.reserve(&reservation).await.unwrap_err().code(), "refused", "{owner:?}");
        assert_eq!(redis.used(owner, "2026-11").await.unwrap_err().code(), "refused", "{owner:?}");
    }
    assert_eq!(server.command(&["DBSIZE"]), "0");
    // Counts end with their minute, and reservations with their lifetime.
    assert!(redis.reserve(&reservation(1, 1, limit)).await.unwrap().is_ok());
    for part in ["minute", "reserved"] {
        let left: i64 = server.command(&["PTTL", &format!("toolwire:{{key_a}}:{part}")]).parse().unwrap();
        assert!(left > 0, "{part}: {left}");
    }
}
