//! Responses in the background whose gateway has died, or stops.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{KeyRecord, KeyRights, KeyTable as _};
use toolwire_contract::state::{Claim, StateKey};
use toolwire_gateway::{IssuedKey, Keys};
use toolwire_store::InMemoryKeys;
use toolwire_testkit::http_client;

use super::background::{completed, numbers, running, start, stream};
use super::link::Link;
use super::*;

/// A time that is long enough on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn settings_with_lease(store: &Arc<dyn StateStore>) -> GatewaySettings {
    let mut settings = settings(store);
    settings.limits.background_lease = Duration::from_millis(1_500);
    settings.agent.approvals = ApprovalPolicy::allow_all();
    settings
}

/// Returns a response that is complete, from the store. No gateway is asked for it.
async fn stored(store: &Arc<dyn StateStore>, owner: &str, response: &Value) -> Value {
    let key = StateKey::new(owner, id(response)).unwrap();
    let found = async {
        loop {
            let document = store.get(&key).await.unwrap().expect("a document");
            let document: Value = serde_json::from_str(&document).unwrap();
            let response = &document["response"];
            if !["queued", "in_progress"].contains(&response["status"].as_str().unwrap()) {
                return response.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, found).await.expect("the response is complete")
}

/// Waits until the lease is released, and checks that the list of unfinished work is empty.
async fn nothing_is_left(store: &Arc<dyn StateStore>, owner: &str, response: &Value) {
    let key = StateKey::new(owner, id(response)).unwrap();
    let is_free = async {
        let claim = |holder: &str| Claim {
            key: key.clone(),
            holder: holder.to_owned(),
            lifetime: Duration::from_millis(1),
        };
        // The lease is given back after the entry is removed.
        while !store.claim(&claim("test")).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, is_free).await.expect("the lease is free");
    assert_eq!(store.due(9).await, Ok(Vec::new()));
}

/// Starts two gateways. The connection of the first one to the store can break.
async fn gateways_with_link() -> (Arc<Link>, [TestGateway; 2]) {
    let store = memory();
    let link = Link::new(&store);
    let linked: Arc<dyn StateStore> = link.clone();
    let start = async |store: &Arc<dyn StateStore>| TestGateway::with(settings_with_lease(store)).await;
    (link, [start(&linked).await, start(&store).await])
}

/// Another gateway continues the response when the first one cannot renew its lease. A call that may have
/// taken effect, and whose tool does not say that it may be repeated, is not made again.
#[tokio::test]
async fn another_gateway_continues_a_response() {
    let (link, gateways) = gateways_with_link().await;
    let response = start(&gateways[0], "comment-hold", json!({})).await;
    running(&gateways[0], 1).await;
    assert_eq!(get(&gateways[1], &path_of(&response)).await.1["status"], "in_progress");
    link.is_down.store(true, Ordering::SeqCst);
    let response = completed(&gateways[1], &response).await;
    assert_eq!(response["status"], "completed", "{response}");
    assert!(text(&response).contains("unknown"), "{response}");
    assert_eq!(response["output"][0]["content"][0]["text"], "A comment.");
    assert_eq!(gateways[0].running.calls.load(Ordering::SeqCst), 1);
    assert_eq!(gateways[1].running.calls.load(Ordering::SeqCst), 0, "the call is not made again");
    // The first gateway ends its call, and cannot change anything when it reaches the store again.
    running(&gateways[0], 0).await;
    link.is_down.store(false, Ordering::SeqCst);
    assert_eq!(get(&gateways[0], &path_of(&response)).await, (200, response.clone()));
    let events = stream(&gateways[0], &response, "").await;
    assert_eq!(numbers(&events), (0..events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["response"], response);
}

/// A client that reads the events is enough, and a call that may be repeated is made again.
#[tokio::test]
async fn a_stream_continues_at_another_gateway() {
    let (link, gateways) = gateways_with_link().await;
    let fields = json!({"input": [
        {"role": "user", "content": "earlier"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "wait 700"},
    ]});
    let response = start(&gateways[0], "replaced", fields).await;
    running(&gateways[0], 1).await;
    link.is_down.store(true, Ordering::SeqCst);
    let events = stream(&gateways[1], &response, "").await;
    assert_eq!(numbers(&events), (0..events.len() as u64).collect::<Vec<_>>());
    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["status"], text(response)), (&json!("completed"), "Results: waited."));
    assert_eq!(gateways[1].running.calls.load(Ordering::SeqCst), 1, "the call is made again");
    let requests = gateways[1].model.requests();
    let messages = serde_json::to_string(&requests.last().unwrap().messages).unwrap();
    assert!(messages.contains("earlier"), "{messages}");
}

/// A call begins only after it is recorded in the log.
#[tokio::test]
async fn a_call_that_cannot_be_recorded_is_not_made() {
    let (link, gateways) = gateways_with_link().await;
    link.refuses_calls.store(true, Ordering::SeqCst);
    let response = start(&gateways[0], "rounds", json!({})).await;
    let response = completed(&gateways[1], &response).await;
    assert_eq!(text(&response), "Results: value of a | value of b.");
    assert_eq!(gateways[0].running.calls.load(Ordering::SeqCst), 0);
    assert_eq!(gateways[1].running.calls.load(Ordering::SeqCst), 2);
}

/// Credentials are not stored, so no other gateway could call the tools.
#[tokio::test]
async fn a_request_with_credentials_is_not_continued() {
    let (link, gateways) = gateways_with_link().await;
    let tools = json!([{"type": "mcp", "server_label": "demo", "authorization": "secret-token", "require_approval": "never"}]);
    let response = start(&gateways[0], "wait", json!({"tools": tools})).await;
    running(&gateways[0], 1).await;
    link.is_down.store(true, Ordering::SeqCst);
    let response = completed(&gateways[1], &response).await;
    assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("server_error")));
    assert_eq!(gateways[1].running.calls.load(Ordering::SeqCst), 0);
    let events = stream(&gateways[1], &response, "").await;
    assert_eq!(events.last().unwrap()["type"], "response.failed");
}

