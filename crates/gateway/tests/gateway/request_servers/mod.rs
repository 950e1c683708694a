//! MCP servers that requests name by URL. The numbers are those of `docs/security-tests.md`.

mod changes;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{MODEL, Running, TestGateway};
use changes::Changing;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::toolbox::Toolbox;
use toolwire_gateway::{GatewaySettings, Keys, RequestServer, RequestServerError, RequestServers};
use toolwire_testkit::http_client;

const URL: &str = "https://tools.example/mcp";
const TOKEN: &str = "planted-token-0123456789";

/// Servers whose URL decides what happens. It records which ones were connected.
#[derive(Default)]
struct Servers {
    connected: Mutex<Vec<RequestServer>>,
    running: Running,
    changing: Arc<Changing>,
}

impl Servers {
    fn connected(&self) -> Vec<RequestServer> {
        self.connected.lock().unwrap().clone()
    }

    fn calls(&self) -> usize {
        self.running.calls.load(Ordering::SeqCst)
    }
}

impl RequestServers for Servers {
    fn connect(&self, server: RequestServer) -> BoxFuture<'_, Result<Arc<dyn Toolbox>, RequestServerError>> {
        Box::pin(async move {
            self.connected.lock().unwrap().push(server.clone());
            if server.url.starts_with("https://tools.example/") {
                return Ok(crate::support::tools(&self.running));
            }
            if server.url.starts_with("https://changing.example/") {
                return Ok(self.changing.clone());
            }
            if server.url.starts_with("https://hanging.example/") {
                return std::future::pending().await;
            }
            let reason = "the test says so".to_owned();
            Err(match server.url.starts_with("https://down.example/") {
                true => RequestServerError::Unavailable { reason },
                false => RequestServerError::Refused { reason },
            })
        })
    }
}

async fn start() -> (TestGateway, Arc<Servers>) {
    start_with(GatewaySettings::default()).await
}

async fn start_with(settings: GatewaySettings) -> (TestGateway, Arc<Servers>) {
    let servers = Arc::new(Servers::default());
    (TestGateway::with_request_servers(settings, servers.clone()).await, servers)
}

