//! Access control of the gateway, and the requests that it rejects. The numbers are those in
//! `docs/security-tests.md`.

use std::time::Duration;

use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolwire_gateway::{Gateway, GatewaySettings, Keys, StartError};
use toolwire_testkit::http_client;

const KEY: &str = "tw_0123456789abcdef0123456789abcdef";

/// The timeout for events that are expected to happen.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn with_key() -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("test", KEY);
    settings.origins = vec!["https://chat.example".to_owned()];
    settings
}

fn question(text: &str) -> Value {
    json!({"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

/// Sends bytes, and returns all that the gateway sends until it closes the connection.
async fn raw(gateway: &TestGateway, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    // The gateway may close the connection before it has read everything.
    let _ = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received))
        .await
        .expect("the connection is closed");
    String::from_utf8_lossy(&received).into_owned()
}

fn status(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Security rules 1 and 15: every path needs a key, in either header.
#[tokio::test]
async fn every_path_needs_a_key_in_either_header() {
    let gateway = TestGateway::with(with_key()).await;
    for route in Gateway::routes() {
        let path = route.path.replace("{model}", MODEL);
        let send = async |headers: &[(&str, &str)]| {
            let method = route.method.parse().unwrap();
            let request =
                http_client().request(method, gateway.url(&path)).header("content-type", "application/json");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            request.body("{}").send().await.unwrap().status().as_u16()
        };
        let without = send(&[]).await;
        assert_eq!(without, if route.is_public { 200 } else { 401 }, "{} {path}", route.method);
        let bearer = format!("Bearer {KEY}");
        let with = send(&[("authorization", &bearer)]).await;
        assert_ne!(with, 401, "{path}");
        assert_eq!(send(&[("x-api-key", KEY)]).await, with, "{path}");
        assert_eq!(send(&[("x-api-key", KEY), ("authorization", &bearer)]).await, with, "{path}");
        if !route.is_public {
            assert_eq!(send(&[("x-api-key", "other"), ("authorization", &bearer)]).await, 401, "{path}");
            assert_eq!(send(&[("x-api-key", "")]).await, 401, "{path}");
        }
    }
    let unknown = http_client().get(gateway.url("/v1/files")).send().await.unwrap().status();
    assert_eq!(unknown, 401, "without a key, all paths have the same response");
}

/// Security rules 1 and 14: whatever the headers of a key contain, the response is the same, and no header,
/// path or host makes a path public.
#[tokio::test]
async fn other_keys_and_other_spellings_of_paths_are_refused() {
    let gateway = TestGateway::with(with_key()).await;
    let get = async |target: &str, host: &str, headers: &[u8]| {
        let head = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        let response = raw(&gateway, &[head.as_bytes(), headers, b"\r\n"].concat()).await;
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status(&response), body.to_owned())
    };
    let host = gateway.address.to_string();
    let (refused, message) = get("/v1/models", &host, b"").await;
    assert_eq!(refused, 401);
    let long = [b"authorization: Bearer ".as_slice(), &[b'x'; 8_000], b"\r\n"].concat();
    let valid = format!("authorization: Bearer {KEY}\r\n");
    for headers in [
        b"authorization: Bearer ' OR 1=1 --\r\n".as_slice(),
        b"authorization: Bearer\r\n",
        b"authorization: Bearer \"\"\r\n",
        b"authorization: Bearer \xff\xfe\r\n",
        b"authorization: Basic eDp5\r\n",
        &long,
        [valid.as_bytes(), b"authorization: Bearer other\r\n"].concat().as_slice(),
        format!("authorization: Bearer Bearer {KEY}\r\n").as_bytes(),
        format!("x-api-key: {KEY}\r\nx-api-key: other\r\n").as_bytes(),
        format!("x-api-key: {}\r\n", KEY.to_uppercase()).as_bytes(),
        format!("proxy-authorization: Bearer {KEY}\r\n").as_bytes(),
        format!("cookie: authorization={KEY}\r\n").as_bytes(),
    ] {
        let found = get("/v1/models", &host, headers).await;
        // Only the format of the error may follow the headers.
        let is_same = found.1 == message || found.1.contains("authentication_error");
        assert!(found.0 == 401 && is_same, "{}: {found:?}", String::from_utf8_lossy(headers));
    }
    assert_eq!(get("/v1/models", &host, valid.as_bytes()).await.0, 200);
    for target in [
        "//healthz",
        "/healthz/../v1/models",
        "/v1/models/../../healthz",
        "/v1/models?/healthz",
        "/v1/models#/healthz",
        "/v1/models;/healthz",
        "/healthz%2f..%2fv1%2fmodels",
        "/v1/%6dodels",
        "/V1/MODELS",
        "/v1//models",
        "/v1/models%00",
        "/healthz/v1/models",
        "http://127.0.0.1/v1/models",
        "*",
    ] {
        let (found, body) = get(target, &host, b"").await;
        assert!([400, 401, 403].contains(&found) && !body.contains(MODEL), "{target}: {found} {body}");
    }
    let user = format!("x@{host}");
    for host in ["x/healthz?", "x#", "x@127.0.0.1", &user, "127.0.0.1/healthz", "", " "] {
        let (found, body) = get("/v1/models", host, valid.as_bytes()).await;
        assert!([400, 403].contains(&found) && !body.contains(MODEL), "{host}: {found} {body}");
    }
    assert_eq!(gateway.model.requests().len(), 0);
}

/// Security rule 2: addresses that other machines can reach need keys that are all strong. Loopback addresses
/// need none, in any form.
#[tokio::test]
async fn a_gateway_for_other_machines_needs_a_strong_key() {
    let start = async |address: &str, keys: Keys| {
        // Some machines have no IPv6.
        let listener = TcpListener::bind(address).await.ok()?;
        let mut settings = GatewaySettings::default();
        settings.keys = keys;
        let tools = crate::support::tools(&crate::support::Running::default());
        let stop = CancellationToken::new();
        stop.cancel();
        Some(Gateway::new(std::sync::Arc::new(NoModels), tools, settings).serve(listener, stop).await)
    };
    let (short, strong) = (&KEY[..Keys::MIN_LENGTH - 1], &KEY[..Keys::MIN_LENGTH]);
    let keys = [
        Keys::default(),
        Keys::default().with("weak", short),
        Keys::default().with("k", strong).with("weak", short),
        Keys::default().with("k", strong),
    ];
    let mut others = vec!["0.0.0.0:0".to_owned(), "[::]:0".to_owned(), "[::ffff:0.0.0.0]:0".to_owned()];
    others.extend(lan_address().map(|address| format!("{address}:0")));
    let mut started = 0;
    for address in &others {
        for (number, keys) in keys.iter().enumerate() {
            let Some(result) = start(address, keys.clone()).await else { continue };
            let is_expected = match (number, &result) {
                (0, Err(StartError::NoKey)) | (3, Ok(())) => true,
                (1 | 2, Err(StartError::WeakKey { name })) => name == "weak",
                _ => false,
            };
            assert!(is_expected, "{address}, keys {number}: {result:?}");
            started += 1;
        }
    }
    assert!(started >= 4, "at least IPv4 exists");
    for address in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        for keys in &keys {
            let Some(result) = start(address, keys.clone()).await else { continue };
            assert!(result.is_ok(), "{address}: {result:?}");
        }
    }
}

