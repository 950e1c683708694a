//! No process remains, regardless of which one ends first.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::support::{
    Connector, RESPOND_DONE, call, connect, processes_with, shell, shell_server, wait_until,
};
use crate::config::Transport;
use crate::session::error::ConnectError;

/// Returns a sleep time that no other process uses, to find the processes of a test by their arguments.
fn mark(test: u32) -> String {
    format!("86{}.{test}", std::process::id())
}

/// Kills the processes that remain after a failed test.
struct Cleanup<'a>(&'a str);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        for process in processes_with(self.0) {
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
    }
}

/// A server with a child process; both ignore SIGTERM.
fn ignoring_sigterm(mark: &str) -> Transport {
    shell_server(&format!("trap '' TERM; sleep {mark} <&- >&- 2>&- &"), RESPOND_DONE)
}

#[tokio::test]
async fn closing_ends_a_server_and_its_children() {
    let mark = mark(1);
    let _cleanup = Cleanup(&mark);
    let session = connect(&ignoring_sigterm(&mark)).await;
    call(&session, "one", json!({})).await;
    // A shell that was just forked is not `sleep` yet.
    wait_until("the child", || processes_with(&format!("sleep\0{mark}")).len() == 1).await;
    session.close().await;
    wait_until("the end of the child", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn dropping_a_session_ends_its_server() {
    let mark = mark(2);
    let _cleanup = Cleanup(&mark);
    let session = connect(&ignoring_sigterm(&mark)).await;
    drop(session);
    wait_until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed() {
    let mark = mark(3);
    let _cleanup = Cleanup(&mark);
    // The server stops reading its input and ignores SIGTERM.
    let first = format!("trap '' TERM INT HUP; # {mark}");
    let session = connect(&shell_server(&first, "while :; do sleep 1000; done")).await;
    assert_eq!(processes_with(&mark).len(), 1);
    let _ = tokio::time::timeout(Duration::from_millis(200), call(&session, "one", json!({}))).await;
    session.close().await;
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_process_without_a_session_gets_no_time_to_finish() {
    let mark = mark(14);
    let _cleanup = Cleanup(&mark);
    let finished = std::env::temp_dir().join(format!("toolwire-finished-{mark}"));
    let connector = Connector { timeout: Duration::from_millis(300), ..Connector::default() };
    let script = format!("while read -r line; do :; done; sleep 1; : > '{}'; # {mark}", finished.display());
    connector.connect_error(&shell(&script)).await;
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
    let was_finished = std::fs::remove_file(&finished).is_ok();
    assert!(!was_finished, "SIGTERM came long after the end of the input");
}

#[tokio::test]
async fn a_failed_connection_leaves_no_process() {
    let mark = mark(4);
    let _cleanup = Cleanup(&mark);
    let connector = Connector { timeout: Duration::from_millis(500), ..Connector::default() };
    let silent = shell(&format!("echo 'waiting for input' >&2; while read -r line; do :; done; # {mark}"));
    let failure = connector.connect_error(&silent).await;
    assert!(matches!(failure.error, ConnectError::TimedOut { .. }), "{failure:?}");
    assert_eq!(failure.stderr, ["waiting for input"]);
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn dropping_a_connection_attempt_leaves_no_process() {
    let mark = mark(5);
    let _cleanup = Cleanup(&mark);
    let silent = shell(&format!("while read -r line; do :; done; # {mark}"));
    let connecting = Connector::default().connect(&silent);
    assert!(tokio::time::timeout(Duration::from_millis(300), connecting).await.is_err());
    wait_until("the end of the server", || processes_with(&mark).is_empty()).await;
}

/// Runs this program again, with one of the helper "tests" below.
fn run_helper(test: &str, mark: &str) -> tokio::process::Child {
    tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("session::tests::processes::{test}"), "--nocapture"])
        .env("TOOLWIRE_TEST_HOLD", mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn servers_end_when_their_client_is_killed() {
    let mark = mark(6);
    let _cleanup = Cleanup(&mark);
    let mut client = run_helper("hold_a_session", &mark);
    // The server, with the mark in its script, and its child.
    wait_until("a session in the other process", || processes_with(&mark).len() == 2).await;
    client.start_kill().unwrap();
    client.wait().await.unwrap();
    wait_until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}

/// Does nothing unless the test above runs it in a separate process.
#[tokio::test]
async fn hold_a_session() {
    let Ok(mark) = std::env::var("TOOLWIRE_TEST_HOLD") else { return };
    // This server ignores the end of its input, so that only the watchdog ends it.
    let first = format!("trap '' TERM; sleep {mark} <&- >&- 2>&- &");
    let session = connect(&shell_server(&first, "while :; do sleep 1000; done")).await;
    call(&session, "one", json!({})).await;
}

#[tokio::test]
async fn a_server_ends_when_its_client_is_killed_during_the_start() {
    // The server kills its client before anything else.
    for attempt in 0..5 {
        let mark = mark(70 + attempt);
        let _cleanup = Cleanup(&mark);
        let status = run_helper("start_a_server_that_kills_its_client", &mark).wait().await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status:?}");
        wait_until("the end of the server", || processes_with(&mark).is_empty()).await;
    }
}

/// Does nothing unless the test above runs it in a separate process.
#[tokio::test]
async fn start_a_server_that_kills_its_client() {
    let Ok(mark) = std::env::var("TOOLWIRE_TEST_HOLD") else { return };
    let server = shell(&format!("kill -KILL $PPID; trap '' TERM; while :; do sleep {mark}; done"));
    let _ = Connector::default().connect(&server).await;
}

#[tokio::test]
async fn a_server_that_leaves_its_process_group_is_ended() {
    let mark = mark(8);
    let _cleanup = Cleanup(&mark);
    let Transport::Stdio { args, env, cwd, .. } = ignoring_sigterm(&mark) else {
        unreachable!("not a process")
    };
    let args = ["sh".to_owned()].into_iter().chain(args).collect();
    let server = Transport::Stdio { command: "setsid".into(), args, env, cwd };
    let session = connect(&server).await;
    call(&session, "one", json!({})).await;
    wait_until("the child", || processes_with(&format!("sleep\0{mark}")).len() == 1).await;
    session.close().await;
    wait_until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}
