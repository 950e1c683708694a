//! A gateway with a scripted model and a few tools. The text of the user selects what the model does.

#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod content;
pub(crate) mod forms;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwire_agent::Functions;
use toolwire_contract::elicitation::{ElicitKind, ElicitRequest};
use toolwire_contract::model::{
    ModelError, ModelEvent, ModelLimits, ModelRequest, ModelResponse, StopReason, UnusableCall, Usage,
};
use toolwire_contract::toolbox::{CallError, CallOptions, ToolServer, Toolbox};
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolResult};
use toolwire_dialect::Dialect;
use toolwire_dialect::request::ApiSupport;
use toolwire_gateway::{
    Gateway, GatewaySettings, ModelCatalog, RequestServers, ServedModel, UnknownModel, page::PageParts,
};
use toolwire_store::InMemory;
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

/// The name of the scripted model.
pub(crate) const MODEL: &str = "scripted";

/// A gateway that serves on a port of its own until it is dropped.
pub(crate) struct TestGateway {
    pub(crate) address: SocketAddr,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) running: Running,
    /// How many of the next requests with results fail.
    pub(crate) failures: Arc<AtomicUsize>,
    stop: CancellationToken,
}

/// The number of calls of the tool `wait` that are running, and of all calls so far.
#[derive(Clone, Default)]
pub(crate) struct Running {
    pub(crate) now: Arc<AtomicUsize>,
    pub(crate) calls: Arc<AtomicUsize>,
}

impl TestGateway {
    pub(crate) async fn start() -> TestGateway {
        TestGateway::with(GatewaySettings::default()).await
    }

