//! `server-everything`, the reference server of the old era.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolwire_hub::{
    CallOptions, ConnectContext, ElicitKind, ElicitReply, ElicitRequest, Era, Host, HttpKind, NoHost,
    Progress, Root, SamplingError, Secret, Session, SessionError, SessionEvent, Target,
};
use toolwire_testkit::InstalledServers;

use crate::support::{Connecting, PATIENCE, call, connect, everything, http, object};

async fn check_session(session: &Session) {
    assert_eq!(session.facts().era, Era::Legacy);
    assert_eq!(session.facts().protocol, "2025-11-25");
    assert_eq!(session.facts().server_info["name"], "mcp-servers/everything");
    let listing = session.list_tools().await.unwrap();
    let names: Vec<&str> = listing.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"echo") && names.contains(&"get-structured-content"), "{names:?}");
    assert!(listing.left_out.is_empty() && listing.cut.is_none());
    let result = call(session, "echo", json!({ "message": "hello" })).await;
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "Echo: hello" }] }));
    let noise = session.noise();
    assert_eq!((noise.unreadable, noise.strays, noise.oversized), (0, 0, 0), "{noise:?}");
}

#[tokio::test]
async fn over_stdio() {
    let session = connect(&everything()).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn over_streamable_http() {
    let server = InstalledServers::find().everything_over_http();
    let session = connect(&http(server.url("/mcp"), HttpKind::Auto)).await;
    check_session(&session).await;
    session.close().await;
}

#[tokio::test]
async fn over_the_older_http() {
    let server = InstalledServers::find().everything_over_sse();
    for kind in [HttpKind::Sse, HttpKind::Auto] {
        let session = connect(&http(server.url("/sse"), kind)).await;
        check_session(&session).await;
        session.close().await;
    }
}

#[tokio::test]
async fn tools_keep_all_their_fields() {
    let session = connect(&everything()).await;
    let tools = session.list_tools().await.unwrap().tools;
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["execution"], json!({ "taskSupport": "forbidden" }), "a field that the SDK drops");
    session.close().await;
}

#[tokio::test]
async fn every_content_type_arrives() {
    let session = connect(&everything()).await;
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
async fn a_bad_argument_is_an_answer() {
    let session = connect(&everything()).await;
    let result = call(&session, "get-sum", json!({ "a": "one" })).await;
    assert_eq!(result["isError"], true, "{result:#}");
    session.close().await;
}

/// Answers what a server may ask for, and keeps what it was asked.
#[derive(Default)]
struct Person {
    asked: Mutex<Vec<ElicitRequest>>,
}

impl Host for Person {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, _server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let answer = match request.kind {
            ElicitKind::Form { .. } => Some(json!({ "name": "Ada", "check": true })),
            ElicitKind::Url { .. } => None,
        };
        self.asked.lock().unwrap().push(request);
        Box::pin(async { ElicitReply::Accept(answer) })
    }

    fn sample<'a>(&'a self, _server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, SamplingError>> {
        let text = format!("a model read: {}", request["messages"][0]["content"]["text"].as_str().unwrap());
        let content = json!({ "type": "text", "text": text });
        Box::pin(async move { Ok(json!({ "role": "assistant", "model": "none", "content": content })) })
    }

    fn roots(&self, _server: &str) -> Vec<Root> {
        vec![Root { uri: "file:///tmp/here".into(), name: Some("here".into()) }]
    }
}

#[tokio::test]
async fn the_application_answers_what_servers_ask() {
    let streamable = InstalledServers::find().everything_over_http();
    let older = InstalledServers::find().everything_over_sse();
    for target in [
        everything(),
        http(streamable.url("/mcp"), HttpKind::Streamable),
        http(older.url("/sse"), HttpKind::Sse),
    ] {
        let person = Arc::new(Person::default());
        let connecting = Connecting { host: person.clone(), ..Connecting::default() };
        let (session, mut events) = connecting.to(&target).await.unwrap();
        // The server offers these tools once it knows what the client can do, and says so; over streamable HTTP it
        // does before anybody can listen.
        if matches!(target, Target::Stdio { .. }) {
            let told = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap();
            assert_eq!(told, Some(SessionEvent::ToolsChanged));
        }
        let tools = session.list_tools().await.unwrap().tools;
        for tool in ["trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"] {
            assert!(tools.iter().any(|listed| listed["name"] == tool), "no {tool}");
        }

        let elicited = call(&session, "trigger-elicitation-request", json!({})).await;
        assert!(elicited.to_string().contains("Ada"), "{elicited:#}");
        let asked = person.asked.lock().unwrap().pop().unwrap();
        let ElicitKind::Form { schema } = asked.kind else { panic!("no form: {asked:?}") };
        assert_eq!(schema["properties"]["firstLine"]["default"], "It was a dark and stormy night.");

        let sampled = call(&session, "trigger-sampling-request", json!({ "prompt": "hello" })).await;
        assert!(sampled.to_string().contains("a model read: "), "{sampled:#}");
        let roots = call(&session, "get-roots-list", json!({})).await;
        assert!(roots.to_string().contains("file:///tmp/here"), "{roots:#}");
        session.close().await;
    }
}

