//! The agent in a process of its own.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolwire_agent::{
    Agent, AgentBuilder, AgentEvent, Decision, Ending, Functions, PendingCall, Policy, Run, Unattended,
};
use toolwire_contract::{ConversationId, Message, ModelRequest, Tool};
use toolwire_store::{Sqlite, SqliteOptions};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

/// Answers, pauses and calls without end, and prints each message that is kept: `--work PLACE CONVERSATION EFFECTS`.
pub(crate) const WORK: &str = "--work";
/// Runs until a person must decide, and writes the run into a file: `--pause RUN EFFECTS`.
pub(crate) const PAUSE: &str = "--pause";
/// Goes on with the run of a file, and prints its messages: `--go-on RUN EFFECTS`.
pub(crate) const GO_ON: &str = "--go-on";
/// The same as both together, in one process: `--at-once RUN EFFECTS`.
pub(crate) const AT_ONCE: &str = "--at-once";

pub(crate) fn main(words: &[String]) -> Option<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match words {
        [word, place, conversation, effects] if word == WORK => {
            runtime.block_on(work(place, &conversation.parse().unwrap(), effects));
        }
        [word, file, effects] if word == PAUSE => runtime.block_on(pause(file, effects)),
        [word, file, effects] if word == GO_ON => {
            let mut run = Run::from_json(&fs::read_to_string(file).unwrap()).unwrap();
            for call in run.waiting() {
                run.person_said(&call.id, decide(&call));
            }
            runtime.block_on(finish(&approving(effects).build().unwrap(), run));
        }
        [word, _, effects] if word == AT_ONCE => {
            let agent = approving(effects).person(Arc::new(decide)).build().unwrap();
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
    let agent = approving(effects).unattended(Unattended::Pause).build().unwrap();
    let finished = agent.run("Do both").await;
    let Ending::NeedsApproval(calls) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    println!("waits for {}", ids.join(", "));
    fs::write(file, finished.run.to_json()).unwrap();
}

async fn finish(agent: &Agent, run: Run) {
    let finished = agent.drive(run).finish().await;
    println!("{}", json!(finished.run.messages()));
    println!("{}", json!(finished.outcome));
}

/// Two works that must be asked about, then an answer.
fn approving(effects: &str) -> AgentBuilder {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => ScriptedTurn::calls([
            ("first", "work", json!({"name": "first"})),
            ("second", "work", json!({"name": "second"})),
        ]),
        _ => ScriptedTurn::text("Done as far as I may."),
    });
    Agent::builder().model(Arc::new(model)).tools(Arc::new(tools(effects)))
}

/// `work` leaves a trace, `look` none and takes a moment.
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

async fn work(place: &str, conversation: &ConversationId, effects: &str) {
    let store = Arc::new(Sqlite::open(place, SqliteOptions::default()).await.unwrap());
    let names = AtomicU64::new(0);
    let model = ScriptedModel::from_fn(move |request| answer(request, &names));
    let agent = Agent::builder()
        .model(Arc::new(model))
        .tools(Arc::new(tools(effects)))
        .approvals(Policy::allow_all())
        .conversations(store)
        .build()
        .unwrap();
    let mut run = agent.load(conversation).await.unwrap();
    loop {
        if run.is_done() {
            run.say("Go on");
        }
        run = tell(agent.drive(run)).await;
    }
}

/// Two works and a look, then a look alone, then an answer.
fn answer(request: &ModelRequest, names: &AtomicU64) -> ScriptedTurn {
    let last = request.messages.last().unwrap();
    let results = json!(last)["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .count();
    let is_asked = json!(last)["content"].as_array().unwrap().iter().any(|block| block["type"] == "text");
    if is_asked {
        // Different in each process, so that a work that is done twice is seen.
        let name = || format!("{}-{}", std::process::id(), names.fetch_add(1, Ordering::Relaxed));
        let (one, two) = (name(), name());
        return ScriptedTurn::calls([
            ("one", "work", json!({"name": one})),
            ("two", "look", json!({})),
            ("three", "work", json!({"name": two})),
        ]);
    }
    match results {
        3 => ScriptedTurn::calls([("four", "look", json!({}))]),
        _ => ScriptedTurn::text_in_chunks("That is done.", 4),
    }
}

/// Prints what is kept, as soon as it is.
async fn tell(mut running: toolwire_agent::Running) -> Run {
    let mut added = Vec::new();
    while let Some(event) = running.next().await {
        match event {
            AgentEvent::MessageAdded(message) => added.push(message),
            AgentEvent::Saved { position, .. } => {
                let first = position + 1 - added.len() as u64;
                let mut out = std::io::stdout().lock();
                for (place, message) in added.drain(..).enumerate() {
                    writeln!(out, "{} {}", first + place as u64, digest(&message)).expect("somebody listens");
                }
                out.flush().expect("somebody listens");
            }
            AgentEvent::Done(finished) => {
                assert_eq!(finished.outcome.ending, Ending::Finished);
                return finished.run;
            }
            _ => {}
        }
    }
    unreachable!("a run ends with `Done`")
}