async fn post(gateway: &TestGateway, path: &str, body: &Value) -> (u16, Value) {
    let response = http_client().post(gateway.url(path)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// An entry of the Responses API that names a server by URL, with further fields.
fn entry(label: &str, url: &str, fields: Value) -> Value {
    let mut entry =
        json!({"type": "mcp", "server_label": label, "server_url": url, "require_approval": "never"});
    entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    entry
}

async fn respond(gateway: &TestGateway, input: Value, tools: Value) -> Vec<Value> {
    let body = json!({"model": MODEL, "input": input, "tools": tools});
    let (status, response) = post(gateway, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{response}");
    response["output"].as_array().unwrap().clone()
}

fn types(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn offered(gateway: &TestGateway) -> String {
    let requests = gateway.model.requests();
    requests.last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(" ")
}

/// A message of Anthropic's API that names one server.
fn message(text: &str, server: Value, toolset: Value) -> Value {
    let mut tools = json!([{"type": "mcp_toolset", "mcp_server_name": server["name"]}]);
    tools[0].as_object_mut().unwrap().extend(toolset.as_object().unwrap().clone());
    json!({"model": MODEL, "max_tokens": 100, "messages": [user(text)], "mcp_servers": [server], "tools": tools})
}

#[tokio::test]
async fn responses_use_a_server_by_its_url() {
    let (gateway, servers) = start().await;
    let fields = json!({"authorization": TOKEN, "headers": {"X-Team": "planted-header-0123456789"}});
    let body = json!({"model": MODEL, "input": "ours", "tools": [entry("theirs", URL, fields)]});
    let (status, response) = post(&gateway, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{response}");
    let output = response["output"].as_array().unwrap();
    assert_eq!(types(output), ["mcp_list_tools", "mcp_call", "message"]);
    for item in &output[..2] {
        assert_eq!(item["server_label"], "theirs");
    }
    assert_eq!((&output[1]["name"], &output[1]["output"]), (&json!("lookup"), &json!("value of a")));
    assert_eq!(offered(&gateway), "lookup fail picture delete wait");
    assert_eq!((servers.calls(), gateway.running.calls.load(Ordering::SeqCst)), (1, 0));

    let [server] = &servers.connected()[..] else { panic!("{:?}", servers.connected()) };
    assert_eq!((&server.client, server.label.as_str(), server.url.as_str()), (&None, "theirs", URL));
    let headers: Vec<(&str, &str)> =
        server.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(
        headers,
        [("X-Team", "planted-header-0123456789"), ("authorization", "Bearer planted-token-0123456789"),]
    );
    // Security rule 13: neither the response nor the request to the model contains the credentials.
    let texts = format!("{response} {:?} {server:?}", gateway.model.requests());
    assert!(!texts.contains("planted"), "{texts}");

    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let text = http_client().post(gateway.url("/v1/responses")).json(&streamed).send().await.unwrap();
    let text = text.text().await.unwrap();
    assert!(text.contains("response.mcp_call.completed") && text.contains("response.completed"), "{text}");
    assert!(!text.contains("planted"), "{text}");
}

#[tokio::test]
async fn messages_use_a_server_by_its_url() {
    let (gateway, servers) = start().await;
    let server = json!({"type": "url", "name": "theirs", "url": URL, "authorization_token": TOKEN});
    let configs = json!({"default_config": {"enabled": false}, "configs": {"lookup": {"enabled": true}}});
    let (status, response) = post(&gateway, "/v1/messages", &message("ours", server, configs)).await;
    assert_eq!(status, 200, "{response}");
    let blocks = response["content"].as_array().unwrap();
    assert_eq!(types(blocks), ["mcp_tool_use", "mcp_tool_result", "text"]);
    assert_eq!((&blocks[0]["server_name"], &blocks[0]["name"]), (&json!("theirs"), &json!("lookup")));
    assert_eq!(offered(&gateway), "lookup");
    assert_eq!(servers.connected()[0].headers[0].1.expose(), format!("Bearer {TOKEN}"));
    // Messages have no approvals, so a tool that needs one does not run.
    let server = json!({"type": "url", "name": "theirs", "url": URL});
    let (_, response) = post(&gateway, "/v1/messages", &message("delete", server, json!({}))).await;
    assert!(response.to_string().contains("`delete` was not run"), "{response}");
}

#[tokio::test]
async fn filters_apply_to_servers_with_urls() {
    let (gateway, servers) = start().await;
    for (fields, expected) in [
        (json!({"allowed_tools": ["lookup", "wait"]}), "lookup wait"),
        (json!({"allowed_tools": {"tool_names": ["delete", "lookup"], "read_only": true}}), "lookup"),
        (json!({"defer_loading": true}), "search_tools"),
    ] {
        respond(&gateway, json!("say hi"), json!([entry("theirs", URL, fields)])).await;
        assert_eq!(offered(&gateway), expected);
    }
    // A tool of the client keeps its name.
    let own = json!({"type": "function", "name": "lookup", "parameters": {"type": "object"}});
    let entries = json!([own, entry("theirs", URL, json!({"allowed_tools": ["lookup"]}))]);
    respond(&gateway, json!("say hi"), entries).await;
    assert_eq!(offered(&gateway), "lookup theirs_lookup");
    // The headers of the gateway restrict a request further, and a server that is not selected is not
    // connected.
    let before = servers.connected().len();
    let body = json!({"model": MODEL, "input": "say hi", "tools": [entry("theirs", URL, json!({}))]});
    for selection in ["none", "demo"] {
        let request = http_client().post(gateway.url("/v1/responses")).json(&body);
        let response = request.header("x-toolwire-servers", selection).send().await.unwrap();
        assert_eq!((response.status().as_u16(), offered(&gateway).as_str()), (200, ""), "{selection}");
    }
    assert_eq!(servers.connected().len(), before);
}

/// Without `require_approval`, every call needs an approval. The run continues with the server that it was
/// started with.
#[tokio::test]
async fn a_call_waits_for_its_approval() {
    let (gateway, servers) = start().await;
    let mut tools = json!([entry("theirs", URL, json!({"authorization": TOKEN}))]);
    tools[0].as_object_mut().unwrap().remove("require_approval");
    let output = respond(&gateway, json!([user("ours")]), tools.clone()).await;
    assert_eq!(types(&output), ["mcp_list_tools", "mcp_approval_request"]);
    assert_eq!((output[1]["server_label"].as_str(), servers.calls()), (Some("theirs"), 0));
    let id = &output[1]["id"];
    let approval = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true});
    let input = json!([user("ours"), output[0], output[1], approval]);
    let output = respond(&gateway, input, tools).await;
    assert_eq!(types(&output), ["mcp_call", "message"]);
    assert_eq!((&output[0]["server_label"], &output[0]["approval_request_id"]), (&json!("theirs"), id));
    assert_eq!((servers.calls(), servers.connected().len()), (1, 1));
}

/// The client knows a server with a URL by its label, whatever name the gateway uses for it.
#[tokio::test]
async fn headers_select_servers_with_urls_by_their_labels() {
    let (gateway, servers) = start().await;
    // A configured server has the same name.
    let tools = json!([entry("demo", URL, json!({"allowed_tools": ["lookup"]}))]);
    let body = json!({"model": MODEL, "input": "ours", "tools": tools});
    for (selection, status) in [("demo", 200), ("demo-2", 400)] {
        let request = http_client().post(gateway.url("/v1/responses")).json(&body);
        let response = request.header("x-toolwire-servers", selection).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), offered(&gateway).as_str()),
            (status, "lookup"),
            "{selection}"
        );
        assert_eq!(servers.calls(), 1, "{selection}");
    }
}

