//! Limits: many requests, large bodies, clients that stop reading, the client's own timeout, and the errors
//! of providers. The numbers are those of `docs/security-tests.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{MODEL, Running, TestGateway, play, tools};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolwire_contract::model::{Model, ModelError, ModelEvent, ModelRequest};
use toolwire_gateway::{Gateway, GatewaySettings, Keys, ModelCatalog, ServedModel, UnknownModel};
use toolwire_testkit::{ScriptedModel, http_client};

const KEYS: [&str; 2] = ["tw_0123456789abcdef0123456789abcdef", "tw_other456789abcdef0123456789abcdef"];
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn question(text: &str) -> Value {
    json!({"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

/// A response to a client.
struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: Value,
}

async fn ask(gateway: &TestGateway, body: &Value, headers: &[(&str, &str)]) -> Reply {
    let request = http_client().post(gateway.url("/v1/chat/completions")).json(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, body: response.json().await.unwrap_or_default() }
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

/// Security rule 19: clients that send their bodies slowly do not count against the maximum number of
/// requests.
#[tokio::test]
async fn slow_bodies_do_not_keep_others_out() {
    let mut settings = GatewaySettings::default();
    settings.limits.requests = 1;
    let gateway = TestGateway::with(settings).await;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{",
        gateway.address
    );
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    for _ in 0..4 {
        assert_eq!(ask(&gateway, &question("say hello"), &[]).await.status, 200);
    }
}

/// Begins a request, and sends all but the last byte of a body of this size.
async fn begin_body(gateway: &TestGateway, bytes: usize, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {bytes}\r\n\r\n",
        gateway.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes - 1]).await.unwrap();
    stream
}

/// Bodies that are being read take a limited amount of memory together.
#[tokio::test]
async fn bodies_share_their_room() {
    let mut settings = GatewaySettings::default();
    (settings.limits.body_bytes, settings.limits.all_bodies_bytes) = (80_000, 100_000);
    let gateway = TestGateway::with(settings).await;
    let large = question(&format!("say {}", "x".repeat(50_000)));
    let slow = begin_body(&gateway, 70_000, "").await;
    let refused = async {
        loop {
            let reply = ask(&gateway, &large, &[]).await;
            if reply.status != 200 {
                break reply;
            }
        }
    };
    let refused = tokio::time::timeout(TEST_TIMEOUT, refused).await.expect("the first body was read");
    assert_eq!((refused.status, &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
    drop(slow);
    let served = async { while ask(&gateway, &large, &[]).await.status != 200 {} };
    tokio::time::timeout(TEST_TIMEOUT, served).await.expect("the room is free again");
}

/// One key cannot take the whole room of bodies.
#[tokio::test]
async fn the_bodies_of_one_key_leave_room_for_others() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    let limits = &mut settings.limits;
    (limits.body_bytes, limits.all_bodies_bytes) = (80_000, 200_000);
    limits.all_bodies_bytes_per_client = Some(100_000);
    let gateway = TestGateway::with(settings).await;
    let large = question(&format!("say {}", "x".repeat(50_000)));
    let _slow = begin_body(&gateway, 70_000, KEYS[0]).await;
    let refused = async {
        loop {
            let reply = ask(&gateway, &large, &[("x-api-key", KEYS[0])]).await;
            if reply.status != 200 {
                break reply;
            }
        }
    };
    let refused = tokio::time::timeout(TEST_TIMEOUT, refused).await.expect("the first body was read");
    assert_eq!((refused.status, &refused.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(ask(&gateway, &large, &[("x-api-key", KEYS[1])]).await.status, 200);
}

/// Limits with which no large body could be read, or with which the gateway could not start, are refused.
#[tokio::test]
async fn limits_that_contradict_each_other_are_refused_at_the_start() {
    for (connections, all_bodies_bytes, expected) in
        [(usize::MAX, 1 << 30, "`connections`"), (10, 1_000, "`allBodiesBytes`")]
    {
        let mut settings = GatewaySettings::default();
        (settings.limits.connections, settings.limits.all_bodies_bytes) = (connections, all_bodies_bytes);
        let catalog =
            TwoModels(Arc::new(Endless::default()), Arc::new(ScriptedModel::from_fn(play).with_name(MODEL)));
        let gateway = Gateway::new(Arc::new(catalog), tools(&Running::default()), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = gateway.serve(listener, CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// One key cannot take all requests, and one address not all connections.
#[tokio::test]
async fn one_client_has_a_share() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    settings.limits.requests_per_key = Some(1);
    let gateway = TestGateway::with(settings).await;
    let waiting = tokio::spawn({
        let request = http_client().post(gateway.url("/v1/chat/completions")).header("x-api-key", KEYS[0]);
        request.json(&question("wait")).send()
    });
    until(|| gateway.running.now.load(Ordering::SeqCst) == 1).await;
    let refused = ask(&gateway, &question("say hello"), &[("x-api-key", KEYS[0])]).await;
    assert_eq!((refused.status, &refused.headers["retry-after"]), (429, &"1".parse().unwrap()));
    let error = refused.body;
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    assert_eq!(ask(&gateway, &question("say hello"), &[("x-api-key", KEYS[1])]).await.status, 200);
    waiting.abort();
    until(|| gateway.running.now.load(Ordering::SeqCst) == 0).await;
    let served =
        async || ask(&gateway, &question("say hello"), &[("x-api-key", KEYS[0])]).await.status == 200;
    let waiting = async { while !served().await {} };
    tokio::time::timeout(TEST_TIMEOUT, waiting)
        .await
        .expect("the request of the client that is gone does not count");

    let mut settings = GatewaySettings::default();
    settings.limits.connections_per_address = Some(2);
    let gateway = TestGateway::with(settings).await;
    let head = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.address);
    let connect = async || {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let _ = stream.write_all(head.as_bytes()).await;
        let mut start = [0; 12];
        (tokio::time::timeout(TEST_TIMEOUT, stream.read_exact(&mut start)).await.unwrap().is_ok(), stream)
    };
    let (one, two, three) = (connect().await, connect().await, connect().await);
    assert_eq!((one.0, two.0, three.0), (true, true, false));
    drop(one);
    let waiting = async { while !connect().await.0 {} };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("there is room again");
}

/// A request has a limited number of tools.
#[tokio::test]
async fn too_many_tools_are_refused() {
    let mut settings = GatewaySettings::default();
    settings.limits.tools = 2;
    let gateway = TestGateway::with(settings).await;
    let tool = |number: usize| json!({"type": "function", "function": {"name": format!("t{number}"), "parameters": {"type": "object"}}});
    let mut body = question("say hello");
    body["tools"] = (0..2).map(tool).collect();
    assert_eq!(ask(&gateway, &body, &[]).await.status, 200);
    body["tools"] = (0..3).map(tool).collect();
    let refused = ask(&gateway, &body, &[]).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("tools")));
}

/// The `retry-after`, `code` and `param` of a provider's error are passed on to the client.
#[tokio::test]
async fn errors_of_providers_keep_their_meaning() {
    let gateway = TestGateway::start().await;
    for stream in [false, true] {
        let mut body = question("refused 429 slow_down");
        body["stream"] = json!(stream);
        let limited = ask(&gateway, &body, &[]).await;
        assert_eq!((limited.status, &limited.headers["retry-after"]), (429, &"17".parse().unwrap()));

        body["messages"][0]["content"] = json!("refused 429 insufficient_quota");
        let broke = ask(&gateway, &body, &[]).await;
        assert_eq!((broke.status, &broke.headers["x-should-retry"]), (429, &"false".parse().unwrap()));
        let error = broke.body;
        assert_eq!(
            (&error["error"]["type"], &error["error"]["code"]),
            (&json!("insufficient_quota"), &json!("insufficient_quota"))
        );

        let request = http_client().post(gateway.url("/v1/messages")).json(&body);
        let broke = request.send().await.unwrap();
        assert_eq!(broke.status(), 402);
        assert_eq!(broke.json::<Value>().await.unwrap()["error"]["type"], "billing_error");

        body["messages"][0]["content"] = json!("refused 400 unsupported_value");
        let invalid = ask(&gateway, &body, &[]).await.body;
        assert_eq!(
            (&invalid["error"]["param"], &invalid["error"]["code"]),
            (&json!("temperature"), &json!("unsupported_value"))
        );
    }
}

/// The gateway does not wait for a retry that would start after the client's timeout.
#[tokio::test]
async fn a_retry_is_within_the_timeout_of_the_client() {
    let gateway = TestGateway::start().await;
    for (name, value) in [("x-stainless-timeout", "600"), ("x-stainless-read-timeout", "59.5")] {
        let response = ask(&gateway, &question("retry-in-an-hour"), &[(name, value)]).await;
        assert_eq!((response.status, &response.headers["retry-after"]), (429, &"3600".parse().unwrap()));
    }
    let response = ask(&gateway, &question("retry-in-an-hour"), &[("x-stainless-timeout", "7200")]).await;
    assert_eq!(response.status, 200, "the scripted model does not really wait");

    // A client that waits for a whole response gets nothing before its timeout, in later rounds too.
    let timeout = [("x-stainless-timeout", "600")];
    let response = ask(&gateway, &question("late-retry"), &timeout).await;
    assert_eq!((response.status, &response.headers["x-should-retry"]), (429, &"false".parse().unwrap()));
    let mut streamed = question("late-retry");
    streamed["stream"] = json!(true);
    assert_eq!(ask(&gateway, &streamed, &timeout).await.status, 200, "a stream has heartbeats");
}

/// An error in a stream has the id of the request.
#[tokio::test]
async fn an_error_in_a_stream_names_the_request() {
    let gateway = TestGateway::start().await;
    let mut body = question("broken");
    body["stream"] = json!(true);
    let response = http_client().post(gateway.url("/v1/messages")).json(&body).send().await.unwrap();
    let id = response.headers()["request-id"].to_str().unwrap().to_owned();
    let text = response.text().await.unwrap();
    assert!(text.contains("event: error") && text.contains(&format!("\"request_id\":\"{id}\"")), "{text}");
}

/// Security rule 53: schemas that would take very long to check, wherever a request has one.
#[tokio::test]
async fn slow_schemas_end() {
    let gateway = TestGateway::start().await;
    let pair = |number: usize| {
        let part = json!({"$ref": format!("#/$defs/a{}", number - 1)});
        (format!("a{number}"), json!({"allOf": [part, part]}))
    };
    let mut definitions: serde_json::Map<String, Value> = (1..40).map(pair).collect();
    definitions.insert("a0".to_owned(), json!({"type": "object"}));
    let bomb = json!({"type": "object", "$defs": definitions, "properties": {"city": {"$ref": "#/$defs/a39"}, "degrees": {"type": "number", "pattern": "(a+)+$"}}});
    let function = json!({"name": "get_weather", "parameters": bomb});
    let question = |text: &str| json!([{"role": "user", "content": text}]);
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"messages": question("client"), "tools": [{"type": "function", "function": function}]}),
        ),
        (
            "/v1/responses",
            json!({"input": "client", "tools": [{"type": "function", "name": "get_weather", "parameters": bomb}]}),
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": question("client"), "tools": [{"name": "get_weather", "input_schema": bomb}]}),
        ),
        (
            "/v1/chat/completions",
            json!({"messages": question("json"), "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": bomb}}}),
        ),
        (
            "/v1/responses",
            json!({"input": "json", "text": {"format": {"type": "json_schema", "name": "a", "schema": bomb}}}),
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": question("json"), "output_config": {"format": {"type": "json_schema", "schema": bomb}}}),
        ),
        (
            "/v1/messages/count_tokens",
            json!({"messages": question("client"), "tools": [{"name": "get_weather", "input_schema": bomb}]}),
        ),
    ] {
        let mut body = body;
        body["model"] = json!(MODEL);
        let response = http_client().post(gateway.url(path)).json(&body).send();
        let response = tokio::time::timeout(TEST_TIMEOUT, response).await.expect("a response").unwrap();
        let status = response.status().as_u16();
        assert!([200, 400, 502].contains(&status), "{path}: {status} {}", response.text().await.unwrap());
    }
    assert_eq!(
        ask(&gateway, &json!({"model": MODEL, "messages": question("say hello")}), &[]).await.status,
        200
    );
}