/// No client asks for the response. One of the other gateways finds and continues it.
#[tokio::test]
async fn a_response_continues_without_a_client() {
    let store = memory();
    let link = Link::new(&store);
    let linked: Arc<dyn StateStore> = link.clone();
    let first = TestGateway::with(settings_with_lease(&linked)).await;
    let others = [
        TestGateway::with(settings_with_lease(&store)).await,
        TestGateway::with(settings_with_lease(&store)).await,
    ];
    let repeatable = start(&first, "wait 700", json!({})).await;
    let unknown = start(&first, "comment-hold", json!({})).await;
    running(&first, 2).await;
    link.is_down.store(true, Ordering::SeqCst);
    let calls = || others.iter().map(|gateway| gateway.running.calls.load(Ordering::SeqCst)).sum::<usize>();
    let repeatable = stored(&store, "anyone", &repeatable).await;
    assert_eq!((&repeatable["status"], text(&repeatable)), (&json!("completed"), "Results: waited."));
    let unknown = stored(&store, "anyone", &unknown).await;
    assert!(text(&unknown).contains("unknown"), "{unknown}");
    assert_eq!(calls(), 1, "one gateway has made the call again, and the other call is not repeated");
    for response in [&repeatable, &unknown] {
        nothing_is_left(&store, "anyone", response).await;
        let events = stream(&others[0], response, "").await;
        assert_eq!(numbers(&events), (0..events.len() as u64).collect::<Vec<_>>());
        assert_eq!(events.last().unwrap()["response"], *response);
    }
}

/// A response that another gateway continues does not count as a request of its key.
#[tokio::test]
async fn a_key_with_one_request_can_read_what_is_continued() {
    const KEY: &str = "first-key-0123456789abcdef0123456789";
    let store = memory();
    let link = Link::new(&store);
    let start = async |store: Arc<dyn StateStore>| {
        let mut settings = settings_with_lease(&store);
        settings.keys = Keys::default().with("first", KEY);
        settings.limits.requests_per_key = Some(1);
        TestGateway::with(settings).await
    };
    let gateways = [start(link.clone()).await, start(store.clone()).await];
    let send = async |gateway: &TestGateway, method: &str, path: &str, body: Value| {
        let request = http_client().request(method.parse().unwrap(), gateway.url(path)).bearer_auth(KEY);
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let body = json!({"model": MODEL, "input": "wait 2000", "background": true});
    let (status, response) = send(&gateways[0], "POST", "/v1/responses", body.clone()).await;
    assert_eq!(status, 200, "{response}");
    running(&gateways[0], 1).await;
    link.is_down.store(true, Ordering::SeqCst);
    let path = path_of(&response);
    let read = async || {
        let (status, response) = send(&gateways[1], "GET", &path, json!({})).await;
        assert_eq!(status, 200, "{response}");
        response
    };
    let continued = async {
        while gateways[1].running.now.load(Ordering::SeqCst) == 0 {
            read().await;
        }
    };
    tokio::time::timeout(LONG, continued).await.expect("it is continued");
    // It has the key's only place in the background.
    assert_eq!(send(&gateways[1], "POST", "/v1/responses", body).await.0, 429);
    let response = loop {
        let response = read().await;
        if response["status"] != "in_progress" {
            break response;
        }
    };
    assert_eq!((&response["status"], text(&response)), (&json!("completed"), "Results: waited."));
}

/// A response whose gateways die one after the other is not continued without limit.
#[tokio::test]
async fn a_response_that_ends_its_gateways_fails() {
    let store = memory();
    let mut gateways: Vec<(Arc<Link>, TestGateway)> = Vec::new();
    let mut response = Value::Null;
    let status = async |response: &Value| {
        let key = StateKey::new("anyone", id(response)).unwrap();
        let document: Value = serde_json::from_str(&store.get(&key).await.unwrap().unwrap()).unwrap();
        document["response"].clone()
    };
    // More than there may be. The loop ends earlier.
    for number in 0..8 {
        let link = Link::new(&store);
        let linked: Arc<dyn StateStore> = link.clone();
        let gateway = TestGateway::with(settings_with_lease(&linked)).await;
        if number == 0 {
            response = start(&gateway, "wait", json!({})).await;
        }
        let begun = async {
            while gateway.running.now.load(Ordering::SeqCst) == 0
                && status(&response).await["status"] != "failed"
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, begun).await.expect("it is continued, or ended");
        link.is_down.store(true, Ordering::SeqCst);
        gateways.push((link, gateway));
        if status(&response).await["status"] == "failed" {
            break;
        }
    }
    let failed = status(&response).await;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("server_error")));
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("4 gateways have ended"), "{message}");
    let calls: usize = gateways.iter().map(|(_, gateway)| gateway.running.calls.load(Ordering::SeqCst)).sum();
    assert!(calls <= 4, "{calls}");
    let (link, last) = gateways.last().unwrap();
    link.is_down.store(false, Ordering::SeqCst);
    let events = stream(last, &failed, "").await;
    assert_eq!(
        (&events.last().unwrap()["type"], numbers(&events).len()),
        (&json!("response.failed"), events.len())
    );
}

