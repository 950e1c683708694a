//! Limits that end a run.

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::run::{Run, Step};
use toolwire_agent::{AgentSettings, Ending, RunLimit};
use toolwire_contract::model::{Generation, ModelLimits, ModelResponse, OutputFormat, StopReason};
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolCall};
use toolwire_testkit::{ScriptedModel, ScriptedTurn, check_messages};

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

/// Returns the texts of the results of one response with these calls.
async fn results_of(builder: toolwire_agent::AgentBuilder, model: &ScriptedModel) -> Vec<(String, String)> {
    let finished = builder.build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    assert_eq!(finished.outcome.text, "Done.");
    check_messages(finished.run.messages()).unwrap();
    assert_eq!(model.requests().len(), finished.outcome.steps as usize);
    finished.run.messages().iter().flat_map(|message| results(message)).collect()
}

fn calls(ids: &[&str]) -> ScriptedTurn {
    ScriptedTurn::calls(ids.iter().map(|id| (*id, "read", json!({}))))
}

fn result(id: &str, text: &str) -> (String, String) {
    (id.to_owned(), text.to_owned())
}

#[tokio::test]
async fn further_calls_of_a_response_get_an_error_and_the_run_continues() {
    let model = model([calls(&["1", "2", "3"]), calls(&["4"]), ScriptedTurn::text("Done.")]);
    let refused = "`read` was not run: a response may contain at most 2 calls; call it again in the next response if it is \
                   still needed";
    let expected = [result("1", "{}"), result("2", "{}"), result("3", refused), result("4", "{}")];
    assert_eq!(results_of(builder(&model).max_calls_per_step(2), &model).await, expected);
}

#[tokio::test]
async fn further_calls_of_a_run_get_an_error_and_the_run_continues() {
    let model = model([calls(&["1", "2"]), calls(&["3", "4"]), ScriptedTurn::text("Done.")]);
    let refused = "`read` was not run: the limit of 3 calls was reached; respond without further calls";
    let expected = [result("1", "{}"), result("2", "{}"), result("3", "{}"), result("4", refused)];
    assert_eq!(results_of(builder(&model).max_calls(3), &model).await, expected);
}

#[tokio::test]
async fn without_parallel_calls_only_the_first_call_of_a_response_runs() {
    let model = model([calls(&["1", "2"]), ScriptedTurn::text("Done.")]);
    let mut generation = Generation::default();
    generation.parallel_calls = Some(false);
    let refused = "`read` was not run: a response may contain only one call; call it again in the next response if it is \
                   still needed";
    let expected = [result("1", "{}"), result("2", refused)];
    assert_eq!(results_of(builder(&model).generation(generation), &model).await, expected);
}

/// The caller also runs only the first call, and its own calls are not counted.
#[test]
fn limits_on_calls_and_calls_of_client_tools() {
    let own: Arc<[Tool]> = [Tool::new("read", json!({"type": "object"}))].into();
    let run = |parallel_calls| {
        let mut settings = AgentSettings::default();
        settings.client_tools = [Tool::new("ask", json!({"type": "object"}))].into();
        settings.generation.parallel_calls = parallel_calls;
        settings.approvals = ApprovalPolicy::allow_all();
        (settings.max_calls, settings.max_calls_per_step) = (1, 1);
        let mut run = Run::new(settings);
        run.set_tools(own.clone(), ModelLimits::default());
        run.say("Go");
        let names = [("1", "ask"), ("2", "ask"), ("3", "read")];
        let Some(Ok(response)) = ScriptedTurn::calls(names.map(|(id, name)| (id, name, json!({})))).end
        else {
            unreachable!()
        };
        run.model_responded(response);
        run
    };
    let ids = |calls: Vec<(String, ToolCall)>| calls.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    let mut run_of_all = run(None);
    assert!(matches!(run_of_all.step(), Step::CallTools(calls) if ids(calls.clone()) == ["3"]));
    assert_eq!(ids(run_of_all.external_calls()), ["1", "2"]);
    let mut run_of_one = run(Some(false));
    assert!(matches!(run_of_one.step(), Step::AwaitResults(calls) if ids(calls.clone()) == ["1"]));
}

#[tokio::test]
async fn an_empty_response_ends_the_run_if_it_is_not_requested_again() {
    let model = model([ScriptedTurn::text(""), ScriptedTurn::text("Too late.")]);
    let mut settings = AgentSettings::default();
    settings.max_empty_responses = 1;
    let finished = builder(&model).settings(settings).build().unwrap().run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Stopped(RunLimit::EmptyResponses));
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_correction_may_exceed_the_step_limit() {
    let model = model([ScriptedTurn::text("Paris"), ScriptedTurn::text(r#"{"city":"Paris"}"#)]);
    let agent = builder(&model).output(OutputFormat::Json).max_steps(1).build().unwrap();
    let finished = agent.run("Where?").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    assert_eq!(finished.outcome.output, Some(json!({"city": "Paris"})));
}
