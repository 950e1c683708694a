//! No process is left behind, whoever ends first.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use toolwire_hub::{ConnectError, Target};

use crate::support::{Connecting, DONE, call, connect, processes_with, shell, shell_server, until};

/// A number that nothing else on this machine sleeps for.
fn mark(test: u32) -> String {
    format!("86{}.{test}", std::process::id())
}

/// Ends what a failed test leaves behind.
struct Cleaning<'a>(&'a str);

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        for process in processes_with(self.0) {
            let _ = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
        }
    }
}

/// A server with a child of its own; neither minds a polite request to go.
fn stubborn(mark: &str) -> Target {
    shell_server(&format!("trap '' TERM; sleep {mark} <&- >&- 2>&- &"), DONE)
}

#[tokio::test]
async fn closing_ends_a_server_and_its_children() {
    let mark = mark(1);
    let _cleaning = Cleaning(&mark);
    let session = connect(&stubborn(&mark)).await;
    call(&session, "one", json!({})).await;
    // A shell that was just forked is no `sleep` yet.
    until("the child", || processes_with(&format!("sleep\0{mark}")).len() == 1).await;
    session.close().await;
    until("the end of the child", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn dropping_a_session_ends_its_server() {
    let mark = mark(2);
    let _cleaning = Cleaning(&mark);
    let session = connect(&stubborn(&mark)).await;
    drop(session);
    until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed() {
    let mark = mark(3);
    let _cleaning = Cleaning(&mark);
    // It neither reads its input again nor minds SIGTERM.
    let first = format!("trap '' TERM INT HUP; # {mark}");
    let session = connect(&shell_server(&first, "while :; do sleep 1000; done")).await;
    assert_eq!(processes_with(&mark).len(), 1);
    let _ = tokio::time::timeout(Duration::from_millis(200), call(&session, "one", json!({}))).await;
    session.close().await;
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_connection_that_fails_leaves_no_process() {
    let mark = mark(4);
    let _cleaning = Cleaning(&mark);
    let connecting = Connecting { timeout: Duration::from_millis(500), ..Connecting::default() };
    let silent = shell(&format!("echo 'waiting for godot' >&2; while read -r line; do :; done; # {mark}"));
    let error = connecting.to(&silent).await.err().unwrap();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    assert_eq!(error.stderr(), ["waiting for godot"]);
    assert_eq!(processes_with(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn giving_up_on_a_connection_leaves_no_process() {
    let mark = mark(5);
    let _cleaning = Cleaning(&mark);
    let silent = shell(&format!("while read -r line; do :; done; # {mark}"));
    let connecting = Connecting::default();
    let gave_up = tokio::time::timeout(Duration::from_millis(300), connecting.to(&silent)).await;
    assert!(gave_up.is_err());
    until("the end of the server", || processes_with(&mark).is_empty()).await;
}

/// This program once more, with one of the tests below that are none.
fn another(test: &str, mark: &str) -> tokio::process::Child {
    tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("TOOLWIRE_TEST_HOLD", mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_process_that_is_killed_takes_its_servers_along() {
    let mark = mark(6);
    let _cleaning = Cleaning(&mark);
    let mut holder = another("processes::hold_a_session", &mark);
    // The server, with the mark in its script, and its child.
    until("a session in the other process", || processes_with(&mark).len() == 2).await;
    holder.start_kill().unwrap();
    holder.wait().await.unwrap();
    until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}

/// Not a test: the process that is killed in the test above.
#[tokio::test]
async fn hold_a_session() {
    let Ok(mark) = std::env::var("TOOLWIRE_TEST_HOLD") else { return };
    // The end of input is no reason to go for this one, so that it is the watchdog that ends it.
    let first = format!("trap '' TERM; sleep {mark} <&- >&- 2>&- &");
    let session = connect(&shell_server(&first, "while :; do sleep 1000; done")).await;
    call(&session, "one", json!({})).await;
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_starts_a_server_takes_it_along() {
    // The first thing that the server does is to kill whoever started it.
    for attempt in 0..5 {
        let mark = mark(70 + attempt);
        let _cleaning = Cleaning(&mark);
        let status = another("processes::start_a_murderer", &mark).wait().await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status:?}");
        until("the end of the server", || processes_with(&mark).is_empty()).await;
    }
}

/// Not a test: the process that is killed in the test above.
#[tokio::test]
async fn start_a_murderer() {
    let Ok(mark) = std::env::var("TOOLWIRE_TEST_HOLD") else { return };
    let server = shell(&format!("kill -KILL $PPID; trap '' TERM; while :; do sleep {mark}; done"));
    let _ = Connecting::default().to(&server).await;
}

#[tokio::test]
async fn a_server_with_a_session_of_its_own_ends_too() {
    let mark = mark(8);
    let _cleaning = Cleaning(&mark);
    let Target::Stdio { args, .. } = stubborn(&mark) else { unreachable!("it is a process") };
    let args = ["sh".to_owned()].into_iter().chain(args).collect();
    let server = Target::Stdio { command: "setsid".into(), args, env: Vec::new(), cwd: None };
    let session = connect(&server).await;
    call(&session, "one", json!({})).await;
    until("the child", || processes_with(&format!("sleep\0{mark}")).len() == 1).await;
    session.close().await;
    until("the end of the server and its child", || processes_with(&mark).is_empty()).await;
}
