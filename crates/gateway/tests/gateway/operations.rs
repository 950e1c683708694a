//! The state of the gateway for its operators: metrics, readiness, and what happens when it stops or gets
//! another configuration. The numbers are those of `docs/security-tests.md`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{MODEL, Running, TestGateway, tools};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use toolwire_contract::Message;
use toolwire_contract::model::{Model, ModelError, ModelEvent, ModelRequest, ModelResponse, StopReason};
use toolwire_gateway::{
    Gateway, GatewaySettings, Keys, ModelCatalog, ReadinessCheck, ReadinessChecks, ServedModel, UnknownModel,
};
use toolwire_testkit::http_client;

const KEY: &str = "tw_0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "tw_other456789abcdef0123456789abcdef";
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The values of the metrics by name and labels.
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    async fn read(url: &str) -> Metrics {
        let response = http_client().get(format!("{url}/metrics")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
        Metrics::parse(&response.text().await.unwrap())
    }

    /// Checks the format too: each sample follows the type of its metric, and no series is there twice.
    fn parse(text: &str) -> Metrics {
        let (mut values, mut current) = (BTreeMap::new(), String::new());
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                current = declared.split(' ').next().unwrap().to_owned();
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(&current), "`{line}` is not below the type of its metric");
            let value = if value == "+Inf" { f64::INFINITY } else { value.parse().unwrap() };
            assert!(values.insert(series.to_owned(), value).is_none(), "twice: {series}");
        }
        Metrics(values)
    }

    /// Returns the sum of the series of a metric that have these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matches = |series: &&String| {
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            found == name && labels.iter().all(|label| rest.contains(label))
        };
        self.0.keys().filter(matches).map(|series| self.0[series]).sum()
    }

    fn series(&self) -> usize {
        self.0.len()
    }
}

