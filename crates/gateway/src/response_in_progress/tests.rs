//! Responses that a client receives only in part, and responses that fail after they have started. The tests
//! read the body as a connection does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use toolwire_agent::Functions;
use toolwire_contract::model::{ModelError, ModelRequest};
use toolwire_contract::toolbox::{CallError, CallOptions, ToolServer, Toolbox};
use toolwire_contract::{Block, Tool, ToolResult};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use crate::response::HttpResponse;
use crate::{Gateway, GatewaySettings, ModelCatalog, ServedModel, UnknownModel};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);

struct Scripted(Arc<ScriptedModel>);

impl ModelCatalog for Scripted {
    fn names(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }

    fn find(&self, _: &str) -> Result<ServedModel, UnknownModel> {
        Ok(ServedModel::new(self.0.clone()))
    }
}

/// The tools of a server named `demo`: `large` with a large result, `write`, which must not be repeated, and
/// `slow`, which takes 40 seconds.
struct Demo(Functions);

impl Toolbox for Demo {
    fn tools(&self) -> Arc<[Tool]> {
        self.0.tools()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let is_listed = self.0.tools().iter().any(|listed| listed.name == tool);
        is_listed.then(|| ToolServer { name: "demo".to_owned(), title: None })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        self.0.call(tool, arguments, options)
    }
}

struct TestGateway {
    gateway: Gateway,
    model: Arc<ScriptedModel>,
    calls: Arc<AtomicUsize>,
}

impl TestGateway {
    fn new(play: impl Fn(&ModelRequest) -> ScriptedTurn + Send + Sync + 'static) -> TestGateway {
        let calls: Arc<AtomicUsize> = Arc::default();
        let tool = |name: &str, read_only: bool| {
            let mut tool = Tool::new(name, json!({"type": "object"}));
            tool.annotations = json!({"readOnlyHint": read_only}).as_object().cloned();
            tool
        };
        let count = |calls: &Arc<AtomicUsize>| {
            let calls = calls.clone();
            move || calls.fetch_add(1, Ordering::SeqCst)
        };
        let (large, write, slow) = (count(&calls), count(&calls), count(&calls));
        let tools = Functions::new()
            .with(tool("large", true), move |_| {
                large();
                async { Ok::<_, String>("x".repeat(20_000)) }
            })
            .with(tool("write", false), move |_| {
                write();
                async { Ok::<_, String>("written") }
            })
            .with(tool("slow", true), move |_| {
                slow();
                async {
                    tokio::time::sleep(Duration::from_secs(40)).await;
                    Ok::<_, String>("late")
                }
            });
        let model = Arc::new(ScriptedModel::from_fn(play));
        let mut settings = GatewaySettings::default();
        settings.limits.run_timeout = Duration::from_secs(100);
        let gateway = Gateway::new(Arc::new(Scripted(model.clone())), Arc::new(Demo(tools)), settings);
        TestGateway { gateway, model, calls }
    }

    async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        let request = Request::builder().method(Method::POST).uri(path).header("host", LOCAL.to_string());
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).expect("a request");
        self.gateway.handle(request, LOCAL, LOCAL.ip()).await
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Reads a complete response.
async fn read(response: HttpResponse) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a complete body").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| panic!("no JSON: {body:?}")))
}

fn request(input: &[Value]) -> Value {
    let tools = json!([
        {"type": "mcp", "server_label": "demo", "require_approval": "always"},
        {"type": "function", "name": "mine", "parameters": {"type": "object"}},
    ]);
    json!({"model": "scripted", "input": input, "tools": tools})
}

/// Sends the input, and adds the output and the approval of its calls. Returns the output.
async fn ask(gateway: &TestGateway, input: &mut Vec<Value>) -> Vec<Value> {
    let (status, response) = read(gateway.post("/v1/responses", &request(input)).await).await;
    assert_eq!(status, 200, "{response}");
    let output = response["output"].as_array().expect("an output").clone();
    input.extend(output.clone());
    let requests = output.iter().filter(|item| item["type"] == "mcp_approval_request");
    input.extend(requests.map(
        |item| json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true}),
    ));
    output
}

fn types(output: &Value) -> Vec<&str> {
    let items = output.as_array().expect("an output");
    items.iter().map(|item| item["type"].as_str().expect("a type")).collect()
}

