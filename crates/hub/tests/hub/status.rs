//! The status of servers, and what a user can do about it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_contract::toolbox::CallError;
use toolwire_hub::status::Attempt;
use toolwire_hub::{Phase, ServerConfig, ServerStatus};
use toolwire_testkit::{ServerCommand, misbehaving_server};

use crate::support::{NoHost, TEST_TIMEOUT, TestHub, launched, misbehaving, names, scratch};

/// Waits until the status of the only server has a property.
async fn wait_for_status(hub: &TestHub, has_property: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
    let mut changes = hub.inner.status_changes();
    let waiting = async {
        loop {
            changes.borrow_and_update();
            let status = hub.inner.status().remove(0);
            if has_property(&status) {
                return status;
            }
            changes.changed().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("{:#?}", hub.inner.status()))
}

#[tokio::test]
async fn a_server_can_be_restarted() {
    let hub = TestHub::connect(&[("good", &["ordinary"])]).await;
    hub.call("echo", json!({"text": "a"})).await.unwrap();
    let before = hub.inner.status().remove(0);
    assert_eq!((before.transport.as_str(), before.attempt), ("stdio", None));
    assert_eq!(before.address, misbehaving_server().to_str().unwrap());
    assert_eq!(before.restarts, 0);
    assert_eq!((before.calls.completed, before.calls.failed), (1, 0));
    assert!(before.calls.p50 > Some(Duration::ZERO) && before.calls.p50 == before.calls.p99);
    hub.inner.restart("good");
    hub.inner.restart("unknown");
    wait_for_restart(&hub).await;
    let after = wait_for_status(&hub, |status| status.phase == Phase::Ready).await;
    assert!(after.restarts == 1 && after.since > before.since, "{after:?}");
    hub.call("echo", json!({"text": "b"})).await.unwrap();
    assert_eq!(hub.running(), 1, "the first process has ended");
    hub.close().await;
}

async fn wait_for_restart(hub: &TestHub) {
    wait_for_status(hub, |status| status.restarts == 1).await;
}

#[tokio::test]
async fn a_server_whose_program_was_missing_is_connected_on_request() {
    let program = scratch().join("server");
    let command = program.to_str().unwrap().to_owned();
    let args = vec!["--behaviour".to_owned(), "ordinary".to_owned()];
    let hub = TestHub::start(vec![launched("late", ServerCommand { command, args })], Arc::new(NoHost));
    hub.inner.settled().await;
    let down = wait_for_status(&hub, |status| matches!(status.phase, Phase::Down { .. })).await;
    assert_eq!(down.attempt, Some(Attempt::OnRequest));
    assert!(down.hint.is_some(), "{down:?}");
    fs::copy(misbehaving_server(), &program).unwrap();
    hub.inner.retry("late");
    wait_for_status(&hub, |status| status.phase == Phase::Ready && status.attempt.is_none()).await;
    hub.close().await;
}

fn prefixed(name: &str) -> ServerConfig {
    let mut config = misbehaving(name, &["ordinary"]);
    config.prefix = Some(name.to_owned());
    config
}

#[tokio::test]
async fn servers_can_be_added_and_removed_while_the_hub_is_running() {
    let hub = TestHub::start(vec![prefixed("a")], Arc::new(NoHost));
    hub.wait_for_tool("a_echo").await;
    let since = hub.inner.status()[0].since;
    hub.reconfigure(vec![prefixed("a"), prefixed("b")]).await;
    hub.wait_for_tool("b_echo").await;
    let status = hub.inner.status();
    assert_eq!((status[0].since, status[0].restarts), (since, 0), "a server that is the same keeps running");
    hub.call("b_echo", json!({"text": "x"})).await.unwrap();
    let mut disabled = prefixed("a");
    disabled.disabled = true;
    hub.reconfigure(vec![disabled, prefixed("b")]).await;
    assert!(names(&hub.inner).iter().all(|name| name.starts_with("b_")), "{:?}", names(&hub.inner));
    let removed = hub.call("a_echo", json!({"text": "x"})).await;
    assert!(matches!(removed, Err(CallError::UnknownTool { .. })), "{removed:?}");
    let stopped = async {
        while hub.running() > 1 {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, stopped).await.expect("the process ends");
    hub.call("b_echo", json!({"text": "x"})).await.unwrap();
    hub.close().await;
}

fn tool(description: &str) -> Value {
    json!([{"name": "add", "description": description, "inputSchema": {"type": "object"}}])
}

#[tokio::test]
async fn a_changed_tool_can_be_blocked() {
    let file = scratch().join("tools.json");
    fs::write(&file, tool("Adds numbers").to_string()).unwrap();
    let server = misbehaving("sums", &["lists-file", "--file", file.to_str().unwrap()]);
    let hub = TestHub::start(vec![server], Arc::new(NoHost));
    hub.inner.settled().await;
    assert_eq!(hub.inner.difference("sums", "add"), Some(Vec::new()));
    fs::write(&file, tool("Adds two numbers").to_string()).unwrap();
    hub.inner.restart("sums");
    wait_for_restart(&hub).await;
    wait_for_status(&hub, |status| status.phase == Phase::Ready).await;
    hub.wait_for_tool("add").await;
    let changes = hub.inner.difference("sums", "add").unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let values = (&changes[0].before, &changes[0].after);
    assert_eq!(values, (&Some(json!("Adds numbers")), &Some(json!("Adds two numbers"))));

    assert!(
        !hub.inner.block_tool("sums", "other").unwrap() && !hub.inner.block_tool("other", "add").unwrap()
    );
    let changes = hub.inner.status_changes();
    assert!(hub.inner.block_tool("sums", "add").unwrap());
    assert!(changes.has_changed().unwrap());
    assert!(names(&hub.inner).is_empty() && hub.inner.status()[0].tool_count == 0);
    let refused = hub.call("add", json!({})).await;
    assert!(matches!(refused, Err(CallError::Blocked { .. })), "{refused:?}");
    hub.inner.accept_changes(|_, _| true).unwrap();
    assert_eq!(names(&hub.inner), ["add"]);
    hub.close().await;
}
