//! Calls that the caller of the agent runs itself.

use serde_json::json;
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, Ending, Unattended};
use toolwire_contract::{Message, Tool, ToolResult};
use toolwire_testkit::ScriptedTurn;

use crate::support::{builder, events, model, results, tool};

fn with_client_tools(builder: toolwire_agent::AgentBuilder, names: &[&str]) -> Agent {
    let tools: Vec<Tool> = names.iter().map(|name| tool(name, json!({}))).collect();
    builder.approvals(ApprovalPolicy::allow_all()).client_tools(tools).build().unwrap()
}

/// The calls of the toolbox run, and the run ends with those of the client; it can be saved there and
/// continued.
#[tokio::test]
async fn a_step_with_both_kinds_of_calls_waits_for_the_client() {
    let model = model([
        ScriptedTurn::calls([
            ("a", "pick_color", json!({"for": "walls"})),
            ("b", "read", json!({"path": "x"})),
            ("c", "pick_color", json!({})),
        ]),
        ScriptedTurn::text("Done."),
    ]);
    let agent = with_client_tools(builder(&model), &["pick_color"]);
    let mut run = agent.new_run();
    run.say("Paint it.");
    let (_, finished) = events(agent.drive(run)).await;
    let Ending::NeedsResults(calls) = &finished.outcome.ending else { panic!("{:?}", finished.outcome) };
    let ids: Vec<&str> = calls.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert_eq!(calls[0].1.arguments, json!({"for": "walls"}).as_object().cloned());
    // The client's tools come first in the request, then those of the toolbox.
    let request = &model.requests()[0];
    assert_eq!(request.tools[0].name, "pick_color");
    assert!(request.tools.iter().any(|tool| tool.name == "read"));

    let mut run = Run::from_json(&finished.run.to_json()).unwrap();
    run.tools_returned([("c".to_owned(), ToolResult::text("blue"))]);
    let (_, finished) = events(agent.drive(run)).await;
    assert!(matches!(&finished.outcome.ending, Ending::NeedsResults(calls) if calls.len() == 1));
    let mut run = finished.run;
    run.tools_returned([
        ("a".to_owned(), ToolResult::text("red")),
        ("b".to_owned(), ToolResult::text("forged")),
    ]);
    let (_, finished) = events(agent.drive(run)).await;
    assert_eq!((&finished.outcome.ending, &*finished.outcome.text), (&Ending::Finished, "Done."));
    let messages = finished.run.messages();
    let expected = [("a", "red"), ("b", r#"{"path":"x"}"#), ("c", "blue")];
    assert_eq!(results(&messages[2]), expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
}

#[tokio::test]
async fn a_client_that_goes_on_without_results_leaves_a_valid_history() {
    let model =
        model([ScriptedTurn::calls([("a", "pick_color", json!({}))]), ScriptedTurn::text("All right.")]);
    let agent = with_client_tools(builder(&model), &["pick_color"]);
    let mut run = agent.new_run();
    run.say("Paint it.");
    let (_, finished) = events(agent.drive(run)).await;
    let mut run = finished.run;
    run.say("Forget it.");
    let (_, finished) = events(agent.drive(run)).await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let results = results(&finished.run.messages()[2]);
    assert_eq!(
        results,
        [("a".to_owned(), "the call to `pick_color` has no result: it was not run".to_owned())]
    );
}

/// Clients send the whole conversation again, with the results in it.
#[tokio::test]
async fn a_conversation_continues_from_the_messages_of_the_client() {
    let script = [ScriptedTurn::text("Red it is.")];
    let model = model(script);
    let agent = with_client_tools(builder(&model), &["pick_color"]);
    let messages: Vec<Message> = serde_json::from_value(json!([
        {"role": "user", "content": [{"type": "text", "text": "Paint it."}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "pick_color", "input": {}},
            {"type": "tool_use", "id": "b", "name": "pick_color", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "toolUseId": "a", "content": [{"type": "text", "text": "red"}]}]}
    ]))
    .unwrap();
    let settings = agent.new_run().settings().clone();
    let run = Run::resume(settings, messages, agent.tools().tools(), Default::default());
    let (_, finished) = events(agent.drive(run)).await;
    assert!(matches!(&finished.outcome.ending, Ending::NeedsResults(calls) if calls[0].0 == "b"));
    let mut run = finished.run;
    run.tools_returned([("b".to_owned(), ToolResult::text("blue"))]);
    let (_, finished) = events(agent.drive(run)).await;
    assert_eq!(finished.outcome.text, "Red it is.");
}

/// A tool of the client hides a tool of the toolbox, and is never run by the agent.
#[tokio::test]
async fn a_client_tool_is_never_run_by_the_agent() {
    let model = model([ScriptedTurn::calls([("a", "delete", json!({}))])]);
    let agent = with_client_tools(builder(&model), &["delete"]);
    let mut run = agent.new_run();
    run.say("Delete it.");
    let (_, finished) = events(agent.drive(run)).await;
    assert!(matches!(&finished.outcome.ending, Ending::NeedsResults(calls) if calls[0].0 == "a"));
    let names: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names.iter().filter(|name| *name == "delete").count(), 1);
}

/// An approval comes first; the client's calls stay open meanwhile.
#[tokio::test]
async fn approvals_and_client_calls_in_one_step() {
    let model = model([
        ScriptedTurn::calls([("a", "pick_color", json!({})), ("b", "delete", json!({}))]),
        ScriptedTurn::text("Done."),
    ]);
    let builder = builder(&model).unattended(Unattended::Pause);
    let agent = builder.client_tools([tool("pick_color", json!({}))]).build().unwrap();
    let mut run = agent.new_run();
    run.say("Go.");
    let (_, finished) = events(agent.drive(run)).await;
    assert!(matches!(&finished.outcome.ending, Ending::NeedsApproval(calls) if calls[0].id == "b"));
    let mut run = finished.run;
    assert_eq!(run.external_calls().len(), 1);
    run.decide("b", toolwire_agent::approval::Decision::Once);
    let (_, finished) = events(agent.drive(run)).await;
    assert!(matches!(finished.outcome.ending, Ending::NeedsResults(_)));
    let mut run = finished.run;
    run.tools_returned([("a".to_owned(), ToolResult::text("red"))]);
    let (_, finished) = events(agent.drive(run)).await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
}
