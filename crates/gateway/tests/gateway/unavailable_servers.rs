//! Servers that are starting or have failed, and tools that the provider runs: requests that the gateway
//! could forward.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Running, play, tools};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwire_contract::model::ModelError;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_dialect::Dialect;
use toolwire_gateway::{
    ForwardedBody, ForwardedRequest, ForwardedResponse, Gateway, GatewaySettings, ModelCatalog, ServedModel,
    UnknownModel, Upstream,
};
use toolwire_testkit::{ScriptedModel, http_client};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The models are named like the dialects of their providers.
const APIS: [(&str, &str, &str); 3] = [
    ("/v1/chat/completions", "openai", "messages"),
    ("/v1/responses", "responses", "input"),
    ("/v1/messages", "anthropic", "messages"),
];

#[derive(Clone, Copy, PartialEq)]
enum State {
    Starting,
    Started,
    Failed,
}

/// The server `demo`, in a state that the test sets.
struct Server {
    tools: Arc<dyn Toolbox>,
    state: watch::Sender<State>,
    /// The number of requests that have waited for the server.
    waiting: watch::Sender<usize>,
}

impl Toolbox for Server {
    fn tools(&self) -> Arc<[Tool]> {
        if *self.state.borrow() == State::Started { self.tools.tools() } else { Arc::default() }
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        self.tools.server_of(tool)
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let missing = |reason: &str, is_starting| {
            vec![MissingServer { server: "demo".to_owned(), reason: reason.to_owned(), is_starting }]
        };
        match *self.state.borrow() {
            State::Starting => missing("still connecting", true),
            State::Failed => missing("it exited with status 3", false),
            State::Started => Vec::new(),
        }
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            assert_eq!(servers, ["demo"]);
            let mut state = self.state.subscribe();
            self.waiting.send_modify(|count| *count += 1);
            let _ = state.wait_for(|state| *state != State::Starting).await;
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        self.tools.call(tool, arguments, options)
    }
}

/// A provider that stores what it gets.
#[derive(Default)]
struct Provider(Mutex<Vec<Bytes>>);

impl Upstream for Provider {
    fn model_id(&self) -> &str {
        "real-name"
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        self.0.lock().unwrap().push(request.body);
        let headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        let body = ForwardedBody::Complete(Bytes::from_static(b"{\"forwarded\":true}"));
        Box::pin(std::future::ready(Ok(ForwardedResponse::new(200, headers, body))))
    }

    fn redact(&self, error: Value) -> Value {
        error
    }
}

struct Models {
    model: Arc<ScriptedModel>,
    provider: Arc<Provider>,
}

impl ModelCatalog for Models {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        let unknown = |_| UnknownModel { name: name.to_owned(), problem: "it is not configured".to_owned() };
        let dialect = name.parse::<Dialect>().map_err(unknown)?;
        Ok(ServedModel::new(self.model.clone()).with_upstream(dialect, self.provider.clone()))
    }
}

struct Setup {
    url: String,
    server: Arc<Server>,
    model: Arc<ScriptedModel>,
    provider: Arc<Provider>,
    stop: CancellationToken,
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Setup {
    async fn start(state: State, start_timeout: Duration) -> Setup {
        let mut settings = GatewaySettings::default();
        settings.limits.server_start_timeout = start_timeout;
        let tools = tools(&Running::default());
        let server =
            Arc::new(Server { tools, state: watch::Sender::new(state), waiting: watch::Sender::new(0) });
        let (model, provider) = (Arc::new(ScriptedModel::from_fn(play)), Arc::new(Provider::default()));
        let models = Models { model: model.clone(), provider: provider.clone() };
        let gateway = Gateway::new(Arc::new(models), server.clone(), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { gateway.serve(listener, stopped).await.unwrap() });
        Setup { url, server, model, provider, stop }
    }

    async fn post(&self, path: &str, body: &Value, servers: &str) -> (u16, HeaderMap, String) {
        let request = http_client().post(format!("{}{path}", self.url)).header("x-toolwire-servers", servers);
        let response = request.json(body).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, response.text().await.unwrap())
    }

    fn forwarded(&self) -> usize {
        self.provider.0.lock().unwrap().len()
    }
}

fn question(model: &str, key: &str, text: &str) -> Value {
    let mut body = json!({"model": model, key: [{"role": "user", "content": text}]});
    if model == "anthropic" {
        body["max_tokens"] = json!(100);
    }
    body
}

/// A request that arrives while a server is starting gets its tools.
#[tokio::test]
async fn a_request_waits_for_a_server_that_is_starting() {
    for (path, model, key) in APIS {
        let setup = Setup::start(State::Starting, Duration::from_secs(3_600)).await;
        let start = async {
            let mut waiting = setup.server.waiting.subscribe();
            let waits = tokio::time::timeout(TEST_TIMEOUT, waiting.wait_for(|count| *count == 1)).await;
            assert!(waits.is_ok(), "{path}: the request waits for the server");
            setup.server.state.send_replace(State::Started);
        };
        let body = question(model, key, "ours");
        let ((status, headers, text), ()) = tokio::join!(setup.post(path, &body, "*"), start);
        assert_eq!((status, headers.get("x-toolwire-unavailable")), (200, None), "{path}: {text}");
        assert!(text.contains("Results: value of a."), "{path}: {text}");
        assert_eq!(setup.forwarded(), 0, "{path}");
    }
}

