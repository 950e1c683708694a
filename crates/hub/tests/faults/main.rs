//! Faults of servers, and their limited effect: other servers keep working, the caller gets one clear result
//! or error, no process remains, and no task, open file or memory is leaked.
//!
//! Resources are counted for the entire process, so the tests run one at a time.

#![allow(clippy::unwrap_used)]

#[path = "../hub/support.rs"]
mod support;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{NoHost, TEST_TIMEOUT, TestHub, launched, listening, misbehaving, text};
use tokio::runtime::{Builder, Runtime};
use toolwire_hub::config::HttpKind;
use toolwire_hub::{Phase, ServerConfig, ServerStatus};
use toolwire_testkit::{ServerCommand, open_file_count, peak_bytes, resident_bytes, start_misbehaving_http};

/// The allowed growth of the process after a fault; the allocator retains some memory.
const MAX_GROWTH_BYTES: u64 = 48 << 20;

/// The maximum memory with a result of 50 MB: the bytes, their JSON, the text, and one more copy.
const MAX_PEAK_BYTES: u64 = 4 * 50_000_000 + MAX_GROWTH_BYTES;

struct Fault {
    server: FaultyServer,
    connect_timeout: Duration,
    call_timeout: Duration,
    tool: &'static str,
    /// The code of the error that a call returns; empty for a result.
    code: &'static str,
    /// A part of the result or of the error message.
    message: &'static str,
    /// Checks the status of the server after the call.
    check_status: fn(&ServerStatus),
}

enum FaultyServer {
    Stdio(&'static [&'static str]),
    Http(&'static [&'static str]),
    /// A remote server whose transport is not configured.
    AutoHttp(&'static [&'static str]),
    /// A server that never connects; the test does not wait for it.
    Shell(&'static str),
}

/// A fault that does not affect the result of a call.
const HARMLESS: Fault = Fault {
    server: FaultyServer::Stdio(&["ordinary"]),
    connect_timeout: TEST_TIMEOUT,
    call_timeout: TEST_TIMEOUT,
    tool: "echo",
    code: "",
    message: "x",
    check_status: |status| assert_eq!(status.phase, Phase::Ready),
};

/// For calls that never get a response in time.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

/// Long enough to start a session, and short enough for a list that never ends.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Checks that a server is down or recovering, for this reason.
fn check_unavailable(status: &ServerStatus, expected: &str) {
    let (Phase::Recovering { reason } | Phase::Down { reason }) = &status.phase else {
        panic!("{:?}", status.phase)
    };
    assert!(reason.contains(expected), "{reason}");
}

fn check(fault: Fault) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let http = match fault.server {
        FaultyServer::Http(arguments) | FaultyServer::AutoHttp(arguments) => {
            Some(start_misbehaving_http(&[&["--behaviour"], arguments].concat()))
        }
        _ => None,
    };
    let faulty = match fault.server {
        FaultyServer::Stdio(arguments) => misbehaving("bad", arguments),
        FaultyServer::Http(_) => listening("bad", &http.as_ref().unwrap().url("/mcp"), HttpKind::Streamable),
        FaultyServer::AutoHttp(_) => listening("bad", &http.as_ref().unwrap().url("/sse"), HttpKind::Auto),
        FaultyServer::Shell(script) => {
            let args = vec!["-c".to_owned(), script.to_owned()];
            launched("bad", ServerCommand { command: "/bin/sh".to_owned(), args })
        }
    };
    // Created under the lock, because it opens files.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // The first hub of a process creates the resources that all hubs share.
    runtime.block_on(async {
        let hub = TestHub::start(vec![prefixed(misbehaving("good", &["ordinary"]))], Arc::new(NoHost));
        echo(&hub, "hello").await;
        hub.close().await;
    });
    let before = Resources::now(&runtime);
    runtime.block_on(call_faulty_server(&fault, faulty));
    before.wait_until_reached(&runtime);
    let peak = peak_bytes(std::process::id()).unwrap();
    assert!(peak < MAX_PEAK_BYTES, "the peak memory was {peak} bytes");
}

