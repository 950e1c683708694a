//! The hub with its servers around it. What becomes of it when one of them fails is in `tests/faults`.

#![allow(clippy::unwrap_used)]

mod real;
mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use support::{Around, text};
use toolwire_contract::{CallError, CallOptions, Tool, Toolbox};
use toolwire_hub::{HttpKind, NoHost, Phase};

#[tokio::test]
async fn a_server_that_is_slow_to_come_holds_up_nobody() {
    let around = Around::slow(&[("good", &["ordinary"]), ("bad", &["never-initializes"])]);
    let good = around.call("good_echo", json!({"text": "now"})).await;
    assert_eq!(text(&good.unwrap()), "now");
    assert_eq!(around.hub.status()[1].phase, Phase::Connecting);
    around.close().await;
}

/// The word of it and the question may overtake each other, so the server is asked until it knows.
async fn was_told_of_a_cancelled_call(around: &Around) {
    let told = async { while text(&around.call("cancelled", json!({})).await.unwrap()) == "[]" {} };
    assert!(tokio::time::timeout(support::PATIENCE, told).await.is_ok(), "the server was not told");
}

#[tokio::test]
async fn a_server_is_told_of_a_call_that_nobody_waits_for() {
    let around = Around::with(&[("bad", &["never-responds"])]).await;
    let dropped = tokio::time::timeout(Duration::from_millis(300), around.call("never", json!({}))).await;
    assert!(dropped.is_err(), "{dropped:?}");
    was_told_of_a_cancelled_call(&around).await;
    around.close().await;
}

#[tokio::test]
async fn a_server_is_told_of_a_call_that_took_too_long() {
    let around = Around::with(&[("bad", &["never-responds"])]).await;
    let answer = around.call_within(Duration::from_millis(300), "never", json!({})).await;
    assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
    was_told_of_a_cancelled_call(&around).await;
    around.close().await;
}

#[tokio::test]
async fn a_huge_result_is_cut_and_read_on() {
    let around = Around::with(&[("bad", &["huge-result", "--size", "3000000"])]).await;
    let answer = text(&around.call("echo", json!({"text": "x"})).await.unwrap());
    assert!(answer.len() < 1_000_000, "{} bytes were handed on", answer.len());
    let id = answer.split(|letter: char| !letter.is_ascii_alphanumeric()).find(|word| {
        word.len() == 17 && word.starts_with('r') && word[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let id = id.unwrap_or_else(|| panic!("no id in {:?}", &answer[answer.len().saturating_sub(400)..]));
    let page =
        around.call("read_result", json!({"id": id, "offset": 2_000_000, "length": 10})).await.unwrap();
    assert!(text(&page).contains("of 3000000"), "{}", text(&page));
    around.close().await;
}

#[tokio::test]
async fn malformed_tools_are_kept_back_alone() {
    let around = Around::with(&[("bad", &["bad-tools"])]).await;
    let status = &around.hub.status()[0];
    assert!(status.tool_count > 0 && !status.quarantined.is_empty(), "{status:?}");
    let odd = around.call("odd_content", json!({})).await.unwrap();
    assert!(!odd.blocks().is_empty());
    around.close().await;
}

#[tokio::test]
async fn all_pages_are_read_and_a_circle_of_pages_ends() {
    let around = Around::with(&[("many", &["many-tools"])]).await;
    assert_eq!(around.hub.status()[0].tool_count, 1500);
    around.close().await;
    let around = Around::with(&[("loop", &["cursor-loop"])]).await;
    assert!(around.hub.status()[0].cut.is_some());
    around.close().await;
}

#[tokio::test]
async fn a_list_that_changes_is_read_again_and_its_changes_are_told() {
    let around = Around::with(&[("bad", &["changes-tools"])]).await;
    let before = around.hub.tools();
    let mut changes = around.hub.changes();
    changes.borrow_and_update();
    let mut told = Toolbox::changes(&around.hub).unwrap();
    let first = before[0].name.clone();
    around.call(&first, json!({})).await.unwrap();
    changes.changed().await.unwrap();
    told.next().await.unwrap();
    assert_ne!(before, around.hub.tools());
    assert!(!around.hub.status()[0].drifts.is_empty());
    around.close().await;
}

#[tokio::test]
async fn a_tool_that_may_not_be_called_as_it_is_listed_is_not_called() {
    let file = support::scratch().join("effects");
    let around = Around::with(&[("bad", &["counts", "--file", file.to_str().unwrap()])]).await;
    let permits = |tool: &Tool| Err(format!("`{}` is not wanted", tool.name));
    let options = CallOptions { permission: Some(Arc::new(permits)), ..CallOptions::default() };
    let answer = around.hub.call("count_write", &json!({}), options).await;
    let reason = "`count_write` is not wanted".to_owned();
    assert_eq!(answer, Err(CallError::NotPermitted { tool: "count_write".to_owned(), reason }));
    assert!(!file.exists());
    around.close().await;
}

#[tokio::test]
async fn only_what_may_be_repeated_is_called_again() {
    let file = support::scratch().join("effects");
    let arguments = ["counts", "--file", file.to_str().unwrap()];
    let around = Around::with(&[("bad", &arguments)]).await;
    let tools: Vec<(String, bool)> = around
        .hub
        .tools()
        .iter()
        .filter(|tool| tool.name != "read_result")
        .map(|tool| {
            let hint = |name: &str| {
                tool.annotations.as_ref().and_then(|hints| hints.get(name)) == Some(&Value::Bool(true))
            };
            (tool.name.clone(), hint("readOnlyHint") || hint("idempotentHint"))
        })
        .collect();
    assert!(
        tools.iter().any(|(_, repeatable)| *repeatable) && tools.iter().any(|(_, repeatable)| !repeatable)
    );
    for (tool, repeatable) in tools {
        let effects = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
        let before = effects();
        let answer = around.call(&tool, json!({})).await;
        let expected = if repeatable { 2 } else { 1 };
        assert_eq!(effects() - before, expected, "{tool}: {answer:?}");
        assert_eq!(answer.is_ok(), repeatable, "{tool}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!(error.code(), "outcome_unknown", "{tool}");
        }
    }
    around.close().await;
}

#[tokio::test]
async fn what_a_server_asks_without_a_host_is_refused() {
    let around = Around::with(&[("bad", &["asks"])]).await;
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let asked = around.call("ask", json!({"method": method, "params": {}})).await;
        assert!(asked.is_ok(), "{method}: {asked:?}");
    }
    around.close().await;
}

#[tokio::test]
async fn only_the_environment_that_is_named_reaches_a_server() {
    let around = Around::with(&[("bad", &["prints-environment"])]).await;
    let seen = text(&around.call("environment", json!({})).await.unwrap());
    assert!(seen.contains("PATH") && !seen.contains("TOOLWIRE_TEST_SECRET"), "{seen}");
    around.close().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_costs_its_own_call() {
    let server = toolwire_testkit::start_misbehaving_http(&["--behaviour", "cut-stream"]);
    let config = support::listening("bad", &server.url("/mcp"), HttpKind::Streamable);
    let around = Around::start(vec![config], Arc::new(NoHost));
    around.hub.settled().await;
    let cut = async {
        let cut = around.call("echo", json!({"text": "x"})).await.unwrap_err();
        assert_eq!(cut.code(), "outcome_unknown", "{cut}");
    };
    // Under way before the other one is cut, and after.
    let (waited, ()) = tokio::join!(around.call("wait", json!({"milliseconds": 1000})), cut);
    assert_eq!(text(&waited.unwrap()), "wait was called");
    assert_eq!(around.hub.status()[0].restarts, 0);
    around.close().await;
}
