//! Summaries of earlier turns, and requests that are refused as too long.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_agent::run::{Run, is_summary};
use toolwire_agent::{Agent, AgentEvent, ContextSettings, Functions};
use toolwire_contract::conversations::Conversations;
use toolwire_contract::model::{ModelError, ModelLimits, ModelRequest};
use toolwire_contract::{Block, Content, Message, Role, ToolResult};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use crate::support::{events, store, tool};

const SUMMARY: &str = "The user asked about Bern, and the code word is heron.";

fn is_summary_request(request: &ModelRequest) -> bool {
    request.tools.is_empty() && json!(request.messages).to_string().contains("<conversation>")
}

/// A model that writes [`SUMMARY`] when it is asked for one, and repeats "I see." otherwise.
fn model(limits: ModelLimits) -> Arc<ScriptedModel> {
    let play = |request: &ModelRequest| match is_summary_request(request) {
        true => ScriptedTurn::text(SUMMARY),
        false => ScriptedTurn::text("I see."),
    };
    Arc::new(ScriptedModel::from_fn(play).with_limits(limits))
}

fn window(tokens: u64) -> ModelLimits {
    ModelLimits { context_tokens: Some(tokens), tools: None, ..ModelLimits::default() }
}

fn exceeded(window: Option<u64>) -> ModelError {
    ModelError::ContextExceeded {
        model: "scripted".into(),
        status: Some(400),
        message: "too long".into(),
        window,
        body: Value::Null,
    }
}

async fn say(agent: &Agent, mut run: Run, text: &str) -> (Vec<AgentEvent>, Run) {
    run.say(text);
    let (events, finished) = events(agent.drive(run)).await;
    assert!(finished.outcome.is_finished(), "{:?}", finished.outcome);
    (events, finished.run)
}

#[tokio::test]
async fn a_summary_replaces_earlier_turns_in_requests_and_is_stored() {
    let (_folder, store) = store().await;
    let model = model(ModelLimits::default());
    let agent = Agent::builder().model(model.clone()).conversations(store.clone()).build().unwrap();
    let mut run = agent.new_run();
    for text in ["Tell me about Bern", "The code word is heron", "And Basel?"] {
        run = say(&agent, run, text).await.1;
    }
    assert_eq!(agent.compact(&mut run, Some("the code word")).await.unwrap(), Some(6));
    assert_eq!(agent.compact(&mut run, None).await.unwrap(), None, "there is nothing new");
    let asked = json!(model.requests().last().unwrap().messages).to_string();
    for part in ["Tell me about Bern", "Assistant: I see.", "Above all, keep this: the code word"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert_eq!(run.messages().len(), 6, "the history stays complete");

    let id = run.stored_in().unwrap().0.clone();
    let resumed = agent.load(&id).await.unwrap();
    for run in [run, resumed] {
        assert_eq!(run.messages().len(), 6);
        let (_, run) = say(&agent, run, "Which code word?").await;
        let sent = json!(model.requests().last().unwrap().messages);
        assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent}");
        let sent = sent.to_string();
        assert!(sent.contains("heron") && sent.contains("Which code word?"), "{sent}");
        assert!(!sent.contains("Tell me about Bern"), "{sent}");
        assert_eq!(run.messages().len(), 8);
        if run.stored_in().unwrap().1 == 9 {
            break;
        }
    }
    let stored = store.load(&id, 0).await.unwrap();
    let summaries: Vec<usize> =
        (0..stored.entries.len()).filter(|index| is_summary(&stored.entries[*index].message)).collect();
    assert_eq!((stored.entries.len(), summaries), (9, vec![6]));
    // Another summary covers the first one.
    let mut run = agent.load(&id).await.unwrap();
    assert_eq!(agent.compact(&mut run, None).await.unwrap(), Some(8));
    let asked = json!(model.requests().last().unwrap().messages).to_string();
    assert!(asked.contains("heron") && !asked.contains("Tell me about Bern"), "{asked}");
}

