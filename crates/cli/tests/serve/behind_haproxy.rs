//! The gateway behind HAProxy, which reuses its connections to the gateway for all clients. The numbers are
//! those of `docs/security-tests.md`.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolwire_testkit::provider::{
    Api, Delivery, FakeProvider, Gate, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};
use toolwire_testkit::{HaProxy, http_client};

use crate::{Served, folder, serve, with_provider};

/// The name of the gateway for clients.
const HOST: &str = "gateway.example";
const PATH: &str = "/v1/chat/completions";

/// The maximum wait for something that happens in any case.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A model that repeats the question.
fn repeating(request: &ReceivedRequest) -> ScriptedResponse {
    ScriptedResponse::Output(ModelOutput::text(&format!("you said {}", said(request))))
}

fn said(request: &ReceivedRequest) -> String {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    messages.last().map_or_else(String::new, |last| last["content"].as_str().unwrap_or_default().to_owned())
}

fn question(text: &str) -> Value {
    json!({"model": "up", "messages": [{"role": "user", "content": text}]})
}

struct Proxied {
    provider: FakeProvider,
    _served: Served,
    proxy: HaProxy,
}

impl Proxied {
    /// Starts a gateway with these limits, and a proxy with these options.
    async fn start(name: &str, script: Script, limits: Value, options: &[&str]) -> Proxied {
        let provider = FakeProvider::start(Api::OpenAiChat, script).await;
        let mut config = with_provider(&provider, "openai");
        config["toolwire"]["gateway"] = json!({"hosts": [HOST], "limits": limits});
        let served = serve(&folder(&format!("haproxy-{name}"), Some(&config)), &[]);
        let address: SocketAddr = served.url.strip_prefix("http://").unwrap().parse().unwrap();
        let proxy = HaProxy::start(address, options);
        Proxied { provider, _served: served, proxy }
    }

    fn url(&self) -> String {
        format!("http://{}{PATH}", self.proxy.address())
    }

    /// Sends a request of another client, which gets its own response.
    async fn ask(&self, text: &str) {
        let request = http_client().post(self.url()).header("host", HOST).json(&question(text));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{text}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], format!("you said {text}"));
    }

    /// Sends bytes, and returns everything that is received until the connection is closed.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.proxy.address()).await.unwrap();
        // The proxy may close the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut received = Vec::new();
        let reading = tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await;
        let _ = reading.expect("the connection is closed");
        String::from_utf8_lossy(&received).into_owned()
    }
}