async fn call_faulty_server(fault: &Fault, mut faulty: ServerConfig) {
    faulty.connect_timeout = fault.connect_timeout;
    let servers = vec![prefixed(misbehaving("good", &["ordinary"])), prefixed(faulty)];
    let hub = TestHub::start(servers, Arc::new(NoHost));
    if !matches!(fault.server, FaultyServer::Shell(_)) {
        hub.inner.settled().await;
    }
    echo(&hub, "before").await;
    let name = format!("bad_{}", fault.tool);
    let arguments = json!({"text": "x"});
    let outcome = {
        let call = hub.call_within(fault.call_timeout, &name, arguments);
        let mut call = std::pin::pin!(tokio::time::timeout(TEST_TIMEOUT, call));
        loop {
            tokio::select! {
                biased;
                outcome = &mut call => break outcome.expect("a call ends in bounded time"),
                () = echo(&hub, "meanwhile") => {}
            }
        }
    };
    let (code, message) = match &outcome {
        Ok(result) => ("", text(result)),
        Err(error) => (error.code(), error.to_string()),
    };
    let excerpt: String = message.chars().take(300).collect();
    assert_eq!(code, fault.code, "{excerpt}");
    assert!(message.contains(fault.message), "{excerpt}");
    let status = &hub.inner.status()[1];
    (fault.check_status)(status);
    echo(&hub, "after").await;
    hub.close().await;
}

async fn echo(hub: &TestHub, message: &str) {
    let result = hub.call("good_echo", json!({"text": message})).await;
    assert_eq!(text(&result.expect("the good server works")), message);
}

fn prefixed(mut config: ServerConfig) -> ServerConfig {
    config.prefix = Some(config.name.to_string());
    config
}

/// The resources of this process and its runtime.
#[derive(Debug)]
struct Resources {
    tasks: usize,
    files: usize,
    memory_bytes: u64,
}

impl Resources {
    fn now(runtime: &Runtime) -> Resources {
        let process = std::process::id();
        Resources {
            tasks: runtime.metrics().num_alive_tasks(),
            files: open_file_count(process).unwrap(),
            memory_bytes: resident_bytes(process).unwrap(),
        }
    }

