//! `server-everything`, the reference server of the legacy era.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolwire_contract::Secret;
use toolwire_contract::elicitation::ElicitHandler;
use toolwire_contract::toolbox::Progress;
use toolwire_testkit::InstalledServers;

use super::support::{Connector, TEST_TIMEOUT, call, connect, everything_server, http, object, options};
use crate::config::Transport;
use crate::host::{ElicitKind, ElicitReply, ElicitRequest, Host, Root};
use crate::raw_capture::{IgnoredOutput, ProgressListener};
use crate::session::{ProtocolEra, Session, SessionCall, SessionError, SessionEvent};
use crate::transport::HttpKind;

async fn check_session(session: &Session) {
    assert_eq!(session.info().era, ProtocolEra::Legacy);
    assert_eq!(session.info().protocol, "2025-11-25");
    assert_eq!(session.info().implementation["name"], "mcp-servers/everything");
    let listing = session.list_tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"echo") && names.contains(&"get-structured-content"), "{names:?}");
    assert!(listing.skipped.is_empty() && listing.incomplete.is_none());
    let result = call(session, "echo", json!({ "message": "hello" })).await;
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "Echo: hello" }] }));
    assert_eq!(session.ignored_output(), IgnoredOutput::default());
}

#[tokio::test]
async fn stdio_is_supported() {
    let session = connect(&everything_server()).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn streamable_http_is_supported() {
    let server = InstalledServers::find().everything_over_http();
    let session = connect(&http(&server.url("/mcp"), HttpKind::Auto)).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn http_with_sse_is_supported() {
    let server = InstalledServers::find().everything_over_sse();
    for kind in [HttpKind::Sse, HttpKind::Auto] {
        let session = connect(&http(&server.url("/sse"), kind)).await;
        check_session(&session).await;
        session.close().await;
    }
}

#[tokio::test]
async fn tools_have_all_their_fields() {
    let session = connect(&everything_server()).await;
    let tools = session.list_tools().await.unwrap().tools;
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["execution"], json!({ "taskSupport": "forbidden" }), "the SDK drops this field");
    session.close().await;
}

#[tokio::test]
async fn every_content_type_is_received() {
    let session = connect(&everything_server()).await;
    let kinds = |result: &Value| -> Vec<String> {
        let content = result["content"].as_array().unwrap();
        content.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    let image = call(&session, "get-tiny-image", json!({})).await;
    assert_eq!(kinds(&image), ["text", "image", "text"]);
    let links = call(&session, "get-resource-links", json!({ "count": 2 })).await;
    assert_eq!(kinds(&links), ["text", "resource_link", "resource_link"]);
    let reference = json!({ "resourceType": "Text", "resourceId": 1 });
    let resource = call(&session, "get-resource-reference", reference).await;
    assert_eq!(kinds(&resource), ["text", "resource", "text"]);
    let structured = call(&session, "get-structured-content", json!({ "location": "New York" })).await;
    assert_eq!(structured["structuredContent"]["conditions"], "Cloudy", "{structured:#}");
    session.close().await;
}

#[tokio::test]
async fn an_invalid_argument_is_an_error_result() {
    let session = connect(&everything_server()).await;
    let result = call(&session, "get-sum", json!({ "a": "one" })).await;
    assert_eq!(result["isError"], true, "{result:#}");
    session.close().await;
}

/// Responds to all requests of a server, and records the elicitations.
#[derive(Default)]
struct TestHost {
    elicitations: Mutex<Vec<ElicitRequest>>,
}

impl Host for TestHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let content = match request.kind {
            ElicitKind::Form { .. } => Some(json!({ "name": "Ada", "check": true })),
            _ => None,
        };
        self.elicitations.lock().unwrap().push(request);
        Box::pin(async { ElicitReply::Accept(content) })
    }

    fn sample<'a>(&'a self, _server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, String>> {
        let text = format!("a model read: {}", request["messages"][0]["content"]["text"].as_str().unwrap());
        let content = json!({ "type": "text", "text": text });
        Box::pin(async move { Ok(json!({ "role": "assistant", "model": "none", "content": content })) })
    }

    fn roots(&self, _server: &str) -> Vec<Root> {
        vec![Root { uri: "file:///tmp/here".into(), name: Some("here".into()) }]
    }
}