#[tokio::test]
async fn attached_files_are_part_of_a_summary() {
    let model = model(ModelLimits::default());
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let blocks = [
        Content::attached_text("my notes.md", "The code word is heron."),
        Content::attached_file("photo.png", "image/png", "iVBORw0KGgo="),
        Content::text("What is this?"),
    ];
    let mut run = agent.new_run();
    run.say_message(Message::new(Role::User, blocks.map(Block::Content).into()));
    let (_, finished) = events(agent.drive(run)).await;
    let mut run = finished.run;
    assert_eq!(run.title().as_deref(), Some("What is this?"));
    assert_eq!(agent.compact(&mut run, None).await.unwrap(), Some(2));
    let asked = json!(model.requests().last().unwrap().messages).to_string();
    assert!(asked.contains(r"User: [attached file my notes.md]\nThe code word is heron.\n"), "{asked}");
    assert!(asked.contains("[attached file photo.png]") && !asked.contains("iVBOR"), "{asked}");
}

#[tokio::test]
async fn a_summary_that_fails_or_is_dropped_changes_nothing() {
    let hanging = Arc::new(ScriptedModel::from_fn(|request| match is_summary_request(request) {
        true => ScriptedTurn { end: None, ..ScriptedTurn::text("") },
        false => ScriptedTurn::text("I see."),
    }));
    let agent = Agent::builder().model(hanging).build().unwrap();
    let (_, mut run) = say(&agent, agent.new_run(), "Hello").await;
    let before = run.clone();
    let waiting = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(waiting, agent.compact(&mut run, None)).await.is_err());
    assert_eq!(run, before);

    let failing = Arc::new(ScriptedModel::from_fn(|request| match is_summary_request(request) {
        true => ScriptedTurn::error(ModelError::Broken { model: "m".into(), problem: "cut".into() }),
        false => ScriptedTurn::text("I see."),
    }));
    let agent = Agent::builder().model(failing).build().unwrap();
    assert!(agent.compact(&mut run, None).await.is_err());
    assert_eq!(run, before);
}

#[tokio::test]
async fn a_conversation_that_exceeds_the_window_is_summarized_in_parts() {
    let model = model(window(4_000));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let long = "A long line of a long message. ".repeat(150);
    let messages = (0..20).flat_map(|_| [Message::user(long.as_str()), Message::assistant("I see.")]);
    let mut run = agent.resume(messages);
    assert_eq!(agent.compact(&mut run, None).await.unwrap(), Some(40));
    let requests = model.requests();
    assert!(requests.len() > 10, "{} parts", requests.len());
    assert!(requests.iter().all(|request| request.estimated_tokens() < 4_000));
    assert!(requests[1..].iter().all(|request| json!(request.messages).to_string().contains("heron")));
}

fn long_results() -> Functions {
    let long = "A long line of a long result. ".repeat(60);
    Functions::new().with(tool("read", json!({"readOnlyHint": true})), move |_| {
        let long = long.clone();
        async move { ToolResult::text(long) }
    })
}

/// A model that calls `read` in response to each user message, then says that it has read it. It refuses
/// requests over its window.
fn reading_model(max_tokens: u64, stated: Option<u64>, summary: fn() -> ScriptedTurn) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        if request.estimated_tokens() > max_tokens {
            return ScriptedTurn::error(exceeded(stated));
        }
        if is_summary_request(request) {
            return summary();
        }
        match request.messages.last().unwrap().results().next() {
            Some(_) => ScriptedTurn::text("I have read it."),
            None => ScriptedTurn::calls([("1", "read", json!({}))]),
        }
    })
}

fn summarizing() -> ContextSettings {
    let mut context = ContextSettings::default();
    context.summarize = true;
    context
}

#[tokio::test]
async fn earlier_turns_are_summarized_before_the_window_is_full() {
    let (_folder, store) = store().await;
    let model = reading_model(6_000, None, || ScriptedTurn::text(SUMMARY)).with_limits(window(6_000));
    let agent = Agent::builder()
        .model(Arc::new(model))
        .tools(Arc::new(long_results()))
        .context(summarizing())
        .conversations(store.clone())
        .build()
        .unwrap();
    let mut run = agent.new_run();
    let mut summaries = Vec::new();
    for number in 0..30 {
        let (events, next) = say(&agent, run, &format!("Read number {number}")).await;
        run = next;
        summaries.extend(events.iter().filter_map(|event| match event {
            AgentEvent::ContextSummarized { messages } => Some(*messages),
            AgentEvent::ContextReduced(reduction) => panic!("{reduction:?}"),
            _ => None,
        }));
    }
    assert!(summaries.len() >= 2 && summaries.is_sorted(), "{summaries:?}");
    assert_eq!(run.messages().len(), 120);
    let stored = store.load(run.stored_in().unwrap().0, 0).await.unwrap();
    assert_eq!(stored.entries.len(), 120 + summaries.len());
}

