//! The agent in a separate process.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolwire_agent::approval::{ApprovalPolicy, Decision, PendingCall};
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentBuilder, AgentEvent, Ending, Functions, RunStream, Unattended};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::model::ModelRequest;
use toolwire_contract::{Message, Tool};
use toolwire_store::{Sqlite, SqliteOptions};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

/// Runs endlessly and prints each message that is stored: `--work DATABASE CONVERSATION EFFECTS`.
pub(crate) const WORK: &str = "--work";
/// Runs until approval is needed, and writes the run to a file: `--pause RUN EFFECTS`.
pub(crate) const PAUSE: &str = "--pause";
/// Continues the run of a file, and prints its messages: `--continue RUN EFFECTS`.
pub(crate) const CONTINUE: &str = "--continue";
/// Does the work of `--pause` and `--continue` in one process: `--uninterrupted RUN EFFECTS`.
pub(crate) const UNINTERRUPTED: &str = "--uninterrupted";

/// Runs the agent if the arguments are one of these commands.
pub(crate) fn main(arguments: &[String]) -> Option<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match arguments {
        [command, database, conversation, effects] if command == WORK => {
            runtime.block_on(work(database, &conversation.parse().unwrap(), effects));
        }
        [command, file, effects] if command == PAUSE => runtime.block_on(pause(file, effects)),
        [command, file, effects] if command == CONTINUE => {
            let mut run = Run::from_json(&fs::read_to_string(file).unwrap()).unwrap();
            for call in run.pending_calls() {
                run.decide(&call.id, decide(&call));
            }
            runtime.block_on(finish(&two_work_calls(effects).build().unwrap(), run));
        }
        [command, _, effects] if command == UNINTERRUPTED => {
            let agent = two_work_calls(effects).approver(Arc::new(decide)).build().unwrap();
            let mut run = agent.new_run();
            run.say("Do both");
            runtime.block_on(finish(&agent, run));
        }
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

pub(crate) fn digest(message: &Message) -> String {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(message).unwrap().hash(&mut hasher);
    hasher.finish().to_string()
}

fn decide(call: &PendingCall) -> Decision {
    match call.id.as_str() {
        "first" => Decision::Once,
        _ => Decision::No { because: Some("I would rather not".to_owned()) },
    }
}

async fn pause(file: &str, effects: &str) {
    let agent = two_work_calls(effects).unattended(Unattended::Pause).build().unwrap();
    let finished = agent.run("Do both").await;
    let Ending::NeedsApproval(calls) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    println!("pending: {}", ids.join(", "));
    fs::write(file, finished.run.to_json()).unwrap();
}

async fn finish(agent: &Agent, run: Run) {
    let finished = agent.drive(run).finish().await;
    println!("{}", json!(finished.run.messages()));
    println!("{}", json!(finished.outcome));
}

/// Creates an agent whose model makes two calls that need approval, then gives its final response.
fn two_work_calls(effects: &str) -> AgentBuilder {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => ScriptedTurn::calls([
            ("first", "work", json!({"name": "first"})),
            ("second", "work", json!({"name": "second"})),
        ]),
        _ => ScriptedTurn::text("I have done what you allowed."),
    });
    Agent::builder().model(Arc::new(model)).tools(Arc::new(tools(effects)))
}

/// Creates two tools: `work` writes a line to the file `effects`, and `look` is read-only and takes a moment.
fn tools(effects: &str) -> Functions {
    let effects = effects.to_owned();
    let schema = json!({"type": "object"});
    let look = Tool {
        annotations: json!({"readOnlyHint": true}).as_object().cloned(),
        ..Tool::new("look", schema.clone())
    };
    Functions::new()
        .with(Tool::new("work", schema), move |arguments| {
            let mut file = OpenOptions::new().create(true).append(true).open(&effects).unwrap();
            let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            writeln!(file, "{name}").unwrap();
            async { "done" }
        })
        .with(look, |_| async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            "seen"
        })
}

async fn work(database: &str, conversation: &ConversationId, effects: &str) {
    let store = Arc::new(Sqlite::open(database, SqliteOptions::default()).await.unwrap());
    let next_number = AtomicU64::new(0);
    let model = ScriptedModel::from_fn(move |request| respond(request, &next_number));
    let agent = Agent::builder()
        .model(Arc::new(model))
        .tools(Arc::new(tools(effects)))
        .approvals(ApprovalPolicy::allow_all())
        .conversations(store)
        .build()
        .unwrap();
    let mut run = agent.load(conversation).await.unwrap();
    loop {
        if run.is_done() {
            run.say("Continue");
        }
        run = print_stored(agent.drive(run)).await;
    }
}

/// Calls `work` twice and `look`, then `look` alone, then gives the final response.
fn respond(request: &ModelRequest, next_number: &AtomicU64) -> ScriptedTurn {
    let last = json!(request.messages.last().unwrap());
    let count =
        |kind: &str| last["content"].as_array().unwrap().iter().filter(|block| block["type"] == kind).count();
    if count("text") > 0 {
        // Unique in all processes, so that a call that is made twice is detected.
        let name = || format!("{}-{}", std::process::id(), next_number.fetch_add(1, Ordering::Relaxed));
        let (first, second) = (name(), name());
        return ScriptedTurn::calls([
            ("one", "work", json!({"name": first})),
            ("two", "look", json!({})),
            ("three", "work", json!({"name": second})),
        ]);
    }
    match count("tool_result") {
        3 => ScriptedTurn::calls([("four", "look", json!({}))]),
        _ => ScriptedTurn::text_in_chunks("That is done.", 4),
    }
}

/// Prints each message as soon as it is stored.
async fn print_stored(mut running: RunStream) -> Run {
    let mut added = Vec::new();
    while let Some(event) = running.next().await {
        match event {
            AgentEvent::MessageAdded(message) => added.push(message),
            AgentEvent::Saved { position, .. } => {
                let first = position + 1 - added.len() as u64;
                let mut out = std::io::stdout().lock();
                for (index, message) in added.drain(..).enumerate() {
                    writeln!(out, "{} {}", first + index as u64, digest(&message))
                        .expect("the test reads the output");
                }
                out.flush().expect("the test reads the output");
            }
            AgentEvent::Done(finished) => {
                assert_eq!(finished.outcome.ending, Ending::Finished);
                return finished.run;
            }
            _ => {}
        }
    }
    unreachable!("the last event is `Done`")
}
