//! Automatic logging: a span for each call, with events at fixed levels.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Notify;
use toolwire_toolkit::client::Form;
use toolwire_toolkit::transport::in_process;
use toolwire_toolkit::{Context, Outcome, Secret, Server, tool};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context as Layered, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::{Client, TRANSPORTS, Transport, runtime};

/// Greet someone at a place.
#[tool]
async fn greet(
    /// Where
    place: String,
) -> String {
    place
}

#[derive(Deserialize, JsonSchema)]
struct Login {
    /// The account
    account: String,
    /// The password
    password: Secret<String>,
}

/// Log in.
#[tool]
async fn login(args: Login) -> Outcome<String> {
    if args.password.reveal() != "hunter2" {
        "x".parse::<u8>()?;
    }
    Outcome::ok(format!("{} {:?}", args.account, args.password))
}

/// Panic.
#[tool]
async fn explode(
    /// The message of the panic
    message: String,
) {
    panic!("boom: {message}");
}

/// Notified when `wait` runs.
static STARTED: Notify = Notify::const_new();

/// Wait forever.
#[tool]
async fn wait() {
    STARTED.notify_one();
    std::future::pending().await
}

fn server() -> Server {
    // The served names have a prefix; the names in the log have none.
    Server::builder("docs")
        .environment::<&str, &str>([])
        .tool(greet)
        .tool(login)
        .tool(explode)
        .tool(wait)
        .build()
        .unwrap()
}

/// Calls a tool through a client and returns the lines logged at `level` or above; equal over all transports.
fn logged(level: Level, tool: &str, arguments: Value) -> Vec<String> {
    let [stream, http] = TRANSPORTS.map(|transport| logged_over(transport, level, tool, arguments.clone()));
    assert_eq!(stream, http, "over a stream and over HTTP");
    stream
}

fn logged_over(transport: Transport, level: Level, tool: &str, arguments: Value) -> Vec<String> {
    let log = Log { level, lines: Arc::default() };
    let lines = log.lines.clone();
    let wait_for_line = |start: &'static str| {
        let lines = lines.clone();
        async move {
            let line_exists = async {
                while !lines.lock().unwrap().iter().any(|line| line.starts_with(start)) {
                    tokio::task::yield_now().await;
                }
            };
            let line_exists = tokio::time::timeout(Duration::from_secs(60), line_exists).await;
            assert!(line_exists.is_ok(), "no line starts with {start:?}: {:#?}", lines.lock().unwrap());
        }
    };
    toolwire_testkit::with_subscriber(tracing_subscriber::registry().with(log), || {
        // Everything runs on this thread, so this subscriber receives every event.
        runtime().block_on(async {
            let client = Client::connect(&server(), transport).await;
            let call = client.call(tool, arguments);
            if tool == "docs_wait" {
                tokio::select! {
                    result = call => panic!("the tool waits forever: {result:?}"),
                    () = STARTED.notified() => (), // The call is dropped.
                }
            } else {
                call.await.unwrap();
            }
            wait_for_line(SPAN_CLOSED).await;
        });
    });
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[track_caller]
fn check(level: Level, tool: &str, arguments: Value, expected: &[&str]) {
    assert_eq!(logged(level, tool, arguments), expected);
}

/// The beginning of the line for a closed span.
const SPAN_CLOSED: &str = "span tool=";

#[test]
fn a_call_is_logged_at_trace_and_its_outcome_at_debug() {
    check(
        Level::TRACE,
        "docs_greet",
        json!({"place": "Oslo"}),
        &[
            r#"TRACE called arguments={"place":"Oslo"}"#,
            "DEBUG outcome outcome=success duration=…",
            "TRACE completed",
            "span tool=greet request_id=… outcome=success",
        ],
    );
    check(
        Level::DEBUG,
        "docs_greet",
        json!({"place": "Oslo"}),
        &["DEBUG outcome outcome=success duration=…", "span tool=greet request_id=… outcome=success"],
    );
    check(
        Level::ERROR,
        "docs_greet",
        json!({"place": "Oslo"}),
        &["span tool=greet request_id=… outcome=success"],
    );
}