#[tokio::test]
async fn progress_is_told_and_extends_the_time_limit() {
    let server = InstalledServers::find().everything_over_http();
    for target in [everything(), http(server.url("/mcp"), HttpKind::Auto)] {
        let session = connect(&target).await;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        let options = CallOptions {
            timeout: Duration::from_secs(4),
            progress: Some(Arc::new(move |progress: Progress| {
                told.lock().unwrap().push((progress.progress, progress.total));
            })),
            ..CallOptions::default()
        };
        let arguments = object(json!({ "duration": 6, "steps": 4 }));
        let result = session.call("trigger-long-running-operation", arguments, options).await.unwrap();
        assert!(result.to_string().contains("completed"), "{result:#}");
        let expected: Vec<(f64, Option<f64>)> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
        assert_eq!(*heard.lock().unwrap(), expected);
        session.close().await;
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_the_session_usable() {
    let server = InstalledServers::find().everything_over_http();
    let older = InstalledServers::find().everything_over_sse();
    for target in
        [everything(), http(server.url("/mcp"), HttpKind::Auto), http(older.url("/sse"), HttpKind::Sse)]
    {
        let session = connect(&target).await;
        let arguments = || object(json!({ "duration": 1000, "steps": 1000 }));

        let options = CallOptions { max_total: Duration::from_millis(500), ..CallOptions::default() };
        let error = session.call("trigger-long-running-operation", arguments(), options).await.unwrap_err();
        assert!(matches!(error, SessionError::TimedOut { .. }), "{error:?}");

        let cancel = CancellationToken::new();
        let options = CallOptions {
            cancel: cancel.clone(),
            progress: Some(Arc::new(move |_| cancel.cancel())),
            ..CallOptions::default()
        };
        let error = session.call("trigger-long-running-operation", arguments(), options).await.unwrap_err();
        assert!(matches!(error, SessionError::Cancelled), "{error:?}");

        call(&session, "echo", json!({ "message": "still here" })).await;
        assert_eq!(session.noise().strays, 0);
        session.close().await;
    }
}

#[tokio::test]
async fn many_calls_are_under_way_at_once() {
    let server = InstalledServers::find().everything_over_http();
    let older = InstalledServers::find().everything_over_sse();
    for target in
        [everything(), http(server.url("/mcp"), HttpKind::Auto), http(older.url("/sse"), HttpKind::Sse)]
    {
        let session = connect(&target).await;
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
async fn a_process_sees_only_what_it_needs_of_the_environment() {
    let (events, _heard) = tokio::sync::mpsc::channel(1);
    let mut target = everything();
    if let Target::Stdio { env, .. } = &mut target {
        env.push(("GIVEN_TO_IT".into(), Secret::new("yes")));
    }
    let ours = std::env::vars_os().chain([("OUR_API_KEY".into(), "secret".into())]);
    let context = ConnectContext {
        server: "test".into(),
        host: Arc::new(NoHost),
        events,
        era: Some(Era::Legacy),
        bearer: None,
        environment: ours.collect(),
        timeout: PATIENCE,
        stop: CancellationToken::new(),
    };
    let session = Session::connect(&target, context).await.unwrap();
    let seen = call(&session, "get-env", json!({})).await.to_string();
    assert!(seen.contains("GIVEN_TO_IT") && seen.contains("PATH") && !seen.contains("OUR_API_KEY"), "{seen}");
    session.close().await;
}
