//! Calls that a person must decide about.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use toolwire_agent::{Agent, Decision, Ending, PendingCall, Person, Run, Unattended};
use toolwire_testkit::ScriptedTurn;

use crate::support::{Partly, builder, functions, model, results};

fn two_deletions() -> ScriptedTurn {
    ScriptedTurn::calls([
        ("1", "delete", json!({"n": 1})),
        ("2", "delete", json!({"n": 2})),
        ("3", "read", json!({})),
    ])
}

/// What the model is told when a person decides this, one decision after the other.
async fn check(decisions: Vec<Decision>, expected: [&str; 3], expected_asked: &[&str]) {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    let decisions = Mutex::new(decisions.into_iter());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let person = move |call: &PendingCall| {
        seen.lock().unwrap().push(call.id.clone());
        decisions.lock().unwrap().next().unwrap()
    };
    let agent = builder(&model).person(Arc::new(person)).build().unwrap();
    let finished = agent.run("Clean up").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let told = results(&finished.run.messages()[2]);
    assert_eq!(told.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(*asked.lock().unwrap(), expected_asked);
}

#[tokio::test]
async fn a_person_decides_about_each_call() {
    let no = "`delete` was not run: the user said no, because: that is my thesis";
    let because = Decision::No { because: Some("that is my thesis".into()) };
    check(vec![Decision::Once, because.clone()], ["deleted", no, "{}"], &["1", "2"]).await;
    check(vec![because, Decision::Once], [no, "deleted", "{}"], &["1", "2"]).await;
}

#[tokio::test]
async fn always_holds_for_the_other_calls_of_the_tool() {
    check(vec![Decision::Always], ["deleted", "deleted", "{}"], &["1"]).await;
}

#[tokio::test]
async fn without_a_person_a_call_that_needs_one_does_not_run_and_the_model_is_told_why() {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    let finished = builder(&model).build().unwrap().run("Clean up").await;
    assert_eq!(
        results(&finished.run.messages()[2])[0].1,
        "`delete` was not run: it may change or delete things, and nobody is there to allow it. Go on without it, and say that it was not run"
    );
    assert_eq!(finished.outcome.ending, Ending::Finished);
}

/// Never answers.
struct Absent;

impl Person for Absent {
    fn review<'a>(&'a self, _: &'a PendingCall) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_who_does_not_answer_in_time_has_not_allowed_it() {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    let waiting = builder(&model).person(Arc::new(Absent)).person_timeout(Duration::from_secs(60));
    let finished = waiting.build().unwrap().run("Clean up").await;
    let told = results(&finished.run.messages()[2]);
    assert!(told[0].1.contains("and nobody answered in time"), "{}", told[0].1);
    assert_eq!(told[2].1, "{}");
}

#[tokio::test]
async fn a_run_pauses_and_goes_on_as_another_value() {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    let agent = builder(&model).unattended(Unattended::Pause).build().unwrap();
    let paused = agent.run("Clean up").await;
    let Ending::NeedsApproval(waiting) = &paused.outcome.ending else { panic!("{:?}", paused.outcome) };
    assert_eq!(waiting.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["1", "2"]);
    let mut run = Run::from_json(&paused.run.to_json()).unwrap();
    assert_eq!(run, paused.run);
    run.person_said("2", Decision::Once);
    run.person_said("1", Decision::No { because: None });
    let finished = agent.drive(run).finish().await;
    assert_eq!(finished.outcome.text, "Done.");
    let told = results(&finished.run.messages()[2]);
    assert_eq!(told[1].1, "deleted");
    assert!(told[0].1.contains("the user said no"), "{}", told[0].1);
}

#[tokio::test]
async fn a_no_counts_after_an_always_to_another_call_of_the_tool() {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    let agent = builder(&model).unattended(Unattended::Pause).build().unwrap();
    let mut run = agent.run("Clean up").await.run;
    run.person_said("1", Decision::Always);
    run.person_said("2", Decision::No { because: Some("not that one".into()) });
    let finished = agent.drive(run).finish().await;
    let told = results(&finished.run.messages()[2]);
    assert_eq!(told[0].1, "deleted");
    assert!(told[1].1.ends_with("the user said no, because: not that one"), "{}", told[1].1);
}

#[tokio::test]
async fn a_tool_that_is_not_listed_is_judged_when_it_is_found() {
    let model = model([two_deletions(), ScriptedTurn::text("Done.")]);
    // As those of a server that is just coming back.
    let toolbox = Arc::new(Partly { listed: Arc::new([]), missing: Vec::new(), tools: functions() });
    let builder = Agent::builder().model(model.clone()).tools(toolbox);
    let finished = builder.build().unwrap().run("Clean up").await;
    let told = results(&finished.run.messages()[2]);
    assert_eq!(
        told[0].1,
        "`delete` was not run: it may change or delete things, and it was not listed so when it was called, so nobody was \
         asked. If it is listed now, call it again"
    );
    assert_eq!(told[2].1, "{}");
}
