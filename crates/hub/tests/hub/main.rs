//! The hub among servers that misbehave: the others keep working, each call has one clear answer, and nothing is left.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use support::{Around, text};
use toolwire_contract::{CallError, CallOptions, Toolbox};
use toolwire_hub::Phase;

/// Beside a good server, one that does something wrong when it is started or called. `expected` is the code of the error
/// that a call of it gives, or "" for a result.
async fn check(behaviour: &[&str], tool: &str, expected: &str) -> Around {
    let around = Around::with(&[("good", &["ordinary"]), ("bad", behaviour)]).await;
    let good = around.call("good_echo", json!({"text": "before"})).await;
    assert_eq!(text(&good.unwrap()), "before", "{behaviour:?}");
    let name = format!("bad_{tool}");
    let answer = around.call(&name, json!({"text": "x", "milliseconds": 1})).await;
    let code = match &answer {
        Ok(_) => "",
        Err(error) => error.code(),
    };
    assert_eq!(code, expected, "{behaviour:?}: {answer:?}");
    let good = around.call("good_echo", json!({"text": "after"})).await;
    assert_eq!(text(&good.unwrap()), "after", "{behaviour:?}");
    around
}

#[tokio::test]
async fn one_that_exits_at_once_is_a_status_with_its_last_words() {
    let around = check(&["exits-at-once"], "echo", "unknown_tool").await;
    let status = &around.hub.status()[1];
    let Phase::Recovering { reason } = &status.phase else { panic!("{:?}", status.phase) };
    assert!(reason.contains("exit code 3"), "{reason}");
    assert!(!status.stderr.is_empty());
    assert_eq!(around.hub.missing().len(), 1);
    around.close().await;
}

#[tokio::test]
async fn one_that_never_initializes_costs_only_its_own_deadline() {
    let around = Around::slow(&[("good", &["ordinary"]), ("bad", &["never-initializes"])]);
    let good = around.call("good_echo", json!({"text": "now"})).await;
    assert_eq!(text(&good.unwrap()), "now");
    assert_eq!(around.hub.status()[1].phase, Phase::Connecting);
    around.close().await;
}

#[tokio::test]
async fn one_that_exits_in_a_call_leaves_the_outcome_unknown() {
    let around = check(&["exits-mid-call"], "echo", "outcome_unknown").await;
    around.close().await;
    check(&["exits-mid-answer"], "echo", "outcome_unknown").await.close().await;
}

#[tokio::test]
async fn one_that_is_late_times_out_and_is_told_so() {
    let around = Around::with(&[("good", &["ordinary"]), ("bad", &["never-answers"])]).await;
    let options = CallOptions { timeout: Some(Duration::from_millis(300)), progress: None };
    let answer = around.hub.call("bad_never", &json!({}), options).await;
    assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
    let cancelled = around.call("bad_cancelled", json!({})).await.unwrap();
    assert_ne!(text(&cancelled), "[]", "the server was told of the call that was given up");
    around.close().await;
}

#[tokio::test]
async fn noise_and_doubled_answers_are_passed_over() {
    let around = check(&["garbage"], "echo", "").await;
    assert!(around.hub.status()[1].noise.unreadable > 0);
    around.close().await;
    let around = check(&["duplicate-ids"], "echo", "").await;
    assert!(around.hub.status()[1].noise.strays > 0);
    around.close().await;
    check(&["floods-notifications", "--count", "20000"], "echo", "").await.close().await;
    check(&["writes-stderr"], "echo", "").await.close().await;
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
async fn one_that_closes_its_output_or_ignores_signals_is_gone_in_the_end() {
    check(&["closes-stdout"], "echo", "outcome_unknown").await.close().await;
    check(&["ignores-sigterm"], "echo", "").await.close().await;
    check(&["forks-a-child"], "echo", "").await.close().await;
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
async fn over_http_each_fault_is_one_clear_answer() {
    for (behaviour, expected) in [
        ("status-500", &["outcome_unknown", "unavailable"][..]),
        ("html-body", &["outcome_unknown", "malformed"]),
        ("cut-stream", &["outcome_unknown"]),
        ("session-gone", &[""]),
        ("session-unknown", &["", "refused", "outcome_unknown", "unavailable"]),
        ("streams", &[""]),
    ] {
        let server = toolwire_testkit::misbehaving_http(&["--behaviour", behaviour]);
        let around = Around::http(&server.url("/mcp")).await;
        let answer = around.call("echo", json!({"text": "x"})).await;
        let code = answer.as_ref().err().map_or("", |error| error.code());
        assert!(expected.contains(&code), "{behaviour}: {answer:?}");
        around.close().await;
    }
}
