//! Calls: at the same time, in order, and answered whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Barrier, Semaphore};
use toolwire_agent::{Agent, AgentEvent, Combined, Ending, Functions, Policy};
use toolwire_contract::{CallOptions, Message, Toolbox};
use toolwire_testkit::{ScriptedTurn, check_messages};

use crate::support::{agent, builder, events, functions, model, results, tool};

#[tokio::test]
async fn the_calls_of_one_answer_run_at_the_same_time_and_answer_in_their_order() {
    // Each waits for the other, and the second is done first.
    let (barrier, second) = (Arc::new(Barrier::new(2)), Arc::new(Semaphore::new(0)));
    let read_only = json!({"readOnlyHint": true});
    let meet = |is_second: bool| {
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
        .with(tool("one", read_only.clone()), meet(false))
        .with(tool("two", read_only), meet(true));
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
async fn no_more_calls_run_at_the_same_time_than_allowed() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = {
        let (running, most) = (running.clone(), most.clone());
        move |_| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                "counted"
            }
        }
    };
    let tools = Functions::new().with(tool("count", json!({"readOnlyHint": true})), counted);
    let ids: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let model = model([
        ScriptedTurn::calls(ids.iter().map(|id| (id.as_str(), "count", json!({})))),
        ScriptedTurn::text("Done."),
    ]);
    let agent = Agent::builder().model(model).tools(Arc::new(tools)).parallel_calls(3).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2]).len(), 20);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_in_any_way_is_a_result_that_the_model_reads() {
    let mut script = ScriptedTurn::calls([
        ("1", "fail", json!({})),
        ("2", "panic", json!({})),
        ("3", "hang", json!({})),
        ("4", "unheard_of", json!({})),
        ("5", "read", json!({"a": 1})),
        ("6", "read", json!({})),
    ]);
    let Some(Ok(answer)) = &mut script.end else { unreachable!() };
    answer
        .unusable
        .push(toolwire_contract::UnusableCall { id: "6".into(), problem: "it was cut off".into() });
    let model = model([script, ScriptedTurn::text("I see.")]);
    let agent =
        builder(&model).approvals(Policy::allow_all()).call_timeout(Duration::from_secs(5)).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(finished.outcome.ending, Ending::Finished);
    let told = results(&model.requests()[1].messages[2]);
    let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "no such city",
            "`panic` broke down: index out of bounds. Whether it did its work is not known",
            "server `in-process` did not answer `hang` within 5s. The tool may still be at work: look whether it is done \
             before calling it again",
            "no server offers a tool named `unheard_of`. Use one of the tools that are listed",
            r#"{"a":1}"#,
            "it was cut off",
        ]
    );
    check_messages(finished.run.messages()).unwrap();
}

#[tokio::test]
async fn the_third_failure_of_the_same_call_comes_with_a_note() {
    let call = |id| ScriptedTurn::calls([(id, "fail", json!({"city": "Atlantis"}))]);
    let other = ScriptedTurn::calls([("4", "fail", json!({"city": "Ys"}))]);
    let model = model([call("1"), call("2"), call("3"), other, ScriptedTurn::text("It is not there.")]);
    let finished = agent(&model).run("Go").await;
    let told: Vec<bool> = finished
        .run
        .messages()
        .iter()
        .flat_map(|message| results(message))
        .map(|(_, text)| text.contains("The same call has now failed 3 times"))
        .collect();
    assert_eq!(told, [false, false, true, false]);
}

#[tokio::test]
async fn tools_of_two_toolboxes_with_one_name_get_labels_that_stay() {
    let other = Functions::new()
        .with(tool("read", json!({"readOnlyHint": true})), |_| async { "from the other" })
        .with(tool("only", json!({"readOnlyHint": true})), |_| async { "only here" });
    let both = Combined::new([
        ("files", Arc::new(functions()) as Arc<dyn Toolbox>),
        ("web", Arc::new(other) as Arc<dyn Toolbox>),
    ]);
    let names: Vec<String> = both.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["files_read", "delete", "fail", "panic", "hang", "web_read", "only"]);
    assert!(Arc::ptr_eq(&both.tools(), &both.tools()));
    for (name, expected) in [("files_read", "{}"), ("web_read", "from the other"), ("only", "only here")] {
        let result = both.call(name, &json!({}), CallOptions::default()).await.unwrap();
        assert_eq!(json!(result)["content"][0]["text"], expected);
    }
    let model = model([ScriptedTurn::calls([("1", "web_read", json!({}))]), ScriptedTurn::text("Done.")]);
    let agent = Agent::builder().model(model).tools(Arc::new(both)).build().unwrap();
    let finished = agent.run("Go").await;
    assert_eq!(results(&finished.run.messages()[2])[0].1, "from the other");
}

#[tokio::test]
async fn an_answer_is_told_piece_by_piece_and_as_a_whole() {
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