/// A gateway that stops hands its responses over, which does not count as a failed attempt.
#[tokio::test]
async fn a_response_is_handed_over_again_and_again() {
    let store = memory();
    let mut settings = settings_with_lease(&store);
    settings.limits.drain = Duration::from_millis(100);
    let mut gateway = TestGateway::with(settings.clone()).await;
    let response = start(&gateway, "wait", json!({})).await;
    for _ in 0..5 {
        tokio::time::timeout(LONG, running(&gateway, 1)).await.expect("it is continued");
        // The earlier one stops.
        gateway = TestGateway::with(settings.clone()).await;
    }
    tokio::time::timeout(LONG, running(&gateway, 1)).await.expect("it is continued");
    let (status, response) = get(&gateway, &path_of(&response)).await;
    assert_eq!((status, &response["status"]), (200, &json!("in_progress")), "{response}");
}

/// The log and the document of a response exist as long as it may run, however little it writes.
#[tokio::test]
async fn the_log_is_kept_as_long_as_the_response_may_run() {
    let link = Link::new(&memory());
    let linked: Arc<dyn StateStore> = link.clone();
    let mut settings = settings(&linked);
    let hour = Duration::from_secs(3_600);
    settings.limits.background_timeout = 5 * hour;
    settings.responses = Some(ResponseStorage::new(linked, hour));
    let gateway = TestGateway::with(settings).await;
    let response = start(&gateway, "wait 200", json!({})).await;
    completed(&gateway, &response).await;
    let lifetimes = link.lifetimes.lock().unwrap().clone();
    let (last, others) = lifetimes.split_last().unwrap();
    assert_eq!(*last, (hour, Some(hour)), "after the end");
    assert!(others.len() > 1, "{others:?}");
    for (log, document) in others {
        assert!(*log > 5 * hour && *log <= 6 * hour, "{others:?}");
        assert!(document.is_none_or(|document| document > 5 * hour), "{others:?}");
    }
}

/// The gateway that continues a response uses the rights of its key.
#[tokio::test]
async fn the_response_of_a_revoked_key_is_not_continued() {
    let store = memory();
    let link = Link::new(&store);
    let table = Arc::new(InMemoryKeys::new());
    let IssuedKey { id: key_id, secret, digest, .. } = IssuedKey::generate().unwrap();
    let record = KeyRecord {
        id: key_id.clone(),
        name: "one".to_owned(),
        tenant: None,
        digest,
        rights: KeyRights::default(),
        created: Timestamp(0),
        expires: None,
        revoked: None,
    };
    assert_eq!(table.add(record).await, Ok(true));
    let start = async |store: Arc<dyn StateStore>| {
        let mut settings = settings_with_lease(&store);
        settings.keys = Keys::default().with_table(table.clone(), table.clone());
        TestGateway::with(settings).await
    };
    let gateways = [start(link.clone()).await, start(store.clone()).await];
    let body = json!({"model": MODEL, "input": "wait", "background": true});
    let request =
        http_client().post(gateways[0].url("/v1/responses")).bearer_auth(secret.expose()).json(&body);
    let response: Value = request.send().await.unwrap().json().await.unwrap();
    running(&gateways[0], 1).await;
    link.is_down.store(true, Ordering::SeqCst);
    table.revoke(&key_id, Timestamp(1)).await.unwrap();
    let response = stored(&store, &format!("key_{key_id}"), &response).await;
    assert_eq!(response["status"], "cancelled", "{response}");
    assert_eq!(gateways[1].running.calls.load(Ordering::SeqCst), 0);
}
