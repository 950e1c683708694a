//! Cases for Redis servers: restarts, expiry, lack of memory, foreign keys.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversations, StoreError};
use toolwire_store::{Redis, RedisOptions};
use toolwire_testkit::RedisServer;

use crate::storing::{begin_with, texts};

fn with(change: impl FnOnce(&mut RedisOptions)) -> RedisOptions {
    let mut options = RedisOptions::default();
    change(&mut options);
    options
}

async fn connect(server: &RedisServer, options: RedisOptions) -> Redis {
    Redis::connect(&server.url(), options).await.unwrap()
}

#[tokio::test]
async fn a_server_crash_loses_no_synced_message() {
    let mut server =
        RedisServer::start_with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    let options = with(|options| options.timeout = Duration::from_secs(60));
    let store = connect(&server, options).await;
    let id = begin_with(&store, "", &[]).await;
    for number in 1..=5 {
        let text = || vec![Message::user(number.to_string()).into()];
        assert_eq!(store.append(&id, text(), None).await, Ok(2 * number - 1));
        server.kill();
        // The next message is sent while the server restarts.
        let (position, ()) = tokio::join!(store.append(&id, text(), Some(2 * number - 1)), async {
            tokio::task::yield_now().await;
            server.restart();
        });
        assert_eq!(position, Ok(2 * number));
    }
    let expected: Vec<String> = (1..=5).flat_map(|number| [number.to_string(), number.to_string()]).collect();
    assert_eq!(texts(&store, &id).await, expected);
}

#[tokio::test]
async fn an_unavailable_server_is_reported() {
    let mut server = RedisServer::start();
    let options = with(|options| options.timeout = Duration::from_secs(2));
    let store = connect(&server, options.clone()).await;
    let id = begin_with(&store, "", &[]).await;
    server.kill();
    let place = format!("redis at 127.0.0.1:{}", server.port());
    let error = store.append(&id, vec![Message::user("a").into()], None).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::OutcomeUnknown { place: at, .. } | StoreError::Unavailable { place: at, .. } if *at == place),
        "{error}"
    );
    let error = store.load(&id, 0).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable { place: at, .. } if *at == place), "{error}");
    let error = Redis::connect(&server.url(), options).await.err().unwrap();
    assert_eq!(error.code(), "unavailable", "{error}");
}

/// A server confirms a write before its replicas have it, so a replica that takes over could lack it.
#[tokio::test]
async fn a_write_waits_for_a_replica() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let replica_of = ["--save", "", "--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
    let mut replica = RedisServer::start_with(&replica_of);
    let options = with(|options| {
        options.timeout = Duration::from_secs(60);
        options.replicas = 1;
    });
    let store = connect(&master, options).await;
    // The replica may still be loading the data.
    let id = begin_with(&store, "", &[]).await;
    let entries = format!("toolwire:{{{id}}}:entries");
    for number in 1..=5 {
        store.append(&id, vec![Message::user("a").into()], None).await.unwrap();
        assert_eq!(replica.command(&["LLEN", &entries]), number.to_string());
    }
    replica.kill();
    let options = with(|options| {
        options.timeout = Duration::from_secs(2);
        options.replicas = 1;
    });
    let impatient = connect(&master, options).await;
    let error = impatient.append(&id, vec![Message::user("a").into()], Some(5)).await.unwrap_err();
    assert_eq!(error.code(), "outcome_unknown", "{error}");
    assert_eq!(impatient.get(&id).await.unwrap().messages, 6, "reading needs no replica");
    // The next message is sent while the replica starts again.
    let (position, ()) = tokio::join!(store.append(&id, vec![Message::user("a").into()], Some(6)), async {
        tokio::task::yield_now().await;
        replica.restart();
    });
    assert_eq!(position, Ok(7));
    assert_eq!(replica.command(&["LLEN", &entries]), "7");
}

#[tokio::test]
async fn a_server_that_is_not_redis_is_named_without_its_response() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            connections.push(stream);
        }
    });
    let error = Redis::connect(&format!("redis://{address}"), RedisOptions::default()).await.err().unwrap();
    let place = format!("redis at {address}");
    let problem = "it does not respond like a Redis server".to_owned();
    assert_eq!(error, StoreError::Foreign { place, problem });
}