/// Returns an address of this machine in its network, if it has one. Nothing is sent.
fn lan_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

struct NoModels;

impl toolwire_gateway::ModelCatalog for NoModels {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn find(&self, name: &str) -> Result<toolwire_gateway::ServedModel, toolwire_gateway::UnknownModel> {
        Err(toolwire_gateway::UnknownModel { name: name.to_owned(), problem: "there are none".to_owned() })
    }
}

/// Security rules 3 and 5: unknown host names and web pages of other sites are rejected on every path, even
/// with a valid key.
#[tokio::test]
async fn other_names_and_other_pages_are_refused_everywhere() {
    let gateway = TestGateway::with(with_key()).await;
    let port = gateway.address.port();
    for route in Gateway::routes() {
        let path = route.path.replace("{model}", MODEL);
        let send = async |headers: &str| {
            let head = format!("{} {path} HTTP/1.1\r\n{headers}\r\nx-api-key: {KEY}\r\n", route.method);
            let content_type = match FORM_PATHS.contains(&route.path) {
                true => "multipart/form-data; boundary=b",
                false => "application/json",
            };
            let head = format!(
                "{head}content-type: {content_type}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
            );
            status(&raw(&gateway, head.as_bytes()).await)
        };
        assert_ne!(send(&format!("host: 127.0.0.1:{port}")).await, 403, "{path}");
        for host in
            ["evil.test", &format!("evil.test:{port}"), &format!("127.0.0.1.evil.test:{port}"), "127.0.0.1:1"]
        {
            assert_eq!(send(&format!("host: {host}")).await, 403, "{path} {host}");
        }
        let host = format!("host: 127.0.0.1:{port}");
        for headers in [
            "origin: http://localhost:3000",
            "origin: null",
            "origin: http://evil.test",
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
        ] {
            assert_eq!(send(&format!("{host}\r\n{headers}")).await, 403, "{path} {headers}");
        }
    }
    assert_eq!(gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst), 0);
}

