//! One hub and many real third-party servers, over every transport.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::toolbox::{CallOptions, Progress, Toolbox};
use toolwire_contract::{Content, ToolResult};
use toolwire_hub::config::HttpKind;
use toolwire_hub::host::{ElicitKind, ElicitReply, ElicitRequest, Host, Root};
use toolwire_hub::{Phase, ServerConfig};
use toolwire_testkit::{InstalledServers, RunningServer};

use crate::support::{
    NoHost, TEST_TIMEOUT, TestHub, launched, listening, names, scratch, text, with_variable,
};

/// The names of `server-everything` on each of its transports. They are the prefixes of its tools.
const EVERYTHING: [&str; 3] = ["everything", "everything-http", "everything-sse"];

/// Starts `server-everything` on all of its transports. The remote ones run until they are dropped.
fn everything() -> (Vec<ServerConfig>, [RunningServer; 2]) {
    let servers = InstalledServers::find();
    let (http, sse) = (servers.everything_over_http(), servers.everything_over_sse());
    let configs = vec![
        launched(EVERYTHING[0], servers.everything()),
        // Detected as streamable.
        listening(EVERYTHING[1], &http.url("/mcp"), HttpKind::Auto),
        listening(EVERYTHING[2], &sse.url("/sse"), HttpKind::Sse),
    ];
    (configs, [http, sse])
}

/// Connects to the servers, and waits for the tools that they list only for a client with roots.
async fn hub_with_everything(host: Arc<dyn Host>) -> (TestHub, [RunningServer; 2]) {
    let (configs, running) = everything();
    let hub = TestHub::start(configs, host);
    for server in EVERYTHING {
        hub.wait_for_tool(&format!("{server}_get-roots-list")).await;
    }
    (hub, running)
}