#[tokio::test]
async fn a_dead_server_costs_its_timeout_only_once() {
    let mut server = RedisServer::start();
    let timeout = Duration::from_secs(3_600);
    let store = connect(&server, with(|options| options.timeout = timeout)).await;
    let id = begin_with(&store, "", &[]).await;
    server.kill();
    // From here on, waiting takes no time.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    for _ in 0..3 {
        let error = store.append(&id, vec![Message::user("a").into()], None).await.unwrap_err();
        assert!(matches!(error.code(), "unavailable" | "outcome_unknown"), "{error}");
    }
    let waited = start.elapsed();
    assert!(waited < timeout + Duration::from_secs(60), "{waited:?} of virtual time");
}

#[tokio::test]
async fn a_repeated_append_is_stored_once() {
    // A proxy closes the connection instead of passing on a response, so the server has executed an append
    // whose response is lost.
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = RedisServer::start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server_port = server.port();
    let (drop_response, mut drop_requested) = tokio::sync::mpsc::channel::<()>(1);
    let proxy = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut redis = tokio::net::TcpStream::connect(("127.0.0.1", server_port)).await.unwrap();
            let (mut request, mut response) = (vec![0; 65536], vec![0; 65536]);
            loop {
                tokio::select! {
                    read = client.read(&mut request) => match read {
                        Ok(length) if length > 0 => redis.write_all(&request[..length]).await.unwrap(),
                        _ => break,
                    },
                    read = redis.read(&mut response) => {
                        let length = read.unwrap();
                        if drop_requested.try_recv().is_ok() || length == 0 {
                            break;
                        }
                        client.write_all(&response[..length]).await.unwrap();
                    }
                }
            }
        }
    });
    let store = Redis::connect(&format!("redis://127.0.0.1:{port}/"), RedisOptions::default()).await.unwrap();
    let id = begin_with(&store, "", &["first"]).await;
    for number in 2..10 {
        drop_response.send(()).await.unwrap();
        let message = vec![Message::user(number.to_string()).into()];
        let expected = (number % 2 == 0).then_some(number - 1);
        assert_eq!(store.append(&id, message, expected).await, Ok(number));
    }
    drop_response.send(()).await.unwrap();
    let created = begin_with(&store, "created once", &[]).await;
    let expected: Vec<String> = (2..10).map(|number| number.to_string()).collect();
    assert_eq!(texts(&store, &id).await[1..], expected);
    let listed = store.list(10, None).await.unwrap().conversations;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|conversation| conversation.id == created));
    proxy.abort();
}

#[tokio::test]
async fn a_conversation_expires() {
    let server = RedisServer::start();
    let day = Duration::from_secs(24 * 60 * 60);
    let options = with(|options| options.time_to_live = Some(day));
    let store = connect(&server, options).await;
    let id = begin_with(&store, "", &["a"]).await;
    let other = begin_with(&store, "", &["b"]).await;
    let time_to_live = |key: &str| -> i64 {
        server.command(&["PTTL", &format!("toolwire:{{{id}}}:{key}")]).parse().unwrap()
    };
    let expires_at = |key: &str| server.command(&["PEXPIRETIME", &format!("toolwire:{{{id}}}:{key}")]);
    assert!((86_000_000..=86_400_000).contains(&time_to_live("head")), "{}", time_to_live("head"));
    assert_eq!(expires_at("head"), expires_at("entries"));
    // Expires this conversation as if a day had passed.
    for key in ["head", "entries"] {
        server.command(&["PEXPIREAT", &format!("toolwire:{{{id}}}:{key}"), "1"]);
    }
    assert_eq!(store.get(&id).await.unwrap_err().code(), "unknown_conversation");
    assert_eq!(server.command(&["ZCARD", "toolwire:list"]), "2");
    let listed = store.list(10, None).await.unwrap().conversations;
    assert_eq!(listed, [store.get(&other).await.unwrap()]);
    assert_eq!(server.command(&["ZCARD", "toolwire:list"]), "1");

    // If the list is never read, creating conversations removes expired ones.
    server.command(&["ZADD", "toolwire:list", "5", id.as_str()]);
    let created = begin_with(&store, "", &[]).await;
    let listed = server.command(&["ZRANGE", "toolwire:list", "0", "-1"]);
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, [other.as_str(), created.as_str()]);
}

