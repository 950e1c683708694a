//! What ends a run that would go on.

use serde_json::json;
use toolwire_agent::{Ending, Limit};
use toolwire_contract::{Block, Content, Message, ModelResponse, Role, StopReason};
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{builder, model, results};

fn call(id: &str) -> ScriptedTurn {
    ScriptedTurn::calls([(id, "read", json!({}))])
}

#[tokio::test]
async fn at_the_limit_of_steps_the_last_calls_are_not_made() {
    let model = model([call("1"), call("2"), call("3")]);
    let finished = builder(&model).max_steps(2).build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(Limit::Steps));
    assert_eq!(finished.outcome.steps, 2);
    assert_eq!(
        results(&finished.run.messages()[4])[0].1,
        "`read` was not run: the limit of steps was reached"
    );
    check_messages(finished.run.messages()).unwrap();
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_used_up_budget_ends_the_run_and_the_next_message_has_a_new_one() {
    let model = model([call("1"), call("2"), ScriptedTurn::text("Hello.")]);
    let agent = builder(&model).token_budget(30).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(Limit::Tokens));
    assert_eq!(finished.outcome.usage.input_tokens, 20);
    let mut run = finished.run;
    run.say("Hello?");
    assert_eq!(agent.drive(run).finish().await.outcome.text, "Hello.");
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_and_leaves_no_message() {
    let thinking = Block::Content(Content::Other(json!({"type": "thinking", "text": "Hm."})));
    let empty = || {
        let Some(Ok(answer)) = ScriptedTurn::text("").end else { unreachable!() };
        ScriptedTurn::response(ModelResponse {
            message: Message::new(Role::Assistant, vec![thinking.clone()]),
            ..answer
        })
    };
    let answered = model([empty(), ScriptedTurn::text("Hello.")]);
    let finished = builder(&answered).build().unwrap().run("Go").await;
    assert_eq!(finished.run.messages(), [Message::user("Go"), Message::assistant("Hello.")]);
    assert_eq!(finished.outcome.usage.input_tokens, 20);
    let silent = model([empty(), empty(), empty(), ScriptedTurn::text("Too late.")]);
    let finished = builder(&silent).build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(Limit::EmptyAnswers));
    assert_eq!(finished.run.messages(), [Message::user("Go")]);
}

#[tokio::test]
async fn an_answer_that_was_cut_off_says_so() {
    let Some(Ok(answer)) = ScriptedTurn::text("Once upon a").end else { unreachable!() };
    let model = model([ScriptedTurn::response(ModelResponse { stop: StopReason::Length, ..answer })]);
    let finished = builder(&model).build().unwrap().run("Tell me a story").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(Limit::Output));
    assert_eq!(finished.outcome.text, "Once upon a");
    assert_eq!(finished.outcome.stop, Some(StopReason::Length));
}
