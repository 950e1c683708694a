//! A gateway with a few tools in front of a fake provider.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolwire_agent::Functions;
use toolwire_contract::{Content, Tool, ToolResult};
use toolwire_gateway::{Gateway, GatewaySettings, ModelCatalog, ServedModel, UnknownModel};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse, TokenCounts,
};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

struct OneModel(Endpoint);

impl ModelCatalog for OneModel {
    fn names(&self) -> Vec<String> {
        vec!["m".to_owned()]
    }

    fn find(&self, _name: &str) -> Result<ServedModel, UnknownModel> {
        let mut served = ServedModel::new(Arc::new(self.0.clone()));
        served.dialect = Some(self.0.dialect());
        served.api_support = self.0.api_support();
        Ok(served)
    }
}

fn tools() -> Functions {
    let tool = |name: &str| {
        let mut tool = Tool::new(name, json!({"type": "object", "properties": {"key": {"type": "string"}}}));
        tool.description = Some(format!("The tool {name}"));
        tool.annotations = json!({"readOnlyHint": true}).as_object().cloned();
        tool
    };
    let image = Content::image(PNG.to_owned(), "image/png");
    let picture = ToolResult { content: Some(vec![Content::text("a dot"), image]), ..ToolResult::default() };
    Functions::new().with(tool("lookup"), |_| async { Ok::<_, String>("found") }).with(
        tool("picture"),
        move |_| {
            let picture = picture.clone();
            async move { Ok::<_, String>(picture) }
        },
    )
}

/// A gateway in front of a fake provider with scripted outputs.
pub(crate) struct Served {
    pub(crate) provider: FakeProvider,
    pub(crate) url: String,
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
    let gateway = Gateway::new(Arc::new(OneModel(endpoint)), Arc::new(tools()), settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move { gateway.serve(listener, stopped).await.unwrap() });
    Served { provider, url, stop }
}

pub(crate) fn call(name: &str) -> ModelOutput {
    ModelOutput::text("Let me look.").call("call00001", name, r#"{"key":"a"}"#)
}

pub(crate) fn answer(text: &str) -> ModelOutput {
    ModelOutput::text(text).usage(TokenCounts { input: 50, cached: 0, written: 0, output: 5, thinking: 0 })
}