/// Makes one call per step, in this order, and then writes a text.
fn play(names: &'static [&'static str]) -> impl Fn(&ModelRequest) -> ScriptedTurn {
    move |request| {
        let is_result = |block: &&Block| matches!(block, Block::Result { .. });
        let results = request.messages.iter().flat_map(|message| &message.content).filter(is_result).count();
        match names.get(results) {
            Some(name) => ScriptedTurn::calls([("1", *name, json!({}))]),
            None => ScriptedTurn::text_in_chunks("Done.", 2),
        }
    }
}

/// A client disconnects after any number of parts of a stream. It repeats its request, and gets the response;
/// the call does not run again.
#[tokio::test]
async fn a_response_after_an_approval_can_be_requested_again_until_it_was_delivered() {
    let mut parts = 0;
    loop {
        let gateway = TestGateway::new(play(&["large"]));
        let mut input = vec![json!({"role": "user", "content": "go"})];
        ask(&gateway, &mut input).await;
        let mut streamed = request(&input);
        streamed["stream"] = json!(true);
        let mut body = gateway.post("/v1/responses", &streamed).await.into_body();
        let mut has_ended = false;
        for _ in 0..parts {
            has_ended = body.frame().await.is_none();
        }
        drop(body);
        let (status, response) = read(gateway.post("/v1/responses", &request(&input)).await).await;
        assert_eq!(gateway.calls(), 1, "{parts} parts");
        if has_ended {
            assert_eq!(status, 400, "an approval is valid once: {response}");
            break;
        }
        assert_eq!(status, 200, "{parts} parts: {response}");
        assert_eq!(types(&response["output"]), ["mcp_call", "message"], "{parts} parts");
        assert_eq!(response["output"][1]["content"][0]["text"], "Done.");
        assert!(response["output"][0]["output"].as_str().is_some_and(|text| text.len() == 20_000));
        parts += 1;
    }
    assert!(parts > 2, "the stream has several parts");
}

/// A complete response that the connection did not take is sent again, without another request to the model.
#[tokio::test]
async fn a_complete_response_after_an_approval_is_kept_until_it_was_taken() {
    let gateway = TestGateway::new(play(&["large"]));
    let mut input = vec![json!({"role": "user", "content": "go"})];
    ask(&gateway, &mut input).await;
    for _ in 0..2 {
        drop(gateway.post("/v1/responses", &request(&input)).await);
    }
    let (status, response) = read(gateway.post("/v1/responses", &request(&input)).await).await;
    assert_eq!((status, types(&response["output"])), (200, vec!["mcp_call", "message"]));
    assert_eq!((gateway.calls(), gateway.model.requests().len()), (1, 2));
    assert_eq!(read(gateway.post("/v1/responses", &request(&input)).await).await.0, 400);
}

/// The response to an approval is the next request for approval, or a call of the client: neither is lost.
#[tokio::test]
async fn requests_to_the_client_after_an_approval_are_kept_until_they_were_taken() {
    let gateway = TestGateway::new(play(&["large", "write", "mine"]));
    let mut input = vec![json!({"role": "user", "content": "go"})];
    ask(&gateway, &mut input).await;
    drop(gateway.post("/v1/responses", &request(&input)).await);
    let output = ask(&gateway, &mut input).await;
    assert_eq!(types(&json!(output)), ["mcp_call", "mcp_approval_request"]);
    assert_eq!(gateway.calls(), 1);
    drop(gateway.post("/v1/responses", &request(&input)).await);
    let output = ask(&gateway, &mut input).await;
    assert_eq!(types(&json!(output)), ["mcp_call", "function_call"]);
    assert_eq!((output[0]["output"].as_str(), gateway.calls()), (Some("written"), 2));
    input.push(json!({"type": "function_call_output", "call_id": output[1]["call_id"], "output": "mine"}));
    let output = ask(&gateway, &mut input).await;
    assert_eq!(output[0]["content"][0]["text"], "Done.");
    let requests = gateway.model.requests();
    let messages = &requests.last().expect("a request").messages;
    let results = messages.iter().flat_map(|message| message.results()).count();
    assert_eq!((results, requests.len()), (3, 4), "{messages:?}");
}

/// A client that disconnects at once, before the run has begun, loses nothing.
#[tokio::test]
async fn a_request_that_is_cancelled_at_once_can_be_repeated() {
    let gateway = TestGateway::new(play(&["write"]));
    let mut input = vec![json!({"role": "user", "content": "go"})];
    ask(&gateway, &mut input).await;
    let body = request(&input);
    for polls in 0..4 {
        let mut sending = std::pin::pin!(gateway.post("/v1/responses", &body));
        let mut is_ready = false;
        for _ in 0..polls {
            is_ready = is_ready || futures::poll!(sending.as_mut()).is_ready();
        }
    }
    let (status, response) = read(gateway.post("/v1/responses", &body).await).await;
    assert_eq!((status, gateway.calls()), (200, 1), "{response}");
    assert_eq!(response["output"][0]["output"], "written", "{response}");
}

