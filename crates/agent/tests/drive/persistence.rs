//! Storing messages, and continuing stored conversations.

use serde_json::json;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, Ending, Functions, RunError};
use toolwire_contract::conversations::{Conversations, NewConversation, StoreError};
use toolwire_contract::model::{ModelError, Usage};
use toolwire_contract::{Block, Message, Role, ToolCall, ToolResult};
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{builder, model, results, store, tool};

fn calls(names: &[&str]) -> Message {
    let block = |(index, name): (usize, &&str)| Block::Call {
        id: index.to_string(),
        call: ToolCall::new(*name, serde_json::Map::new()),
    };
    Message::new(Role::Assistant, names.iter().enumerate().map(block).collect())
}

#[tokio::test]
async fn every_message_is_stored_with_its_model_and_usage() {
    let (_folder, store) = store().await;
    let model = model([ScriptedTurn::calls([("1", "read", json!({}))]), ScriptedTurn::text("Done.")]);
    let agent = builder(&model).conversations(store.clone()).build().unwrap();
    let finished = agent.run("Go").await;
    let stored = store.load(finished.run.stored_in().unwrap().0, 0).await.unwrap();
    let usage = Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
    let models = [None, Some("scripted"), None, Some("scripted")];
    assert_eq!(stored.entries.iter().map(|entry| entry.model.as_deref()).collect::<Vec<_>>(), models);
    assert_eq!(
        stored.entries.iter().map(|entry| entry.usage).collect::<Vec<_>>(),
        [None, usage, None, usage]
    );
    assert_eq!(
        stored.entries.into_iter().map(|entry| entry.message).collect::<Vec<_>>(),
        finished.run.messages()
    );
}

#[tokio::test]
async fn a_conversation_that_was_interrupted_during_its_calls_is_resumed() {
    let (_folder, store) = store().await;
    let id = store.begin(NewConversation::default()).await.unwrap().id;
    let result = Block::Result { id: "1".into(), result: ToolResult::text("read before") };
    let messages = [
        Message::user("Go"),
        // The outcome of the first call is unknown, the second has a result, and the third is repeatable.
        calls(&["delete", "read", "read"]),
        Message::new(Role::User, vec![result]),
    ];
    store.append(&id, messages.map(Into::into).to_vec(), None).await.unwrap();
    let model = model([ScriptedTurn::text("Done.")]);
    let agent = builder(&model).conversations(store.clone()).build().unwrap();
    let run = agent.load(&id).await.unwrap();
    assert_eq!(run.interrupted_calls().collect::<Vec<_>>(), ["delete"]);
    let finished = agent.drive(run).finish().await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let results = results(&model.requests()[0].messages[2]);
    assert!(results[0].1.contains("it is unknown whether it took effect"), "{}", results[0].1);
    assert_eq!([&*results[1].1, &*results[2].1], ["read before", "{}"]);
    let reloaded = agent.load(&id).await.unwrap();
    assert_eq!(reloaded.messages(), finished.run.messages());
    assert!(reloaded.is_done());
}

#[tokio::test]
async fn a_conflict_with_another_writer_ends_the_run() {
    let (_folder, store) = store().await;
    let model = model([ScriptedTurn::text("First."), ScriptedTurn::text("Second.")]);
    let agent = builder(&model).conversations(store.clone()).build().unwrap();
    let mut run = agent.run("Go").await.run;
    let (conversation, position) = run.stored_in().map(|(id, position)| (id.clone(), position)).unwrap();
    store.append(&conversation, vec![Message::user("Another message").into()], None).await.unwrap();
    run.say("Go on");
    let finished = agent.drive(run).finish().await;
    let Ending::Failed(failure) = finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    let expected = StoreError::Conflict { conversation, expected: position, found: position + 1 };
    assert_eq!(failure.cause.as_deref(), Some(&RunError::Store(expected)));
    assert_eq!(failure.code, "conflict");
    // The model gets no request after a message that could not be stored.
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_model_error_ends_the_run_and_is_its_cause() {
    let error = ModelError::TimedOut {
        model: "scripted".into(),
        waiting_for: toolwire_contract::model::WaitPhase::FirstToken,
        after: std::time::Duration::from_secs(3),
    };
    let model = model([ScriptedTurn::calls([("1", "read", json!({}))]), ScriptedTurn::error(error.clone())]);
    let finished = builder(&model).approvals(ApprovalPolicy::allow_all()).build().unwrap().run("Go").await;
    let Ending::Failed(failure) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    assert_eq!(failure.cause.as_deref(), Some(&RunError::Model(error)));
    assert_eq!(failure.hint.as_deref(), Some("retry, or increase the timeout"));
    check_messages(finished.run.messages()).unwrap();
}

#[tokio::test]
async fn content_that_is_nested_too_deeply_is_stored_as_text() {
    let (_folder, store) = store().await;
    let deep = (0..125).fold(json!("bottom"), |inner, _| json!([inner]));
    let text = deep.to_string();
    let tools = Functions::new().with(tool("dig", json!({"readOnlyHint": true})), move |_| {
        let deep = deep.clone();
        async move { ToolResult { structured_content: Some(deep), ..ToolResult::default() } }
    });
    let model = model([ScriptedTurn::calls([("1", "dig", json!({}))]), ScriptedTurn::text("Deep.")]);
    let agent = Agent::builder().model(model.clone()).tools(std::sync::Arc::new(tools));
    let agent = agent.conversations(store.clone()).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Finished, "{:?}", finished.outcome);
    let loaded = agent.load(finished.run.stored_in().unwrap().0).await.unwrap();
    assert_eq!(results(&loaded.messages()[2])[0].1, text);
}

#[tokio::test]
async fn messages_that_were_stored_without_acknowledgement_are_not_stored_twice() {
    let (_folder, store) = store().await;
    let model = model([ScriptedTurn::text("One.")]);
    let agent = builder(&model).conversations(store.clone()).build().unwrap();
    let id = store.begin(NewConversation::default()).await.unwrap().id;
    let mut run = agent.new_run();
    run.store_in(id.clone(), 0);
    run.say("Go");
    store.append(&id, vec![Message::user("Go").into()], Some(0)).await.unwrap();
    agent.persist(&mut run).await.unwrap();
    assert_eq!((run.unsaved_messages().len(), run.stored_in().unwrap().1), (0, 1));
    let finished = agent.drive(run).finish().await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    assert_eq!(store.load(&id, 0).await.unwrap().entries.len(), 2);
}
