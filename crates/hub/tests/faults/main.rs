//! Every fault that a server can have, and what it must not cost. In each: the other server keeps working, the caller gets
//! one clear answer, no process is left, and no task, no open file and no memory is kept.
//!
//! What is held is counted for the whole process, so the faults take turns.

#![allow(clippy::unwrap_used)]

#[path = "../hub/support.rs"]
mod support;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Around, PATIENCE, launched, listening, misbehaving, text};
use tokio::runtime::{Builder, Runtime};
use toolwire_hub::{HttpKind, NoHost, Phase, ServerConfig, ServerStatus};
use toolwire_testkit::{ServerCommand, open_file_count, peak_bytes, resident_bytes, start_misbehaving_http};

/// What the process may hold more than before, once a fault is over: what an allocator keeps for later.
const KEPT: u64 = 48 << 20;

/// What the process may hold at its worst, with a result of 50 MB in its hands: the bytes, their JSON, the text, and a spare.
const WORST: u64 = 4 * 50_000_000 + KEPT;

struct Fault {
    server: Bad,
    /// How long it has to connect, and a call of it to be answered.
    connect: Duration,
    call: Duration,
    tool: &'static str,
    /// The code of the error that a call of it gives, "" for a result; and words of its message.
    answer: &'static str,
    says: &'static str,
    /// What else is to be seen of it after the call.
    then: fn(&ServerStatus),
}

enum Bad {
    Stdio(&'static [&'static str]),
    Http(&'static [&'static str]),
    /// The same where it is not said which of the two transports it speaks.
    Auto(&'static [&'static str]),
    /// Not waited for: it is still connecting in the end.
    Shell(&'static str),
}

/// A fault of a call that is answered all the same.
const HARMLESS: Fault = Fault {
    server: Bad::Stdio(&["ordinary"]),
    connect: PATIENCE,
    call: PATIENCE,
    tool: "echo",
    answer: "",
    says: "x",
    then: |status| assert_eq!(status.phase, Phase::Ready),
};

/// Short enough to be over soon, for calls that are never answered in time.
const SHORT: Duration = Duration::from_millis(300);

/// Long enough for the session to begin, and short enough for a list that never ends.
const LISTING: Duration = Duration::from_secs(3);

/// Where a server is down or being brought back, with these words as the reason.
fn is_away(status: &ServerStatus, words: &str) {
    let (Phase::Recovering { reason } | Phase::Down { reason }) = &status.phase else {
        panic!("{:?}", status.phase)
    };
    assert!(reason.contains(words), "{reason}");
}

fn check(fault: Fault) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let http = match fault.server {
        Bad::Http(arguments) | Bad::Auto(arguments) => {
            Some(start_misbehaving_http(&[&["--behaviour"], arguments].concat()))
        }
        _ => None,
    };
    let bad = match fault.server {
        Bad::Stdio(arguments) => misbehaving("bad", arguments),
        Bad::Http(_) => listening("bad", &http.as_ref().unwrap().url("/mcp"), HttpKind::Streamable),
        Bad::Auto(_) => listening("bad", &http.as_ref().unwrap().url("/sse"), HttpKind::Auto),
        Bad::Shell(script) => {
            let args = vec!["-c".to_owned(), script.to_owned()];
            launched("bad", ServerCommand { command: "/bin/sh".to_owned(), args })
        }
    };
    // Made within the turn, as it opens files of its own.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // The first hub of a process starts what all of them share.
    runtime.block_on(async {
        let around = Around::start(vec![prefixed(misbehaving("good", &["ordinary"]))], Arc::new(NoHost));
        echo(&around, "hello").await;
        around.close().await;
    });
    let before = Held::by(&runtime);
    runtime.block_on(live_with(&fault, bad));
    before.is_reached_again(&runtime);
    let worst = peak_bytes(std::process::id()).unwrap();
    assert!(worst < WORST, "it held {worst} bytes");
}

