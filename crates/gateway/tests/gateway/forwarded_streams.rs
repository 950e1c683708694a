//! Responses that are passed on as the provider sends them: their bytes, clients that read slowly or leave,
//! and limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolwire_agent::Functions;
use toolwire_contract::model::ModelError;
use toolwire_dialect::Dialect;
use toolwire_gateway::{
    ForwardedBody, ForwardedRequest, ForwardedResponse, Gateway, GatewaySettings, ServedModel, Upstream,
};
use toolwire_testkit::{ScriptedModel, http_client};

use crate::every_name::EveryName;

/// The maximum wait for something that happens in any case.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const SPEECH: &str = "/v1/audio/speech";

/// The paths whose responses are passed on, and the API of the provider.
const PATHS: [(&str, Dialect); 4] = [
    ("/v1/chat/completions", Dialect::OpenAi),
    ("/v1/responses", Dialect::Responses),
    ("/v1/messages", Dialect::Anthropic),
    (SPEECH, Dialect::OpenAi),
];

/// What the provider sends.
#[derive(Clone)]
enum Sending {
    /// No response at all.
    Nothing,
    /// These parts.
    Parts(Vec<Bytes>),
    /// These parts, and then nothing more.
    PartsAndSilence(Vec<Bytes>),
    /// This part again and again, as fast as it is read.
    Endless(Bytes),
}

/// A provider that counts what is read from it.
struct Provider {
    sending: Sending,
    headers: Vec<(String, Vec<u8>)>,
    bytes: Arc<AtomicUsize>,
    /// The number of requests that have not ended.
    open: Arc<AtomicUsize>,
}

