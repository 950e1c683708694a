//! Which clients are notified of changes.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolwire_contract::offers::{
    Offer, OfferChange, OfferKind, OfferRequest, OfferRequestError, ServerFilter, ServerOffers,
};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_mcp_server::{Client, McpServer, McpServerOptions};

const SESSION: &str = "mcp-session-id";

/// A toolbox without tools. Its changes, which never happen, would concern all clients.
struct Tools;

impl Toolbox for Tools {
    fn tools(&self) -> Arc<[Tool]> {
        Arc::default()
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        Some(stream::pending().boxed())
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        _: &'a Value,
        _: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(std::future::ready(Err(CallError::Cancelled { tool: tool.to_owned() })))
    }
}

/// Prompts and resources that change for all clients.
struct Offers {
    changes: watch::Sender<OfferChange>,
}

impl ServerOffers for Offers {
    fn list<'a>(&'a self, _: OfferKind, _: &'a ServerFilter<'a>) -> BoxFuture<'a, Vec<Offer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn request<'a>(
        &'a self,
        _: OfferRequest,
        _: &'a ServerFilter<'a>,
    ) -> BoxFuture<'a, Result<Map<String, Value>, OfferRequestError>> {
        let problem = "unknown".to_owned();
        Box::pin(std::future::ready(Err(OfferRequestError::InvalidParameters { problem })))
    }

    fn changes(&self) -> BoxStream<'static, OfferChange> {
        items(self.changes.subscribe())
    }
}

/// Returns the values that are sent over a channel from now on.
fn items<T: Clone + Send + Sync + 'static>(receiver: watch::Receiver<T>) -> BoxStream<'static, T> {
    let next = |mut receiver: watch::Receiver<T>| async move {
        receiver.changed().await.ok()?;
        let value = receiver.borrow_and_update().clone();
        Some((value, receiver))
    };
    stream::unfold(receiver, next).boxed()
}

/// A client with tools of its own, which change.
struct Owner {
    name: &'static str,
    tools: watch::Sender<()>,
}

impl Owner {
    fn client(&self) -> Client<'_> {
        let tools = self.tools.clone();
        let mut client = Client::new(self.name);
        client.changes = Some(Arc::new(move || items(tools.subscribe())));
        client
    }
}

async fn send(
    server: &McpServer,
    owner: &Owner,
    session: Option<&HeaderValue>,
    message: Option<&Value>,
) -> Response<BoxBody<Bytes, Infallible>> {
    let body = message.map(Value::to_string).unwrap_or_default();
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = if message.is_some() { Method::POST } else { Method::GET };
    let headers = request.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(session) = session {
        headers.insert(SESSION, session.clone());
    }
    if let Some(message) = message.filter(|message| message["method"] == "subscriptions/listen") {
        headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
        headers.insert("mcp-method", HeaderValue::from_str(message["method"].as_str().unwrap()).unwrap());
    }
    server.handle(request, owner.client(), Arc::new(Tools), None).await
}

/// The notifications of a client.
struct Notifications {
    body: BoxBody<Bytes, Infallible>,
    text: String,
}

impl Notifications {
    /// Opens a session and its stream, or a stream without a session.
    async fn open(server: &McpServer, owner: &Owner, has_session: bool) -> Notifications {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let filter =
            json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let listen = json!({
            "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": {"notifications": filter, "_meta": meta},
        });
        let response = match has_session {
            false => send(server, owner, None, Some(&listen)).await,
            true => {
                let info = json!({"name": "test", "version": "1"});
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
                let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
                let opened = send(server, owner, None, Some(&open)).await;
                let session = opened.headers()[SESSION].clone();
                let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                assert_eq!(send(server, owner, Some(&session), Some(&initialized)).await.status(), 202);
                send(server, owner, Some(&session), None).await
            }
        };
        assert_eq!(response.status(), 200);
        Notifications { body: response.into_body(), text: String::new() }
    }

    /// Returns the method of the next notification of a change.
    async fn next(&mut self) -> String {
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let message =
                    line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
                self.text = rest.to_owned();
                let method = message.and_then(|message| message["method"].as_str().map(str::to_owned));
                if let Some(method) = method.filter(|method| method.ends_with("list_changed")) {
                    return method;
                }
            }
            let frame = self.body.frame().await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&frame.into_data().unwrap_or_default()).unwrap());
        }
    }

    /// Returns the methods of the notifications until this one.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut methods = Vec::new();
        loop {
            let method = self.next().await;
            if method == last {
                return methods;
            }
            methods.push(method);
        }
    }
}

#[tokio::test]
async fn a_change_of_the_tools_of_one_client_reaches_only_this_client() {
    const TOOLS: &str = "notifications/tools/list_changed";
    const PROMPTS: &str = "notifications/prompts/list_changed";
    const RESOURCES: &str = "notifications/resources/list_changed";
    for has_session in [true, false] {
        let offers = Arc::new(Offers { changes: watch::Sender::new(OfferChange::Prompts) });
        let options = McpServerOptions::new("all", "1");
        let server = McpServer::new(Arc::new(Tools), Some(offers.clone()), &options).unwrap();
        let [one, other] = ["one", "other"].map(|name| Owner { name, tools: watch::Sender::new(()) });
        let mut of_one = Notifications::open(&server, &one, has_session).await;
        let mut of_other = Notifications::open(&server, &other, has_session).await;
        // The first changes may precede the subscriptions.
        for stream in [&mut of_one, &mut of_other] {
            let mut reached = std::pin::pin!(stream.until(PROMPTS));
            while futures::poll!(&mut reached).is_pending() {
                offers.changes.send_replace(OfferChange::Prompts);
                tokio::task::yield_now().await;
            }
        }
        one.tools.send_replace(());
        let before = of_one.until(TOOLS).await;
        assert!(before.iter().all(|method| method == PROMPTS), "{before:?}");
        offers.changes.send_replace(OfferChange::Resources);
        let before = of_other.until(RESOURCES).await;
        assert!(before.iter().all(|method| method == PROMPTS), "{before:?}");
    }
}
