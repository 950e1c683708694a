//! One hub and many real servers that nobody here wrote, over every transport.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::{CallOptions, Content, Progress, ToolResult, Toolbox};
use toolwire_hub::{
    ElicitKind, ElicitReply, ElicitRequest, Host, HttpKind, NoHost, Phase, Root, SamplingError, ServerConfig,
};
use toolwire_testkit::{InstalledServers, RunningServer};

use crate::support::{Around, PATIENCE, launched, listening, names, scratch, text, with_variable};

/// The names of `server-everything` on each of its transports, which are the prefixes of its tools.
const EVERYTHING: [&str; 3] = ["everything", "everything-http", "everything-sse"];

/// `server-everything` on all of its transports. Those on the network run until they are dropped.
fn everything() -> (Vec<ServerConfig>, [RunningServer; 2]) {
    let servers = InstalledServers::find();
    let (http, sse) = (servers.everything_over_http(), servers.everything_over_sse());
    let configs = vec![
        launched(EVERYTHING[0], servers.everything()),
        // Found out to be streamable.
        listening(EVERYTHING[1], &http.url("/mcp"), HttpKind::Auto),
        listening(EVERYTHING[2], &sse.url("/sse"), HttpKind::Sse),
    ];
    (configs, [http, sse])
}

/// Connected, with what the servers offer only to a client that has roots.
async fn around_everything(host: Arc<dyn Host>) -> (Around, [RunningServer; 2]) {
    let (configs, running) = everything();
    let around = Around::start(configs, host);
    for server in EVERYTHING {
        around.offers(&format!("{server}_get-roots-list")).await;
    }
    (around, running)
}

/// A repository with one commit and one file that is not in it.
fn repository(folder: &Path) {
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
    repository(&git);
    let (mut configs, _running) = everything();
    configs.push(launched("files", servers.filesystem(&files)));
    let remembering =
        with_variable(launched("memory", servers.memory()), "MEMORY_FILE_PATH", memory.to_str().unwrap());
    configs.push(remembering);
    configs.push(launched("git", servers.git(&git)));
    configs.push(launched("time", servers.time()));
    let around = Around::start(configs, Arc::new(NoHost));
    around.hub.settled().await;
    for server in EVERYTHING {
        around.offers(&format!("{server}_get-roots-list")).await;
    }

    let found: Vec<(String, Phase, usize)> =
        around.hub.status().into_iter().map(|each| (each.name, each.phase, each.tool_count)).collect();
    let expected = EVERYTHING
        .map(|name| (name, 14))
        .into_iter()
        .chain([("files", 14), ("memory", 9), ("git", 12), ("time", 2)])
        .map(|(name, count)| (name.to_owned(), Phase::Ready, count));
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(around.hub.missing_servers(), []);
    // What one server alone has keeps its name; what three have gets the server's in front.
    let offered = names(&around.hub);
    assert_eq!(offered.len(), 3 * 14 + 14 + 9 + 12 + 2 + 1, "{offered:?}");
    for name in ["read_file", "create_entities", "git_status", "convert_time", "everything-http_echo"] {
        assert!(offered.iter().any(|offered| offered == name), "no {name} in {offered:?}");
    }
    assert!(!offered.iter().any(|name| name == "echo"), "{offered:?}");
    let origin = around.hub.origin("everything-sse_get-sum");
    assert_eq!(origin, Some(("everything-sse".to_owned(), "get-sum".to_owned())));
    let again: Vec<String> = around.hub.tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, again);

    tokio::join!(
        files_are_written_and_read(&around, &files),
        what_is_remembered_is_known(&around, &memory),
        a_repository_is_read(&around, &git),
        times_are_converted(&around),
        sums_come_from_everywhere(&around),
    );
    around.close().await;
}

