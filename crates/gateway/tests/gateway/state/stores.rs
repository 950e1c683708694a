//! When responses are stored, and stores that fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{Claim, HeldWrite, StateKey};
use toolwire_testkit::http_client;

use super::*;

/// A store that counts what it has stored, and that can fail.
#[derive(Default)]
pub(super) struct Watched {
    store: InMemoryState,
    stored: AtomicUsize,
    fails: AtomicBool,
    /// Whether only documents cannot be written.
    pub(super) is_read_only: AtomicBool,
}

impl Watched {
    fn check_write(&self) -> Result<(), StoreError> {
        match self.is_read_only.load(Ordering::SeqCst) {
            true => Err(StoreError::Full { place: "secret-place".to_owned() }),
            false => self.check(),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => {
                Err(StoreError::Unavailable { place: "secret-place".to_owned(), problem: "down".to_owned() })
            }
            false => Ok(()),
        }
    }
}

impl StateStore for Watched {
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.check_write()?;
            // Others run first.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.store.put(key, content, lifetime).await?;
            self.stored.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.get(key).await
        })
    }

    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check()?;
            self.store.remove(key).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.store.claim(claim)
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.release(claim)
    }

    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.seize(claim)
    }

    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check_write()?;
            self.store.write_held(claim, write).await
        })
    }

    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.store.log(key, position, limit)
    }

    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.schedule(key, after)
    }

    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>> {
        self.store.unschedule(key)
    }

    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>> {
        self.store.due(limit)
    }
}

#[tokio::test]
async fn a_response_is_stored_before_the_client_gets_its_end() {
    let watched = Arc::new(Watched::default());
    let store: Arc<dyn StateStore> = watched.clone();
    let gateway = TestGateway::with(settings(&store)).await;
    for round in 0..10 {
        let body = json!({"model": MODEL, "input": "say one two three", "stream": true});
        let response = http_client().post(gateway.url("/v1/responses")).json(&body).send().await.unwrap();
        let mut stream = response.bytes_stream();
        let mut received = String::new();
        while let Some(part) = stream.next().await {
            received.push_str(&String::from_utf8_lossy(&part.unwrap()));
            if received.contains("response.completed") {
                assert_eq!(watched.stored.load(Ordering::SeqCst), 2 * round + 1);
            }
        }
        assert!(received.contains("event: response.completed"), "{received}");
        create(&gateway, json!("say hi"), json!({})).await;
        assert_eq!(watched.stored.load(Ordering::SeqCst), 2 * round + 2);
        create(&gateway, json!("say hi"), json!({"store": false})).await;
        assert_eq!(watched.stored.load(Ordering::SeqCst), 2 * round + 2);
    }
}

/// The client gets the response even if it cannot be stored. The response says that it is not stored.
#[tokio::test]
async fn a_response_is_returned_although_it_cannot_be_stored() {
    let watched = Arc::new(Watched::default());
    let store: Arc<dyn StateStore> = watched.clone();
    let gateway = TestGateway::with(settings(&store)).await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    watched.fails.store(true, Ordering::SeqCst);
    for stream in [false, true] {
        let response = create(&gateway, json!("say hi"), json!({"stream": stream})).await;
        assert_eq!((text(&response), &response["status"]), ("hi", &json!("completed")));
        assert_eq!((&first["store"], &response["store"]), (&json!(true), &json!(false)));
        for (method, suffix) in [("GET", ""), ("GET", "/input_items"), ("DELETE", "")] {
            let (status, error) = call(&gateway, method, &format!("{}{suffix}", path_of(&first)), None).await;
            assert_eq!(status, 503, "{method} {suffix}: {error}");
            assert!(!error.to_string().contains("secret-place"), "{error}");
        }
        let body = json!({"model": MODEL, "input": "x", "previous_response_id": id(&first)});
        assert_eq!(post(&gateway, &body).await.0, 503);
    }
    watched.fails.store(false, Ordering::SeqCst);
    assert_eq!(text(&continued(&gateway, &first, json!("say two")).await), "two");
}

#[tokio::test]
async fn a_response_whose_conversation_cannot_be_changed_says_so() {
    let watched = Arc::new(Watched::default());
    let store: Arc<dyn StateStore> = watched.clone();
    let gateway = TestGateway::with(settings(&store)).await;
    let (_, conversation) = call(&gateway, "POST", "/v1/conversations", Some(&json!({}))).await;
    for stream in [false, true] {
        let fields = json!({"stream": stream, "conversation": conversation["id"]});
        watched.is_read_only.store(false, Ordering::SeqCst);
        let response = create(&gateway, json!("say one"), fields.clone()).await;
        assert_eq!(response["conversation"], json!({"id": conversation["id"]}));
        watched.is_read_only.store(true, Ordering::SeqCst);
        let response = create(&gateway, json!("say two"), fields).await;
        assert_eq!((text(&response), &response["conversation"]), ("two", &Value::Null), "{response}");
        assert_eq!(response["store"], false);
        let path = format!("/v1/conversations/{}/items?limit=1", id(&conversation));
        let (_, items) = get(&gateway, &path).await;
        assert_eq!(items["data"][0]["content"][0]["text"], "one");
    }
}

#[tokio::test]
async fn a_response_expires() {
    let store = memory();
    let mut settings = settings(&store);
    settings.responses = Some(ResponseStorage::new(store, Duration::from_millis(1)));
    let gateway = TestGateway::with(settings).await;
    let response = create(&gateway, json!("say hi"), json!({})).await;
    while get(&gateway, &path_of(&response)).await.0 != 404 {
        tokio::task::yield_now().await;
    }
    let body = json!({"model": MODEL, "input": "x", "previous_response_id": id(&response)});
    let (status, error) = post(&gateway, &body).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("previous_response_not_found")));
}

/// A conversation cannot become larger than a request.
#[tokio::test]
async fn a_conversation_has_a_maximum_size() {
    let mut settings = settings(&memory());
    settings.limits.body_bytes = 20_000;
    let gateway = TestGateway::with(settings).await;
    let first = create(&gateway, json!(format!("say {}", "x".repeat(5_000))), json!({})).await;
    let body = json!({"model": MODEL, "input": "x".repeat(10_000), "previous_response_id": id(&first)});
    let (status, error) = post(&gateway, &body).await;
    assert_eq!((status, &error["error"]["code"]), (413, &json!("request_too_large")), "{error}");
}

/// Bodies above a size are handled on other threads.
#[tokio::test]
async fn large_conversations_work() {
    let gateway = gateway().await;
    let large = "x".repeat(600_000);
    let first = create(
        &gateway,
        json!([{"role": "user", "content": large}, {"role": "user", "content": "rounds"}]),
        json!({}),
    )
    .await;
    let second = continued(
        &gateway,
        &first,
        json!([{"role": "user", "content": large}, {"role": "user", "content": "say hi"}]),
    )
    .await;
    assert_eq!(text(&second), "hi");
    let messages = last_messages(&gateway);
    assert!(messages.len() > 1_200_000 && messages.contains("value of b"));
    assert_eq!(get(&gateway, &path_of(&second)).await, (200, second));
}
