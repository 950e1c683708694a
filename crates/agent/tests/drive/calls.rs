//! Calls: in parallel, in order, and each with a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Barrier, Semaphore};
use toolwire_agent::approval::ApprovalPolicy;
use toolwire_agent::{Agent, AgentEvent, CombinedToolbox, Ending, Functions};
use toolwire_contract::Message;
use toolwire_contract::toolbox::{CallOptions, Toolbox};
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{agent, builder, events, functions, model, results, tool};

#[tokio::test]
async fn the_calls_of_one_response_run_in_parallel_and_their_results_are_in_order() {
    // Each call waits for the other, and the second finishes first.
    let (barrier, second) = (Arc::new(Barrier::new(2)), Arc::new(Semaphore::new(0)));
    let read_only = json!({"readOnlyHint": true});
    let wait_for_other = |is_second: bool| {
        let (barrier, second) = (barrier.clone(), second.clone());
        move |_| {
            let (barrier, second) = (barrier.clone(), second.clone());
            async move {
                barrier.wait().await;
                if is_second {
                    second.add_permits(1);
                } else {
                    second.acquire().await.unwrap().forget();
                }
                if is_second { "second" } else { "first" }
            }
        }
    };
    let tools = Functions::new()
        .with(tool("one", read_only.clone()), wait_for_other(false))
        .with(tool("two", read_only), wait_for_other(true));
    let model = model([
        ScriptedTurn::calls([("a", "one", json!({})), ("b", "two", json!({}))]),
        ScriptedTurn::text("Done."),
    ]);
    let agent = Agent::builder().model(model.clone()).tools(Arc::new(tools)).build().unwrap();
    let (events, finished) = events(agent.stream("Go")).await;
    assert_eq!(finished.outcome.text, "Done.");
    assert_eq!(finished.outcome.steps, 2);
    assert_eq!(
        results(&finished.run.messages()[2]),
        [("a".to_owned(), "first".to_owned()), ("b".to_owned(), "second".to_owned())]
    );
    let finished_order: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::CallFinished { id, elapsed: Some(_), .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(finished_order, ["b", "a"]);
}

#[tokio::test]
async fn the_number_of_parallel_calls_is_limited() {
    let (running, maximum) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count_running = {
        let (running, maximum) = (running.clone(), maximum.clone());
        move |_| {
            let (running, maximum) = (running.clone(), maximum.clone());
            async move {
                maximum.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                "counted"
            }
        }
    };
    let tools = Functions::new().with(tool("count", json!({"readOnlyHint": true})), count_running);
    let ids: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let model = model([
        ScriptedTurn::calls(ids.iter().map(|id| (id.as_str(), "count", json!({})))),
        ScriptedTurn::text("Done."),
    ]);
    let agent = Agent::builder().model(model).tools(Arc::new(tools)).parallel_calls(3).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2]).len(), 20);
    assert_eq!(maximum.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_failed_call_has_an_error_result() {
    let mut script = ScriptedTurn::calls([
        ("1", "fail", json!({})),
        ("2", "panic", json!({})),
        ("3", "hang", json!({})),
        ("4", "unknown", json!({})),
        ("5", "read", json!({"a": 1})),
        ("6", "read", json!({})),
    ]);
    let Some(Ok(response)) = &mut script.end else { unreachable!() };
    response.unusable.push(toolwire_contract::model::UnusableCall {
        id: "6".into(),
        problem: "the arguments are incomplete".into(),
    });
    let model = model([script, ScriptedTurn::text("I see.")]);
    let agent = builder(&model)
        .approvals(ApprovalPolicy::allow_all())
        .call_timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let results = results(&model.requests()[1].messages[2]);
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "no such city",
            "`panic` crashed: index out of bounds. It is unknown whether the call took effect",
            "server `in-process` did not respond to `hang` within 5s. The tool may still be running: check whether it took \
             effect before calling it again",
            "no server offers a tool named `unknown`. Use one of the listed tools",
            r#"{"a":1}"#,
            "the arguments are incomplete",
        ]
    );
    check_messages(finished.run.messages()).unwrap();
}

#[tokio::test]
async fn the_third_failure_of_the_same_call_has_a_note() {
    let call = |id| ScriptedTurn::calls([(id, "fail", json!({"city": "Atlantis"}))]);
    let other = ScriptedTurn::calls([("4", "fail", json!({"city": "Ys"}))]);
    let model = model([call("1"), call("2"), call("3"), other, ScriptedTurn::text("I cannot find it.")]);
    let finished = agent(&model).run("Go").await;
    let has_note: Vec<bool> = finished
        .run
        .messages()
        .iter()
        .flat_map(|message| results(message))
        .map(|(_, text)| text.contains("The same call has now failed 3 times"))
        .collect();
    assert_eq!(has_note, [false, false, true, false]);
}

#[tokio::test]
async fn tools_of_the_same_name_in_two_toolboxes_get_stable_prefixes() {
    let web = Functions::new()
        .with(tool("read", json!({"readOnlyHint": true})), |_| async { "from web" })
        .with(tool("only", json!({"readOnlyHint": true})), |_| async { "only here" });
    let both = CombinedToolbox::new([
        ("files", Arc::new(functions()) as Arc<dyn Toolbox>),
        ("web", Arc::new(web) as Arc<dyn Toolbox>),
    ]);
    let names: Vec<String> = both.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["files_read", "delete", "fail", "panic", "hang", "web_read", "only"]);
    assert!(Arc::ptr_eq(&both.tools(), &both.tools()));
    for (name, expected) in [("files_read", "{}"), ("web_read", "from web"), ("only", "only here")] {
        let result = both.call(name, &json!({}), CallOptions::default()).await.unwrap();
        assert_eq!(json!(result)["content"][0]["text"], expected);
    }
    let model = model([ScriptedTurn::calls([("1", "web_read", json!({}))]), ScriptedTurn::text("Done.")]);
    let agent = Agent::builder().model(model).tools(Arc::new(both)).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2])[0].1, "from web");
}

#[tokio::test]
async fn a_response_is_emitted_in_fragments_and_as_a_message() {
    let model = model([ScriptedTurn::text_in_chunks("Good morning", 5)]);
    let (events, finished) = events(agent(&model).stream("Hello")).await;
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["Good ", "morni", "ng"]);
    let added: Vec<&Message> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::MessageAdded(message) => Some(&**message),
            _ => None,
        })
        .collect();
    assert_eq!(added, [&Message::user("Hello"), &Message::assistant("Good morning")]);
    assert_eq!(finished.run.messages(), [Message::user("Hello"), Message::assistant("Good morning")]);
}