#[tokio::test]
async fn messages_are_omitted_if_they_cannot_be_summarized() {
    let failing = || ScriptedTurn::error(ModelError::Broken { model: "m".into(), problem: "cut".into() });
    let model = reading_model(6_000, None, failing).with_limits(window(6_000));
    let agent = Agent::builder()
        .model(Arc::new(model))
        .tools(Arc::new(long_results()))
        .context(summarizing())
        .build()
        .unwrap();
    let mut run = agent.new_run();
    let mut reductions = 0;
    for number in 0..20 {
        let (events, next) = say(&agent, run, &format!("Read number {number}")).await;
        run = next;
        reductions += events.iter().filter(|event| matches!(event, AgentEvent::ContextReduced(_))).count();
    }
    assert!(reductions > 0);
}

/// Nothing is known about the window: the first request that exceeds it is refused, and the conversation goes
/// on.
#[tokio::test]
async fn a_refused_request_is_reduced_and_sent_again() {
    for (stated, max_refusals) in [(Some(5_000), 1), (None, 4)] {
        let model = Arc::new(reading_model(5_000, stated, || ScriptedTurn::text(SUMMARY)));
        let agent = Agent::builder().model(model.clone()).tools(Arc::new(long_results())).build().unwrap();
        let mut run = agent.new_run();
        let mut reductions = Vec::new();
        for number in 0..40 {
            let (events, next) = say(&agent, run, &format!("Read number {number}")).await;
            run = next;
            reductions.extend(events.into_iter().filter_map(|event| match event {
                AgentEvent::ContextReduced(reduction) => Some(reduction),
                _ => None,
            }));
        }
        let refused = model.requests().iter().filter(|request| request.estimated_tokens() > 5_000).count();
        assert!((1..=max_refusals).contains(&refused), "{refused} requests were refused, {stated:?}");
        assert!(run.context().size.is_some_and(|size| size <= 5_000 + 500), "{:?}", run.context());
        let last = reductions.last().expect("a reduction is reported");
        assert!(last.messages_omitted > 0, "{last:?}");
        assert_eq!(run.messages().len(), 160, "the history stays complete");
    }
}

#[tokio::test]
async fn the_window_of_one_model_is_forgotten_with_another() {
    let small = Arc::new(reading_model(3_000, Some(3_000), || ScriptedTurn::text(SUMMARY)));
    let agent = Agent::builder().model(small).tools(Arc::new(long_results())).build().unwrap();
    let mut run = agent.new_run();
    for number in 0..5 {
        run = say(&agent, run, &format!("Read number {number}")).await.1;
    }
    assert_eq!(run.context().size, Some(3_000));
    let large = Arc::new(ScriptedModel::new([ScriptedTurn::text("Done.")]).with_name("large"));
    let agent = Agent::builder().model(large).tools(Arc::new(long_results())).build().unwrap();
    assert_eq!(say(&agent, run, "And now?").await.1.context().size, None);
}

#[tokio::test]
async fn a_message_that_alone_exceeds_the_window_ends_the_run_with_the_error() {
    let model = Arc::new(ScriptedModel::from_fn(|_| ScriptedTurn::error(exceeded(Some(100)))));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let finished = agent.run("word ".repeat(1_000)).await;
    let toolwire_agent::Ending::Failed(failure) = &finished.outcome.ending else { panic!("{finished:?}") };
    assert_eq!(failure.code, "context_exceeded");
    assert_eq!(model.requests().len(), 1);
}

/// A provider that reports fewer tokens than were sent does not delay the reduction.
#[tokio::test]
async fn a_count_below_the_estimate_is_not_trusted() {
    // The scripted model reports ten input tokens for each request.
    let model =
        Arc::new(reading_model(4_000, None, || ScriptedTurn::text(SUMMARY)).with_limits(window(4_000)));
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(long_results())).build().unwrap();
    let mut run = agent.new_run();
    for number in 0..30 {
        run = say(&agent, run, &format!("Read number {number}")).await.1;
        let last = model.requests().last().unwrap().estimated_tokens();
        assert!(run.context().used >= last, "{:?}, estimated: {last}", run.context());
    }
    assert!(model.requests().iter().all(|request| request.estimated_tokens() <= 4_000));
}