/// Tokens are counted without connections: the tools of servers with a URL do not count, those of configured
/// servers do.
#[tokio::test]
async fn counting_tokens_connects_to_no_server() {
    let (gateway, servers) = start().await;
    let count = async |server: Value| {
        let body = message("say hi", server, json!({}));
        let (status, counted) = post(&gateway, "/v1/messages/count_tokens", &body).await;
        assert_eq!(status, 200, "{counted}");
        counted["input_tokens"].as_u64().unwrap()
    };
    let with_url = count(json!({"type": "url", "name": "theirs", "url": URL})).await;
    let configured = count(json!({"type": "url", "name": "demo", "url": "toolwire://demo"})).await;
    assert!(with_url < configured, "{with_url} {configured}");
    assert_eq!(servers.connected().len(), 0);
}

/// Tools of configured servers keep their names, and a server with a URL never takes the place of a
/// configured one.
#[tokio::test]
async fn names_of_servers_and_tools_never_collide() {
    let (gateway, servers) = start().await;
    let configured = json!({"type": "mcp", "server_label": "demo", "require_approval": "never", "allowed_tools": ["lookup"]});
    let other = |label: &str| entry(label, URL, json!({"allowed_tools": ["lookup"]}));
    let tools = json!([configured, other("a"), other("b")]);
    for (name, label, calls) in [("lookup", "demo", 0), ("a_lookup", "a", 1), ("b_lookup", "b", 2)] {
        let output = respond(&gateway, json!(format!("call {name}")), tools.clone()).await;
        assert_eq!(offered(&gateway), "lookup a_lookup b_lookup");
        let call = output.iter().find(|item| item["type"] == "mcp_call").unwrap();
        assert_eq!((&call["server_label"], &call["name"]), (&json!(label), &json!("lookup")));
        assert_eq!(servers.calls(), calls, "{name}");
    }
    // The client's label is the name of a configured server, but the URL is another one.
    let calls = servers.calls();
    let output = respond(&gateway, json!("ours"), json!([other("demo")])).await;
    assert_eq!((&output[1]["server_label"], &output[1]["output"]), (&json!("demo"), &json!("value of a")));
    assert_eq!((servers.calls(), gateway.running.calls.load(Ordering::SeqCst)), (calls + 1, 1));
    assert_eq!(offered(&gateway), "lookup");
    // `tool_choice` uses the client's labels.
    let choice = json!({"type": "mcp", "server_label": "b", "name": "lookup"});
    let body = json!({"model": MODEL, "input": "call b_lookup", "tools": tools, "tool_choice": choice});
    let (status, response) = post(&gateway, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{response}");
}

#[tokio::test]
async fn a_server_is_connected_once_for_each_request() {
    let (gateway, servers) = start().await;
    let one = |tools: &[&str]| entry("theirs", URL, json!({"allowed_tools": tools}));
    respond(&gateway, json!("ours"), json!([one(&["lookup", "fail"])])).await;
    assert_eq!((offered(&gateway).as_str(), servers.connected().len()), ("lookup fail", 1));
    // A label stands for one server, also if it is the same one.
    for other in [
        one(&["fail"]),
        entry("theirs", "https://tools.example/other", json!({})),
        entry("theirs", URL, json!({"authorization": TOKEN})),
        json!({"type": "mcp", "server_label": "theirs", "server_url": "toolwire://demo"}),
    ] {
        let body = json!({"model": MODEL, "input": "ours", "tools": [one(&["lookup"]), other]});
        let (status, error) = post(&gateway, "/v1/responses", &body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("tools[1].server_label")), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("each label must be unique"), "{error}");
    }
    let many: Vec<Value> = (0..9).map(|number| entry(&format!("s{number}"), URL, json!({}))).collect();
    let body = json!({"model": MODEL, "input": "ours", "tools": many});
    assert_eq!(post(&gateway, "/v1/responses", &body).await.0, 400);
    assert_eq!(servers.connected().len(), 1);
}