fn question(text: &str) -> Value {
    json!({"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

async fn ask(gateway: &TestGateway, body: &Value) -> u16 {
    let request = http_client().post(gateway.url("/v1/chat/completions")).json(body);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    response.bytes().await.unwrap();
    status
}

/// What was sent is what is counted, in the metrics and in the traffic of the page.
#[tokio::test]
async fn the_counts_agree_with_what_was_sent() {
    let (gateway, _) = TestGateway::with_page(GatewaySettings::default()).await;
    for _ in 0..3 {
        assert_eq!(ask(&gateway, &question("say hello")).await, 200);
    }
    assert_eq!(ask(&gateway, &question("parallel")).await, 200);
    let mut streamed = question("rounds");
    streamed["stream"] = true.into();
    assert_eq!(ask(&gateway, &streamed).await, 200);
    assert_eq!(ask(&gateway, &question("status 429")).await, 429);
    let mut unknown = question("say hello");
    unknown["model"] = "unknown".into();
    assert_eq!(ask(&gateway, &unknown).await, 404);
    for path in ["/v1/models", "/nowhere", "/healthz"] {
        http_client().get(gateway.url(path)).send().await.unwrap();
    }

    let metrics = Metrics::read(&gateway.url("")).await;
    let http = |labels: &[&str]| metrics.sum("http_server_request_duration_seconds_count", labels);
    let chat = "http_route=\"/v1/chat/completions\"";
    let status = |status: u16| format!("http_response_status_code=\"{status}\"");
    let by_status = [200, 429, 404].map(|code| http(&[chat, &status(code)]));
    assert_eq!(by_status, [5.0, 1.0, 1.0]);
    assert_eq!(http(&["http_route=\"/v1/models\"", &status(200)]), 1.0);
    assert_eq!(http(&["http_route=\"other\"", &status(404)]), 1.0);
    assert_eq!(http(&["http_route=\"/healthz\""]), 1.0);

    let requests = |labels: &[&str]| metrics.sum("gen_ai_server_request_duration_seconds_count", labels);
    let model = format!("gen_ai_request_model=\"{MODEL}\"");
    assert_eq!(requests(&[&model]), 6.0);
    assert_eq!(requests(&[&model, "error_type=\"429\""]), 1.0);
    assert_eq!(requests(&["gen_ai_request_model=\"other\"", "error_type=\"404\""]), 1.0);
    let calls = |labels: &[&str]| metrics.sum("toolwire_tool_calls_total", labels);
    let demo = "toolwire_server=\"demo\"";
    assert_eq!(calls(&[demo, "gen_ai_tool_name=\"lookup\"", "outcome=\"ok\""]), 3.0);
    assert_eq!(calls(&[demo, "gen_ai_tool_name=\"fail\"", "outcome=\"failed\""]), 1.0);
    let durations =
        metrics.sum("mcp_client_operation_duration_seconds_count", &["mcp_method_name=\"tools/call\""]);
    assert_eq!(durations, 4.0);
    assert!(metrics.sum("gen_ai_server_time_to_first_token_seconds_count", &[&model]) >= 5.0);
    assert_eq!(metrics.sum("toolwire_open_streams", &[]), 0.0);

    let traffic: Value =
        http_client().get(gateway.url("/traffic.json")).send().await.unwrap().json().await.unwrap();
    let shown = traffic["requests"].as_array().unwrap();
    assert_eq!(shown.len() as f64, requests(&[]));
    let sum = |count: fn(&Value) -> u64| shown.iter().map(count).sum::<u64>() as f64;
    assert_eq!(sum(|request| request["calls"].as_array().unwrap().len() as u64), calls(&[]));
    let steps = metrics.sum("gen_ai_client_operation_duration_seconds_count", &[&model]);
    assert_eq!(sum(|request| request["steps"].as_array().unwrap().len() as u64), steps);
    for (kind, key) in [("input", "inputTokens"), ("output", "outputTokens")] {
        let label = format!("gen_ai_token_type=\"{kind}\"");
        let counted = metrics.sum("gen_ai_client_token_usage_sum", &[&label]);
        let tokens = shown.iter().map(|request| request["usage"][key].as_u64().unwrap_or(0)).sum::<u64>();
        assert_eq!(counted, tokens as f64, "{kind}");
    }
}

/// Security rule 60: names that clients and models invent add no series.
#[tokio::test]
async fn invented_names_add_no_metrics() {
    let gateway = TestGateway::start().await;
    let invent = async |number: usize| {
        let mut body = question("say hello");
        body["model"] = format!("model-{number}").into();
        assert_eq!(ask(&gateway, &body).await, 404);
        let method = http::Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
        let url = gateway.url(&format!("/path-{number}"));
        http_client().request(method, url).send().await.unwrap();
    };
    invent(0).await;
    let before = Metrics::read(&gateway.url("")).await.series();
    // The first reading has added its own.
    let mut expected = None;
    for number in 1..300 {
        invent(number).await;
        if number == 1 {
            expected = Some(Metrics::read(&gateway.url("")).await.series());
        }
    }
    let after = Metrics::read(&gateway.url("")).await.series();
    assert_eq!(Some(after), expected);
    assert!(after < before + 50, "{before} {after}");
}

/// Only operators may read the metrics and the reasons of `/readyz`.
#[tokio::test]
async fn the_metrics_need_the_key_of_an_administrator_except_on_this_machine() {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("user", OTHER_KEY).with("admin", KEY).with_admin();
    settings.hosts = vec!["gateway.example".to_owned()];
    let gateway = TestGateway::with(settings).await;
    let get = async |path: &str, headers: &[(&str, &str)]| {
        let request = http_client().get(gateway.url(path));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let outside = ("host", "gateway.example");
    let (admin, user) = (("x-api-key", KEY), ("x-api-key", OTHER_KEY));
    for (headers, status) in [
        (&[][..], 200),
        (&[outside], 401),
        (&[("x-forwarded-for", "192.0.2.1")], 401),
        (&[outside, ("x-api-key", "wrong")], 401),
        (&[outside, user], 403),
        (&[user], 403),
        (&[outside, admin], 200),
    ] {
        assert_eq!(get("/metrics", headers).await.0, status, "{headers:?}");
        let (ready, text) = get("/readyz", headers).await;
        assert_eq!(ready, 200, "{headers:?}");
        assert_eq!(text.contains("reasons"), status == 200, "{headers:?}: {text}");
    }
    assert_eq!(get("/healthz", &[outside]).await.0, 200);
}

struct Switch(AtomicBool);

impl ReadinessCheck for Switch {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        let works = self.0.load(Ordering::SeqCst);
        Box::pin(async move { works.then_some(()).ok_or_else(|| "it is away".to_owned()) })
    }
}

async fn until<F: Future<Output = bool>>(condition: impl Fn() -> F) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the condition holds at last");
}

async fn readiness(url: &str) -> (u16, Value) {
    let response = http_client().get(format!("{url}/readyz")).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_gateway_without_its_store_is_not_ready_and_says_why() {
    let store = Arc::new(Switch(AtomicBool::new(false)));
    let mut settings = GatewaySettings::default();
    settings.readiness = ReadinessChecks::new(vec![store.clone()]);
    let gateway = TestGateway::with(settings).await;
    let url = gateway.url("");
    let (status, body) = readiness(&url).await;
    assert_eq!((status, &body["status"]), (503, &json!("unavailable")));
    assert_eq!(body["reasons"], json!([{"part": "store", "reason": "it is away"}]));
    store.0.store(true, Ordering::SeqCst);
    until(async || readiness(&url).await.0 == 200).await;
}

/// A gateway whose configuration can change.
struct Changing {
    url: String,
    gate: Arc<Gate>,
    gateways: watch::Sender<Gateway>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

struct Named(&'static str, Arc<Gate>);

impl ModelCatalog for Named {
    fn names(&self) -> Vec<String> {
        vec![self.0.to_owned()]
    }

    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel> {
        if name != self.0 {
            return Err(UnknownModel { name: name.to_owned(), problem: "it is not configured".to_owned() });
        }
        Ok(ServedModel::new(Arc::new(Held { name: self.0, gate: self.1.clone() })))
    }
}

/// Responses that wait, and how many of them wait.
#[derive(Default)]
struct Gate {
    waiting: AtomicUsize,
    open: Notify,
}

/// A model that responds at once, or when the gate is open if the text is `wait`.
struct Held {
    name: &'static str,
    gate: Arc<Gate>,
}

impl Model for Held {
    fn name(&self) -> &str {
        self.name
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let waits = format!("{:?}", request.messages).contains("wait");
        let begin = stream::iter([Ok(ModelEvent::Text("Begin. ".to_owned()))]);
        let end = stream::once(async move {
            if waits {
                self.gate.waiting.fetch_add(1, Ordering::SeqCst);
                self.gate.open.notified().await;
            }
            let message = Message::assistant("Begin. End.");
            let response =
                ModelResponse { message, stop: StopReason::End, usage: None, unusable: Vec::new() };
            Ok(ModelEvent::Response(response))
        });
        begin.chain(end).boxed()
    }
}

impl Changing {
    async fn start(settings: GatewaySettings) -> Changing {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let gate = Arc::new(Gate::default());
        let models = Arc::new(Named("first", gate.clone()));
        let gateway = Gateway::new(models, tools(&Running::default()), settings);
        let (gateways, latest) = watch::channel(gateway);
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let served =
            tokio::spawn(async move { Gateway::serve_latest(latest, listener, stopping).await.unwrap() });
        Changing { url, gate, gateways, stop, served }
    }

    async fn ask(&self, model: &str, key: &str, text: &str) -> reqwest::Response {
        let mut body = question(text);
        body["model"] = model.into();
        body["stream"] = true.into();
        let request = http_client().post(format!("{}/v1/chat/completions", self.url)).json(&body);
        request.header("x-api-key", key).send().await.unwrap()
    }

    /// Begins a response that ends when the gate is opened.
    async fn begin(&self, key: &str) -> reqwest::Response {
        let response = self.ask("first", key, "wait").await;
        until(async || self.gate.waiting.load(Ordering::SeqCst) > 0).await;
        response
    }

    /// Opens the gate, and returns the rest of a response.
    async fn end(&self, response: reqwest::Response) -> String {
        self.gate.open.notify_one();
        let mut parts = response.bytes_stream();
        let mut text = String::new();
        while let Some(part) = parts.next().await {
            text.push_str(&String::from_utf8_lossy(&part.unwrap()));
        }
        text
    }
}

fn with_key(key: &str) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("name", key);
    settings
}

/// Security rule 60: a new configuration is used by new requests; running streams do not notice it.
#[tokio::test]
async fn a_new_configuration_drops_no_stream() {
    let gateway = Changing::start(with_key(KEY)).await;
    let response = gateway.begin(KEY).await;
    let asking = (0..8).map(|_| async {
        for _ in 0..20 {
            for model in ["first", "second"] {
                let status = gateway.ask(model, KEY, "say hello").await.status();
                assert!(status == 200 || status == 404, "{status}");
            }
        }
    });
    let reconfigure = |model: &'static str, key: &str| {
        let current = gateway.gateways.borrow().clone();
        let next = current.reconfigured(
            Arc::new(Named(model, gateway.gate.clone())),
            Arc::new(NoServers),
            with_key(key),
        );
        gateway.gateways.send_replace(next);
    };
    let changing = async {
        for number in 0..1_000 {
            reconfigure(if number % 2 == 0 { "second" } else { "first" }, KEY);
            tokio::task::yield_now().await;
        }
    };
    futures::join!(futures::future::join_all(asking), changing);
    reconfigure("second", OTHER_KEY);
    assert_eq!(gateway.ask("first", KEY, "say hello").await.status(), 401);
    assert_eq!(gateway.ask("first", OTHER_KEY, "say hello").await.status(), 404);
    assert_eq!(gateway.ask("second", OTHER_KEY, "say hello").await.status(), 200);
    let text = gateway.end(response).await;
    assert!(text.contains("Begin.") && text.contains("[DONE]"), "{text}");
}

struct NoServers;

impl toolwire_gateway::RequestServers for NoServers {
    fn connect(
        &self,
        _: toolwire_gateway::RequestServer,
    ) -> BoxFuture<
        '_,
        Result<Arc<dyn toolwire_contract::toolbox::Toolbox>, toolwire_gateway::RequestServerError>,
    > {
        unreachable!("no request names a server")
    }
}

/// A gateway that stops says so, refuses new requests, and completes the running ones.
#[tokio::test]
async fn a_gateway_that_stops_completes_what_it_began() {
    let gateway = Changing::start(GatewaySettings::default()).await;
    let response = gateway.begin("").await;
    gateway.stop.cancel();
    until(async || readiness(&gateway.url).await.1["status"] == "draining").await;
    assert_eq!(readiness(&gateway.url).await.0, 503);
    let refused = gateway.ask("first", "", "say hello").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["connection"], "close");
    assert!(refused.text().await.unwrap().contains("this gateway is stopping"));
    assert_eq!(http_client().get(format!("{}/healthz", gateway.url)).send().await.unwrap().status(), 200);
    let text = gateway.end(response).await;
    assert!(text.contains("[DONE]"), "{text}");
    tokio::time::timeout(TEST_TIMEOUT, gateway.served).await.expect("it ends").unwrap();
    assert!(http_client().get(format!("{}/healthz", gateway.url)).send().await.is_err());
}

/// Running requests have only the configured time.
#[tokio::test]
async fn a_gateway_that_stops_does_not_wait_forever() {
    let mut settings = GatewaySettings::default();
    settings.limits.drain = Duration::from_millis(100);
    let gateway = Changing::start(settings).await;
    let _response = gateway.begin("").await;
    gateway.stop.cancel();
    tokio::time::timeout(TEST_TIMEOUT, gateway.served).await.expect("it ends").unwrap();
}

/// Load balancers get time to notice that the gateway stops, in which it still accepts requests.
#[tokio::test]
async fn a_gateway_that_will_stop_says_so_before_it_refuses() {
    let mut settings = GatewaySettings::default();
    settings.limits.drain_delay = Duration::from_secs(3_600);
    let gateway = Changing::start(settings).await;
    assert_eq!(readiness(&gateway.url).await.0, 200);
    gateway.stop.cancel();
    until(async || readiness(&gateway.url).await.1["status"] == "draining").await;
    assert_eq!(gateway.ask("first", "", "say hello").await.status(), 200);
    gateway.served.abort();
}
