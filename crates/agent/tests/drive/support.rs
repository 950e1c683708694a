//! Tools and agents for the tests.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, AgentBuilder, AgentEvent, FinishedRun, Functions, RunStream};
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, Toolbox};
use toolwire_contract::{Block, Message, Tool, ToolResult};
use toolwire_store::{Sqlite, SqliteOptions};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

pub(crate) fn tool(name: &str, annotations: Value) -> Tool {
    Tool {
        description: Some(format!("the tool {name}")),
        annotations: serde_json::from_value(annotations).unwrap(),
        ..Tool::new(name, json!({"type": "object"}))
    }
}

/// Creates tools: `read` returns its arguments, `delete` is destructive, `fail` fails, `panic` panics, `hang`
/// never returns.
pub(crate) fn functions() -> Functions {
    let read_only = json!({"readOnlyHint": true});
    Functions::new()
        .with(
            tool("read", read_only.clone()),
            |arguments| async move { Value::Object(arguments).to_string() },
        )
        .with(tool("delete", json!({"destructiveHint": true})), |_| async { "deleted" })
        .with(tool("fail", read_only.clone()), |_| async { Err::<String, _>("no such city") })
        .with(tool("panic", read_only.clone()), panics)
        .with(tool("hang", read_only), |_| std::future::pending::<String>())
}

async fn panics(_: Map<String, Value>) -> String {
    panic!("index out of bounds")
}

/// A toolbox that does not list all its tools, or has unavailable servers.
pub(crate) struct PartialToolbox {
    pub(crate) listed: Arc<[Tool]>,
    pub(crate) missing: Vec<MissingServer>,
    pub(crate) tools: Functions,
}

impl Toolbox for PartialToolbox {
    fn tools(&self) -> Arc<[Tool]> {
        self.listed.clone()
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.missing.clone()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        self.tools.call(tool, arguments, options)
    }
}

pub(crate) fn builder(model: &Arc<ScriptedModel>) -> AgentBuilder {
    Agent::builder().model(model.clone()).tools(Arc::new(functions()))
}

/// Creates an agent that runs every call.
pub(crate) fn agent(model: &Arc<ScriptedModel>) -> Agent {
    builder(model).approvals(ApprovalPolicy::allow_all()).build().unwrap()
}

pub(crate) fn model(script: impl IntoIterator<Item = ScriptedTurn>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new(script))
}

pub(crate) async fn store() -> (tempfile::TempDir, Arc<Sqlite>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path().join("conversations.db"), SqliteOptions::default()).await.unwrap();
    (folder, Arc::new(store))
}

/// Returns all events and the finished run. Panics if the run hangs.
pub(crate) async fn events(mut running: RunStream) -> (Vec<AgentEvent>, FinishedRun) {
    let mut events = Vec::new();
    while let Some(event) = next(&mut running).await {
        if let AgentEvent::Done(finished) = event {
            return (events, *finished);
        }
        events.push(event);
    }
    panic!("the stream ended without `Done`: {events:?}")
}

pub(crate) async fn next(running: &mut RunStream) -> Option<AgentEvent> {
    tokio::time::timeout(Duration::from_secs(60), running.next())
        .await
        .expect("an event arrives within a minute")
}

/// Returns the ids and texts of the results in a message.
pub(crate) fn results(message: &Message) -> Vec<(String, String)> {
    let text = |result: &ToolResult| {
        result
            .blocks()
            .iter()
            .map(|block| json!(block)["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Result { id, result } => Some((id.clone(), text(result))),
            _ => None,
        })
        .collect()
}
