//! Paths of OpenAI's API that the gateway does not implement: requests are sent to the provider, and
//! responses are returned, as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::API_KEY;

use crate::{Served, folder, serve};

const PATHS: [&str; 5] = ["embeddings", "completions", "moderations", "images/generations", "audio/speech"];
pub(crate) const CLIENT_KEY: &str = "key-of-the-client";

/// A provider that records its requests, and sends the same bytes to each.
pub(crate) struct Provider {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<SentRequest>>>,
}

/// The head and the body of a request.
type SentRequest = (String, Vec<u8>);

impl Provider {
    pub(crate) async fn start(response: Vec<u8>) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let requests = received.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read_request(&mut stream).await;
                requests.lock().unwrap().push(request);
                let _ = stream.write_all(&response).await;
            }
        });
        Provider { url, received }
    }

    /// Returns the last request, with its head and its body.
    pub(crate) fn last(&self) -> (String, Vec<u8>) {
        self.received.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

async fn read_request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut request, mut part) = (Vec::new(), [0; 65_536]);
    loop {
        let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            let head = std::str::from_utf8(&request[..end]).unwrap().to_owned();
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            let length = lines.find(|(name, _)| *name == "content-length");
            let length = length.map_or(0, |(_, length)| length.parse::<usize>().unwrap());
            while request.len() < end + 4 + length {
                let count = stream.read(&mut part).await.unwrap();
                assert_ne!(count, 0, "the body ended too early: {head}");
                request.extend_from_slice(&part[..count]);
            }
            return (head, request.split_off(end + 4));
        }
        let count = stream.read(&mut part).await.unwrap();
        assert_ne!(count, 0, "the request ended too early");
        request.extend_from_slice(&part[..count]);
    }
}

/// Returns the bytes of a response.
pub(crate) fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn gateway(name: &str, provider: &str, base_url: &str) -> Served {
    let model = json!({"provider": provider, "model": "real-name", "baseUrl": base_url, "apiKey": API_KEY, "retries": 0});
    let config = json!({"mcpServers": {}, "toolwire": {
        "model": "up", "models": {"up": model}, "gateway": {"keys": {"client": CLIENT_KEY}},
    }});
    serve(&folder(name, Some(&config)), &[])
}