/// Creates a repository with one commit and one untracked file.
fn create_repository(folder: &Path) {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(folder).args(["-c", "user.name=Harbour", "-c", "user.email=harbour@example.com"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    std::fs::write(folder.join("tides.txt"), "high at noon\n").unwrap();
    git(&["add", "tides.txt"]);
    git(&["commit", "--quiet", "--message", "note the tides"]);
    std::fs::write(folder.join("ships.txt"), "three\n").unwrap();
}

#[tokio::test]
async fn seven_servers_are_one_toolbox() {
    let servers = InstalledServers::find();
    let (files, memory, git) = (scratch(), scratch().join("memory.jsonl"), scratch());
    create_repository(&git);
    let (mut configs, _running) = everything();
    configs.push(launched("files", servers.filesystem(&files)));
    let memory_server =
        with_variable(launched("memory", servers.memory()), "MEMORY_FILE_PATH", memory.to_str().unwrap());
    configs.push(memory_server);
    configs.push(launched("git", servers.git(&git)));
    configs.push(launched("time", servers.time()));
    let hub = TestHub::start(configs, Arc::new(NoHost));
    hub.inner.settled().await;
    for server in EVERYTHING {
        hub.wait_for_tool(&format!("{server}_get-roots-list")).await;
    }

    let statuses: Vec<(String, Phase, usize)> =
        hub.inner.status().into_iter().map(|status| (status.name, status.phase, status.tool_count)).collect();
    let expected = EVERYTHING
        .map(|name| (name, 14))
        .into_iter()
        .chain([("files", 14), ("memory", 9), ("git", 12), ("time", 2)])
        .map(|(name, count)| (name.to_owned(), Phase::Ready, count));
    assert_eq!(statuses, expected.collect::<Vec<_>>());
    assert_eq!(hub.inner.missing_servers(), []);
    // Only the tools that several servers have get a prefix.
    let offered = names(&hub.inner);
    assert_eq!(offered.len(), 3 * 14 + 14 + 9 + 12 + 2, "{offered:?}");
    for name in ["read_file", "create_entities", "git_status", "convert_time", "everything-http_echo"] {
        assert!(offered.iter().any(|offered| offered == name), "no {name} in {offered:?}");
    }
    assert!(!offered.iter().any(|name| name == "echo"), "{offered:?}");
    let origin = hub.inner.origin("everything-sse_get-sum");
    assert_eq!(origin, Some(("everything-sse".to_owned(), "get-sum".to_owned())));
    let listed_again: Vec<String> = hub.inner.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, listed_again);

    tokio::join!(
        files_are_written_and_read(&hub, &files),
        entities_are_stored_and_read(&hub, &memory),
        a_repository_is_read(&hub, &git),
        times_are_converted(&hub),
        every_transport_returns_sums(&hub),
    );
    hub.close().await;
}

async fn files_are_written_and_read(hub: &TestHub, folder: &Path) {
    let path = folder.join("note.txt");
    let arguments = json!({"path": path, "content": "fog until ten\n"});
    let written = hub.call("write_file", arguments).await.unwrap();
    assert!(!written.is_error(), "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "fog until ten\n");
    let read = hub.call("read_text_file", json!({"path": path})).await.unwrap();
    assert_eq!(text(&read), "fog until ten\n");
    // If the server refuses, the call returns a result with `isError`.
    let outside = hub.call("read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error(), "{outside:?}");
    // Invalid arguments are not sent.
    let error = hub.call("read_text_file", json!({"path": ["a", "list"]})).await.unwrap_err();
    assert_eq!(error.code(), "invalid_arguments", "{error}");
}

async fn entities_are_stored_and_read(hub: &TestHub, file: &Path) {
    let entity = json!({"name": "Bergen", "entityType": "town", "observations": ["it rains there"]});
    let created = hub.call("create_entities", json!({"entities": [entity]})).await.unwrap();
    assert!(!created.is_error(), "{created:?}");
    let graph = hub.call("read_graph", json!({})).await.unwrap();
    let graph: Value = serde_json::from_str(&text(&graph)).unwrap();
    assert_eq!(graph["entities"], json!([entity]));
    assert!(std::fs::read_to_string(file).unwrap().contains("it rains there"));
}

async fn a_repository_is_read(hub: &TestHub, repository: &Path) {
    let status = hub.call("git_status", json!({"repo_path": repository})).await.unwrap();
    assert!(text(&status).contains("ships.txt") && !text(&status).contains("tides.txt"), "{status:?}");
    let log = hub.call("git_log", json!({"repo_path": repository, "max_count": 5})).await.unwrap();
    assert!(text(&log).contains("note the tides"), "{log:?}");
}

async fn times_are_converted(hub: &TestHub) {
    // Two time zones without daylight saving time.
    let arguments =
        json!({"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"});
    let converted = hub.call("convert_time", arguments).await.unwrap();
    let converted: Value = serde_json::from_str(&text(&converted)).unwrap();
    assert!(converted["target"]["datetime"].as_str().unwrap().contains("T08:30:00"), "{converted}");
}

async fn every_transport_returns_sums(hub: &TestHub) {
    let sums = EVERYTHING.iter().enumerate().map(async |(number, server)| {
        let sum = hub.call(&format!("{server}_get-sum"), json!({"a": number, "b": 40})).await.unwrap();
        assert!(text(&sum).contains(&format!("is {}", number + 40)), "{server}: {sum:?}");
    });
    futures::future::join_all(sums).await;
}

#[tokio::test]
async fn every_content_type_is_supported() {
    let (hub, _running) = hub_with_everything(Arc::new(NoHost)).await;
    let kinds = |result: &ToolResult| -> Vec<String> {
        result.blocks().iter().map(|block| block.type_name().unwrap_or_default().to_owned()).collect()
    };
    for server in EVERYTHING {
        let call = async |tool: &str, arguments: Value| {
            hub.call(&format!("{server}_{tool}"), arguments).await.unwrap()
        };
        let image = call("get-tiny-image", json!({})).await;
        assert_eq!(kinds(&image), ["text", "image", "text"]);
        let Content::Image { data, mime_type, .. } = &image.blocks()[1] else { panic!("{image:?}") };
        assert!(data.starts_with("iVBOR") && mime_type == "image/png", "{mime_type}: {data}");
        let links = call("get-resource-links", json!({"count": 2})).await;
        assert_eq!(kinds(&links), ["text", "resource_link", "resource_link"]);
        for kind in ["Text", "Blob"] {
            let arguments = json!({"resourceType": kind, "resourceId": 1});
            let resource = call("get-resource-reference", arguments).await;
            assert_eq!(kinds(&resource), ["text", "resource", "text"]);
        }
        let arguments = json!({"messageType": "error", "includeImage": true});
        let annotated = call("get-annotated-message", arguments).await;
        assert_eq!(kinds(&annotated), ["text", "image"]);
        let audience = annotated.blocks()[0].annotations().unwrap().get("audience");
        assert_eq!(audience, Some(&json!(["user", "assistant"])));
        let structured = call("get-structured-content", json!({"location": "New York"})).await;
        assert_eq!(structured.structured_content.unwrap()["conditions"], "Cloudy");
    }
    hub.close().await;
}

#[tokio::test]
async fn progress_is_reported() {
    let (hub, _running) = hub_with_everything(Arc::new(NoHost)).await;
    for server in EVERYTHING {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let listener_reports = reports.clone();
        let mut options = CallOptions::default();
        options.timeout = Some(TEST_TIMEOUT);
        options.progress = Some(Arc::new(move |progress: Progress| {
            listener_reports.lock().unwrap().push((progress.done, progress.total));
        }));
        let tool = format!("{server}_trigger-long-running-operation");
        let result = hub.inner.call(&tool, &json!({"duration": 0.4, "steps": 4}), options).await.unwrap();
        assert!(text(&result).contains("completed"), "{result:?}");
        let expected: Vec<(f64, Option<f64>)> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
        assert_eq!(*reports.lock().unwrap(), expected, "{server}");
    }
    hub.close().await;
}

#[tokio::test]
async fn a_dropped_call_does_not_affect_others() {
    let (hub, _running) = hub_with_everything(Arc::new(NoHost)).await;
    for server in EVERYTHING {
        let (started, mut has_started) = tokio::sync::mpsc::channel(1);
        let mut options = CallOptions::default();
        options.timeout = Some(TEST_TIMEOUT);
        options.progress = Some(Arc::new(move |_: Progress| {
            let _ = started.try_send(());
        }));
        let tool = format!("{server}_trigger-long-running-operation");
        let arguments = json!({"duration": 1000, "steps": 10_000});
        tokio::select! {
            ended = hub.inner.call(&tool, &arguments, options) => panic!("{server}: {ended:?}"),
            started = has_started.recv() => assert_eq!(started, Some(()), "{server}"),
        }
        let echo = hub.call(&format!("{server}_echo"), json!({"message": "still here"})).await.unwrap();
        assert_eq!(text(&echo), "Echo: still here");
    }
    for status in hub.inner.status() {
        assert_eq!(
            (status.phase, status.restarts, status.ignored_output.unexpected),
            (Phase::Ready, 0, 0),
            "{}",
            status.name
        );
    }
    hub.close().await;
}

/// Responds to all requests of servers, and records the elicitations with their servers.
#[derive(Default)]
struct TestHost {
    elicitations: Mutex<Vec<(String, ElicitRequest)>>,
}

impl Host for TestHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let content = match request.kind {
            ElicitKind::Form { .. } => Some(json!({"name": "Harbour", "check": true})),
            _ => None,
        };
        self.elicitations.lock().unwrap().push((server.to_owned(), request));
        Box::pin(async { ElicitReply::Accept(content) })
    }

    fn sample<'a>(&'a self, server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, String>> {
        let read = request["messages"][0]["content"]["text"].as_str().unwrap_or_default().to_owned();
        let content = json!({"type": "text", "text": format!("a model of {server} read: {read}")});
        Box::pin(async move { Ok(json!({"role": "assistant", "model": "none", "content": content})) })
    }

    fn roots(&self, server: &str) -> Vec<Root> {
        vec![Root { uri: format!("file:///srv/{server}"), name: None }]
    }
}

#[tokio::test]
async fn requests_of_servers_reach_the_application() {
    let host = Arc::new(TestHost::default());
    // The server lists these tools only when it knows the client's capabilities, and reports the change.
    let (hub, _running) = hub_with_everything(host.clone()).await;
    for server in EVERYTHING {
        for tool in ["trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"] {
            hub.wait_for_tool(&format!("{server}_{tool}")).await;
        }
        let call = async |tool: &str, arguments: Value| {
            text(&hub.call(&format!("{server}_{tool}"), arguments).await.unwrap())
        };
        let elicited = call("trigger-elicitation-request", json!({})).await;
        assert!(elicited.contains("Harbour"), "{server}: {elicited}");
        let (requester, request) = host.elicitations.lock().unwrap().pop().unwrap();
        let ElicitKind::Form { schema } = request.kind else { panic!("not a form: {request:?}") };
        assert_eq!(requester, server);
        assert!(schema["properties"]["firstLine"].is_object(), "{schema}");
        let sampled = call("trigger-sampling-request", json!({"prompt": "hello"})).await;
        assert!(sampled.contains(&format!("a model of {server} read: ")), "{sampled}");
        let roots = call("get-roots-list", json!({})).await;
        assert!(roots.contains(&format!("file:///srv/{server}")), "{roots}");
    }
    hub.close().await;
}

#[tokio::test]
async fn a_restarted_remote_server_is_reconnected() {
    let servers = InstalledServers::find();
    let mut server = servers.everything_over_http();
    let config = listening("everything", &server.url("/mcp"), HttpKind::Auto);
    let hub = TestHub::start(vec![config], Arc::new(NoHost));
    hub.inner.settled().await;
    let echo = async |message: &str| hub.call("echo", json!({"message": message})).await;
    assert_eq!(text(&echo("before").await.unwrap()), "Echo: before");
    server.kill();
    let error = hub.call_within(Duration::from_millis(500), "echo", json!({"message": "during"})).await;
    // A connection that is still open may accept the call and then fail.
    let error = error.unwrap_err();
    assert!(matches!(error.code(), "unavailable" | "outcome_unknown"), "{error}");
    let _restarted =
        RunningServer::start_on_port(servers.everything_listening("streamableHttp"), server.port());
    assert_eq!(text(&echo("after").await.unwrap()), "Echo: after");
    hub.close().await;
}