#[test]
fn a_failure_is_logged_as_an_error_with_its_cause() {
    check(
        Level::ERROR,
        "docs_login",
        json!({"account": "a", "password": "wrong"}),
        &[
            "ERROR failed error_type=internal_error error=internal error in the tool; see its log \
         cause=invalid digit found in string",
            "span tool=login request_id=… outcome=internal_error",
        ],
    );
    check(
        Level::ERROR,
        "docs_greet",
        json!({"place": 1}),
        &[
            "ERROR failed error_type=validation_error error=`place` is invalid; nothing was done",
            "span tool=greet request_id=… outcome=validation_error",
        ],
    );
    check(
        Level::DEBUG,
        "docs_explode",
        json!({"message": "bang"}),
        &[
            "ERROR failed error_type=internal_error error=internal error in the tool; see its log \
         cause=panicked: boom: bang",
            "DEBUG outcome outcome=internal_error duration=…",
            "span tool=explode request_id=… outcome=internal_error",
        ],
    );
}

#[test]
fn secrets_are_not_logged() {
    let lines = logged(Level::TRACE, "docs_login", json!({"account": "a", "password": "hunter2"}));
    assert_eq!(lines[0], r#"TRACE called arguments={"account":"a","password":"…"}"#);
    let attempts = [
        json!({"account": "a", "password": "hunter2"}),
        json!({"account": "a", "passwort": "hunter2"}),
        json!({"account": "a", "password": {"is": "hunter2"}}),
        json!({"account": "a", "password": ["hunter2"], "extra": "hunter2"}),
    ];
    for arguments in attempts {
        let lines = logged(Level::TRACE, "docs_login", arguments);
        assert!(lines.iter().all(|line| !line.contains("hunter2")), "{lines:#?}");
        assert!(lines.last().unwrap().starts_with(SPAN_CLOSED));
    }
}

#[test]
fn a_cancelled_call_is_logged_as_cancelled() {
    check(
        Level::DEBUG,
        "docs_wait",
        json!({}),
        &["DEBUG outcome outcome=cancelled duration=…", "span tool=wait request_id=… outcome=cancelled"],
    );
}

/// Ask for a name.
#[tool]
async fn ask(cx: &Context) -> Outcome<()> {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    cx.client.elicit(Form::Fields { message: "Who are you?".to_owned(), schema }).await?;
    Outcome::ok(())
}

/// In 2026-07-28 a question ends the call, which is not a cancellation.
#[test]
fn a_call_with_questions_is_logged_as_input_required() {
    let server = Server::builder("docs").environment::<&str, &str>([]).tool(ask).build().unwrap();
    let log = Log { level: Level::DEBUG, lines: Arc::default() };
    let lines = log.lines.clone();
    toolwire_testkit::with_subscriber(tracing_subscriber::registry().with(log), || {
        runtime().block_on(async {
            let (stream, _server) = in_process(server).unwrap();
            let (input, mut output) = tokio::io::split(stream);
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "docs_ask",
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
                },
            }});
            output.write_all(format!("{request}\n").as_bytes()).await.unwrap();
            let response = BufReader::new(input).lines().next_line().await.unwrap().unwrap();
            assert!(response.contains(r#""resultType":"input_required""#), "{response}");
        });
    });
    let expected = [
        "DEBUG outcome outcome=input_required duration=…",
        "span tool=ask request_id=… outcome=input_required",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

/// Collects the toolkit's events as lines, and a line for each closed span.
struct Log {
    level: Level,
    lines: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.push(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value.to_owned());
    }
}

impl Fields {
    fn push(&mut self, field: &Field, value: String) {
        // Durations vary, and request ids depend on the client.
        let is_variable = ["duration", "request_id"].contains(&field.name());
        let value = if is_variable { "…".to_owned() } else { value };
        self.0.push((field.name().to_owned(), value));
    }

    fn line(&self, mut line: String) -> String {
        if let Some((_, message)) = self.0.iter().find(|(name, _)| name == "message") {
            write!(line, " {message}").unwrap();
        }
        for (name, value) in self.0.iter().filter(|(name, _)| name != "message") {
            write!(line, " {name}={value}").unwrap();
        }
        line
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Layered<'_, S>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("toolwire_toolkit")
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, layered: Layered<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        layered.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, layered: Layered<'_, S>) {
        let span = layered.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, layered: Layered<'_, S>) {
        assert_eq!(layered.event_span(event).unwrap().name(), "tool_call", "every event belongs to a call");
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.lines.lock().unwrap().push(fields.line(event.metadata().level().to_string()));
    }

    fn on_close(&self, id: Id, layered: Layered<'_, S>) {
        let span = layered.span(&id).unwrap();
        let line = span.extensions().get::<Fields>().unwrap().line("span".to_owned());
        self.lines.lock().unwrap().push(line);
    }
}