async fn files_are_written_and_read(around: &Around, folder: &Path) {
    let path = folder.join("note.txt");
    let arguments = json!({"path": path, "content": "fog until ten\n"});
    let written = around.call("write_file", arguments).await.unwrap();
    assert!(!written.is_error(), "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "fog until ten\n");
    let read = around.call("read_text_file", json!({"path": path})).await.unwrap();
    assert_eq!(text(&read), "fog until ten\n");
    // What the server refuses is an answer, not an error.
    let outside = around.call("read_text_file", json!({"path": "/etc/hostname"})).await.unwrap();
    assert!(outside.is_error(), "{outside:?}");
    // What cannot fit does not travel.
    let wrong = around.call("read_text_file", json!({"path": ["a", "list"]})).await.unwrap_err();
    assert_eq!(wrong.code(), "invalid_arguments", "{wrong}");
}

async fn what_is_remembered_is_known(around: &Around, file: &Path) {
    let entity = json!({"name": "Bergen", "entityType": "town", "observations": ["it rains there"]});
    let made = around.call("create_entities", json!({"entities": [entity]})).await.unwrap();
    assert!(!made.is_error(), "{made:?}");
    let graph = around.call("read_graph", json!({})).await.unwrap();
    let graph: Value = serde_json::from_str(&text(&graph)).unwrap();
    assert_eq!(graph["entities"], json!([entity]));
    assert!(std::fs::read_to_string(file).unwrap().contains("it rains there"));
}

async fn a_repository_is_read(around: &Around, repository: &Path) {
    let status = around.call("git_status", json!({"repo_path": repository})).await.unwrap();
    assert!(text(&status).contains("ships.txt") && !text(&status).contains("tides.txt"), "{status:?}");
    let log = around.call("git_log", json!({"repo_path": repository, "max_count": 5})).await.unwrap();
    assert!(text(&log).contains("note the tides"), "{log:?}");
}

async fn times_are_converted(around: &Around) {
    // Two places without summer time.
    let arguments =
        json!({"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"});
    let converted = around.call("convert_time", arguments).await.unwrap();
    let converted: Value = serde_json::from_str(&text(&converted)).unwrap();
    assert!(converted["target"]["datetime"].as_str().unwrap().contains("T08:30:00"), "{converted}");
}

async fn sums_come_from_everywhere(around: &Around) {
    let sums = EVERYTHING.iter().enumerate().map(async |(number, server)| {
        let sum = around.call(&format!("{server}_get-sum"), json!({"a": number, "b": 40})).await.unwrap();
        assert!(text(&sum).contains(&format!("is {}", number + 40)), "{server}: {sum:?}");
    });
    futures::future::join_all(sums).await;
}

#[tokio::test]
async fn every_content_type_comes_through() {
    let (around, _running) = around_everything(Arc::new(NoHost)).await;
    let kinds = |result: &ToolResult| -> Vec<String> {
        result.blocks().iter().map(|block| block.type_name().unwrap_or_default().to_owned()).collect()
    };
    for server in EVERYTHING {
        let call = async |tool: &str, arguments: Value| {
            around.call(&format!("{server}_{tool}"), arguments).await.unwrap()
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
    around.close().await;
}

#[tokio::test]
async fn progress_is_told() {
    let (around, _running) = around_everything(Arc::new(NoHost)).await;
    for server in EVERYTHING {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        let options = CallOptions {
            timeout: Some(PATIENCE),
            progress: Some(Arc::new(move |progress: Progress| {
                told.lock().unwrap().push((progress.done, progress.total));
            })),
            ..CallOptions::default()
        };
        let tool = format!("{server}_trigger-long-running-operation");
        let result = around.hub.call(&tool, &json!({"duration": 0.4, "steps": 4}), options).await.unwrap();
        assert!(text(&result).contains("completed"), "{result:?}");
        let expected: Vec<(f64, Option<f64>)> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
        assert_eq!(*heard.lock().unwrap(), expected, "{server}");
    }
    around.close().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_the_others_alone() {
    let (around, _running) = around_everything(Arc::new(NoHost)).await;
    for server in EVERYTHING {
        let (started, mut is_started) = tokio::sync::mpsc::channel(1);
        let options = CallOptions {
            timeout: Some(PATIENCE),
            progress: Some(Arc::new(move |_: Progress| {
                let _ = started.try_send(());
            })),
            ..CallOptions::default()
        };
        let tool = format!("{server}_trigger-long-running-operation");
        let arguments = json!({"duration": 1000, "steps": 10_000});
        tokio::select! {
            ended = around.hub.call(&tool, &arguments, options) => panic!("{server}: {ended:?}"),
            told = is_started.recv() => assert_eq!(told, Some(()), "{server}"),
        }
        let echo = around.call(&format!("{server}_echo"), json!({"message": "still here"})).await.unwrap();
        assert_eq!(text(&echo), "Echo: still here");
    }
    for status in around.hub.status() {
        assert_eq!(
            (status.phase, status.restarts, status.noise.strays),
            (Phase::Ready, 0, 0),
            "{}",
            status.name
        );
    }
    around.close().await;
}

/// Answers what a server may ask for, and keeps who asked what.
#[derive(Default)]
struct Application {
    asked: Mutex<Vec<(String, ElicitRequest)>>,
}

impl Host for Application {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }

    fn elicit<'a>(&'a self, server: &'a str, request: ElicitRequest) -> BoxFuture<'a, ElicitReply> {
        let answer = match request.kind {
            ElicitKind::Form { .. } => Some(json!({"name": "Harbour", "check": true})),
            ElicitKind::Url { .. } => None,
        };
        self.asked.lock().unwrap().push((server.to_owned(), request));
        Box::pin(async { ElicitReply::Accept(answer) })
    }

    fn sample<'a>(&'a self, server: &'a str, request: Value) -> BoxFuture<'a, Result<Value, SamplingError>> {
        let read = request["messages"][0]["content"]["text"].as_str().unwrap_or_default().to_owned();
        let content = json!({"type": "text", "text": format!("a model of {server} read: {read}")});
        Box::pin(async move { Ok(json!({"role": "assistant", "model": "none", "content": content})) })
    }

    fn roots(&self, server: &str) -> Vec<Root> {
        vec![Root { uri: format!("file:///srv/{server}"), name: None }]
    }
}

#[tokio::test]
async fn what_servers_ask_reaches_the_application() {
    let application = Arc::new(Application::default());
    // The server lists the tools that ask only once it knows what the client can do, and says that its list has changed.
    let (around, _running) = around_everything(application.clone()).await;
    for server in EVERYTHING {
        for tool in ["trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"] {
            around.offers(&format!("{server}_{tool}")).await;
        }
        let call = async |tool: &str, arguments: Value| {
            text(&around.call(&format!("{server}_{tool}"), arguments).await.unwrap())
        };
        let elicited = call("trigger-elicitation-request", json!({})).await;
        assert!(elicited.contains("Harbour"), "{server}: {elicited}");
        let (asker, asked) = application.asked.lock().unwrap().pop().unwrap();
        let ElicitKind::Form { schema } = asked.kind else { panic!("no form: {asked:?}") };
        assert_eq!(asker, server);
        assert!(schema["properties"]["firstLine"].is_object(), "{schema}");
        let sampled = call("trigger-sampling-request", json!({"prompt": "hello"})).await;
        assert!(sampled.contains(&format!("a model of {server} read: ")), "{sampled}");
        let roots = call("get-roots-list", json!({})).await;
        assert!(roots.contains(&format!("file:///srv/{server}")), "{roots}");
    }
    around.close().await;
}

#[tokio::test]
async fn a_server_on_the_network_that_comes_back_is_found_again() {
    let servers = InstalledServers::find();
    let mut server = servers.everything_over_http();
    let config = listening("everything", &server.url("/mcp"), HttpKind::Auto);
    let around = Around::start(vec![config], Arc::new(NoHost));
    around.hub.settled().await;
    let echo = async |message: &str| around.call("echo", json!({"message": message})).await;
    assert_eq!(text(&echo("before").await.unwrap()), "Echo: before");
    server.kill();
    let away = around.call_within(Duration::from_millis(500), "echo", json!({"message": "away"})).await;
    // A connection that was open may take the call and break.
    let away = away.unwrap_err();
    assert!(matches!(away.code(), "unavailable" | "outcome_unknown"), "{away}");
    let _again = RunningServer::start_on_port(servers.everything_listening("streamableHttp"), server.port());
    assert_eq!(text(&echo("after").await.unwrap()), "Echo: after");
    around.close().await;
}