/// A request that counts as open until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Open {
        open.fetch_add(1, Ordering::SeqCst);
        Open(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Upstream for Provider {
    fn model_id(&self) -> &str {
        "real-name"
    }

    fn forward(&self, _: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        let open = Open::new(&self.open);
        Box::pin(async move {
            let parts = match self.sending.clone() {
                Sending::Nothing => {
                    let _open = open;
                    return std::future::pending().await;
                }
                Sending::Parts(parts) => stream::iter(parts).boxed(),
                Sending::PartsAndSilence(parts) => stream::iter(parts).chain(stream::pending()).boxed(),
                Sending::Endless(part) => stream::repeat(part).boxed(),
            };
            let bytes = self.bytes.clone();
            let parts = parts.map(move |part| {
                let _open = &open;
                bytes.fetch_add(part.len(), Ordering::SeqCst);
                Ok(part)
            });
            Ok(ForwardedResponse::new(200, self.headers.clone(), ForwardedBody::Parts(parts.boxed())))
        })
    }

    fn redact(&self, error: Value) -> Value {
        error
    }
}

struct Served {
    address: SocketAddr,
    path: &'static str,
    provider: Arc<Provider>,
    _stop: DropGuard,
}

/// Serves a path with a provider that sends this.
async fn serve(
    (path, dialect): (&'static str, Dialect),
    sending: Sending,
    headers: &[(&str, &str)],
    settings: GatewaySettings,
) -> Served {
    let content_type = if path == SPEECH { "audio/mpeg" } else { "text/event-stream" };
    let content_type = ("content-type", content_type);
    let headers = std::iter::once(&content_type).chain(headers);
    let headers = headers.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let provider = Arc::new(Provider { sending, headers, bytes: Arc::default(), open: Arc::default() });
    let model = ServedModel::new(Arc::new(ScriptedModel::new([])));
    let model = model.with_upstream(dialect, provider.clone());
    let gateway = Gateway::new(Arc::new(EveryName(model)), Arc::new(Functions::new()), settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = stop.clone();
    tokio::spawn(async move { gateway.serve(listener, serving).await.unwrap() });
    Served { address, path, provider, _stop: stop.drop_guard() }
}

impl Served {
    fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// Sends a request on a connection with a small buffer.
    async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        let body = body().to_string();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    fn open(&self) -> usize {
        self.provider.open.load(Ordering::SeqCst)
    }

    /// Waits until this number of requests to the provider is open.
    async fn until_open(&self, count: usize) {
        let waiting = async {
            while self.open() != count {
                tokio::task::yield_now().await;
            }
        };
        let label = format!("{}: {count} requests are open", self.path);
        tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect(&label);
    }
}

fn body() -> Value {
    json!({"model": "up", "stream": true})
}

/// An event that does not end a response, of about this size.
fn event(bytes: usize) -> Bytes {
    Bytes::from(format!("data: {{\"type\":\"x\",\"text\":\"{}\"}}\n\n", "x".repeat(bytes)))
}

/// The end of a response, in each API.
fn end(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => "data: [DONE]\r\n\r\n",
        "/v1/responses" => "event: response.completed\ndata: {\"type\" : \"response.completed\"}\n\n",
        "/v1/messages" => "event:message_stop\rdata:{\"type\":\"message_stop\"}\r\r",
        _ => "\u{0}\r\n\n",
    }
}

/// The provider's bytes arrive unchanged, with those of its headers that clients use.
#[tokio::test]
async fn a_response_stays_as_the_provider_sent_it() {
    let headers = [
        ("x-ratelimit-remaining-tokens", "17"),
        ("anthropic-ratelimit-requests-limit", "5"),
        ("openai-processing-ms", "12"),
        ("x-request-id", "req_provider"),
        ("request-id", "req_provider"),
        ("set-cookie", "session=secret"),
        ("server", "provider"),
    ];
    for (path, dialect) in PATHS {
        let text = format!(
            ": a comment\n\nid: 7\nretry: 10\ndata: {{\"later\": 1.0,\ndata: \"text\":\"Gr\u{fc}\u{df}e \\u00e9\"}}\r\n\r\n\n\n{}",
            end(path)
        );
        for size in [1, 7, text.len()] {
            let parts = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
            let served =
                serve((path, dialect), Sending::Parts(parts), &headers, GatewaySettings::default()).await;
            let response = http_client().post(served.url()).json(&body()).send().await.unwrap();
            let received = response.headers().clone();
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(response.bytes().await.unwrap(), text.as_bytes(), "{path}, parts of {size} bytes");
            let content_type = if path == SPEECH { "audio/mpeg" } else { "text/event-stream" };
            assert_eq!(received["content-type"], content_type, "{path}");
            for (name, value) in &headers[..3] {
                assert_eq!(received[*name], *value, "{path}");
            }
            assert!(!received.contains_key("set-cookie") && !received.contains_key("server"), "{received:?}");
            let id = received["x-request-id"].to_str().unwrap();
            assert!(id != "req_provider" && received["request-id"] == id, "{path}: {id}");
        }
    }
}

/// The gateway reads from the provider only what the client reads, apart from buffers of the connection.
#[tokio::test]
async fn a_slow_client_does_not_fill_the_memory() {
    const READ: usize = 8 * 1024 * 1024;
    const BUFFERS: usize = 24 * 1024 * 1024;
    let check = async |path: (&'static str, Dialect)| {
        let mut settings = GatewaySettings::default();
        settings.limits.write_timeout = Duration::from_millis(500);
        let served = serve(path, Sending::Endless(event(64 * 1024)), &[], settings).await;
        let mut client = served.connect().await;
        let (mut read, mut part) = (0, vec![0; 16 * 1024]);
        while read < READ {
            read += client.read(&mut part).await.unwrap();
            let taken = served.provider.bytes.load(Ordering::SeqCst);
            assert!(taken <= read + BUFFERS, "{path:?}: {taken} bytes were taken, and {read} were read");
        }
        // It stops reading. The gateway disconnects it after some time, in which it could read more from the
        // provider.
        served.until_open(0).await;
        let taken = served.provider.bytes.load(Ordering::SeqCst);
        assert!(taken <= read + BUFFERS, "{path:?}: {taken} bytes were taken, and {read} were read");
    };
    futures::future::join_all(PATHS.map(check)).await;
}

/// The request to the provider ends with the client, before the response and in the middle of it.
#[tokio::test]
async fn a_client_that_leaves_ends_the_request_to_the_provider() {
    for path in PATHS {
        for sending in [Sending::Nothing, Sending::PartsAndSilence(vec![event(10)])] {
            let served = serve(path, sending.clone(), &[], GatewaySettings::default()).await;
            let mut client = served.connect().await;
            served.until_open(1).await;
            if let Sending::PartsAndSilence(_) = sending {
                client.read_exact(&mut [0; 12]).await.unwrap();
                assert_eq!(served.open(), 1, "{path:?}");
            }
            drop(client);
            served.until_open(0).await;
        }
    }
}

/// A stream counts as a request until its end.
#[tokio::test]
async fn open_streams_count_as_requests() {
    for (path, dialect) in PATHS {
        let mut settings = GatewaySettings::default();
        settings.limits.requests = 2;
        let sending = Sending::PartsAndSilence(vec![event(10)]);
        let served = serve((path, dialect), sending, &[], settings).await;
        let first = http_client().post(served.url()).json(&body()).send().await.unwrap();
        let second = http_client().post(served.url()).json(&body()).send().await.unwrap();
        assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
        let refused = http_client().post(served.url()).json(&body()).send().await.unwrap();
        let expected = if path == "/v1/messages" { 529 } else { 503 };
        assert_eq!(refused.status(), expected, "{path}");
        assert_eq!(refused.headers()["retry-after"], "1", "{path}");
        assert_eq!(served.open(), 2, "{path}: the provider does not get it");
        drop(first);
        let again = async {
            while http_client().post(served.url()).json(&body()).send().await.unwrap().status() != 200 {}
        };
        tokio::time::timeout(TEST_TIMEOUT, again)
            .await
            .expect("the request of the client that is gone does not count");
        drop(second);
    }
}
