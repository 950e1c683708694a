//! Calls that need approval.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolwire_agent::approval::{Approver, Decision, PendingCall};
use toolwire_agent::run::{Run, edited_arguments, is_denied};
use toolwire_agent::{Agent, AgentEvent, Ending, Unattended};
use toolwire_contract::{Content, Tool};
use toolwire_testkit::ScriptedTurn;

use crate::support::{PartialToolbox, builder, functions, model, next, results, tool};

fn two_deletions_and_a_read() -> ScriptedTurn {
    ScriptedTurn::calls([
        ("1", "delete", json!({"n": 1})),
        ("2", "delete", json!({"n": 2})),
        ("3", "read", json!({})),
    ])
}

/// Checks the results after these decisions, and the ids of the calls that were reviewed.
async fn check(decisions: Vec<Decision>, expected: [&str; 3], expected_reviewed: &[&str]) {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    let decisions = Mutex::new(decisions.into_iter());
    let reviewed = Arc::new(Mutex::new(Vec::new()));
    let ids = reviewed.clone();
    let approver = move |call: &PendingCall| {
        ids.lock().unwrap().push(call.id.clone());
        decisions.lock().unwrap().next().unwrap()
    };
    let agent = builder(&model).approver(Arc::new(approver)).build().unwrap();
    let finished = agent.run("Clean up").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let results = results(&finished.run.messages()[2]);
    assert_eq!(results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(*reviewed.lock().unwrap(), expected_reviewed);
}

#[tokio::test]
async fn the_approver_decides_about_each_call() {
    let denied = "`delete` was not run: the user denied it: that is my thesis";
    let denial = Decision::No { because: Some("that is my thesis".into()) };
    check(vec![Decision::Once, denial.clone()], ["deleted", denied, "{}"], &["1", "2"]).await;
    check(vec![denial, Decision::Once], [denied, "deleted", "{}"], &["1", "2"]).await;
}

#[tokio::test]
async fn always_applies_to_the_other_calls_of_the_tool() {
    check(vec![Decision::Always], ["deleted", "deleted", "{}"], &["1"]).await;
}

/// Checks the result of a call of `echo` with these arguments instead of the model's.
async fn check_edit(arguments: Value, expected: &str, expected_edit: Option<Value>) {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let functions = functions().with(
        Tool { input_schema: Some(schema), ..tool("echo", json!({"destructiveHint": true})) },
        |arguments| async move { json!(arguments).to_string() },
    );
    let turn = ScriptedTurn::calls([("1", "echo", json!({"n": 1}))]);
    let model = model([turn, ScriptedTurn::text("Done.")]);
    let agent = Agent::builder().model(model).tools(Arc::new(functions)).unattended(Unattended::Pause);
    let agent = agent.build().unwrap();
    let mut run = agent.run("Echo").await.run;
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let is_valid = run.check_arguments("1", &arguments).is_ok();
    assert_eq!(is_valid, expected_edit.is_some() || arguments["n"] == 1);
    run.decide("1", Decision::OnceWith { arguments });
    // The run may be saved between the decision and the call.
    let run = Run::from_json(&run.to_json()).unwrap();
    let finished = agent.drive(run).finish().await;
    assert_eq!(finished.outcome.text, "Done.");
    // The model's message stays as it was.
    assert_eq!(
        finished.run.messages()[1].calls().next().unwrap().1.arguments,
        json!({"n": 1}).as_object().cloned(),
    );
    let Some((_, result)) = finished.run.messages()[2].results().next() else { panic!("no result") };
    let texts: Vec<&str> = result
        .blocks()
        .iter()
        .map(|block| match block {
            Content::Text { text, .. } => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts.join("\n"), expected);
    assert_eq!(edited_arguments(result).cloned().map(Value::Object), expected_edit);
    assert_eq!(is_denied(result), !is_valid);
}

#[tokio::test]
async fn a_call_runs_with_the_arguments_that_the_user_changed() {
    let expected =
        "{\"n\":2}\nThe user changed the arguments of this call before it ran. It ran with: {\"n\":2}";
    check_edit(json!({"n": 2}), expected, Some(json!({"n": 2}))).await;
}

#[tokio::test]
async fn arguments_that_the_user_left_as_they_were_are_not_mentioned() {
    check_edit(json!({"n": 1}), "{\"n\":1}", None).await;
}

#[tokio::test]
async fn a_call_with_invalid_changed_arguments_does_not_run() {
    let expected = "`echo` was not run: the user changed its arguments, and they do not match its schema: at /n: \"two\" \
                    is not an integer";
    check_edit(json!({"n": "two"}), expected, None).await;
}

#[tokio::test]
async fn without_an_approver_a_call_that_needs_approval_does_not_run() {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    let finished = builder(&model).build().unwrap().run("Clean up").await;
    assert_eq!(
        results(&finished.run.messages()[2])[0].1,
        "`delete` was not run: it may change or delete data, and no user is present to approve it. Continue without it, \
         and tell the user that it was not run"
    );
    assert_eq!(finished.outcome.ending, Ending::Finished);
}

/// Never decides.
struct IdleApprover;

impl Approver for IdleApprover {
    fn review<'a>(&'a self, _: &'a PendingCall) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_approved_in_time_does_not_run() {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    let builder = builder(&model).approver(Arc::new(IdleApprover)).approval_timeout(Duration::from_secs(60));
    let finished = builder.build().unwrap().run("Clean up").await;
    let results = results(&finished.run.messages()[2]);
    assert!(results[0].1.contains("and it was not approved in time"), "{}", results[0].1);
    assert_eq!(results[2].1, "{}");
}

#[tokio::test]
async fn calls_run_while_another_one_is_reviewed() {
    let model = model([
        ScriptedTurn::calls([
            ("1", "delete", json!({})),
            ("2", "signal", json!({})),
            ("3", "delete", json!({})),
        ]),
        ScriptedTurn::text("Done."),
    ]);
    let called = Arc::new(Notify::new());
    let signal = called.clone();
    let functions = functions().with(tool("signal", json!({"readOnlyHint": true})), move |_| {
        signal.notify_one();
        async { "signalled" }
    });
    // Decides about the first call only after the second one has run.
    struct Waiting(Arc<Notify>);
    impl Approver for Waiting {
        fn review<'a>(&'a self, call: &'a PendingCall) -> BoxFuture<'a, Decision> {
            Box::pin(async move {
                if call.id == "1" {
                    self.0.notified().await;
                }
                Decision::Once
            })
        }
    }
    let agent = Agent::builder().model(model).tools(Arc::new(functions)).approver(Arc::new(Waiting(called)));
    let agent = agent.build().unwrap();
    let run = agent.run("Clean up");
    let finished = tokio::time::timeout(Duration::from_secs(60), run).await.expect("the run ends");
    let results = results(&finished.run.messages()[2]);
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["deleted", "signalled", "deleted"]);
}

#[tokio::test]
async fn a_decision_that_arrives_while_other_calls_run_is_used_at_once() {
    let model = model([
        ScriptedTurn::calls([("1", "erase", json!({})), ("2", "hold", json!({})), ("3", "erase", json!({}))]),
        ScriptedTurn::text("Done."),
    ]);
    // The call that needs no approval ends only after the other one has run.
    let release = Arc::new(Notify::new());
    let released = release.clone();
    let functions = functions()
        .with(tool("erase", json!({"destructiveHint": true})), |_| async { "erased" })
        .with(tool("hold", json!({"readOnlyHint": true})), move |_| {
            let released = released.clone();
            async move {
                released.notified().await;
                "held"
            }
        });
    let agent = Agent::builder().model(model).tools(Arc::new(functions)).unattended(Unattended::Pause);
    let mut running = agent.build().unwrap().stream("Clean up");
    while !matches!(next(&mut running).await, Some(AgentEvent::CallStarted { name, .. }) if name == "hold") {}
    running.decide("3", Decision::No { because: Some("once is enough".into()) });
    running.decide("1", Decision::Once);
    let mut ended = Vec::new();
    let finished = loop {
        match next(&mut running).await.expect("an event") {
            AgentEvent::CallFinished { id, .. } => {
                if id == "1" {
                    release.notify_one();
                }
                ended.push(id);
            }
            AgentEvent::Done(finished) => break finished,
            _ => {}
        }
    };
    assert_eq!(ended, ["3", "1", "2"]);
    assert_eq!(finished.outcome.text, "Done.");
    assert!(running.take_unused_decisions().is_empty());
    let results = results(&finished.run.messages()[2]);
    assert_eq!([&*results[0].1, &*results[1].1], ["erased", "held"]);
    assert!(results[2].1.ends_with("once is enough"), "{}", results[2].1);
}

#[tokio::test]
async fn a_decision_after_the_pause_is_returned() {
    let model = model([two_deletions_and_a_read()]);
    let agent = builder(&model).unattended(Unattended::Pause).build().unwrap();
    let mut running = agent.stream("Clean up");
    while !matches!(next(&mut running).await, Some(AgentEvent::Done(_))) {}
    running.decide("2", Decision::Once);
    assert_eq!(running.take_unused_decisions(), [("2".to_owned(), Decision::Once)]);
}

#[tokio::test]
async fn a_paused_run_continues_after_it_was_saved() {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    let agent = builder(&model).unattended(Unattended::Pause).build().unwrap();
    let paused = agent.run("Clean up").await;
    let Ending::NeedsApproval(pending) = &paused.outcome.ending else { panic!("{:?}", paused.outcome) };
    assert_eq!(pending.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["1", "2"]);
    let mut run = Run::from_json(&paused.run.to_json()).unwrap();
    assert_eq!(run, paused.run);
    run.decide("2", Decision::Once);
    run.decide("1", Decision::No { because: None });
    let finished = agent.drive(run).finish().await;
    assert_eq!(finished.outcome.text, "Done.");
    let results = results(&finished.run.messages()[2]);
    assert_eq!(results[1].1, "deleted");
    assert!(results[0].1.contains("the user denied it"), "{}", results[0].1);
}

#[tokio::test]
async fn a_run_saved_by_an_earlier_version_continues() {
    let saved = include_str!("../fixtures/saved_run.json");
    let mut run = Run::from_json(saved).unwrap();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(json(&run.to_json()), json(saved));
    run.decide("2", Decision::Once);
    let model = model([ScriptedTurn::text("Done.")]);
    let finished = builder(&model).build().unwrap().drive(run).finish().await;
    assert_eq!(finished.outcome.text, "Done.");
    assert_eq!(results(&finished.run.messages()[4])[1].1, "deleted");
}

#[tokio::test]
async fn a_denial_has_precedence_over_an_always_for_another_call_of_the_tool() {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    let agent = builder(&model).unattended(Unattended::Pause).build().unwrap();
    let mut run = agent.run("Clean up").await.run;
    run.decide("1", Decision::Always);
    run.decide("2", Decision::No { because: Some("not that one".into()) });
    let finished = agent.drive(run).finish().await;
    let results = results(&finished.run.messages()[2]);
    assert_eq!(results[0].1, "deleted");
    assert!(results[1].1.ends_with("the user denied it: not that one"), "{}", results[1].1);
}

#[tokio::test]
async fn an_unlisted_tool_is_checked_when_it_is_called() {
    let model = model([two_deletions_and_a_read(), ScriptedTurn::text("Done.")]);
    // Like the tools of a server that becomes available during the call.
    let toolbox = Arc::new(PartialToolbox { listed: Arc::new([]), missing: Vec::new(), tools: functions() });
    let builder = Agent::builder().model(model.clone()).tools(toolbox);
    let finished = builder.build().unwrap().run("Clean up").await;
    let results = results(&finished.run.messages()[2]);
    assert_eq!(
        results[0].1,
        "`delete` was not run: it may change or delete data, and approval was not requested because the tool \
         appeared or changed after the call was checked. If it is still listed, call it again"
    );
    assert_eq!(results[2].1, "{}");
}