async fn live_with(fault: &Fault, mut bad: ServerConfig) {
    bad.connect_timeout = fault.connect;
    let servers = vec![prefixed(misbehaving("good", &["ordinary"])), prefixed(bad)];
    let around = Around::start(servers, Arc::new(NoHost));
    if !matches!(fault.server, Bad::Shell(_)) {
        around.hub.settled().await;
    }
    echo(&around, "before").await;
    let name = format!("bad_{}", fault.tool);
    let arguments = json!({"text": "x"});
    let answer = {
        let call = around.call_within(fault.call, &name, arguments);
        let mut call = std::pin::pin!(tokio::time::timeout(PATIENCE, call));
        loop {
            tokio::select! {
                biased;
                answer = &mut call => break answer.expect("a call is answered in bounded time"),
                () = echo(&around, "meanwhile") => {}
            }
        }
    };
    let (code, words) = match &answer {
        Ok(result) => ("", text(result)),
        Err(error) => (error.code(), error.to_string()),
    };
    let excerpt: String = words.chars().take(300).collect();
    assert_eq!(code, fault.answer, "{excerpt}");
    assert!(words.contains(fault.says), "{excerpt}");
    let status = &around.hub.status()[1];
    (fault.then)(status);
    echo(&around, "after").await;
    around.close().await;
}

async fn echo(around: &Around, words: &str) {
    let answer = around.call("good_echo", json!({"text": words})).await;
    assert_eq!(text(&answer.expect("the good server answers")), words);
}

fn prefixed(mut config: ServerConfig) -> ServerConfig {
    config.prefix = Some(config.name.to_string());
    config
}

/// What a process and its runtime hold.
#[derive(Debug)]
struct Held {
    tasks: usize,
    files: usize,
    resident: u64,
}

impl Held {
    fn by(runtime: &Runtime) -> Held {
        let process = std::process::id();
        Held {
            tasks: runtime.metrics().num_alive_tasks(),
            files: open_file_count(process).unwrap(),
            resident: resident_bytes(process).unwrap(),
        }
    }