    /// Polls, because HTTP connections are closed by tasks that cannot be awaited.
    fn wait_until_reached(&self, runtime: &Runtime) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let now = Resources::now(runtime);
            if now.tasks <= self.tasks
                && now.files <= self.files
                && now.memory_bytes <= self.memory_bytes + MAX_GROWTH_BYTES
            {
                return;
            }
            assert!(Instant::now() < deadline, "resources leaked: {now:?}, before {self:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn exits_immediately() {
    check(Fault {
        server: FaultyServer::Stdio(&["exits-at-once"]),
        code: "unknown_tool",
        message: "server `bad` is unavailable: the process exited with code 3 before the session started; reconnecting; stderr: misbehaving-server: cannot open the database",
        check_status: |status| {
            check_unavailable(status, "exited with code 3");
            assert_eq!(status.stderr, ["misbehaving-server: cannot open the database"]);
        },
        ..HARMLESS
    });
}

#[test]
fn exits_during_a_call() {
    check(Fault {
        server: FaultyServer::Stdio(&["exits-mid-call"]),
        code: "outcome_unknown",
        message: "exited with code 4; stderr: misbehaving-server: fatal: out of luck)",
        check_status: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn exits_during_a_response() {
    check(Fault {
        server: FaultyServer::Stdio(&["exits-mid-response"]),
        code: "outcome_unknown",
        message: "exited with code 5",
        check_status: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn never_responds_to_initialize() {
    check(Fault {
        server: FaultyServer::Stdio(&["never-initializes"]),
        connect_timeout: SHORT_TIMEOUT,
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "server `bad` is unavailable: the server was not ready within 300ms",
        check_status: |status| check_unavailable(status, "was not ready within 300ms"),
        ..HARMLESS
    });
}

#[test]
fn never_responds_to_the_first_list() {
    check(Fault {
        server: FaultyServer::Stdio(&["never-lists"]),
        connect_timeout: LIST_TIMEOUT,
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "server `bad` is unavailable: listing its tools took longer than 3s",
        check_status: |status| check_unavailable(status, "listing its tools took longer than 3s"),
        ..HARMLESS
    });
}

#[test]
fn always_has_another_page() {
    check(Fault {
        server: FaultyServer::Stdio(&["drips-pages", "--delay", "100"]),
        connect_timeout: LIST_TIMEOUT,
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "server `bad` is unavailable: listing its tools took longer than 3s",
        check_status: |status| check_unavailable(status, "listing its tools took longer than 3s"),
        ..HARMLESS
    });
}

#[test]
fn neither_reads_nor_exits_while_connecting() {
    check(Fault {
        server: FaultyServer::Shell("trap '' TERM HUP INT; while :; do sleep 1; done"),
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "server `bad` is unavailable: still connecting",
        check_status: |status| assert_eq!(status.phase, Phase::Connecting),
        ..HARMLESS
    });
}

#[test]
fn never_responds_to_a_call() {
    check(Fault {
        server: FaultyServer::Stdio(&["never-responds"]),
        tool: "never",
        call_timeout: SHORT_TIMEOUT,
        code: "timed_out",
        message: "did not respond to `never` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn responds_after_the_deadline() {
    check(Fault {
        server: FaultyServer::Stdio(&["responds-late", "--delay", "900"]),
        call_timeout: SHORT_TIMEOUT,
        code: "timed_out",
        message: "did not respond to `echo` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn prints_garbage() {
    check(Fault {
        server: FaultyServer::Stdio(&["garbage"]),
        check_status: |status| assert!(status.ignored_output.unreadable > 0),
        ..HARMLESS
    });
}

#[test]
fn responds_twice() {
    check(Fault {
        server: FaultyServer::Stdio(&["duplicate-ids"]),
        check_status: |status| assert!(status.ignored_output.unexpected > 0),
        ..HARMLESS
    });
}

#[test]
fn sends_a_result_of_50_megabytes() {
    check(Fault {
        server: FaultyServer::Stdio(&["huge-result"]),
        message: "of 50000000 characters",
        ..HARMLESS
    });
}

#[test]
fn makes_progress_forever() {
    check(Fault {
        server: FaultyServer::Stdio(&["slow-progress", "--delay", "20", "--count", "10000"]),
        // On a busy machine, the server may be paused for a large part of this time.
        call_timeout: Duration::from_secs(2),
        code: "timed_out",
        message: "did not respond to `echo` within 20s",
        ..HARMLESS
    });
}

/// All attempts of a call share its timeout; it expires during the third attempt.
#[test]
fn interrupts_each_stream_late() {
    check(Fault {
        server: FaultyServer::Http(&["cut-stream", "--delay", "2000"]),
        call_timeout: Duration::from_secs(5),
        code: "timed_out",
        message: "did not respond to `echo` within 5s",
        ..HARMLESS
    });
}

#[test]
fn names_an_endpoint_with_a_different_origin() {
    check(Fault {
        server: FaultyServer::AutoHttp(&["sse-foreign-endpoint"]),
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "the endpoint `http://other.example/messages?session=0` has a different origin",
        check_status: |status| check_unavailable(status, "has a different origin"),
        ..HARMLESS
    });
}

#[test]
fn lists_tools_that_are_not_json() {
    fn check_status(status: &ServerStatus) {
        assert_eq!((&status.phase, status.tool_count), (&Phase::Ready, 4));
        let quarantined: Vec<(&str, &str)> =
            status.quarantined.iter().map(|tool| (tool.name.as_str(), tool.reason.as_str())).collect();
        let [surrogate, utf8, number, deep] = &quarantined[..] else { panic!("{quarantined:?}") };
        assert!(surrogate.0 == "lone_surrogate" && surrogate.1.contains("hex escape"), "{surrogate:?}");
        assert_eq!(*utf8, ("no_utf8", "cannot be parsed: not valid UTF-8"));
        assert!(number.0 == "no_number" && number.1.contains("expected value"), "{number:?}");
        assert!(deep.0 == "too_deep" && deep.1.contains("recursion limit exceeded"), "{deep:?}");
    }
    let message = "half a pair: \u{fffd}, a byte: \u{fffd}";
    check(Fault { server: FaultyServer::Stdio(&["unreadable-tools"]), message, check_status, ..HARMLESS });
    check(Fault { server: FaultyServer::Http(&["unreadable-tools"]), message, check_status, ..HARMLESS });
}

#[test]
fn responds_with_invalid_json() {
    check(Fault {
        server: FaultyServer::Stdio(&["unreadable-result"]),
        code: "malformed",
        message: "returned a malformed result for `echo`: the response cannot be parsed: expected",
        ..HARMLESS
    });
}

#[test]
fn responds_with_an_oversized_message() {
    check(Fault {
        server: FaultyServer::Stdio(&["huge-result", "--size", "70000000"]),
        code: "malformed",
        message: "the response is longer than 67108864 bytes",
        ..HARMLESS
    });
}

#[test]
fn http_502() {
    check(Fault {
        server: FaultyServer::Http(&["status-502"]),
        code: "outcome_unknown",
        message: "server `bad` returned no result for `echo` (the server responded with HTTP 502",
        ..HARMLESS
    });
}

#[test]
fn responds_with_content_that_is_not_an_array() {
    check(Fault {
        server: FaultyServer::Stdio(&["bad-result"]),
        code: "malformed",
        message: "`content` is not an array",
        ..HARMLESS
    });
}

#[test]
fn closes_stdout_and_keeps_running() {
    check(Fault {
        server: FaultyServer::Stdio(&["closes-stdout"]),
        code: "outcome_unknown",
        message: "closed its stdout",
        check_status: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn ignores_sigterm() {
    check(Fault { server: FaultyServer::Stdio(&["ignores-sigterm"]), ..HARMLESS });
}

#[test]
fn leaves_a_child_process() {
    check(Fault { server: FaultyServer::Stdio(&["forks-a-child"]), ..HARMLESS });
}

#[test]
fn floods_notifications() {
    check(Fault { server: FaultyServer::Stdio(&["floods-notifications", "--count", "20000"]), ..HARMLESS });
}

#[test]
fn floods_stderr() {
    check(Fault { server: FaultyServer::Stdio(&["writes-stderr"]), ..HARMLESS });
}

#[test]
fn http_500() {
    check(Fault {
        server: FaultyServer::Http(&["status-500"]),
        code: "outcome_unknown",
        message: "HTTP 500",
        ..HARMLESS
    });
}

#[test]
fn http_401_for_a_call() {
    check(Fault {
        server: FaultyServer::Http(&["status-401"]),
        code: "unauthorized",
        message: "requires authorization (HTTP 401)",
        ..HARMLESS
    });
}

#[test]
fn http_401_for_everything() {
    check(Fault {
        server: FaultyServer::Http(&["status-401", "--from", "initialize"]),
        code: "unknown_tool",
        message: "requires authorization (HTTP 401)",
        check_status: |status| check_unavailable(status, "requires authorization (HTTP 401)"),
        ..HARMLESS
    });
}

#[test]
fn http_404_because_the_session_expired() {
    check(Fault { server: FaultyServer::Http(&["session-lost"]), ..HARMLESS });
}

#[test]
fn http_400_because_the_session_is_unknown() {
    check(Fault {
        server: FaultyServer::Http(&["session-unknown"]),
        code: "unavailable",
        message: "session",
        check_status: |_| {},
        ..HARMLESS
    });
}

#[test]
fn http_stream_that_is_interrupted() {
    check(Fault {
        server: FaultyServer::Http(&["cut-stream"]),
        code: "outcome_unknown",
        message: "the connection failed",
        check_status: |_| {},
        ..HARMLESS
    });
}

#[test]
fn http_web_page_instead_of_a_response() {
    check(Fault {
        server: FaultyServer::Http(&["html-body"]),
        code: "outcome_unknown",
        message: "text/html",
        ..HARMLESS
    });
}

#[test]
fn http_call_that_hangs() {
    check(Fault {
        server: FaultyServer::Http(&["hangs"]),
        call_timeout: SHORT_TIMEOUT,
        code: "timed_out",
        message: "did not respond to `echo` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn http_server_that_never_responds() {
    check(Fault {
        server: FaultyServer::Http(&["hangs", "--from", "initialize"]),
        connect_timeout: SHORT_TIMEOUT,
        call_timeout: SHORT_TIMEOUT,
        code: "unknown_tool",
        message: "server `bad` is unavailable",
        check_status: |status| check_unavailable(status, "was not ready within 300ms"),
        ..HARMLESS
    });
}

#[test]
fn http_result_of_50_megabytes() {
    check(Fault {
        server: FaultyServer::Http(&["huge-result"]),
        message: "of 50000000 characters",
        ..HARMLESS
    });
}

#[test]
fn http_event_streams_are_not_a_fault() {
    check(Fault { server: FaultyServer::Http(&["streams"]), ..HARMLESS });
}
