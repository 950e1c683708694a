//! The parts that a test needs: models, an MCP server, Redis, gateways, and HAProxy in front of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider};
use toolwire_testkit::{HaProxy, RedisCluster};

use crate::disturbances::{Disturbances, Gateways};
use crate::effects::Effects;
use crate::ledger::Ledger;
use crate::{gateway_process, model, works};

pub(crate) const GATEWAYS: usize = 3;

/// The name of the gateways for clients.
pub(crate) const HOST: &str = "gateway.example";

/// The code of an error of HAProxy.
pub(crate) const PROXY_ERROR: &str = "gateway_unavailable";

/// The tokens that the key with a budget may use in a month.
pub(crate) const BUDGET: u64 = 800;

/// The maximum number of requests, in multiples of the planned number, if a required result has not occurred.
const MAX_TIMES_PLANNED: usize = 10;

/// The state that all clients share.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) start: Instant,
    pub(crate) disturbances: Disturbances,
    /// Two keys of one tenant.
    pub(crate) keys: [String; 2],
    pub(crate) limited_key: String,
    planned: usize,
    sent: AtomicUsize,
    numbers: AtomicUsize,
    ledger: Mutex<Ledger>,
}

impl World {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_request(&self) {
        self.sent.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Whether enough requests were sent, and everything has happened at least once.
    pub(crate) fn is_done(&self) -> bool {
        let is_complete = self.disturbances.are_complete() && works::missing(&self.ledger()).is_empty();
        self.sent() >= if is_complete { self.planned } else { self.planned * MAX_TIMES_PLANNED }
    }

    /// Returns a number that nothing else has.
    pub(crate) fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }
}

/// The servers.
pub(crate) struct Servers {
    pub(crate) providers: Vec<FakeProvider>,
    pub(crate) effects: Effects,
    pub(crate) redis: RedisCluster,
    pub(crate) gateways: Gateways,
    pub(crate) proxy: HaProxy,
}

/// The models by name.
const MODELS: [(&str, Api); 3] =
    [("chat", Api::OpenAiChat), ("messages", Api::Anthropic), ("responses", Api::Responses)];

/// Starts everything. The test ends after this number of requests.
pub(crate) async fn start(folder: &Path, planned: usize) -> (World, Servers) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let redis = tokio::task::block_in_place(RedisCluster::start_with_replicas);
    let effects = Effects::start(folder).await;
    let mut providers = Vec::new();
    let mut models = json!({});
    for (name, api) in MODELS {
        let provider = model::start(api).await;
        models[name] = json!({
            "provider": api.provider_name(), "model": name, "baseUrl": provider.base_url(), "apiKey": API_KEY,
        });
        providers.push(provider);
    }
    let config = json!({
        "mcpServers": {"effects": {"url": effects.url}},
        "toolwire": {
            "models": models,
            "store": {"redis": redis.urls(), "replicas": 1},
            "gateway": {
                "hosts": [HOST],
                "sessionKey": "a-shared-secret-0123456789-abcdefgh",
                "limits": {"backgroundLease": "3s", "runTimeout": "30s", "backgroundTimeout": "5m"},
            },
        },
    });
    let folders: Vec<PathBuf> = (0..GATEWAYS).map(|number| folder.join(number.to_string())).collect();
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    }
    let create = |name: &str, options: &[&str]| create_key(&folders[0], name, options);
    let keys = ["one", "two"].map(|name| create(name, &["--tenant", "acme"]));
    let limited_key = create("limited", &["--tokens-per-month", &BUDGET.to_string()]);
    let gateways = tokio::task::block_in_place(|| Gateways::start(folders));
    let errors = ["502", "503", "504"].map(|status| {
        let error =
            json!({"message": "the gateway is unavailable", "type": "api_error", "code": PROXY_ERROR});
        let body = json!({"type": "error", "error": error}).to_string();
        format!("http-error status {status} content-type application/json string '{body}'")
    });
    let check = format!("http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host {HOST}");
    let mut options = vec![
        "retries 3",
        "option redispatch 1",
        // Only a request that has reached no gateway is sent to another one.
        "retry-on conn-failure",
        "option httpchk",
        &check,
        "default-server check inter 500ms fall 2 rise 1",
    ];
    options.extend(errors.iter().map(String::as_str));
    let proxy = tokio::task::block_in_place(|| HaProxy::in_front_of(&gateways.addresses(), &options));
    let world = World {
        url: format!("http://{}", proxy.address()),
        start: Instant::now(),
        disturbances: Disturbances::default(),
        keys,
        limited_key,
        planned,
        sent: AtomicUsize::new(0),
        numbers: AtomicUsize::new(1),
        ledger: Mutex::default(),
    };
    (world, Servers { providers, effects, redis, gateways, proxy })
}

/// Creates a key in the store of the gateways.
fn create_key(folder: &Path, name: &str, options: &[&str]) -> String {
    let serve = gateway_process::command(folder);
    let mut command = std::process::Command::new(serve.get_program());
    command.current_dir(folder).args(["keys", "create", name, "--json"]).args(options);
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let created: Value = serde_json::from_slice(&output.stdout).unwrap();
    created["key"].as_str().unwrap().to_owned()
}