/// A configured web page may send requests after a CORS preflight.
#[tokio::test]
async fn a_configured_page_may_use_the_gateway() {
    let gateway = TestGateway::with(with_key()).await;
    let url = gateway.url("/v1/models");
    let request = |method: &str| {
        http_client().request(method.parse().unwrap(), &url).header("origin", "https://chat.example")
    };
    let asked = request("OPTIONS").header("access-control-request-method", "POST").send().await.unwrap();
    assert_eq!(asked.status(), 204);
    assert_eq!(asked.headers()["access-control-allow-origin"], "https://chat.example");
    let allowed = asked.headers()["access-control-allow-headers"].to_str().unwrap();
    assert!(allowed.contains("x-api-key") && allowed.contains("x-toolwire-show-calls"), "{allowed}");
    let listed = request("GET").header("x-api-key", KEY).send().await.unwrap();
    assert_eq!(listed.status(), 200);
    assert_eq!(listed.headers()["access-control-allow-origin"], "https://chat.example");
    let exposed = listed.headers()["access-control-expose-headers"].to_str().unwrap();
    for header in ["x-request-id", "retry-after", "x-should-retry", "x-toolwire-dropped"] {
        assert!(exposed.contains(header), "{exposed}");
    }
    let plain = http_client().get(&url).header("x-api-key", KEY).send().await.unwrap();
    assert!(!plain.headers().contains_key("access-control-allow-origin"));
    assert_eq!(plain.headers()["x-content-type-options"], "nosniff");
}

const FORM_PATHS: [&str; 4] =
    ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"];

/// Security rule 6: other content types are rejected, because web pages can send them without a CORS
/// preflight.
#[tokio::test]
async fn other_content_types_are_refused() {
    let gateway = TestGateway::start().await;
    for route in Gateway::routes().filter(|route| route.method == "POST") {
        // Some paths have no other requests than forms.
        let (own, other) = match FORM_PATHS.contains(&route.path) {
            true => ("multipart/form-data; boundary=x", "application/json"),
            false => ("application/json", "multipart/form-data; boundary=x"),
        };
        for content_type in ["text/plain", "application/x-www-form-urlencoded", other, ""] {
            let request = http_client().post(gateway.url(route.path)).body(question("say hi").to_string());
            let request =
                if content_type.is_empty() { request } else { request.header("content-type", content_type) };
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 415, "{} {content_type}", route.path);
        }
        for encoding in ["gzip", "gzip, gzip", "br", "zstd", "x"] {
            let request = http_client().post(gateway.url(route.path)).header("content-type", own);
            let response = request.header("content-encoding", encoding).body("{}").send().await.unwrap();
            assert_eq!(response.status(), 415, "{} {encoding}", route.path);
        }
    }
}