/// Without a server that has failed, or that starts too slowly, the model responds, and both the model and
/// the client are told.
#[tokio::test]
async fn the_client_and_the_model_are_told_about_unavailable_servers() {
    for (state, waited) in [(State::Failed, 0), (State::Starting, 1)] {
        for (path, model, key) in APIS {
            let setup = Setup::start(state, Duration::from_millis(1)).await;
            for stream in [false, true] {
                let mut body = question(model, key, "say hello");
                body["stream"] = json!(stream);
                let (status, headers, text) = setup.post(path, &body, "d*").await;
                assert_eq!(status, 200, "{path}: {text}");
                assert_eq!(headers["x-toolwire-unavailable"], "demo", "{path}");
                let instructions = setup.model.requests().pop().unwrap().instructions.unwrap();
                assert!(instructions.contains("`demo`"), "{path}: {instructions}");
            }
            assert_eq!((setup.forwarded(), *setup.server.waiting.borrow()), (0, 2 * waited), "{path}");
            for servers in ["none", "other*"] {
                let (status, headers, _) =
                    setup.post(path, &question(model, key, "say hello"), servers).await;
                assert_eq!((status, headers.get("x-toolwire-unavailable")), (200, None), "{path} {servers}");
            }
            assert_eq!((setup.forwarded(), *setup.server.waiting.borrow()), (2, 2 * waited), "{path}");
        }
    }
}

/// Tools that the provider runs are forwarded without the servers' tools where the gateway cannot join them:
/// Chat Completions has no format for their calls, and programs of the provider call the client's tools
/// otherwise. The client is told.
#[tokio::test]
async fn tools_of_the_provider_reach_it_without_the_tools_of_servers() {
    let tools = |api: &str| match api {
        "anthropic" => json!([
            {"type": "code_execution_20250825", "name": "code_execution"},
            {"name": "mine", "input_schema": {"type": "object"}, "allowed_callers": ["code_execution_20250825"]},
        ]),
        "responses" => json!([{"type": "programmatic_tool_calling"}]),
        _ => json!([{"type": "web_search"}]),
    };
    for state in [State::Started, State::Failed, State::Starting] {
        let setup = Setup::start(state, Duration::from_secs(3_600)).await;
        for (path, model, key) in APIS {
            let mut body = question(model, key, "say hello");
            body["tools"] = tools(model);
            let (status, headers, text) = setup.post(path, &body, "*").await;
            assert_eq!((status, text.as_str()), (200, r#"{"forwarded":true}"#), "{path}");
            assert_eq!(headers["x-toolwire-servers-omitted"], body["tools"][0]["type"].as_str().unwrap());
            let sent: Value =
                serde_json::from_slice(&setup.provider.0.lock().unwrap().pop().unwrap()).unwrap();
            body["model"] = json!("real-name");
            assert_eq!(sent, body, "{path}");

            // Nothing is omitted, so nothing is said.
            body["model"] = json!(model);
            let (_, headers, _) = setup.post(path, &body, "none").await;
            assert_eq!(headers.get("x-toolwire-servers-omitted"), None, "{path}");
            // Another provider does not have the tool.
            body["model"] = json!("gemini");
            let (status, _, text) = setup.post(path, &body, "*").await;
            assert_eq!(status, 400, "{path}: {text}");
        }
    }
}

/// All other tools of the provider are joined with those of servers.
#[tokio::test]
async fn tools_of_the_provider_are_joined_with_those_of_servers() {
    let tool = |api: &str| match api {
        "anthropic" => json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8}),
        _ => json!({"type": "web_search"}),
    };
    let setup = Setup::start(State::Started, Duration::from_secs(3_600)).await;
    for (path, model, key) in APIS.into_iter().filter(|(path, ..)| !path.contains("chat")) {
        let mut body = question(model, key, "ours");
        body["tools"] = json!([tool(model)]);
        let (status, headers, text) = setup.post(path, &body, "*").await;
        assert_eq!((status, headers.get("x-toolwire-servers-omitted")), (200, None), "{path}: {text}");
        assert!(text.contains("Results: value of a."), "{path}: {text}");
        assert_eq!(setup.forwarded(), 0, "{path}");
        let (_, _, text) = setup.post(path, &body, "none").await;
        assert_eq!(text, r#"{"forwarded":true}"#, "{path}");
        setup.provider.0.lock().unwrap().clear();
    }
    let count = async |tools: Value| {
        let body =
            json!({"model": "anthropic", "messages": [{"role": "user", "content": "hi"}], "tools": tools});
        let (status, _, text) = setup.post("/v1/messages/count_tokens", &body, "*").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["input_tokens"].as_u64().unwrap()
    };
    assert!(
        count(json!([tool("anthropic")])).await > count(json!([])).await,
        "the provider's tool counts too"
    );
}
