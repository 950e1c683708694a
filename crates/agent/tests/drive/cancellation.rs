//! Cancelling a run at any point.

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::approval::{Decision, PendingCall};
use toolwire_agent::run::normalize;
use toolwire_agent::{AgentEvent, Ending};
use toolwire_contract::Message;
use toolwire_contract::conversations::Conversations;
use toolwire_contract::model::ModelEvent;
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{builder, events, model, next, results, store};

fn script() -> Vec<ScriptedTurn> {
    let first =
        ScriptedTurn::calls([("1", "read", json!({})), ("2", "delete", json!({})), ("3", "fail", json!({}))]);
    vec![
        first,
        ScriptedTurn::calls([("4", "read", json!({"x": 1}))]),
        ScriptedTurn::text_in_chunks("That was all.", 3),
    ]
}

#[tokio::test]
async fn a_run_cancelled_after_any_event_is_consistent_and_can_continue() {
    let mut cancelled_runs = 0;
    for after in 0.. {
        let (_folder, store) = store().await;
        let model = model(script().into_iter().chain([ScriptedTurn::text("I continue.")]));
        let approver = Arc::new(|_: &PendingCall| Decision::Once);
        let agent = builder(&model).conversations(store.clone()).approver(approver).build().unwrap();
        let mut running = agent.stream("Go");
        let mut event_count = 0;
        let finished = loop {
            if event_count == after {
                running.cancellation_token().cancel();
            }
            match next(&mut running).await.unwrap() {
                AgentEvent::Done(finished) => break finished,
                _ => event_count += 1,
            }
        };
        let messages = finished.run.messages();
        check_messages(messages).unwrap_or_else(|problem| panic!("after {after}: {problem}: {messages:#?}"));
        let is_cancelled = finished.outcome.ending == Ending::Cancelled;
        assert!(is_cancelled || finished.outcome.ending == Ending::Finished, "{:?}", finished.outcome);
        let (conversation, position) = finished.run.stored_in().unwrap();
        let stored = store.load(conversation, 0).await.unwrap();
        assert_eq!(stored.conversation.messages, position);
        let stored = normalize(stored.entries.into_iter().map(|entry| entry.message));
        assert_eq!(stored, messages, "after {after}");
        if is_cancelled {
            cancelled_runs += 1;
            // The strict model accepts the history at any point of the script.
            let mut run = agent.load(conversation).await.unwrap();
            assert!(run.is_done() || run.messages() == messages);
            run.say("And now?");
            let continued = agent.drive(run).finish().await;
            assert_eq!(continued.outcome.ending, Ending::Finished, "after {after}");
        }
        if event_count < after {
            break;
        }
    }
    // The run is ahead of the reader of the events, so some runs end before they are cancelled.
    assert!(cancelled_runs > 5, "{cancelled_runs}");
}

#[tokio::test]
async fn an_incomplete_response_becomes_an_interrupted_message() {
    let hanging = ScriptedTurn {
        events: vec![ModelEvent::Text("The answer ".into()), ModelEvent::Text("is".into())],
        end: None,
    };
    let model = model([hanging]);
    let agent = builder(&model).build().unwrap();
    let mut running = agent.stream("Go");
    while !matches!(next(&mut running).await.unwrap(), AgentEvent::Text(text) if text == "is") {}
    running.cancellation_token().cancel();
    let (_, finished) = events(running).await;
    assert_eq!(finished.outcome.ending, Ending::Cancelled);
    assert_eq!(finished.outcome.text, "The answer is");
    let mut interrupted = Message::assistant("The answer is");
    interrupted.extra.insert("_meta".into(), json!({"toolwire/interrupted": true}));
    assert_eq!(finished.run.messages(), [Message::user("Go"), interrupted]);
}

#[tokio::test]
async fn the_result_of_a_cancelled_call_reports_the_cancellation() {
    let model = model([ScriptedTurn::calls([("1", "hang", json!({})), ("2", "read", json!({}))])]);
    let agent = builder(&model).build().unwrap();
    let mut running = agent.stream("Go");
    while !matches!(next(&mut running).await.unwrap(), AgentEvent::CallFinished { .. }) {}
    running.cancellation_token().cancel();
    let (_, finished) = events(running).await;
    assert_eq!(
        results(&finished.run.messages()[2]),
        [
            ("1".to_owned(), "the call to `hang` was cancelled while it was running".to_owned()),
            ("2".to_owned(), "{}".to_owned())
        ]
    );
}