/// Security rules 16 and 17: bodies that two parsers could read differently, or that cannot be read, get an
/// error in the caller's format.
#[tokio::test]
async fn invalid_bodies_get_an_error_in_the_format_of_the_api() {
    let mut settings = GatewaySettings::default();
    settings.limits.body_bytes = 100_000;
    let gateway = TestGateway::with(settings).await;
    let deep = format!("{{\"model\":\"{MODEL}\",\"messages\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let large = format!("{{\"model\":\"{MODEL}\",\"messages\":\"{}\"}}", "x".repeat(200_000));
    for path in [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
    ] {
        for (body, expected) in [
            (r#"{"model":"a","model":"scripted"}"#, 400),
            (r#"{"model":"scripted","Model":"b"}"#, 400),
            (r#"{"\u006dodel":"scripted"}"#, 400),
            ("{", 400),
            ("", 400),
            ("[]", 400),
            ("\u{feff}{}", 400),
            (r#"{"model":"scripted"} {"model":"scripted"}"#, 400),
            (r#"{"model":"\ud800","input":"hi"}"#, 400),
            (r#"{"messages":[]}"#, 400),
            (
                r#"{"model":"no-such-model","messages":[{"role":"user","content":"hi"}],"input":"hi","max_tokens":1}"#,
                404,
            ),
            (deep.as_str(), 400),
            (large.as_str(), 413),
        ] {
            let request = http_client().post(gateway.url(path)).header("content-type", "application/json");
            let response = request.body(body.to_owned()).send().await.unwrap();
            let (status, id) = (response.status().as_u16(), response.headers()["x-request-id"].clone());
            let body_text = response.text().await.unwrap();
            let shown = &body[..body.len().min(60)];
            assert_eq!(status, expected, "{path} {shown}: {body_text}");
            let error: Value = serde_json::from_str(&body_text).unwrap();
            let message = error["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty(), "{path} {shown}: {error}");
            if path.starts_with("/v1/messages") {
                assert_eq!(error["type"], "error");
                assert_eq!(error["request_id"], id.to_str().unwrap());
            } else {
                assert!(error["error"]["type"].is_string() && error.get("type").is_none(), "{error}");
            }
        }
    }
}

/// Security rule 19: slow clients are disconnected, and do not delay others.
#[tokio::test]
async fn slow_clients_end_and_others_are_served() {
    let mut settings = GatewaySettings::default();
    settings.limits.header_timeout = Duration::from_millis(300);
    settings.limits.body_timeout = Duration::from_millis(300);
    let gateway = TestGateway::with(settings).await;
    let mut slow_header = TcpStream::connect(gateway.address).await.unwrap();
    slow_header.write_all(b"POST /v1/messages HTTP/1.1\r\nhost: ").await.unwrap();
    let mut slow_body = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{",
        gateway.address
    );
    slow_body.write_all(head.as_bytes()).await.unwrap();
    let served = http_client()
        .post(gateway.url("/v1/chat/completions"))
        .json(&question("say hello"))
        .send()
        .await
        .unwrap();
    assert_eq!(served.status(), 200);
    let mut received = String::new();
    tokio::time::timeout(TEST_TIMEOUT, slow_body.read_to_string(&mut received)).await.unwrap().unwrap();
    assert_eq!(status(&received), 408, "{received}");
    let mut received = Vec::new();
    let ended = tokio::time::timeout(TEST_TIMEOUT, slow_header.read_to_end(&mut received)).await;
    assert!(ended.is_ok(), "the connection is closed");
}

/// A connection may be idle for longer than a head may take, and is closed after its own time.
#[tokio::test]
async fn idle_connections_have_their_own_limit() {
    let request =
        |gateway: &TestGateway| format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.address);
    let ask = async |stream: &mut TcpStream, request: &str| {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "the connection is open");
        }
        assert_eq!(status(&String::from_utf8(received).unwrap()), 200);
    };
    let mut settings = GatewaySettings::default();
    settings.limits.header_timeout = Duration::from_secs(2);
    settings.limits.keep_alive_timeout = Duration::from_secs(3_600);
    let gateway = TestGateway::with(settings).await;
    let request_line = request(&gateway);
    let mut idle = TcpStream::connect(gateway.address).await.unwrap();
    ask(&mut idle, &request_line).await;
    // A connection that begins its second head and never ends it, and one that never begins its first head.
    let mut slow = TcpStream::connect(gateway.address).await.unwrap();
    ask(&mut slow, &request_line).await;
    slow.write_all(b"GET /hea").await.unwrap();
    let mut silent = TcpStream::connect(gateway.address).await.unwrap();
    let mut received = Vec::new();
    for stream in [&mut slow, &mut silent] {
        let ended = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await;
        assert!(ended.is_ok(), "the connection is closed");
    }
    // Meanwhile, the idle connection stays open.
    ask(&mut idle, &request_line).await;

    let mut settings = GatewaySettings::default();
    settings.limits.header_timeout = Duration::from_secs(3_600);
    settings.limits.keep_alive_timeout = Duration::from_millis(100);
    let gateway = TestGateway::with(settings).await;
    let mut idle = TcpStream::connect(gateway.address).await.unwrap();
    ask(&mut idle, &request(&gateway)).await;
    let ended = tokio::time::timeout(TEST_TIMEOUT, idle.read_to_end(&mut received)).await;
    assert!(ended.is_ok(), "an idle connection is closed");
}

/// Security rules 51 and 52: requests whose end different servers could determine differently, and other
/// protocols, are rejected.
#[tokio::test]
async fn ambiguous_requests_and_other_protocols_are_refused() {
    let gateway = TestGateway::start().await;
    let host = format!("host: {}\r\ncontent-type: application/json\r\n", gateway.address);
    let post = |headers: &str, body: &str| {
        format!("POST /v1/chat/completions HTTP/1.1\r\n{host}{headers}\r\n{body}")
    };
    for request in [
        post("content-length: 5\r\ncontent-length: 6\r\n", "{}"),
        post("content-length: +2\r\n", "{}"),
        post("transfer-encoding: xchunked\r\n", "0\r\n\r\n"),
        post("transfer-encoding: chunked\r\n", "zz\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /v1/models HTTP/1.1\nhost: evil\n\nGET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT 127.0.0.1:1 HTTP/1.1\r\n{host}\r\n"),
        format!("GET http://evil.test/v1/models HTTP/1.1\r\n{host}connection: close\r\n\r\n"),
        format!("TRACE /v1/models HTTP/1.1\r\n{host}connection: close\r\n\r\n"),
        format!("GET /v1/responses HTTP/1.1\r\n{host}connection: upgrade\r\nupgrade: websocket\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // Tells the gateway that nothing follows.
        stream.shutdown().await.unwrap();
        let mut received = Vec::new();
        let _ = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received))
            .await
            .expect("the connection is closed");
        let received = String::from_utf8_lossy(&received).into_owned();
        let status = status(&received);
        assert!(received.is_empty() || (400..500).contains(&status), "{request:?}: {received}");
    }
    assert_eq!(gateway.model.requests().len(), 0);
}

/// The error for an unknown path or method suggests a correction.
#[tokio::test]
async fn the_error_for_a_wrong_path_suggests_a_correction() {
    let gateway = TestGateway::start().await;
    let response = http_client().post(gateway.url("/v1/v1/messages")).json(&json!({})).send().await.unwrap();
    assert_eq!(response.status(), 404);
    let body: Value = response.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("remove `/v1` from the base URL"), "{body}");
    // The page has paths below `/chat`.
    let (with_page, _) = TestGateway::with_page(GatewaySettings::default()).await;
    for path in ["/chat/completions", "/responses", "/messages"] {
        let response = http_client().post(with_page.url(path)).json(&json!({})).send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        let body: Value = response.json().await.unwrap();
        let expected = format!("unknown path `{path}`: add `/v1` to the base URL");
        assert_eq!(body["error"]["message"], expected.as_str());
    }
    let response = http_client().get(gateway.url("/v1/messages")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"POST".parse().unwrap()));
    let response = http_client().head(gateway.url("/v1/models")).send().await.unwrap();
    assert_eq!(response.status(), 200);
}

/// Errors contain the name of an unknown model, so its size is limited.
#[tokio::test]
async fn long_names_of_models_are_refused() {
    let gateway = TestGateway::start().await;
    for path in ["/v1/chat/completions", "/v1/embeddings"] {
        let body = json!({"model": "x".repeat(100_000), "messages": []});
        let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        let error: Value = response.json().await.unwrap();
        let expected = "unknown model: its name has 100000 bytes, and the maximum is 512";
        assert_eq!(
            (&error["error"]["message"], &error["error"]["param"]),
            (&json!(expected), &json!("model"))
        );
    }
}