/// A provider uses the ids of calls again. A repeated approval does not approve a later call that the client
/// has not seen.
#[tokio::test(start_paused = true)]
async fn a_decision_does_not_apply_to_a_later_call_with_the_same_id() {
    let gateway = TestGateway::new(|request| {
        let results = request.messages.iter().map(|message| message.results().count()).sum();
        match results {
            0 => ScriptedTurn::calls([("c0", "write", json!({})), ("c1", "write", json!({}))]),
            2 => ScriptedTurn::calls([("c0", "slow", json!({})), ("c1", "write", json!({}))]),
            _ => ScriptedTurn::text_in_chunks("Done.", 2),
        }
    });
    let body = |input: &[Value]| {
        let mut body = request(input);
        body["tools"][0]["require_approval"] = json!({"never": {"tool_names": ["slow"]}});
        body
    };
    let mut input = vec![json!({"role": "user", "content": "go"})];
    let (status, response) = read(gateway.post("/v1/responses", &body(&input)).await).await;
    let expected = ["mcp_list_tools", "mcp_approval_request", "mcp_approval_request"];
    assert_eq!((status, types(&response["output"])), (200, expected.to_vec()), "{response}");
    let output = response["output"].as_array().expect("an output");
    input.extend(output.iter().cloned());
    input.extend(output[1..].iter().map(
        |item| json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true}),
    ));
    let mut streamed = body(&input);
    streamed["stream"] = json!(true);
    let mut stream = gateway.post("/v1/responses", &streamed).await.into_body();
    while gateway.calls() < 3 {
        stream.frame().await.expect("the stream does not end during the slow call").expect("no error");
    }
    drop(stream);
    let (status, response) = read(gateway.post("/v1/responses", &body(&input)).await).await;
    assert_eq!(status, 200, "{response}");
    let expected = ["mcp_call", "mcp_call", "mcp_call", "mcp_approval_request"];
    assert_eq!(types(&response["output"]), expected, "{response}");
    assert_eq!(gateway.calls(), 4, "two writes, and the slow call twice");
}

fn broken() -> ScriptedTurn {
    let problem = "the connection was reset".to_owned();
    ScriptedTurn {
        events: Vec::new(),
        end: Some(Err(ModelError::Broken { model: "scripted".to_owned(), problem })),
    }
}

/// A response that began with white space fails. After a call, the body is an error in the API's form,
/// because clients repeat a request whose response is cut; without a call, they may repeat it.
#[tokio::test(start_paused = true)]
async fn a_late_error_after_a_call_is_a_complete_body() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let messages = json!([{"role": "user", "content": "go"}]);
        let mut body = json!({"model": "scripted", "max_tokens": 9, "messages": messages});
        if path == "/v1/responses" {
            body = json!({"model": "scripted", "input": "go"});
        }
        let calling = play(&["slow"]);
        let gateway = TestGateway::new(move |request| match request.messages.len() {
            1 => calling(request),
            _ => broken(),
        });
        let response = gateway.post(path, &body).await;
        let id = response.headers()["request-id"].to_str().expect("an id").to_owned();
        let bytes = response.into_body().collect().await.expect("a complete body").to_bytes();
        assert!(bytes.starts_with(b" \n"), "the response began before: {bytes:?}");
        let error: Value = serde_json::from_slice(&bytes).expect("JSON");
        match path {
            "/v1/messages" => {
                assert_eq!((&error["type"], &error["request_id"]), (&json!("error"), &json!(id)));
                assert_eq!(error["error"]["type"], "api_error", "{error}");
            }
            "/v1/responses" => assert_eq!(error["status"], "failed", "{error}"),
            _ => assert!(error["error"]["message"].is_string() && error.get("choices").is_none(), "{error}"),
        }
        assert_eq!(gateway.calls(), 1);

        let hanging = TestGateway::new(|_| ScriptedTurn { events: Vec::new(), end: None });
        let cut = hanging.post(path, &body).await.into_body().collect().await;
        assert_eq!(cut.is_err(), path != "/v1/responses", "{path}");
    }
}