#[tokio::test]
async fn a_search_reports_that_it_reached_its_limit() {
    let server = RedisServer::start();
    let options = with(|options| options.search_messages = 150);
    let store = connect(&server, options).await;
    let id = begin_with(&store, "", &["needle"]).await;
    let other_messages: Vec<_> = (0..148).map(|_| Message::user("other").into()).collect();
    store.append(&id, other_messages, None).await.unwrap();
    let found = store.search("needle", 10).await.unwrap();
    assert_eq!((found.hits.len(), found.is_complete), (1, true));
    store
        .append(&id, vec![Message::user("other").into(), Message::user("other").into()], None)
        .await
        .unwrap();
    let found = store.search("needle", 10).await.unwrap();
    assert_eq!((found.hits.len(), found.is_complete), (0, false));
}

#[tokio::test]
async fn a_server_without_memory_rejects_writes_and_loses_nothing() {
    let server = RedisServer::start();
    let store = connect(&server, RedisOptions::default()).await;
    let id = begin_with(&store, "", &["a"]).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.append(&id, vec![Message::user("b").into()], None).await.unwrap_err();
    assert_eq!(error.code(), "full", "{error}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.append(&id, vec![Message::user("b").into()], Some(1)).await, Ok(2));
    assert_eq!(texts(&store, &id).await, ["a", "b"]);
}

#[tokio::test]
async fn damaged_newer_and_foreign_keys_are_reported() {
    let server = RedisServer::start();
    let store = connect(&server, RedisOptions::default()).await;
    let message = || vec![Message::user("b").into()];
    let id = begin_with(&store, "", &["a"]).await;
    let key = |part: &str| format!("toolwire:{{{id}}}:{part}");

    server.command(&["HSET", &key("head"), "format", "2"]);
    assert_eq!(store.append(&id, message(), None).await.unwrap_err().code(), "newer");
    assert_eq!(store.load(&id, 0).await.unwrap_err().code(), "newer");
    server.command(&["HSET", &key("head"), "format", "1"]);
    server.command(&["DEL", &key("entries")]);
    assert_eq!(store.append(&id, message(), None).await.unwrap_err().code(), "damaged");
    assert_eq!(store.load(&id, 0).await.unwrap_err().code(), "damaged");
    server.command(&["SET", &key("head"), "x"]);
    assert_eq!(store.append(&id, message(), None).await.unwrap_err().code(), "foreign");
}

#[tokio::test]
async fn a_wrong_password_is_rejected_and_never_printed() {
    let server = RedisServer::start_with(&["--save", "", "--requirepass", "open sesame"]);
    let port = server.port();
    for url in [
        server.url(),
        format!("redis://:wrong-password@127.0.0.1:{port}/"),
        "redis://:wrong-password@:x/".to_owned(),
    ] {
        let error = match Redis::connect(&url, RedisOptions::default()).await {
            Ok(store) => store.list(1, None).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.code(), "refused", "{error}");
        assert!(!format!("{error} {error:?}").contains("wrong-password"));
    }
    let url = format!("redis://:open%20sesame@127.0.0.1:{port}/");
    let store = Redis::connect(&url, RedisOptions::default()).await.unwrap();
    begin_with(&store, "", &["a"]).await;
}

#[tokio::test]
async fn prefixes_are_isolated() {
    let server = RedisServer::start();
    let one = connect(&server, with(|options| options.prefix = "one".to_owned())).await;
    let other = connect(&server, with(|options| options.prefix = "other".to_owned())).await;
    let id = begin_with(&one, "", &["a"]).await;
    assert_eq!(other.get(&id).await.unwrap_err().code(), "unknown_conversation");
    assert_eq!(other.list(10, None).await.unwrap().conversations, []);
    let options = with(|options| options.prefix = "a{b}".to_owned());
    assert_eq!(Redis::connect(&server.url(), options).await.err().unwrap().code(), "refused");
}
