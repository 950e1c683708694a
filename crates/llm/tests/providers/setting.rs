//! Endpoints that ask a scripted provider.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::{Message, Model, ModelError, ModelEvent, ModelRequest, ModelResponse, Tool};
use toolwire_llm::{Endpoint, EndpointConfig, Pacing};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, Script, ScriptedResponse};

/// How a model of this API is written.
pub(crate) fn model_name(api: Api) -> &'static str {
    match api {
        Api::OpenAiChat => "openai/m",
        Api::Azure => "azure/m",
        Api::Dial => "dial/m",
        Api::Mistral => "mistral/m",
        Api::Groq => "groq/m",
        Api::DeepSeek => "deepseek/m",
        Api::Xai => "xai/m",
        Api::Vllm => "vllm/m",
        Api::LlamaCpp => "llamacpp/m",
        Api::Responses => "responses/m",
        Api::Anthropic => "anthropic/m",
        Api::Gemini => "gemini/gemini-3-pro",
        Api::Bedrock => "bedrock/m",
        Api::Cohere => "cohere/m",
        Api::Ollama => "ollama/m",
    }
}

/// A provider with its script, an endpoint that asks it, and how long the endpoint waited between attempts.
pub(crate) struct Setting {
    pub(crate) provider: FakeProvider,
    pub(crate) endpoint: Endpoint,
    pub(crate) waits: Arc<Paced>,
}

impl Setting {
    pub(crate) async fn new(api: Api, script: Script, config: Value) -> Setting {
        let provider = FakeProvider::start(api, script).await;
        let mut merged = json!({"baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1"});
        for (key, value) in config.as_object().expect("a configuration is an object") {
            merged[key] = value.clone();
        }
        let config: EndpointConfig = serde_json::from_value(merged).expect("the case is a configuration");
        let waits = Arc::new(Paced::default());
        let endpoint = Endpoint::new(model_name(api), &config, |_| None).expect("an endpoint");
        Setting { provider, endpoint: endpoint.with_pacing(waits.clone()), waits }
    }

    /// A provider that always replies the same.
    pub(crate) async fn repeating(api: Api, reply: ScriptedResponse, config: Value) -> Setting {
        Setting::new(api, Script::from_fn(move |_| reply.clone()), config).await
    }

    /// What came before the end, and the end.
    pub(crate) async fn ask(
        &self,
        request: ModelRequest,
    ) -> (Vec<ModelEvent>, Result<ModelResponse, ModelError>) {
        let mut shown = Vec::new();
        let mut events = self.endpoint.ask(request);
        while let Some(event) = events.next().await {
            match event {
                Ok(ModelEvent::Response(answer)) => {
                    assert!(events.next().await.is_none(), "the answer is the last event");
                    return (shown, Ok(answer));
                }
                Ok(event) => shown.push(event),
                Err(error) => {
                    assert!(events.next().await.is_none(), "the error is the last event");
                    return (shown, Err(error));
                }
            }
        }
        panic!("it ended with neither an answer nor an error");
    }
}

/// A clock on which waiting takes no time; it keeps how long was waited.
#[derive(Default)]
pub(crate) struct Paced {
    waits: Mutex<Vec<Duration>>,
}

impl Paced {
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.waits.lock().expect("nobody panicked").clone()
    }
}

impl Pacing for Paced {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn chance(&self) -> f64 {
        0.0
    }

    fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.waits.lock().expect("nobody panicked").push(time);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) fn tools() -> Arc<[Tool]> {
    let tool = |value: Value| Tool::try_from(value).expect("the case is a tool");
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

/// The text among events, as one.
pub(crate) fn text_of(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