/// A model that never stops writing.
#[derive(Default)]
struct Endless {
    written: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

struct Ending(Arc<AtomicUsize>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Model for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn ask(&self, _: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let ending = Ending(self.running.clone());
        stream::repeat_with(move || {
            let _ = &ending;
            self.written.fetch_add(10_000, Ordering::SeqCst);
            Ok(ModelEvent::Text("x".repeat(10_000)))
        })
        .boxed()
    }
}

struct TwoModels(Arc<Endless>, Arc<ScriptedModel>);

impl ModelCatalog for TwoModels {
    fn names(&self) -> Vec<String> {
        vec!["endless".to_owned(), MODEL.to_owned()]
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        Ok(if name == "endless" {
            ServedModel::new(self.0.clone())
        } else {
            ServedModel::new(self.1.clone())
        })
    }
}

/// Security rule 19: a client that stops reading is disconnected, its run ends, and its response does not
/// fill the memory.
#[tokio::test]
async fn a_client_that_stops_reading_is_disconnected() {
    let mut settings = GatewaySettings::default();
    settings.limits.write_timeout = Duration::from_millis(500);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endless = Arc::new(Endless::default());
    let catalog = TwoModels(endless.clone(), Arc::new(ScriptedModel::from_fn(play).with_name(MODEL)));
    let gateway = Gateway::new(Arc::new(catalog), tools(&Running::default()), settings);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(async move { gateway.serve(listener, stop).await });
    let mut clients = Vec::new();
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        let body = json!({"model": "endless", "stream": true, "max_tokens": 9, "input": "hi", "messages": [{"role": "user", "content": "hi"}]});
        let mut body = body.as_object().cloned().unwrap();
        body.remove(if path == "/v1/responses" { "messages" } else { "input" });
        if path == "/v1/responses" {
            body.remove("max_tokens");
        }
        let body = Value::Object(body).to_string();
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        clients.push(client);
    }
    until(|| endless.written.load(Ordering::SeqCst) > 0).await;
    let other =
        http_client().post(format!("http://{address}/v1/chat/completions")).json(&question("say hello"));
    assert_eq!(other.send().await.unwrap().status(), 200, "others are served");
    until(|| endless.running.load(Ordering::SeqCst) == 0).await;
    let written = endless.written.load(Ordering::SeqCst);
    assert!(written < 100_000_000, "{written} bytes were read for clients that read nothing");
}