#[tokio::test]
async fn an_unavailable_server_is_reported() {
    let mut settings = GatewaySettings::default();
    settings.limits.request_server_timeout = Duration::from_millis(50);
    let (gateway, _) = start_with(settings).await;
    for (url, reason) in [
        ("https://down.example/mcp", "server `theirs` is unavailable: the test says so"),
        ("https://hanging.example/mcp", "server `theirs` is unavailable: connecting took too long"),
    ] {
        let down = entry("theirs", url, json!({}));
        let own = json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}});
        // Nothing else could be used, or the choice requires it.
        let choice = json!({"type": "mcp", "server_label": "theirs"});
        for body in [
            json!({"model": MODEL, "input": "say hi", "tools": [down]}),
            json!({"model": MODEL, "input": "say hi", "tools": [down, own], "tool_choice": choice}),
        ] {
            let (status, error) = post(&gateway, "/v1/responses", &body).await;
            assert_eq!((status, &error["error"]["message"]), (424, &json!(reason)), "{error}");
        }
        // The response shows what is missing.
        let output = respond(&gateway, json!("say hi"), json!([down, own])).await;
        assert_eq!(types(&output), ["mcp_list_tools", "message"]);
        assert_eq!((&output[0]["error"], &output[0]["tools"]), (&json!(reason), &json!([])));
        let output = respond(&gateway, json!("ours"), json!([down, entry("up", URL, json!({}))])).await;
        assert_eq!(types(&output), ["mcp_list_tools", "mcp_list_tools", "mcp_call", "message"]);
        let body = json!({"model": MODEL, "input": "say hi", "tools": [down, own], "stream": true});
        let response = http_client().post(gateway.url("/v1/responses")).json(&body).send().await.unwrap();
        let text = response.text().await.unwrap();
        assert!(text.contains("event: response.mcp_list_tools.failed"), "{text}");

        let server = json!({"type": "url", "name": "theirs", "url": url});
        let (status, error) = post(&gateway, "/v1/messages", &message("say hi", server, json!({}))).await;
        assert_eq!((status, &error["error"]["message"]), (400, &json!(reason)), "{error}");
    }
    // The tools of a server that was unavailable before are listed when it is available.
    let failed = json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "theirs", "tools": [], "error": "no"});
    let input = json!([user("say hi"), failed, user("say hi")]);
    let output = respond(&gateway, input, json!([entry("theirs", URL, json!({}))])).await;
    assert_eq!(types(&output), ["mcp_list_tools", "message"]);
}

