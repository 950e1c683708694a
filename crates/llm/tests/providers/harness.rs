//! Endpoints of a scripted provider.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::model::{Model, ModelError, ModelEvent, ModelRequest, ModelResponse};
use toolwire_contract::{Message, Tool};
use toolwire_llm::{Clock, Endpoint, EndpointConfig};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, Script, ScriptedResponse};

/// Returns a model name for this API.
pub(crate) fn model_name(api: Api) -> String {
    match api {
        // Only models of this generation return signatures.
        Api::Gemini => "gemini/gemini-3-pro".to_owned(),
        _ => format!("{}/m", api.provider_name()),
    }
}

/// A scripted provider, an endpoint for it, and the clock of the endpoint.
pub(crate) struct TestEndpoint {
    pub(crate) provider: FakeProvider,
    pub(crate) endpoint: Endpoint,
    pub(crate) clock: Arc<FakeClock>,
}

impl TestEndpoint {
    pub(crate) async fn new(api: Api, script: Script, config: Value) -> TestEndpoint {
        let provider = FakeProvider::start(api, script).await;
        let mut merged = json!({"baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1"});
        for (key, value) in config.as_object().expect("an object") {
            merged[key] = value.clone();
        }
        let config: EndpointConfig = serde_json::from_value(merged).expect("a configuration");
        let clock = Arc::new(FakeClock::default());
        let endpoint = Endpoint::new(&model_name(api), &config, |_| None).expect("an endpoint");
        TestEndpoint { provider, endpoint: endpoint.with_clock(clock.clone()), clock }
    }

    /// Creates a provider that always sends the same response.
    pub(crate) async fn repeating(api: Api, response: ScriptedResponse, config: Value) -> TestEndpoint {
        TestEndpoint::new(api, Script::from_fn(move |_| response.clone()), config).await
    }

    /// Sends a request. Returns the events, and the response or error at the end.
    pub(crate) async fn ask(
        &self,
        request: ModelRequest,
    ) -> (Vec<ModelEvent>, Result<ModelResponse, ModelError>) {
        let mut received = Vec::new();
        let mut events = self.endpoint.ask(request);
        while let Some(event) = events.next().await {
            match event {
                Ok(ModelEvent::Response(response)) => {
                    assert!(events.next().await.is_none(), "the response is the last event");
                    return (received, Ok(response));
                }
                // A retry is not part of a response.
                Ok(ModelEvent::Retrying { .. }) => {}
                Ok(event) => received.push(event),
                Err(error) => {
                    assert!(events.next().await.is_none(), "the error is the last event");
                    return (received, Err(error));
                }
            }
        }
        panic!("the stream ended with neither a response nor an error");
    }
}

/// A clock that never waits and records the requested delays.
#[derive(Default)]
pub(crate) struct FakeClock {
    delays: Mutex<Vec<Duration>>,
}

impl FakeClock {
    pub(crate) fn delays(&self) -> Vec<Duration> {
        self.delays.lock().expect("no thread panicked").clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn jitter(&self) -> f64 {
        0.0
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        self.delays.lock().expect("no thread panicked").push(delay);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) fn tools() -> Arc<[Tool]> {
    let tool = |value: Value| Tool::try_from(value).expect("a valid tool");
    Arc::from([
        tool(json!({
            "name": "get_weather",
            "description": "The weather at a place",
            "inputSchema": {"type": "object", "required": ["location"], "additionalProperties": false, "properties": {
                "location": {"type": "string"},
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            }},
        })),
        tool(json!({
            "name": "files/look up",
            "description": "A file by its number",
            "inputSchema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        })),
    ])
}

pub(crate) fn question(text: &str) -> ModelRequest {
    ModelRequest {
        instructions: Some("Be brief.".to_owned()),
        messages: vec![Message::user(text).into()],
        tools: tools(),
        ..ModelRequest::default()
    }
}

/// Joins the text of the events.
pub(crate) fn text_of(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) | ModelEvent::Refusal(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