/// Requests that hide a second one, which two servers may find at different places.
fn corpus(outer: &str, smuggled: &str) -> Vec<String> {
    let body = question(outer).to_string();
    let hidden_body = question(smuggled).to_string();
    let hidden = format!(
        "POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{hidden_body}",
        hidden_body.len()
    );
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let post = |headers: &str, body: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n{headers}\r\n\r\n{body}"
        )
    };
    let (short, long) = (body.len(), body.len() + hidden.len());
    let all_chunked = format!("{chunked}{hidden}");
    let plain = format!("{body}{hidden}");
    let mut requests = Vec::new();
    // Two lengths.
    for coding in [
        "transfer-encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding : chunked",
        "transfer-encoding:\u{b}chunked",
        "transfer-encoding:\tchunked",
        " transfer-encoding: chunked",
        "transfer-encoding:\r\n chunked",
        "x: y\r\n transfer-encoding: chunked",
        "x: y\rtransfer-encoding: chunked",
        "x: y\ntransfer-encoding: chunked",
        "transfer_encoding: chunked",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: chunked;q=1",
        "transfer-encoding: chunked\0",
    ] {
        requests.push(post(&format!("content-length: {}\r\n{coding}", all_chunked.len()), &all_chunked));
        requests.push(post(&format!("{coding}\r\ncontent-length: {}", chunked.len()), &all_chunked));
        requests.push(post(&format!("{coding}\r\ncontent-length: {short}"), &plain));
        requests.push(post(coding, &all_chunked));
    }
    for lengths in [
        format!("content-length: {short}\r\ncontent-length: {long}"),
        format!("content-length: {long}\r\ncontent-length: {short}"),
        format!("content-length: {short}, {long}"),
        format!("content-length: {short}, {short}"),
        format!("content-length: +{short}"),
        format!("content-length: -{short}"),
        format!("content-length: 0{short}"),
        format!("content-length: 0x{short:x}"),
        format!("content-length: {short}.0"),
        format!("content-length: {short} {long}"),
        format!("content-length : {short}"),
        format!("content-length:\u{b}{short}"),
        format!("content_length: {long}"),
        "content-length: 18446744073709551616".to_owned(),
        "content-length: 0".to_owned(),
        "content-length:".to_owned(),
        "x: y".to_owned(),
    ] {
        requests.push(post(&lengths, &plain));
    }
    // Chunks.
    let size = format!("{:x}", body.len());
    for chunks in [
        format!("{size};a=b\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("{size};a=\"\r\n\"\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("{size}\n{body}\n0\n\n{hidden}"),
        format!("{size}\r{body}\r0\r\r{hidden}"),
        format!("0x{size}\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("{size} \r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("+{size}\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("-1\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("1{size:0>16}\r\n{body}\r\n0\r\n\r\n{hidden}"),
        format!("{size}\r\n{body}0\r\n\r\n{hidden}"),
        format!("{size}\r\n{body}\r\n0\r\nx: y\r\n\r\n{hidden}"),
        format!("{size}\r\n{body}\r\n0\r\ncontent-length: 1\r\n\r\n{hidden}"),
        format!("{size}\r\n{body}\r\n0\r\n{hidden}"),
        format!("{size}\r\n{body}\r\n00000\r\n\r\n{hidden}"),
        format!("\r\n{size}\r\n{body}\r\n0\r\n\r\n{hidden}"),
    ] {
        requests.push(post("transfer-encoding: chunked", &chunks));
    }
    // Bodies that the gateway does not read, and other protocols.
    for (line, headers) in [
        ("GET /v1/models", ""),
        ("HEAD /v1/models", ""),
        ("OPTIONS /v1/models", ""),
        ("DELETE /v1/models", ""),
        ("TRACE /v1/models", ""),
        ("GET /v1/unknown", ""),
        ("POST /v1/models", ""),
        ("POST /v1/chat/completions", "expect: 100-continue\r\n"),
        ("POST /v1/chat/completions", "content-encoding: gzip\r\n"),
        ("POST /v1/chat/completions", "origin: https://evil.test\r\n"),
        ("POST /v1/chat/completions", "connection: content-length\r\n"),
        ("POST /v1/chat/completions", "connection: host, content-type\r\n"),
        (
            "GET /v1/models",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n",
        ),
        (
            "GET /v1/models",
            "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        ),
        ("POST /v1/../v1/chat/completions", ""),
        ("POST /v1/chat/..%2fchat/completions", ""),
        ("POST //v1/chat/completions", ""),
        ("POST http://evil.test/v1/chat/completions", ""),
    ] {
        let length = hidden.len();
        requests.push(format!(
            "{line} HTTP/1.1\r\nhost: {HOST}\r\n{headers}content-length: {length}\r\n\r\n{hidden}"
        ));
        requests.push(format!("{line} HTTP/1.1\r\nhost: {HOST}\r\n{headers}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{hidden}\r\n0\r\n\r\n"));
        requests.push(format!("{line} HTTP/1.0\r\nhost: {HOST}\r\n{headers}connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"));
    }
    requests.push(format!("GET /v1/models HTTP/1.1\nhost: {HOST}\n\n{hidden}"));
    requests.push(format!("GET /v1/models HTTP/0.9\r\n\r\n{hidden}"));
    requests.push(format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{hidden}"));
    requests.push(format!("CONNECT {HOST}:80 HTTP/1.1\r\nhost: {HOST}\r\n\r\n{hidden}"));
    requests
}

/// Security rule 51: whatever one client sends, HAProxy and the gateway find the same requests in it, so that
/// the next client gets its own response. A second request in the same bytes may run, if its response goes to
/// the same client.
#[tokio::test]
async fn requests_with_an_ambiguous_end_affect_no_other_client() {
    // By default, HAProxy refuses most of them.
    for (name, options) in [("strict", &[][..]), ("lenient", &["option accept-invalid-http-request"])] {
        let script = Script::from_fn(repeating);
        let proxied = Proxied::start(&format!("smuggling-{name}"), script, json!({}), options).await;
        let requests = corpus("outer", "hidden");
        for (number, _) in requests.iter().enumerate() {
            let (outer, hidden) = (format!("outer {number}."), format!("hidden {number}."));
            let request = &corpus(&outer, &hidden)[number];
            let received = proxied.send(request.as_bytes()).await;
            proxied.ask(&format!("own {number}.")).await;
            let ran = proxied.provider.requests().iter().filter(|request| said(request) == hidden).count();
            let answered = received.matches(&format!("you said {hidden}")).count();
            assert!(ran <= answered, "{name}: a hidden request ran:\n{request}\n---\n{received}");
        }
        let others = proxied.provider.requests().into_iter().filter(|request| {
            !["outer ", "hidden ", "own "].iter().any(|start| said(request).starts_with(start))
        });
        assert_eq!(others.count(), 0);
        assert_eq!(proxied.provider.rejections(), []);
    }
}

/// Security rules 19 and 51: slow clients behind the proxy end, and others are served in the meantime.
#[tokio::test]
async fn slow_clients_behind_haproxy_end_and_others_are_served() {
    // Slow requests end soon.
    let limits = json!({"bodyTimeout": "1s", "headerTimeout": "1s"});
    let options = ["timeout http-request 2s", "timeout http-keep-alive 1s"];
    let proxied = Proxied::start("slow", Script::from_fn(repeating), limits, &options).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n");
    let starts = [
        head.clone(),
        format!("{head}content-length: 1000\r\n\r\n{{\"model\""),
        format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n{{\"mod\r\n"),
    ];
    let mut slow = Vec::new();
    for start in &starts {
        let mut stream = TcpStream::connect(proxied.proxy.address()).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    proxied.ask("others are served").await;
    for (stream, start) in slow.iter_mut().zip(&starts) {
        let mut received = [0; 12];
        let reading = tokio::time::timeout(TEST_TIMEOUT, stream.read_exact(&mut received)).await;
        reading.expect("a response").unwrap();
        assert_eq!(&received, b"HTTP/1.1 408", "{start}");
    }
    proxied.ask("and afterwards").await;
    assert_eq!(proxied.provider.requests().len(), 2);
}

/// Security rule 51: each part of a stream reaches the client before the next one exists, and the upstream
/// request ends with the client.
#[tokio::test]
async fn streams_pass_haproxy_at_once_and_end_with_their_client() {
    let gate = Gate::new();
    let delivery = Delivery { gates: vec![(2, gate.clone())], ..Delivery::default() };
    let streaming = move |_: &ReceivedRequest| {
        ScriptedResponse::Delivered(ModelOutput::text("first second third"), delivery.clone())
    };
    let script = Script::from_fn(streaming);
    let proxied = Proxied::start("streams", script, json!({}), &["option abortonclose"]).await;
    let mut body = question("hi");
    body["stream"] = json!(true);
    for is_abandoned in [false, true] {
        let request = http_client().post(proxied.url()).header("host", HOST).json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut parts = response.bytes_stream();
        let first =
            tokio::time::timeout(TEST_TIMEOUT, parts.next()).await.expect("a part before the gate opens");
        assert!(first.unwrap().unwrap().starts_with(b"data: "));
        gate.reached().await;
        if is_abandoned {
            drop(parts);
            let abandoned = tokio::time::timeout(TEST_TIMEOUT, proxied.provider.abandoned()).await;
            abandoned.expect("the request to the provider ends");
            continue;
        }
        gate.open();
        let rest = parts.map(|part| part.unwrap().to_vec()).concat().await;
        assert!(rest.ends_with(b"data: [DONE]\n\n"), "{}", String::from_utf8_lossy(&rest));
    }
}