/// Security rule 10: a URL that is not allowed is an error in each API, and its message contains no secret.
#[tokio::test]
async fn a_refused_url_is_an_error() {
    let (gateway, servers) = start().await;
    let url = "https://other.example/mcp?key=planted-key";
    let (status, error) = post(
        &gateway,
        "/v1/responses",
        &json!({"model": MODEL, "input": "ours", "tools": [entry("theirs", url, json!({"authorization": TOKEN}))]}),
    )
    .await;
    assert_eq!(status, 403, "{error}");
    let message_of = |error: &Value| error["error"]["message"].as_str().unwrap().to_owned();
    assert!(message_of(&error).contains("the test says so"), "{error}");
    assert!(!error.to_string().contains("planted"), "{error}");
    let server = json!({"type": "url", "name": "theirs", "url": url});
    let (status, error) = post(&gateway, "/v1/messages", &message("ours", server, json!({}))).await;
    assert_eq!(status, 403, "{error}");
    assert_eq!(servers.connected().len(), 2);
    assert_eq!(gateway.model.requests().len(), 0, "the model is not asked");
}

#[tokio::test]
async fn headers_of_the_connection_cannot_be_set() {
    let (gateway, servers) = start().await;
    for (fields, problem) in [
        (json!({"headers": {"Host": "evil.test"}}), "must not set the header `host`"),
        (json!({"headers": {"Mcp-Session-Id": "1"}}), "must not set the header `mcp-session-id`"),
        (json!({"headers": {"Content-Length": "1"}}), "must not set the header `content-length`"),
        (json!({"headers": {"Transfer-Encoding": "chunked"}}), "must not set the header `transfer-encoding`"),
        (json!({"headers": {"X-Forwarded-For": "1.2.3.4"}}), "must not set the header `x-forwarded-for`"),
        (json!({"headers": {"a b": "1"}}), "has a header that is not valid"),
        (json!({"headers": {"a": "planted\r\nb: c"}}), "has a header that is not valid"),
        (json!({"authorization": "planted\nx"}), "has a header that is not valid"),
        (json!({"authorization": "planted", "headers": {"Authorization": "planted"}}), "has both"),
        (json!({"headers": {"a": "planted".repeat(3_000)}}), "too long"),
        (json!({"headers": {"a": ["planted"]}}), "string"),
    ] {
        let body = json!({"model": MODEL, "input": "ours", "tools": [entry("theirs", URL, fields)]});
        let (status, error) = post(&gateway, "/v1/responses", &body).await;
        assert_eq!(status, 400, "{error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(problem) && !error.to_string().contains("planted"), "{error}");
    }
    assert_eq!(servers.connected().len(), 0);
}

/// Each connection belongs to the key of the client, and an approval to the client that was asked.
#[tokio::test]
async fn servers_belong_to_the_key_of_the_client() {
    const KEYS: [(&str, &str); 2] =
        [("one", "key-one-0123456789abcdef0123456789"), ("two", "key-two-0123456789abcdef0123456789")];
    let mut settings = GatewaySettings::default();
    settings.keys = KEYS.iter().fold(Keys::default(), |keys, (name, key)| keys.with(name, key));
    let (gateway, servers) = start_with(settings).await;
    let send = async |key: &str, input: Value| {
        let tools =
            json!([entry("theirs", URL, json!({"authorization": TOKEN, "require_approval": "always"}))]);
        let body = json!({"model": MODEL, "input": input, "tools": tools});
        let request = http_client().post(gateway.url("/v1/responses")).header("x-api-key", key).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (_, asked) = send(KEYS[0].1, json!("ours")).await;
    send(KEYS[1].1, json!("ours")).await;
    let clients: Vec<Option<String>> = servers.connected().into_iter().map(|server| server.client).collect();
    assert!(
        clients.iter().all(Option::is_some) && clients.len() == 2 && clients[0] != clients[1],
        "{clients:?}"
    );
    let id = &asked["output"][1]["id"];
    let approval =
        json!([user("ours"), {"type": "mcp_approval_response", "approval_request_id": id, "approve": true}]);
    let (status, error) = send(KEYS[1].1, approval.clone()).await;
    assert_eq!((status, servers.calls()), (400, 0), "{error}");
    let (status, response) = send(KEYS[0].1, approval).await;
    assert_eq!((status, servers.calls()), (200, 1), "{response}");
}