    /// Waits for it: connections of HTTP are closed by tasks that nobody can await.
    fn is_reached_again(&self, runtime: &Runtime) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Held::by(runtime);
            let is_back =
                now.tasks <= self.tasks && now.files <= self.files && now.resident <= self.resident + KEPT;
            if is_back {
                return;
            }
            assert!(Instant::now() < deadline, "more is held than before: {now:?}, before {self:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn exits_at_once() {
    check(Fault {
        server: Bad::Stdio(&["exits-at-once"]),
        answer: "unknown_tool",
        says: "server `bad` is not there: the process ended with exit code 3 before the session began; it is being restarted; its last words on stderr: misbehaving-server: cannot open the database",
        then: |status| {
            is_away(status, "exit code 3");
            assert_eq!(status.stderr, ["misbehaving-server: cannot open the database"]);
        },
        ..HARMLESS
    });
}

#[test]
fn exits_in_a_call() {
    check(Fault {
        server: Bad::Stdio(&["exits-mid-call"]),
        answer: "outcome_unknown",
        says: "exit code 4; its last words on stderr: misbehaving-server: fatal: out of luck)",
        then: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn exits_in_an_answer() {
    check(Fault {
        server: Bad::Stdio(&["exits-mid-response"]),
        answer: "outcome_unknown",
        says: "exit code 5",
        then: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn never_answers_initialize() {
    check(Fault {
        server: Bad::Stdio(&["never-initializes"]),
        connect: SHORT,
        call: SHORT,
        answer: "unknown_tool",
        says: "server `bad` is not there: the server did not come up within 300ms",
        then: |status| is_away(status, "did not come up within 300ms"),
        ..HARMLESS
    });
}

#[test]
fn never_answers_the_first_list() {
    check(Fault {
        server: Bad::Stdio(&["never-lists"]),
        connect: LISTING,
        call: SHORT,
        answer: "unknown_tool",
        says: "server `bad` is not there: it did not list its tools",
        then: |status| is_away(status, "did not list its tools within 3s"),
        ..HARMLESS
    });
}

#[test]
fn has_always_one_more_page() {
    check(Fault {
        server: Bad::Stdio(&["drips-pages", "--delay", "100"]),
        connect: LISTING,
        call: SHORT,
        answer: "unknown_tool",
        says: "server `bad` is not there: it did not list its tools",
        then: |status| is_away(status, "did not list its tools within 3s"),
        ..HARMLESS
    });
}

#[test]
fn neither_reads_nor_goes_while_it_is_connected() {
    check(Fault {
        server: Bad::Shell("trap '' TERM HUP INT; while :; do sleep 1; done"),
        call: SHORT,
        answer: "unknown_tool",
        says: "server `bad` is not there: it is still connecting",
        then: |status| assert_eq!(status.phase, Phase::Connecting),
        ..HARMLESS
    });
}

#[test]
fn never_answers_a_call() {
    check(Fault {
        server: Bad::Stdio(&["never-responds"]),
        tool: "never",
        call: SHORT,
        answer: "timed_out",
        says: "did not answer `never` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn answers_after_the_deadline() {
    check(Fault {
        server: Bad::Stdio(&["responds-late", "--delay", "900"]),
        call: SHORT,
        answer: "timed_out",
        says: "did not answer `echo` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn prints_garbage() {
    check(Fault {
        server: Bad::Stdio(&["garbage"]),
        then: |status| assert!(status.noise.unreadable > 0),
        ..HARMLESS
    });
}

#[test]
fn answers_twice() {
    check(Fault {
        server: Bad::Stdio(&["duplicate-ids"]),
        then: |status| assert!(status.noise.strays > 0),
        ..HARMLESS
    });
}

#[test]
fn sends_a_result_of_50_megabytes() {
    check(Fault { server: Bad::Stdio(&["huge-result"]), says: "of 50000000 characters", ..HARMLESS });
}

#[test]
fn makes_progress_for_ever() {
    check(Fault {
        server: Bad::Stdio(&["slow-progress", "--delay", "20", "--count", "10000"]),
        // On a busy machine a server may not get to run for a good part of it.
        call: Duration::from_secs(2),
        answer: "timed_out",
        says: "did not answer `echo` within 20s",
        ..HARMLESS
    });
}

/// A call that is made again has no more time than one that is made once: the third attempt runs out of it.
#[test]
fn cuts_each_stream_late() {
    check(Fault {
        server: Bad::Http(&["cut-stream", "--delay", "2000"]),
        call: Duration::from_secs(5),
        answer: "timed_out",
        says: "did not answer `echo` within 5s",
        ..HARMLESS
    });
}

#[test]
fn names_an_endpoint_elsewhere() {
    check(Fault {
        server: Bad::Auto(&["sse-foreign-endpoint"]),
        call: SHORT,
        answer: "unknown_tool",
        says: "the endpoint `http://other.example/messages?session=0` is on another origin",
        then: |status| is_away(status, "is on another origin"),
        ..HARMLESS
    });
}

#[test]
fn lists_tools_that_are_no_json() {
    fn then(status: &ServerStatus) {
        assert_eq!((&status.phase, status.tool_count), (&Phase::Ready, 4));
        let kept_back: Vec<(&str, &str)> =
            status.quarantined.iter().map(|tool| (tool.tool.as_str(), tool.reason.as_str())).collect();
        let [surrogate, utf8, number, deep] = &kept_back[..] else { panic!("{kept_back:?}") };
        assert!(surrogate.0 == "lone_surrogate" && surrogate.1.contains("hex escape"), "{surrogate:?}");
        assert_eq!(*utf8, ("no_utf8", "it cannot be read: it is not UTF-8"));
        assert!(number.0 == "no_number" && number.1.contains("expected value"), "{number:?}");
        assert!(deep.0 == "too_deep" && deep.1.contains("recursion limit exceeded"), "{deep:?}");
    }
    let says = "half a pair: \u{fffd}, a byte: \u{fffd}";
    check(Fault { server: Bad::Stdio(&["unreadable-tools"]), says, then, ..HARMLESS });
    check(Fault { server: Bad::Http(&["unreadable-tools"]), says, then, ..HARMLESS });
}

#[test]
fn answers_with_what_is_no_json() {
    check(Fault {
        server: Bad::Stdio(&["unreadable-result"]),
        answer: "malformed",
        says: "answered `echo` with something that is no result: the answer cannot be read: expected",
        ..HARMLESS
    });
}

#[test]
fn answers_with_more_than_is_read() {
    check(Fault {
        server: Bad::Stdio(&["huge-result", "--size", "70000000"]),
        answer: "malformed",
        says: "the answer is longer than 67108864 bytes",
        ..HARMLESS
    });
}

#[test]
fn http_502() {
    check(Fault {
        server: Bad::Http(&["status-502"]),
        answer: "outcome_unknown",
        says: "server `bad` gave no result for `echo` (the server answered HTTP 502",
        ..HARMLESS
    });
}

#[test]
fn answers_with_no_list_of_content() {
    check(Fault {
        server: Bad::Stdio(&["bad-result"]),
        answer: "malformed",
        says: "its `content` is no list",
        ..HARMLESS
    });
}

#[test]
fn closes_stdout_and_lives_on() {
    check(Fault {
        server: Bad::Stdio(&["closes-stdout"]),
        answer: "outcome_unknown",
        says: "closed its output",
        then: |status| assert!(status.restarts > 0),
        ..HARMLESS
    });
}

#[test]
fn ignores_sigterm() {
    check(Fault { server: Bad::Stdio(&["ignores-sigterm"]), ..HARMLESS });
}

#[test]
fn leaves_a_child_behind() {
    check(Fault { server: Bad::Stdio(&["forks-a-child"]), ..HARMLESS });
}

#[test]
fn floods_notifications() {
    check(Fault { server: Bad::Stdio(&["floods-notifications", "--count", "20000"]), ..HARMLESS });
}

#[test]
fn floods_stderr() {
    check(Fault { server: Bad::Stdio(&["writes-stderr"]), ..HARMLESS });
}

#[test]
fn http_500() {
    check(Fault {
        server: Bad::Http(&["status-500"]),
        answer: "outcome_unknown",
        says: "HTTP 500",
        ..HARMLESS
    });
}

#[test]
fn http_401_for_a_call() {
    check(Fault {
        server: Bad::Http(&["status-401"]),
        answer: "unavailable",
        says: "asks for authorization (HTTP 401)",
        ..HARMLESS
    });
}

#[test]
fn http_401_for_everything() {
    check(Fault {
        server: Bad::Http(&["status-401", "--from", "initialize"]),
        answer: "unknown_tool",
        says: "asks for authorization (HTTP 401)",
        then: |status| is_away(status, "asks for authorization (HTTP 401)"),
        ..HARMLESS
    });
}

#[test]
fn http_404_because_the_session_is_gone() {
    check(Fault { server: Bad::Http(&["session-lost"]), ..HARMLESS });
}

#[test]
fn http_400_because_no_session_is_known() {
    check(Fault {
        server: Bad::Http(&["session-unknown"]),
        answer: "unavailable",
        says: "session",
        then: |_| {},
        ..HARMLESS
    });
}

#[test]
fn http_stream_that_is_cut() {
    check(Fault {
        server: Bad::Http(&["cut-stream"]),
        answer: "outcome_unknown",
        says: "the connection broke",
        then: |_| {},
        ..HARMLESS
    });
}

#[test]
fn http_page_in_place_of_an_answer() {
    check(Fault {
        server: Bad::Http(&["html-body"]),
        answer: "outcome_unknown",
        says: "text/html",
        ..HARMLESS
    });
}

#[test]
fn http_call_that_hangs() {
    check(Fault {
        server: Bad::Http(&["hangs"]),
        call: SHORT,
        answer: "timed_out",
        says: "did not answer `echo` within 300ms",
        ..HARMLESS
    });
}

#[test]
fn http_that_hangs_from_the_start() {
    check(Fault {
        server: Bad::Http(&["hangs", "--from", "initialize"]),
        connect: SHORT,
        call: SHORT,
        answer: "unknown_tool",
        says: "server `bad` is not there",
        then: |status| is_away(status, "did not come up within 300ms"),
        ..HARMLESS
    });
}

#[test]
fn http_result_of_50_megabytes() {
    check(Fault { server: Bad::Http(&["huge-result"]), says: "of 50000000 characters", ..HARMLESS });
}

#[test]
fn http_streams_are_no_fault() {
    check(Fault { server: Bad::Http(&["streams"]), ..HARMLESS });
}
