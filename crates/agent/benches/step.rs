//! The cost of one step of the agent loop: a response with one call, its result, and storing both.
//!
//! The model and the tool return immediately, so only the loop is measured. Divan's `items` are steps: the
//! time per item is the time of one step.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use toolwire_agent::run::{Run, Step};
use toolwire_agent::{Agent, AgentBuilder, AgentSettings, Ending, Functions};
use toolwire_contract::conversations::{Conversations, NewConversation};
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, ModelResponse, StopReason, Usage,
};
use toolwire_contract::{Block, Message, Role, Tool, ToolCall, ToolResult};
use toolwire_store::{Sqlite, SqliteOptions};

/// The number of steps for one user message.
const STEPS: usize = 20;

fn main() {
    divan::main();
}

/// Calls a tool in each response except the last.
struct CallingModel;

impl Model for CallingModel {
    fn name(&self) -> &str {
        "calling"
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        stream::once(async move { Ok(ModelEvent::Response(respond(&request))) }).boxed()
    }
}

fn respond(request: &ModelRequest) -> ModelResponse {
    let messages_since_question =
        request.messages.iter().rev().take_while(|message| !is_question(message)).count();
    let (message, stop) = if messages_since_question / 2 + 1 < STEPS {
        let call =
            ToolCall::new("get_tides", json!({"place": "Bergen", "days": 3}).as_object().unwrap().clone());
        (
            Message::new(Role::Assistant, vec![Block::Call { id: "call_1".to_owned(), call }]),
            StopReason::Calls,
        )
    } else {
        (Message::assistant("The tide turns at nine."), StopReason::End)
    };
    let usage = Usage { input_tokens: 900, output_tokens: 60, ..Usage::default() };
    ModelResponse { message, stop, usage: Some(usage), unusable: Vec::new() }
}

fn is_question(message: &Message) -> bool {
    matches!(message.content.first(), Some(Block::Content(_))) && message.role == Role::User
}

fn tide_tool() -> Tool {
    Tool {
        annotations: json!({"readOnlyHint": true}).as_object().cloned(),
        ..Tool::new("get_tides", json!({"type": "object", "properties": {"place": {"type": "string"}}}))
    }
}

fn builder() -> AgentBuilder {
    let text = "The tide turns at nine, roughly, near Bergen. ".repeat(10);
    let tides = move |_: Map<_, _>| {
        let text = text.clone();
        async move { text }
    };
    Agent::builder().model(Arc::new(CallingModel)).tools(Arc::new(Functions::new().with(tide_tool(), tides)))
}

/// The state machine alone, without I/O.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn deciding(bencher: Bencher) {
    let tools: Arc<[Tool]> = Arc::new([tide_tool()]);
    bencher.counter(ItemsCount::new(STEPS)).bench(|| {
        let mut run = Run::new(AgentSettings::default());
        run.set_tools(tools.clone(), ModelLimits::default());
        run.say("When is high tide?");
        loop {
            match run.step() {
                Step::AskModel(request) => run.model_responded(respond(&request)),
                Step::CallTools(calls) => {
                    run.tools_returned(calls.into_iter().map(|(id, _)| (id, ToolResult::text("at nine"))));
                }
                Step::Review(_) | Step::AwaitResults(_) => {
                    unreachable!("the tool is read-only, and not the client's")
                }
                Step::Done(outcome) => return outcome,
            }
        }
    });
}

/// The state machine with the driver, its events and a toolbox.
#[divan::bench(sample_count = 200, sample_size = 1)]
fn driving(bencher: Bencher) {
    let runtime = Runtime::new().unwrap();
    let agent = builder().build().unwrap();
    bencher.counter(ItemsCount::new(STEPS)).bench(|| run(&runtime, &agent));
}

/// Like `driving`, after a conversation of a thousand messages.
#[divan::bench(sample_count = 100, sample_size = 1)]
fn driving_after_1000_messages(bencher: Bencher) {
    let runtime = Runtime::new().unwrap();
    let agent = builder().build().unwrap();
    let text = "The tide turns at nine, roughly, near Bergen. ".repeat(15);
    let turn = || [Message::user(&*text), Message::assistant(&*text)];
    let history: Vec<Message> = (0..500).flat_map(|_| turn()).collect();
    bencher.counter(ItemsCount::new(STEPS)).with_inputs(|| agent.resume(history.clone())).bench_values(
        |mut run| {
            run.say("When is high tide?");
            assert_eq!(runtime.block_on(agent.drive(run).finish()).outcome.ending, Ending::Finished);
        },
    );
}

/// Like `driving`, with a store on disk: two messages per step, each acknowledged before the next step.
#[divan::bench(sample_count = 100, sample_size = 1)]
fn driving_and_storing(bencher: Bencher) {
    let (_folder, runtime, store) = store();
    let agent = builder().conversations(Arc::new(store)).build().unwrap();
    bencher.counter(ItemsCount::new(STEPS)).bench(|| run(&runtime, &agent));
}

/// The store alone, with the same two messages per step.
#[divan::bench(sample_count = 100, sample_size = 1)]
fn storing_alone(bencher: Bencher) {
    let (_folder, runtime, store) = store();
    let text = "The tide turns at nine, roughly, near Bergen. ".repeat(10);
    bencher.counter(ItemsCount::new(STEPS)).bench(|| {
        runtime.block_on(async {
            let id = store.begin(NewConversation::default()).await.unwrap().id;
            for step in 0..STEPS as u64 {
                for half in 0..2 {
                    let message = Message::user(if half == 0 { "call" } else { &text });
                    store.append(&id, vec![message.into()], Some(step * 2 + half)).await.unwrap();
                }
            }
        });
    });
}

fn run(runtime: &Runtime, agent: &Agent) {
    let finished = runtime.block_on(agent.run("When is high tide?"));
    assert_eq!((finished.outcome.steps as usize, finished.outcome.ending), (STEPS, Ending::Finished));
}

fn store() -> (TempDir, Runtime, Sqlite) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let path = folder.path().join("conversations.db");
    let store = runtime.block_on(Sqlite::open(path, SqliteOptions::default())).unwrap();
    (folder, runtime, store)
}
