//! A gateway with a few tools in front of a fake provider.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwire_agent::Functions;
use toolwire_contract::model::ModelError;
use toolwire_contract::{Content, Tool, ToolResult};
use toolwire_gateway::{
    ForwardedBody, ForwardedRequest, ForwardedResponse, Gateway, GatewaySettings, ModelCatalog, ServedModel,
    UnknownModel, Upstream,
};
use toolwire_llm::{Endpoint, EndpointConfig, RawBody, RawRequest};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse, TokenCounts,
};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

struct OneModel(Arc<ForwardingEndpoint>);

/// An endpoint that also gets requests that are already in its format.
struct ForwardingEndpoint(Arc<Endpoint>);

impl Upstream for ForwardingEndpoint {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        Box::pin(async move {
            let ForwardedRequest { path, body, headers, retry_until, .. } = request;
            let response = self.0.forward(&RawRequest { path, body, headers, retry_until }).await?;
            let body = match response.body {
                RawBody::Complete(bytes) => ForwardedBody::Complete(bytes),
                RawBody::Parts(parts) => ForwardedBody::Parts(parts),
            };
            Ok(ForwardedResponse::new(response.status, response.headers, body))
        })
    }

    fn redact(&self, error: Value) -> Value {
        self.0.redact(error)
    }
}

impl ModelCatalog for OneModel {
    fn names(&self) -> Vec<String> {
        vec!["m".to_owned()]
    }

    fn find(&self, _name: &str) -> Result<ServedModel, UnknownModel> {
        let endpoint = &self.0.0;
        let mut served = ServedModel::new(endpoint.clone());
        served.api_support = endpoint.api_support();
        Ok(served.with_upstream(endpoint.dialect(), self.0.clone()))
    }
}

/// Counts the calls of the servers' tools.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<watch::Sender<CallCounts>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounts {
    pub(crate) started: usize,
    pub(crate) running: usize,
}

impl Calls {
    pub(crate) fn started(&self) -> usize {
        self.0.borrow().started
    }

    /// Waits until this many calls are running.
    pub(crate) async fn running(&self, count: usize) {
        self.0.subscribe().wait_for(|counts| counts.running == count).await.unwrap();
    }

    fn start(&self) -> RunningCall {
        self.0.send_modify(|counts| {
            *counts = CallCounts { started: counts.started + 1, running: counts.running + 1 }
        });
        RunningCall(self.clone())
    }
}

struct RunningCall(Calls);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.0.send_modify(|counts| counts.running -= 1);
    }
}

/// The tools `lookup`, `picture`, and `wait`, which does not end.
fn tools(calls: &Calls) -> Functions {
    let tool = |name: &str| {
        let mut tool = Tool::new(name, json!({"type": "object", "properties": {"key": {"type": "string"}}}));
        tool.description = Some(format!("The tool {name}"));
        tool.annotations = json!({"readOnlyHint": true}).as_object().cloned();
        tool
    };
    let image = Content::image(PNG.to_owned(), "image/png");
    let picture = ToolResult { content: Some(vec![Content::text("a dot"), image]), ..ToolResult::default() };
    let (lookups, waits) = (calls.clone(), calls.clone());
    Functions::new()
        .with(tool("lookup"), move |_| {
            let call = lookups.start();
            async move {
                drop(call);
                Ok::<_, String>("found")
            }
        })
        .with(tool("picture"), move |_| {
            let picture = picture.clone();
            async move { Ok::<_, String>(picture) }
        })
        .with(tool("wait"), move |_| {
            let call = waits.start();
            async move {
                std::future::pending::<()>().await;
                drop(call);
                Ok::<_, String>("waited")
            }
        })
}

/// A gateway in front of a fake provider with scripted outputs.
pub(crate) struct Served {
    pub(crate) provider: FakeProvider,
    pub(crate) url: String,
    pub(crate) calls: Calls,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn serve(api: Api, outputs: Vec<ScriptedResponse>) -> Served {
    serve_script(api, Script::new(outputs)).await
}

pub(crate) async fn serve_script(api: Api, script: Script) -> Served {
    serve_with(api, script, json!({}), GatewaySettings::default()).await
}

/// Serves with further keys in the configuration of the provider, and with these settings.
pub(crate) async fn serve_with(api: Api, script: Script, extra: Value, settings: GatewaySettings) -> Served {
    let provider = FakeProvider::start(api, script).await;
    let mut config = json!({
        "baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1", "retries": 0, "contextTokens": 100_000,
    });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    let config: EndpointConfig = serde_json::from_value(config).unwrap();
    let endpoint = Endpoint::new(&format!("{}/m", api.provider_name()), &config, |_| None).unwrap();
    let model = OneModel(Arc::new(ForwardingEndpoint(Arc::new(endpoint))));
    let calls = Calls::default();
    let gateway = Gateway::new(Arc::new(model), Arc::new(tools(&calls)), settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move { gateway.serve(listener, stopped).await.unwrap() });
    Served { provider, url, calls, stop }
}

pub(crate) fn call(name: &str) -> ModelOutput {
    ModelOutput::text("Let me look.").call("call00001", name, r#"{"key":"a"}"#)
}

pub(crate) fn answer(text: &str) -> ModelOutput {
    ModelOutput::text(text).usage(TokenCounts { input: 50, cached: 0, written: 0, output: 5, thinking: 0 })
}
