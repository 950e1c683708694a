//! A model with scripted responses, behind a fake provider.

use serde_json::Value;
use tokio::runtime::Runtime;
use toolwire_testkit::provider::{
    API_KEY, Api, Delivery, FakeProvider, Gate, ModelOutput, Script, ScriptedResponse,
};

use crate::terminal::{Home, Terminal};

pub(crate) struct ScriptedModel {
    runtime: Runtime,
    pub(crate) provider: FakeProvider,
}

impl ScriptedModel {
    /// Returns these outputs in order, one per request.
    pub(crate) fn new(outputs: impl IntoIterator<Item = ModelOutput>) -> ScriptedModel {
        ScriptedModel::with_responses(outputs.into_iter().map(ScriptedResponse::Output))
    }

    pub(crate) fn with_responses(responses: impl IntoIterator<Item = ScriptedResponse>) -> ScriptedModel {
        ScriptedModel::with_api(Api::OpenAiChat, responses)
    }

    pub(crate) fn with_api(api: Api, responses: impl IntoIterator<Item = ScriptedResponse>) -> ScriptedModel {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let provider = runtime.block_on(FakeProvider::start(api, Script::new(responses)));
        ScriptedModel { runtime, provider }
    }

    /// Starts a chat with this model and waits for its prompt.
    pub(crate) fn chat(&self, home: &Home) -> Terminal {
        let variables = [("OPENAI_BASE_URL", &*self.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
        let terminal = Terminal::start(home, &["scripted"], &variables);
        terminal.wait_for_prompt();
        terminal
    }

    pub(crate) fn wait_for<T>(&self, event: impl Future<Output = T>) -> T {
        self.runtime.block_on(event)
    }

    /// Returns the body of the last request.
    pub(crate) fn last_request(&self) -> Value {
        self.provider.requests().last().unwrap().body.clone()
    }

    /// Returns the user's messages in the last request.
    pub(crate) fn user_messages(&self) -> Vec<String> {
        let request = self.last_request();
        let messages = request["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["role"] == "user")
            .map(|message| text(&message["content"]))
            .collect()
    }
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// A response that waits at a gate before one of its events.
pub(crate) fn gated(output: ModelOutput, event: usize, gate: &Gate) -> ScriptedResponse {
    ScriptedResponse::Delivered(
        output,
        Delivery { gates: vec![(event, gate.clone())], ..Delivery::default() },
    )
}