    pub(crate) async fn with(settings: GatewaySettings) -> TestGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        TestGateway::on(listener, settings).await
    }

    pub(crate) async fn on(listener: TcpListener, settings: GatewaySettings) -> TestGateway {
        TestGateway::create(listener, settings, None, None).await.0
    }

    /// Starts a gateway with the web page. Also returns a token for an administrator.
    pub(crate) async fn with_page(settings: GatewaySettings) -> (TestGateway, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let parts = PageParts::new(Arc::new(InMemory::new()));
        let (gateway, token) = TestGateway::create(listener, settings, None, Some(parts)).await;
        (gateway, token.unwrap())
    }

    /// Starts a gateway with these parts of the web page.
    pub(crate) async fn with_page_parts(settings: GatewaySettings, parts: PageParts) -> TestGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        TestGateway::create(listener, settings, None, Some(parts)).await.0
    }

    /// Starts a gateway that connects to servers that requests name by URL.
    pub(crate) async fn with_request_servers(
        settings: GatewaySettings,
        servers: Arc<dyn RequestServers>,
    ) -> TestGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        TestGateway::create(listener, settings, Some(servers), None).await.0
    }

    async fn create(
        listener: TcpListener,
        settings: GatewaySettings,
        servers: Option<Arc<dyn RequestServers>>,
        page: Option<PageParts>,
    ) -> (TestGateway, Option<String>) {
        let address = listener.local_addr().unwrap();
        let limits = ModelLimits { tools: Some(64), ..ModelLimits::default() };
        let failures = Arc::new(AtomicUsize::new(0));
        let left = failures.clone();
        let play = move |request: &ModelRequest| {
            let has_results = request.messages.last().is_some_and(|last| last.results().next().is_some());
            let fails = has_results
                && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            if fails { broken() } else { play(request) }
        };
        let model = Arc::new(ScriptedModel::from_fn(play).with_name(MODEL).with_limits(limits));
        let running = Running::default();
        let (models, tools) = (Arc::new(OneModel(model.clone())), tools(&running));
        let gateway = match servers {
            Some(servers) => Gateway::with_request_servers(models, tools, servers, settings),
            None => Gateway::new(models, tools, settings),
        };
        let gateway = match page {
            Some(parts) => gateway.with_page(parts),
            None => gateway,
        };
        let token = gateway.new_admin_token();
        let stop = CancellationToken::new();
        let serving = stop.clone();
        tokio::spawn(async move { gateway.serve(listener, serving).await.unwrap() });
        (TestGateway { address, model, running, failures, stop }, token)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct OneModel(Arc<ScriptedModel>);

impl ModelCatalog for OneModel {
    fn names(&self) -> Vec<String> {
        [MODEL, "vendor/scripted"].map(str::to_owned).into()
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        if [MODEL, "vendor/scripted", "openai/scripted", "anthropic/scripted"].contains(&name) {
            let mut served = ServedModel::new(self.0.clone());
            served.dialect = match name.split_once('/') {
                Some(("openai", _)) => Some(Dialect::OpenAi),
                Some(("anthropic", _)) => Some(Dialect::Anthropic),
                _ => None,
            };
            return Ok(served);
        }
        if name == forms::FILES {
            return Ok(forms::served(self.0.clone()));
        }
        if name == "text-only" {
            return Ok(ServedModel::new(Arc::new(content::TextOnly(self.0.clone()))));
        }
        if name == "compatible" {
            let mut served = ServedModel::new(self.0.clone());
            (served.dialect, served.api_support) = (Some(Dialect::OpenAi), ApiSupport::Partial);
            return Ok(served);
        }
        if name == "mixed" {
            let mut served = ServedModel::new(self.0.clone());
            served.different_apis =
                [Dialect::OpenAi, Dialect::Anthropic].map(|dialect| (dialect, ApiSupport::Complete)).into();
            return Ok(served);
        }
        if let Ok(dialect) = name.parse::<Dialect>() {
            // The provider has this API, and requests do not go straight to it.
            let mut served = ServedModel::new(self.0.clone());
            served.dialect = Some(dialect);
            return Ok(served);
        }
        Err(UnknownModel { name: name.to_owned(), problem: "it is not configured".to_owned() })
    }
}

/// The tools of the servers: `lookup`, `fail`, `picture`, `wait`, and `delete`, which needs approval and can
/// be made to run forever.
pub(crate) fn tools(running: &Running) -> Arc<dyn Toolbox> {
    let tool = |name: &str, properties: Value| {
        let mut tool = Tool::new(name, json!({"type": "object", "properties": properties}));
        tool.description = Some(format!("The tool {name}"));
        tool.annotations = json!({"readOnlyHint": name != "delete"}).as_object().cloned();
        tool
    };
    let running = running.clone();
    let counted = move || {
        running.calls.fetch_add(1, Ordering::SeqCst);
        running.now.fetch_add(1, Ordering::SeqCst);
        RunningCall(running.now.clone())
    };
    let (count, count_deletion) = (counted.clone(), counted.clone());
    let key = |arguments: &serde_json::Map<String, Value>| {
        arguments.get("key").map_or(String::new(), |key| key.as_str().unwrap_or_default().to_owned())
    };
    let image = Content::Image {
        data: PNG.to_owned(),
        mime_type: "image/png".to_owned(),
        extra: serde_json::Map::new(),
    };
    let picture = ToolResult { content: Some(vec![Content::text("a dot"), image]), ..ToolResult::default() };
    Arc::new(Demo(
        Functions::new()
            .with(tool("lookup", json!({"key": {"type": "string"}})), move |arguments| {
                let _running = count();
                let key = key(&arguments);
                async move { Ok::<_, String>(format!("value of {key}")) }
            })
            .with(tool("fail", json!({})), |_| async { Err::<String, _>("it is broken".to_owned()) })
            .with(tool("picture", json!({})), move |_| {
                let picture = picture.clone();
                async move { Ok::<_, String>(picture) }
            })
            .with(tool("delete", json!({})), move |arguments| {
                let held = arguments.contains_key("hold").then(&count_deletion);
                async move {
                    if let Some(_running) = held {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, String>("deleted")
                }
            })
            .with(tool("wait", json!({"milliseconds": {"type": "integer"}})), move |arguments| {
                let running = counted();
                let milliseconds = arguments.get("milliseconds").and_then(Value::as_u64).unwrap_or(3_600_000);
                async move {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                    drop(running);
                    Ok::<_, String>("waited")
                }
            }),
    ))
}

/// The tools of a server named `demo`.
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
        match &options.elicitation {
            // The server asks at once.
            Some(elicit) if arguments["key"] == "question" => {
                let kind = ElicitKind::Form { schema: json!({"type": "object", "properties": {}}) };
                let reply = elicit("demo", ElicitRequest::new("Which branch?", kind));
                Box::pin(async move { Ok(ToolResult::text(format!("reply: {:?}", reply.await))) })
            }
            _ => self.0.call(tool, arguments, options),
        }
    }
}