#[tokio::test]
async fn the_application_responds_to_requests_of_servers() {
    let http_server = InstalledServers::find().everything_over_http();
    let sse_server = InstalledServers::find().everything_over_sse();
    for transport in [
        everything_server(),
        http(&http_server.url("/mcp"), HttpKind::Streamable),
        http(&sse_server.url("/sse"), HttpKind::Sse),
    ] {
        let host = Arc::new(TestHost::default());
        let connector = Connector { host: host.clone(), ..Connector::default() };
        let (session, mut events) = connector.connect(&transport).await.unwrap();
        // The server adds these tools when it knows the client's capabilities, and reports the change. Over
        // streamable HTTP it does so before the client can listen.
        if matches!(transport, Transport::Stdio { .. }) {
            let event = tokio::time::timeout(TEST_TIMEOUT, events.recv()).await.unwrap();
            assert_eq!(event, Some(SessionEvent::ToolsChanged));
        }
        let tools = session.list_tools().await.unwrap().tools;
        for tool in ["trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"] {
            assert!(tools.iter().any(|listed| listed["name"] == tool), "no {tool}");
        }

        let elicited = call(&session, "trigger-elicitation-request", json!({})).await;
        assert!(elicited.to_string().contains("Ada"), "{elicited:#}");
        let request = host.elicitations.lock().unwrap().pop().unwrap();
        let ElicitKind::Form { schema } = request.kind else { panic!("not a form: {request:?}") };
        assert_eq!(schema["properties"]["firstLine"]["default"], "It was a dark and stormy night.");

        // A call may ask the user itself.
        let elicitation: Option<Arc<ElicitHandler>> = Some(Arc::new(|server, request| {
            let name = format!("{server}: {}", request.message);
            Box::pin(async move { ElicitReply::Accept(Some(json!({ "name": name, "check": true }))) })
        }));
        let options = SessionCall { elicitation, ..options() };
        let elicited = session.call("trigger-elicitation-request", Map::new(), options).await.unwrap();
        assert!(elicited.to_string().contains("Name: test: "), "{elicited:#}");
        assert!(host.elicitations.lock().unwrap().is_empty());

        let sampled = call(&session, "trigger-sampling-request", json!({ "prompt": "hello" })).await;
        assert!(sampled.to_string().contains("a model read: "), "{sampled:#}");
        let roots = call(&session, "get-roots-list", json!({})).await;
        assert!(roots.to_string().contains("file:///tmp/here"), "{roots:#}");
        session.close().await;
    }
}

#[tokio::test]
async fn progress_is_reported_and_extends_the_timeout() {
    let server = InstalledServers::find().everything_over_http();
    for transport in [everything_server(), http(&server.url("/mcp"), HttpKind::Auto)] {
        let session = connect(&transport).await;
        let reports = Arc::new(Mutex::new(Vec::new()));
        let listener_reports = reports.clone();
        let options = SessionCall {
            timeout: Duration::from_secs(4),
            progress: Some(Arc::new(move |progress: Progress| {
                listener_reports.lock().unwrap().push((progress.done, progress.total));
            })),
            ..options()
        };
        let arguments = object(json!({ "duration": 6, "steps": 4 }));
        let result = session.call("trigger-long-running-operation", arguments, options).await.unwrap();
        assert!(result.to_string().contains("completed"), "{result:#}");
        let expected: Vec<(f64, Option<f64>)> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
        assert_eq!(*reports.lock().unwrap(), expected);
        session.close().await;
    }
}

#[tokio::test]
async fn an_abandoned_call_leaves_the_session_usable() {
    let server = InstalledServers::find().everything_over_http();
    let sse_server = InstalledServers::find().everything_over_sse();
    for transport in [
        everything_server(),
        http(&server.url("/mcp"), HttpKind::Auto),
        http(&sse_server.url("/sse"), HttpKind::Sse),
    ] {
        let session = connect(&transport).await;
        let arguments = || object(json!({ "duration": 1000, "steps": 1000 }));

        let limited = SessionCall { max_total: Duration::from_millis(500), ..options() };
        let error = session.call("trigger-long-running-operation", arguments(), limited).await.unwrap_err();
        assert!(matches!(error, SessionError::TimedOut { .. }), "{error:?}");

        let (started, mut has_started) = mpsc::channel(1);
        let progress: ProgressListener = Arc::new(move |_| {
            let _ = started.try_send(());
        });
        let watched = SessionCall { progress: Some(progress), ..options() };
        tokio::select! {
            result = session.call("trigger-long-running-operation", arguments(), watched) => panic!("{result:?}"),
            started = has_started.recv() => assert_eq!(started, Some(())),
        }

        call(&session, "echo", json!({ "message": "still here" })).await;
        assert_eq!(session.ignored_output().unexpected, 0);
        session.close().await;
    }
}

#[tokio::test]
async fn many_calls_run_concurrently() {
    let server = InstalledServers::find().everything_over_http();
    let sse_server = InstalledServers::find().everything_over_sse();
    for transport in [
        everything_server(),
        http(&server.url("/mcp"), HttpKind::Auto),
        http(&sse_server.url("/sse"), HttpKind::Sse),
    ] {
        let session = connect(&transport).await;
        let calls = (0..100).map(async |number| {
            let result = call(&session, "get-sum", json!({ "a": number, "b": 1 })).await;
            let text = result["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains(&format!("{number} and 1 is {}", number + 1)), "{text}");
        });
        futures::future::join_all(calls).await;
        session.close().await;
    }
}

#[tokio::test]
async fn a_process_receives_only_necessary_variables() {
    let mut transport = everything_server();
    if let Transport::Stdio { env, .. } = &mut transport {
        env.push(("CONFIGURED".into(), Secret::new("yes")));
    }
    let session = connect(&transport).await;
    let variables = call(&session, "get-env", json!({})).await.to_string();
    assert!(variables.contains("CONFIGURED") && variables.contains("PATH"), "{variables}");
    assert!(!variables.contains("OUR_API_KEY"), "{variables}");
    session.close().await;
}