/// A response as a client gets it.
struct Received {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

async fn post(served: &Served, path: &str, body: &str) -> Received {
    let request = http_client().post(format!("{}/v1/{path}", served.url)).body(body.to_owned());
    let request = request.header("content-type", "application/json").header("cookie", "a=b");
    let response = request.header("authorization", format!("Bearer {CLIENT_KEY}")).send().await.unwrap();
    let header = |name: &str, value: &[u8]| (name.to_owned(), String::from_utf8_lossy(value).into_owned());
    let headers = response.headers().iter().map(|(name, value)| header(name.as_str(), value.as_bytes()));
    let (status, headers) = (response.status().as_u16(), headers.collect());
    Received { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

#[tokio::test]
async fn requests_and_responses_stay_as_they_are() {
    let sound: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
    let json = "{ \"object\" :\"list\", \"later\":1.0,\"text\":\"Gr\\u00fc\u{df}e\"}\n".as_bytes();
    let events = b"data: {\"text\": 1.0}\r\n\r\n: ping\n\ndata: [DONE]\n\n";
    for (path, content_type, body) in [
        ("embeddings", "application/json", json),
        ("completions", "application/json; charset=utf-8", json),
        ("completions", "text/event-stream", &events[..]),
        ("moderations", "application/json", json),
        ("images/generations", "application/json", json),
        ("audio/speech", "audio/mpeg", &sound[..]),
    ] {
        let headers =
            format!("content-type: {content_type}\r\nset-cookie: c=d\r\nx-ratelimit-limit-requests: 7");
        let provider = Provider::start(response(200, &headers, body)).await;
        let served = gateway("pass", "openai", &provider.url);
        let sent = "{\"input\" : [\"h\\u00e9\", {\"later\":1.0}] ,\n\"model\" :\"up\", \"stream\":null}";
        let received = post(&served, path, sent).await;
        assert_eq!(received.status, 200, "{path}");
        assert!(received.body == body, "{path}: {}", String::from_utf8_lossy(&received.body));
        assert_eq!(received.headers["content-type"], content_type, "{path}");
        assert_eq!(received.headers["x-ratelimit-limit-requests"], "7", "{path}");
        assert!(!received.headers.contains_key("set-cookie"), "{path}");
        let (head, body) = provider.last();
        assert!(head.starts_with(&format!("POST /v1/{path} HTTP/1.1\r\n")), "{head}");
        assert_eq!(body, sent.replace("\"up\"", "\"real-name\"").into_bytes(), "{path}");
        assert!(head.contains(&format!("authorization: Bearer {API_KEY}")), "{head}");
        assert!(!head.contains(CLIENT_KEY) && !head.contains("cookie"), "{head}");
    }
}

/// The provider's errors are passed on without its key, except those about the gateway's own access.
#[tokio::test]
async fn errors_are_those_of_the_provider() {
    let error = json!({"error": {"message": "no", "type": "invalid_request_error", "param": "input", "code": "bad", "later": 1}});
    let telling = json!({"error": {"message": format!("the key {API_KEY} is wrong"), "type": "t", "param": null, "code": null}});
    for path in PATHS {
        for (status, expected) in
            [(400, 400), (401, 502), (403, 502), (404, 404), (307, 502), (422, 422), (429, 429), (500, 500)]
        {
            for (content_type, body) in [
                ("application/json", error.to_string()),
                ("application/json", telling.to_string()),
                ("text/html", format!("<h1>{API_KEY}</h1>")),
            ] {
                if path != "embeddings" && status != 429 {
                    continue;
                }
                let headers = format!(
                    "content-type: {content_type}\r\nretry-after: 9\r\nlocation: http://127.0.0.1:1/"
                );
                let provider = Provider::start(response(status, &headers, body.as_bytes())).await;
                let served = gateway("pass-errors", "openai", &provider.url);
                let received = post(&served, path, r#"{"model":"up","input":"hi"}"#).await;
                let text = String::from_utf8(received.body).unwrap();
                let label = format!("{path} {status} {content_type}: {text}");
                assert_eq!(received.status, expected, "{label}");
                assert!(!text.contains(API_KEY) && !received.headers.contains_key("location"), "{label}");
                let found: Value = serde_json::from_str(&text).unwrap();
                assert!(found["error"]["message"].is_string() && found.get("type").is_none(), "{label}");
                if serde_json::from_str(&body).is_ok_and(|body: Value| body == error) && expected != 502 {
                    assert_eq!(found, error, "{label}");
                    assert_eq!(received.headers["retry-after"], "9", "{label}");
                }
                assert_eq!(provider.requests(), 1, "{label}");
            }
        }
        let page = response(200, "content-type: text/html", b"<h1>Sign in</h1>");
        let served = gateway("pass-errors", "openai", &Provider::start(page).await.url);
        assert_eq!(post(&served, path, r#"{"model":"up"}"#).await.status, 502, "{path}");
    }
}

/// Other providers do not have these paths, and nothing is sent to them.
#[tokio::test]
async fn other_providers_do_not_have_these_paths() {
    for name in ["anthropic", "gemini", "ollama"] {
        let provider = Provider::start(response(200, "content-type: application/json", b"{}")).await;
        let served = gateway(&format!("pass-{name}"), name, &provider.url);
        for path in PATHS {
            let check = async |body: &str, status: u16, code: &str, parameter: Value| {
                let received = post(&served, path, body).await;
                let error: Value = serde_json::from_slice(&received.body).unwrap();
                let found = (received.status, &error["error"]["code"], &error["error"]["param"]);
                assert_eq!(found, (status, &json!(code), &parameter), "{name} {path}: {error}");
                error["error"]["message"].as_str().unwrap().to_owned()
            };
            let message = check(r#"{"model":"up"}"#, 404, "not_found", Value::Null).await;
            assert_eq!(message, format!("the API of `up` has no path `/v1/{path}`"));
            check(r#"{"model":"other/unknown"}"#, 404, "model_not_found", json!("model")).await;
            check(r#"{"input":"hi"}"#, 400, "invalid_value", json!("model")).await;
            check(r#"{"model":5}"#, 400, "invalid_value", json!("model")).await;
            let request =
                http_client().post(format!("{}/v1/{path}", served.url)).json(&json!({"model": "up"}));
            assert_eq!(request.send().await.unwrap().status(), 401, "a key is needed");
        }
        assert_eq!(provider.requests(), 0, "{name}");
    }
}
