//! A model that says what a test tells it to.

use serde_json::Value;
use tokio::runtime::Runtime;
use toolwire_testkit::provider::{
    API_KEY, Api, Delivery, FakeProvider, Gate, ModelOutput, Script, ScriptedResponse,
};

use crate::terminal::{Home, Terminal};

pub(crate) struct Scripted {
    runtime: Runtime,
    pub(crate) provider: FakeProvider,
}

impl Scripted {
    /// Answers with these, one after the other.
    pub(crate) fn new(answers: impl IntoIterator<Item = ModelOutput>) -> Scripted {
        Scripted::playing(answers.into_iter().map(ScriptedResponse::Output))
    }

    pub(crate) fn playing(replies: impl IntoIterator<Item = ScriptedResponse>) -> Scripted {
        Scripted::of(Api::OpenAiChat, replies)
    }

    pub(crate) fn of(api: Api, replies: impl IntoIterator<Item = ScriptedResponse>) -> Scripted {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let provider = runtime.block_on(FakeProvider::start(api, Script::new(replies)));
        Scripted { runtime, provider }
    }

    /// A chat with this model, at its first prompt.
    pub(crate) fn chat(&self, home: &Home) -> Terminal {
        let variables = [("OPENAI_BASE_URL", &*self.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
        let terminal = Terminal::start(home, &["scripted"], &variables);
        terminal.wait_for_prompt();
        terminal
    }

    pub(crate) fn wait_until<T>(&self, event: impl Future<Output = T>) -> T {
        self.runtime.block_on(event)
    }

    /// What the model was asked last.
    pub(crate) fn last_request(&self) -> Value {
        self.provider.requests().last().unwrap().body.clone()
    }

    /// What the person said, as the model was told last.
    pub(crate) fn said(&self) -> Vec<String> {
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

/// An answer that waits before one of its events.
pub(crate) fn gated(said: ModelOutput, event: usize, gate: &Gate) -> ScriptedResponse {
    ScriptedResponse::Delivered(said, Delivery { gates: vec![(event, gate.clone())], ..Delivery::default() })
}
