//! Limits that end a run.

use serde_json::json;
use toolwire_agent::{Ending, RunLimit};
use toolwire_contract::{Block, Content, Message, ModelResponse, Role, StopReason};
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{builder, model, results};

fn call(id: &str) -> ScriptedTurn {
    ScriptedTurn::calls([(id, "read", json!({}))])
}

#[tokio::test]
async fn at_the_step_limit_the_last_calls_are_not_made() {
    let model = model([call("1"), call("2"), call("3")]);
    let finished = builder(&model).max_steps(2).build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(RunLimit::Steps));
    assert_eq!(finished.outcome.steps, 2);
    assert_eq!(results(&finished.run.messages()[4])[0].1, "`read` was not run: the step limit was reached");
    check_messages(finished.run.messages()).unwrap();
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn the_token_budget_ends_the_run_and_the_next_message_has_a_new_one() {
    let model = model([call("1"), call("2"), ScriptedTurn::text("Hello.")]);
    let agent = builder(&model).token_budget(30).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(RunLimit::Tokens));
    assert_eq!(finished.outcome.usage.input_tokens, 20);
    let mut run = finished.run;
    run.say("Hello?");
    assert_eq!(agent.drive(run).finish().await.outcome.text, "Hello.");
}

#[tokio::test]
async fn after_an_empty_response_the_request_is_repeated() {
    let thinking = Block::Content(Content::Other(json!({"type": "thinking", "text": "Hm."})));
    let empty = || {
        let Some(Ok(response)) = ScriptedTurn::text("").end else { unreachable!() };
        ScriptedTurn::response(ModelResponse {
            message: Message::new(Role::Assistant, vec![thinking.clone()]),
            ..response
        })
    };
    let repeated = model([empty(), ScriptedTurn::text("Hello.")]);
    let finished = builder(&repeated).build().unwrap().run("Go").await;
    assert_eq!(finished.run.messages(), [Message::user("Go"), Message::assistant("Hello.")]);
    assert_eq!(finished.outcome.usage.input_tokens, 20);
    let always_empty = model([empty(), empty(), empty(), ScriptedTurn::text("Too late.")]);
    let finished = builder(&always_empty).build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(RunLimit::EmptyResponses));
    assert_eq!(finished.run.messages(), [Message::user("Go")]);
}

#[tokio::test]
async fn a_response_that_was_cut_off_ends_the_run() {
    let Some(Ok(response)) = ScriptedTurn::text("Once upon a").end else { unreachable!() };
    let model = model([ScriptedTurn::response(ModelResponse { stop: StopReason::Length, ..response })]);
    let finished = builder(&model).build().unwrap().run("Tell me a story").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(RunLimit::Output));
    assert_eq!(finished.outcome.text, "Once upon a");
    assert_eq!(finished.outcome.stop, Some(StopReason::Length));
}