/// One red dot.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

struct RunningCall(Arc<AtomicUsize>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Plays the scenario that the last text of the user names. The tools of the client are `get_weather` and
/// `get_time`.
pub(crate) fn play(request: &ModelRequest) -> ScriptedTurn {
    let question = last_question(request);
    let results = results_since_question(request);
    let mut words = question.split_whitespace();
    let scenario = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let lookup = |id: &'static str, key: &str| (id, "lookup", json!({"key": key}));
    let weather = |id: &'static str, city: &str| (id, "get_weather", json!({"city": city}));
    let search_tool =
        request.tools.iter().map(|tool| tool.name.as_str()).find(|name| name.contains("search"));
    let search = |id: &'static str| (id, search_tool.unwrap_or_default(), json!({"query": "lookup fail"}));
    let results_turn = || ScriptedTurn::text_in_chunks(&format!("Results: {}.", results.join(" | ")), 5);
    match (scenario, results.len()) {
        (name, results) if content::is_known(name) => content::play(name, results, request),
        ("say", _) => ScriptedTurn::text_in_chunks(&rest.join(" "), 4),
        ("call", 0) => ScriptedTurn::calls([("1", rest[0], json!({"key": "a"}))]),
        ("call-then", done @ (0 | 1)) => ScriptedTurn::calls([("1", rest[done], json!({"key": "a"}))]),
        ("ours", 0) => ScriptedTurn::calls([lookup("1", "a")]),
        ("question", 0) => ScriptedTurn::calls([lookup("1", "question")]),
        ("find" | "find-client", 0) => ScriptedTurn::calls([search("1")]),
        ("find", 1) | ("find-client" | "find-mixed", 2) => ScriptedTurn::calls([lookup("2", "a")]),
        ("find-client", 1) => ScriptedTurn::calls([weather("2", "Paris")]),
        ("find-mixed", 0) => ScriptedTurn::calls([search("1"), weather("2", "Paris")]),
        ("rounds", 0) => with_text("First.", ScriptedTurn::calls([lookup("1", "a")])),
        ("rounds", 1) => with_text("Second.", ScriptedTurn::calls([lookup("1", "b")])),
        ("parallel", 0) => ScriptedTurn::calls([lookup("1", "a"), ("2", "fail", json!({}))]),
        ("client", 0) => with_text("I look.", ScriptedTurn::calls([weather("1", "Paris")])),
        ("cut", _) => {
            let mut turn = with_text("I look.", ScriptedTurn::calls([weather("1", "Paris")]));
            if let Some(Ok(response)) = &mut turn.end {
                response.stop = StopReason::Length;
                let problem = "the response was cut off".to_owned();
                response.unusable.push(UnusableCall { id: "1".to_owned(), problem });
            }
            turn
        }
        ("clients", 0) => ScriptedTurn::calls([weather("1", "Paris"), ("2", "get_time", json!({}))]),
        ("pause", 0) => ScriptedTurn::calls([lookup("1", "a"), weather("2", "Paris")]),
        ("pause-late", 0) => ScriptedTurn::calls([lookup("1", "a"), weather("2", "Paris")]),
        ("pause-late", 2) => ScriptedTurn::calls([weather("1", "Rome")]),
        ("pause-twice", 0) => ScriptedTurn::calls([lookup("1", "a"), weather("2", "Paris")]),
        ("pause-twice", 2) => ScriptedTurn::calls([lookup("1", "b"), weather("2", "Rome")]),
        ("comment", 0) => with_text("A comment.", ScriptedTurn::calls([lookup("1", "a")])),
        ("mixed-clients", 0) => {
            ScriptedTurn::calls([lookup("1", "a"), weather("2", "Paris"), ("3", "get_time", json!({}))])
        }
        ("mixed", 0) => ScriptedTurn::calls([lookup("1", "a"), weather("2", "Paris"), lookup("3", "b")]),
        ("late", 0) => with_text("First.", ScriptedTurn::calls([lookup("1", "a")])),
        ("late", 1) => with_text("Then.", ScriptedTurn::calls([weather("1", "Paris"), lookup("2", "b")])),
        ("picture", 0) => ScriptedTurn::calls([("1", "picture", json!({}))]),
        ("delete", 0) => ScriptedTurn::calls([("1", "delete", json!({}))]),
        // More calls than run at the same time; all but the last do not end.
        ("hold", 0) => {
            let held =
                ["1", "2", "3", "4", "5", "6", "7", "8"].map(|id| (id, "delete", json!({"hold": true})));
            ScriptedTurn::calls(held.into_iter().chain([("9", "delete", json!({}))]))
        }
        ("comment-hold", 0) => {
            with_text("A comment.", ScriptedTurn::calls([("1", "delete", json!({"hold": true}))]))
        }
        ("tell-wait", 0) => {
            with_text("Wait.", ScriptedTurn::calls([("1", "wait", json!({"milliseconds": 500}))]))
        }
        ("wait", 0) => {
            let milliseconds: u64 = rest.first().map_or(3_600_000, |text| text.parse().unwrap());
            ScriptedTurn::calls([("1", "wait", json!({"milliseconds": milliseconds}))])
        }
        ("loop", _) if request.tool_choice != toolwire_contract::model::ToolChoice::None => {
            ScriptedTurn::calls([lookup("1", "again")])
        }
        ("thinking", _) => {
            let mut turn = ScriptedTurn::text_in_chunks("Done.", 2);
            turn.events.insert(0, ModelEvent::Thinking("Let me think.".to_owned()));
            turn
        }
        ("rounds-json", 0) => with_text("Let me look.", ScriptedTurn::calls([lookup("1", "a")])),
        ("json" | "rounds-json", _) => ScriptedTurn::text_in_chunks(r#"{"city":"Paris","degrees":20}"#, 5),
        ("refuse", _) => {
            let mut turn = ending("I cannot help.", StopReason::Refusal);
            turn.events = ["I cannot ", "help."].map(|part| ModelEvent::Refusal(part.to_owned())).into();
            turn
        }
        ("refusal", _) => ending("I cannot help.", StopReason::Refusal),
        ("sequence", _) => ending("one", StopReason::Sequence("two".to_owned())),
        ("length", _) => ending("This is too", StopReason::Length),
        ("status", _) => ScriptedTurn::error(ModelError::Refused {
            model: MODEL.to_owned(),
            status: rest.first().and_then(|status| status.parse().ok()),
            message: "the provider says no".to_owned(),
            hint: None,
            retry_after: None,
            body: Value::Null,
        }),
        ("refused", _) => ScriptedTurn::error(refused(&rest)),
        ("late-retry", 0) => ScriptedTurn::calls([lookup("1", "a")]),
        ("retry-in-an-hour" | "late-retry", _) => {
            let mut turn = ScriptedTurn::text("Late.");
            let after = Duration::from_secs(3_600);
            let mut error = refused(&["429", "slow_down"]);
            if let ModelError::Refused { retry_after, .. } = &mut error {
                *retry_after = Some(after);
            }
            turn.events.push(ModelEvent::Retrying { after, retry: 1, max_retries: 3, error });
            turn
        }
        ("late-status", 0) => ScriptedTurn::calls([lookup("1", "a")]),
        ("late-status", _) => ScriptedTurn::error(ModelError::Refused {
            model: MODEL.to_owned(),
            status: Some(503),
            message: "the provider is busy".to_owned(),
            hint: None,
            retry_after: None,
            body: Value::Null,
        }),
        ("unreachable", _) => ScriptedTurn::error(ModelError::Unreachable {
            model: MODEL.to_owned(),
            problem: "Connection refused (os error 111)".to_owned(),
            hint: Some("check the base URL http://10.0.0.7:9911 and the network".to_owned()),
        }),
        ("page", _) => {
            let page = "<html><address>Server at 10.0.0.7 Port 9911</address></html>";
            ScriptedTurn::error(ModelError::Refused {
                model: MODEL.to_owned(),
                status: Some(502),
                message: page.to_owned(),
                hint: None,
                retry_after: None,
                body: json!(page),
            })
        }
        ("broken", _) => broken(),
        ("hang", _) => ScriptedTurn { events: vec![ModelEvent::Text("Half a".to_owned())], end: None },
        (_, 0) => ScriptedTurn::text_in_chunks("I know no such scenario.", 6),
        _ => results_turn(),
    }
}

fn broken() -> ScriptedTurn {
    let problem = "the connection was reset".to_owned();
    ScriptedTurn {
        events: vec![ModelEvent::Text("Half a".to_owned())],
        end: Some(Err(ModelError::Broken { model: MODEL.to_owned(), problem })),
    }
}

/// The error of a provider with a status and a code.
fn refused(words: &[&str]) -> ModelError {
    ModelError::Refused {
        model: MODEL.to_owned(),
        status: words[0].parse().ok(),
        message: "the provider says no".to_owned(),
        hint: None,
        retry_after: Some(Duration::from_secs(17)),
        body: json!({"error": {"message": "no", "type": words[1], "code": words[1], "param": "temperature"}}),
    }
}

fn with_text(text: &str, mut turn: ScriptedTurn) -> ScriptedTurn {
    turn.events.insert(0, ModelEvent::Text(text.to_owned()));
    if let Some(Ok(response)) = &mut turn.end {
        response.message.content.insert(0, Block::Content(Content::text(text)));
    }
    turn
}

fn ending(text: &str, stop: StopReason) -> ScriptedTurn {
    let usage = Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
    let response = ModelResponse { message: Message::assistant(text), stop, usage, unusable: Vec::new() };
    ScriptedTurn { events: vec![ModelEvent::Text(text.to_owned())], end: Some(Ok(response)) }
}

pub(crate) fn last_question(request: &ModelRequest) -> String {
    let users = request.messages.iter().rev().filter(|message| message.role == Role::User);
    let mut texts = users.flat_map(|message| message.content.iter().rev()).filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.clone()),
        _ => None,
    });
    texts.next().unwrap_or_default()
}

/// Returns the texts of all results after the last text of the user.
fn results_since_question(request: &ModelRequest) -> Vec<String> {
    let is_question = |block: &Block| matches!(block, Block::Content(Content::Text { .. }));
    let position = request
        .messages
        .iter()
        .rposition(|message| message.role == Role::User && message.content.iter().any(is_question));
    let later = request.messages.iter().skip(position.map_or(0, |position| position + 1));
    let text = |result: &ToolResult| {
        let blocks = result.blocks().iter().map(|block| match block {
            Content::Text { text, .. } => text.clone(),
            Content::Image { .. } => "[image]".to_owned(),
            other => format!("{other:?}"),
        });
        blocks.collect::<Vec<_>>().join(" ")
    };
    later.flat_map(|message| message.results()).map(|(_, result)| text(result)).collect()
}
