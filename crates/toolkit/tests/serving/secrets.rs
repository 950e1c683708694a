//! Secrets are never logged, by any crate and at any level.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolwire_toolkit::transport::{HttpOptions, in_process};
use toolwire_toolkit::{Outcome, Secret, Server, tool};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context as Layered, Layer, SubscriberExt};

use crate::support::{HttpClient, StreamClient, modern, request, send, session_of};

const PASSWORD: &str = "hunter2";

#[derive(Deserialize, JsonSchema)]
struct Login {
    /// The account
    account: String,
    /// The password
    password: Secret<String>,
    /// The keys
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize, JsonSchema)]
struct Key {
    /// The code
    #[schemars(extend("writeOnly" = true))]
    code: String,
}

/// Log in.
#[tool]
async fn login(args: Login) -> Outcome<String> {
    match args.account.as_str() {
        "panic" => panic!("{} is wrong", args.password.reveal()),
        "fail" => Err(format!("{} is wrong", args.password.reveal()))?,
        _ => (),
    }
    let is_valid = args.password.reveal() == PASSWORD && args.keys.iter().all(|key| key.code == PASSWORD);
    Outcome::ok(format!("{} {is_valid}", args.account))
}

/// Check a password, as a tool of another server.
#[tool(name = "relayed")]
async fn relayed(
    /// The password
    password: Secret<String>,
) -> bool {
    password.reveal() == PASSWORD
}

fn server() -> Server {
    let other =
        Server::builder("other").prefix("").environment::<&str, &str>([]).tool(relayed).build().unwrap();
    Server::builder("doors")
        .prefix("")
        .environment::<&str, &str>([])
        .tool(login)
        .toolbox(Arc::new(other))
        .build()
        .unwrap()
}

/// Valid and invalid calls with a secret, and the values of their outcomes.
fn calls() -> Vec<(Value, Value)> {
    vec![
        (
            json!({"name": "login", "arguments": {"account": "a", "password": PASSWORD, "keys": [{"code": PASSWORD}]}}),
            json!("a true"),
        ),
        (json!({"name": "relayed", "arguments": {"password": PASSWORD}}), json!(true)),
        (json!({"name": "login", "arguments": {"account": "a", "passwort": PASSWORD}}), Value::Null),
        (json!({"name": "login", "arguments": {"account": "a", "password": [PASSWORD]}}), Value::Null),
        (json!({"name": "login", "arguments": PASSWORD}), Value::Null),
        (json!({"name": "login", "arguments": {"account": "panic", "password": PASSWORD}}), Value::Null),
        (json!({"name": "login", "arguments": {"account": "fail", "password": PASSWORD}}), Value::Null),
        (json!({"name": "logn", "arguments": {"password": PASSWORD}}), Value::Null),
        (json!({"arguments": {"password": PASSWORD}}), Value::Null),
        (json!([PASSWORD]), Value::Null),
    ]
}

/// Runs the future and returns everything that this thread logs.
fn logged(work: impl Future<Output = ()>) -> Vec<String> {
    let log = Log::default();
    let lines = log.0.clone();
    toolwire_testkit::with_subscriber(tracing_subscriber::registry().with(log), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work);
    });
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[track_caller]
fn check(lines: &[String]) {
    let leaks: Vec<&String> = lines.iter().filter(|line| line.contains(PASSWORD)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    // The log contains lines of the SDK and of the toolkit.
    for target in ["rmcp", "toolwire_toolkit"] {
        assert!(lines.iter().any(|line| line.starts_with(target)), "{target} logged nothing");
    }
}

#[test]
fn secrets_are_not_logged_over_a_stream() {
    for is_modern in [false, true] {
        check(&logged(async move {
            let (stream, _server) = in_process(server()).unwrap();
            let mut client = StreamClient::new(stream);
            if !is_modern {
                client.initialize("2025-11-25").await;
            }
            for (params, expected) in calls() {
                let params = if is_modern && params.is_object() { modern(params) } else { params };
                let response = client.request(request(1, "tools/call", params)).await;
                assert_eq!(response["result"]["structuredContent"]["value"], expected, "{response}");
            }
            client
                .write(&format!(
                    r#"{{"method":"tools/call","id":1,"params":{{"arguments":"{PASSWORD}\ud800""#
                ))
                .await;
            assert_eq!(client.next().await["error"]["code"], -32700);
        }));
    }
}

#[test]
fn secrets_are_not_logged_over_http() {
    check(&logged(async {
        let http = HttpClient::serve(server(), HttpOptions::default()).await;
        let session = session_of(&http.initialize().await);
        for (params, expected) in calls() {
            let message = request(1, "tools/call", params.clone());
            let older = send(http.in_session(&session, &message)).await.body;
            assert_eq!(older["result"]["structuredContent"]["value"], expected, "{older}");
            if params.is_object() {
                let newer = send(http.modern("tools/call", params)).await.body;
                assert_eq!(newer["result"]["structuredContent"]["value"], expected, "{newer}");
            }
        }
        let body = format!(r#"{{"method":"tools/call","id":1,"params":{{"arguments":"{PASSWORD}\ud800""#);
        let broken = send(http.post(&Value::Null).body(body)).await;
        assert_eq!(broken.body["error"]["code"], -32700);
    }));
}

/// Collects every event and span with all fields.
#[derive(Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Layered<'_, S>) {
        let mut line = Line(attributes.metadata().target().to_owned());
        attributes.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Layered<'_, S>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Layered<'_, S>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}
