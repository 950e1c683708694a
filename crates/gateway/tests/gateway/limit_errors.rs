//! The errors for requests beyond a limit: status, headers, and the format of the client's API.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{MODEL, TestGateway};
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

const KEYS: [&str; 2] = ["tw_0123456789abcdef0123456789abcdef", "tw_other456789abcdef0123456789abcdef"];

/// The maximum wait for something that happens in any case.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const PATHS: [&str; 5] =
    ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings"];

/// A request that every path reads.
fn body(text: &str) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": text}]})
}

/// An error, as each kind of client expects it.
struct Expected {
    status: u16,
    openai: (&'static str, Value),
    anthropic: &'static str,
    retry_after: Option<&'static str>,
}

impl Expected {
    fn check(&self, path: &str, (status, headers, text): &(u16, HeaderMap, String)) {
        let label = format!("{path}: {text}");
        let is_anthropic = path.starts_with("/v1/messages");
        let overloaded = if is_anthropic { 529 } else { 503 };
        assert_eq!(*status, if self.status == 503 { overloaded } else { self.status }, "{label}");
        assert_eq!(headers["content-type"], "application/json", "{label}");
        assert_eq!(headers["x-request-id"], headers["request-id"], "{label}");
        let retry_after = headers.get("retry-after").map(|value| value.to_str().unwrap());
        assert_eq!(retry_after, self.retry_after, "{label}");
        // The status decides, because nothing has run.
        assert!(!headers.contains_key("x-should-retry"), "{label}");
        let found: Value = serde_json::from_str(text).unwrap();
        let message = found["error"]["message"].as_str().unwrap();
        let expected = match is_anthropic {
            true => {
                json!({"type": "error", "error": {"type": self.anthropic, "message": message}, "request_id": headers["request-id"].to_str().unwrap()})
            }
            false => {
                let (type_name, code) = &self.openai;
                json!({"error": {"message": message, "type": type_name, "param": null, "code": code}})
            }
        };
        assert_eq!(found, expected, "{label}");
    }
}

async fn post(gateway: &TestGateway, path: &str, body: &Value, key: &str) -> (u16, HeaderMap, String) {
    let response =
        http_client().post(gateway.url(path)).header("x-api-key", key).json(body).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.text().await.unwrap())
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

/// Holds a request of a key.
async fn hold(gateway: &TestGateway, key: &str) -> tokio::task::JoinHandle<()> {
    let request = http_client().post(gateway.url(PATHS[0])).header("x-api-key", key).json(&body("wait"));
    let held = tokio::spawn(async move {
        let _ = request.send().await;
    });
    until(|| gateway.running.now.load(Ordering::SeqCst) == 1).await;
    held
}

#[tokio::test]
async fn too_many_requests_of_all_clients() {
    let mut settings = GatewaySettings::default();
    settings.limits.requests = 1;
    let gateway = TestGateway::with(settings).await;
    let held = hold(&gateway, "").await;
    let openai = ("server_error", Value::Null);
    let expected = Expected { status: 503, openai, anthropic: "overloaded_error", retry_after: Some("1") };
    for path in PATHS {
        expected.check(path, &post(&gateway, path, &body("say hi"), "").await);
    }
    held.abort();
    let served = async { while post(&gateway, PATHS[0], &body("say hi"), "").await.0 != 200 {} };
    tokio::time::timeout(TEST_TIMEOUT, served).await.expect("there is room again");
}

#[tokio::test]
async fn too_many_requests_of_one_key() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("one", KEYS[0]).with("two", KEYS[1]);
    settings.limits.requests_per_key = Some(1);
    let gateway = TestGateway::with(settings).await;
    let held = hold(&gateway, KEYS[0]).await;
    let openai = ("rate_limit_error", json!("rate_limit_exceeded"));
    let expected = Expected { status: 429, openai, anthropic: "rate_limit_error", retry_after: Some("1") };
    for path in PATHS {
        expected.check(path, &post(&gateway, path, &body("say hi"), KEYS[0]).await);
    }
    assert_eq!(post(&gateway, PATHS[0], &body("say hi"), KEYS[1]).await.0, 200, "other keys are served");
    held.abort();
}

/// The connection is closed, because the rest of the body is not read.
#[tokio::test]
async fn a_body_that_is_too_large() {
    let mut settings = GatewaySettings::default();
    settings.limits.body_bytes = 1_000;
    let gateway = TestGateway::with(settings).await;
    let openai = ("invalid_request_error", json!("request_too_large"));
    let expected = Expected { status: 413, openai, anthropic: "request_too_large", retry_after: None };
    for path in PATHS {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n",
            gateway.address
        );
        // The size is stated, or becomes known when the body arrives.
        let chunk = "x".repeat(1_001);
        for rest in [
            "content-length: 1001\r\n\r\n{".to_owned(),
            format!("transfer-encoding: chunked\r\n\r\n3e9\r\n{chunk}\r\n"),
        ] {
            let response = raw(&gateway, &format!("{head}{rest}")).await;
            assert_eq!(response.1["connection"], "close", "{path}");
            expected.check(path, &response);
        }
    }
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly() {
    let mut settings = GatewaySettings::default();
    settings.limits.body_timeout = Duration::from_millis(100);
    let gateway = TestGateway::with(settings).await;
    let openai = ("invalid_request_error", json!("invalid_value"));
    let expected = Expected { status: 408, openai, anthropic: "invalid_request_error", retry_after: None };
    for path in PATHS {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{",
            gateway.address
        );
        expected.check(path, &raw(&gateway, &head).await);
    }
}

/// Headers beyond the limits are not read completely, so the connection is closed.
#[tokio::test]
async fn headers_that_are_too_large() {
    let gateway = TestGateway::start().await;
    let host =
        format!("host: {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n", gateway.address);
    let openai = ("invalid_request_error", json!("invalid_value"));
    let expected = Expected { status: 431, openai, anthropic: "invalid_request_error", retry_after: None };
    for path in PATHS {
        let long = format!("x-long: {}\r\n", "x".repeat(16 * 1024));
        let many: String = (0..64).map(|number| format!("x-{number}: 1\r\n")).collect();
        for headers in [long, many] {
            let request = format!("POST {path} HTTP/1.1\r\n{host}{headers}\r\n{{}}");
            let response = raw(&gateway, &request).await;
            assert_eq!(response.1["connection"], "close", "{path}");
            expected.check(path, &response);
        }
        // Much larger ones are not read at all.
        let huge = format!("POST {path} HTTP/1.1\r\n{host}x: {}\r\n\r\n{{}}", "x".repeat(200 * 1024));
        let status = raw(&gateway, &huge).await.0;
        assert!(matches!(status, 431 | 0), "{path}: {status}");
        let allowed = format!("x-long: {}\r\n", "x".repeat(15 * 1024));
        let request = format!("POST {path} HTTP/1.1\r\n{host}{allowed}connection: close\r\n\r\n{{}}");
        assert_eq!(raw(&gateway, &request).await.0, 400, "{path}: the body is read");
    }
}

/// Sends bytes, and returns the response of a connection that is then closed.
async fn raw(gateway: &TestGateway, request: &str) -> (u16, HeaderMap, String) {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    // The gateway may close the connection before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut received = Vec::new();
    let reading = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await;
    let _ = reading.expect("the connection is closed");
    let text = String::from_utf8(received).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let header = |(name, value): (&str, &str)| {
        Some((name.parse::<http::HeaderName>().ok()?, value.parse::<http::HeaderValue>().ok()?))
    };
    (status, fields.filter_map(header).collect(), body.to_owned())
}
