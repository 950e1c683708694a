//! The hub with its servers. `tests/faults` covers servers that fail.

#![allow(clippy::unwrap_used)]

mod real;
mod status;
mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use support::{NoHost, TestHub, names, text};
use toolwire_contract::toolbox::{CallError, CallOptions, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_hub::config::HttpKind;
use toolwire_hub::pins::PinPolicy;
use toolwire_hub::status::StartProgress;
use toolwire_hub::{AllowedHosts, Config, Hub, HubOptions, Phase, ServerStatus};
use toolwire_testkit::{ServerCommand, start_misbehaving_http};

#[tokio::test]
async fn a_server_that_is_slow_to_connect_does_not_delay_calls_to_others() {
    let hub = TestHub::start_misbehaving(&[("good", &["ordinary"]), ("bad", &["never-initializes"])]);
    let good = hub.call("good_echo", json!({"text": "now"})).await;
    assert_eq!(text(&good.unwrap()), "now");
    assert_eq!(hub.inner.status()[1].phase, Phase::Connecting);
    hub.close().await;
}

/// Checks that the server was notified of a cancelled call. The notification may arrive after later calls, so
/// the check is repeated.
async fn check_server_was_notified(hub: &TestHub) {
    let notified = async { while text(&hub.call("cancelled", json!({})).await.unwrap()) == "[]" {} };
    assert!(
        tokio::time::timeout(support::TEST_TIMEOUT, notified).await.is_ok(),
        "the server was not notified"
    );
}

#[tokio::test]
async fn a_server_is_notified_when_a_call_is_dropped() {
    let hub = TestHub::connect(&[("bad", &["never-responds"])]).await;
    let dropped = tokio::time::timeout(Duration::from_millis(300), hub.call("never", json!({}))).await;
    assert!(dropped.is_err(), "{dropped:?}");
    check_server_was_notified(&hub).await;
    hub.close().await;
}

#[tokio::test]
async fn a_server_is_notified_when_a_call_times_out() {
    let hub = TestHub::connect(&[("bad", &["never-responds"])]).await;
    let result = hub.call_within(Duration::from_millis(300), "never", json!({})).await;
    assert!(matches!(result, Err(CallError::TimedOut { .. })), "{result:?}");
    check_server_was_notified(&hub).await;
    hub.close().await;
}

#[tokio::test]
async fn a_huge_result_is_truncated_and_can_be_read_in_pages() {
    let hub = TestHub::connect(&[("bad", &["huge-result", "--size", "3000000"])]).await;
    let is_offered = || hub.inner.tools().iter().any(|tool| tool.name == "read_result");
    assert!(!is_offered(), "there is nothing to read yet");
    let result = hub.call("echo", json!({"text": "x"})).await.unwrap();
    assert!(is_offered(), "there is a result to read");
    let truncated = text(&result);
    assert!(truncated.len() < 1_000_000, "the result has {} bytes", truncated.len());
    let id = truncated.split(|character: char| !character.is_ascii_alphanumeric()).find(|word| {
        word.len() == 17 && word.starts_with('r') && word[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let end = &truncated[truncated.len().saturating_sub(400)..];
    let id = id.unwrap_or_else(|| panic!("no id in {end:?}"));
    let page = hub.call("read_result", json!({"id": id, "offset": 2_000_000, "length": 10})).await.unwrap();
    assert!(text(&page).contains("of 3000000"), "{}", text(&page));
    hub.close().await;
    // A conversation that is continued with another hub can still read it.
    let later = TestHub::connect(&[("good", &["ordinary"])]).await;
    later.inner.offer_read_result([&ToolResult::text("short")]);
    assert!(later.inner.tools().iter().all(|tool| tool.name != "read_result"));
    later.inner.offer_read_result([&result]);
    assert!(later.inner.tools().iter().any(|tool| tool.name == "read_result"));
    later.close().await;
}

/// Twenty servers that need the processor for a sixth of their timeout become ready on any number of cores:
/// at most four start at the same time, the timeout of each begins when it is started, and it is extended if
/// other programs use the processor too. The limit is configured, because the default depends on the cores
/// and on their load. `TOOLWIRE_STORM_SECONDS=2` runs the test with servers that need two seconds each.
#[tokio::test]
async fn many_servers_that_need_the_processor_become_ready() {
    const LIMIT: usize = 4;
    const COUNT: usize = 20;
    let seconds = std::env::var("TOOLWIRE_STORM_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let processor_time = Duration::from_secs_f64(seconds.unwrap_or(0.5));
    let delay = processor_time.as_millis().to_string();
    let servers = (0..COUNT).map(|index| {
        let name = format!("server{index}");
        let mut config = support::misbehaving(&name, &["burns-processor", "--delay", &delay]);
        config.connect_timeout = 6 * processor_time;
        config.extends_connect_timeout = true;
        config.prefix = Some(name);
        config
    });
    let options = HubOptions::default().with_concurrent_starts(NonZeroUsize::new(LIMIT).unwrap());
    let hub = TestHub::start_with(servers.collect(), options);
    let mut have_waited = false;
    loop {
        // Counted before the servers that are ready, which may become more.
        let running = hub.running();
        let status = hub.inner.status();
        let count = |phase: Phase| status.iter().filter(|server| server.phase == phase).count();
        let is_limited = running <= count(Phase::Ready) + LIMIT;
        assert!(is_limited || !cfg!(target_os = "linux"), "{running} processes: {status:#?}");
        let is_waiting = |server: &ServerStatus| server.start == StartProgress::Waiting;
        have_waited |= status.iter().any(is_waiting) && running == count(Phase::Ready) + LIMIT;
        if count(Phase::Connecting) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(have_waited || !cfg!(target_os = "linux"), "no server has waited for others");
    for server in hub.inner.status() {
        assert_eq!((server.phase, server.restarts), (Phase::Ready, 0), "{}", server.name);
    }
    hub.close().await;
}

/// A package runner that works until a file exists, and then starts the server. The test creates the file
/// after the timeout.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_package_runner_that_still_works_gets_more_time() {
    let folder = support::scratch();
    let (runner, installed) = (folder.join("npx"), folder.join("installed"));
    std::os::unix::fs::symlink("/bin/sh", &runner).unwrap();
    let script = format!(
        "until [ -e '{}' ]; do head -c 100000 /dev/zero | cat > /dev/null; sleep 0.05; done; exec '{}'",
        installed.display(),
        toolwire_testkit::misbehaving_server().display()
    );
    let args = vec!["-c".to_owned(), script];
    let mut config =
        support::launched("slow", ServerCommand { command: runner.to_str().unwrap().to_owned(), args });
    config.connect_timeout = Duration::from_secs(6);
    config.extends_connect_timeout = true;
    let hub = TestHub::start(vec![config], Arc::new(NoHost));
    while hub.inner.status()[0].start != StartProgress::Installing {
        assert_eq!(hub.inner.status()[0].phase, Phase::Connecting);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(&installed, "").unwrap();
    hub.inner.settled().await;
    assert_eq!(hub.inner.status()[0].phase, Phase::Ready);
    hub.close().await;
}

/// Servers that log when they are started, and are never ready.
#[cfg(unix)]
#[tokio::test]
async fn the_number_of_servers_that_start_at_once_can_be_configured() {
    let folder = support::scratch();
    let log = folder.join("started");
    let script = format!("echo >> '{}'; while read -r line; do :; done", log.display());
    let servers = (0..5).map(|index| {
        let command = ServerCommand { command: "sh".to_owned(), args: vec!["-c".to_owned(), script.clone()] };
        support::launched(&format!("server{index}"), command)
    });
    let config = Config { servers: servers.collect(), toolwire: None };
    let options = HubOptions::default()
        .with_environment(std::env::vars_os())
        .with_concurrent_starts(NonZeroUsize::new(2).unwrap());
    let hub = Hub::start(&config, options);
    let progress =
        |wanted: StartProgress| hub.status().iter().filter(|server| server.start == wanted).count();
    let started = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    while (progress(StartProgress::Waiting), started()) != (3, 2) {
        assert!(started() <= 2, "{:?}", hub.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hub.close().await;
    assert_eq!(started(), 2);
}

#[tokio::test]
async fn malformed_tools_are_quarantined() {
    let hub = TestHub::connect(&[("bad", &["bad-tools"])]).await;
    let status = &hub.inner.status()[0];
    assert!(status.tool_count > 0 && !status.quarantined.is_empty(), "{status:?}");
    let server = ToolServer { name: "bad".to_owned(), title: Some("misbehaving-server".to_owned()) };
    assert_eq!(hub.inner.server_of("odd_content"), Some(server));
    assert_eq!(hub.inner.server_of("unknown"), None);
    let result = hub.call("odd_content", json!({})).await.unwrap();
    assert!(!result.blocks().is_empty());
    hub.close().await;
}

#[tokio::test]
async fn all_pages_are_read_and_a_loop_of_pages_ends() {
    let hub = TestHub::connect(&[("many", &["many-tools"])]).await;
    assert_eq!(hub.inner.status()[0].tool_count, 1500);
    hub.close().await;
    let hub = TestHub::connect(&[("loop", &["cursor-loop"])]).await;
    assert!(hub.inner.status()[0].incomplete.is_some());
    hub.close().await;
}

/// A server whose URL is not trusted cannot fill the memory with pages, each of which is allowed.
#[tokio::test]
async fn the_pages_of_a_tool_list_are_limited_together() {
    let tool =
        |number: usize| json!({"name": format!("tool_{number:03}"), "description": "x".repeat(50_000)});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), Value::from_iter((0..300).map(tool)).to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let server = start_misbehaving_http(&["--behaviour", "lists-file", "--file", path]);
    let text = json!({"mcpServers": {"long": {"url": server.url("/mcp")}}}).to_string();
    let (config, _) = Config::parse(&text, std::path::Path::new("mcp.json"), &|_| None).unwrap();
    let hosts = AllowedHosts::new(&["127.0.0.1:*"], &["127.0.0.0/8"]).unwrap();
    for (options, expected) in
        [(HubOptions::default().with_allowed_hosts(Arc::new(hosts)), 100), (HubOptions::default(), 300)]
    {
        let hub = Hub::connect(&config, options).await;
        let status = &hub.status()[0];
        assert_eq!(
            (status.tool_count, status.incomplete.is_some()),
            (expected, expected < 300),
            "{status:?}"
        );
        hub.close().await;
    }
}

#[tokio::test]
async fn a_changed_tool_list_is_refreshed_and_reported() {
    let hub = TestHub::connect(&[("bad", &["changes-tools"])]).await;
    let before = hub.inner.tools();
    let mut changes = hub.inner.changes();
    changes.borrow_and_update();
    let mut change_stream = Toolbox::changes(&hub.inner).unwrap();
    let first = before[0].name.clone();
    hub.call(&first, json!({})).await.unwrap();
    changes.changed().await.unwrap();
    change_stream.next().await.unwrap();
    assert_ne!(before, hub.inner.tools());
    assert!(!hub.inner.status()[0].drifts.is_empty());
    hub.close().await;
}

#[tokio::test]
async fn a_changed_tool_is_blocked_until_it_is_accepted() {
    let config = Config { servers: vec![support::misbehaving("bad", &["changes-tools"])], toolwire: None };
    let folder = support::scratch();
    let options = HubOptions::default()
        .with_environment(std::env::vars_os())
        .with_data_folder(&folder)
        .with_result_budget(None)
        .with_pin_policy(PinPolicy::Block);
    let hub = Hub::connect(&config, options.clone()).await;
    let call = async |tool: &str| hub.call(tool, &json!({}), CallOptions::default()).await;
    let code = |result: Result<_, CallError>| result.err().map(|error| error.code());
    assert_eq!(names(&hub), ["gone", "swapped"]);
    let mut changes = hub.changes();
    changes.borrow_and_update();
    assert_eq!(code(call("swapped").await), None);
    changes.changed().await.unwrap();
    assert_eq!(names(&hub), ["new"]);
    let status = &hub.status()[0];
    assert_eq!(status.tool_count, 1);
    let blocked: Vec<String> =
        status.drifts.iter().filter(|drift| drift.is_blocked).map(ToString::to_string).collect();
    let expected = "tool `swapped` changed since it was pinned: its description changed; \
                    it is blocked until you accept it";
    assert_eq!(blocked, [expected]);
    assert_eq!(code(call("swapped").await), Some("blocked"));

    hub.accept_changes(|server, tool| (server, tool) == ("bad", "other")).unwrap();
    assert_eq!(names(&hub), ["new"]);
    hub.accept_changes(|server, tool| (server, tool) == ("bad", "swapped")).unwrap();
    assert_eq!(names(&hub), ["new", "swapped"]);
    assert_eq!(code(call("swapped").await), None);
    hub.close().await;

    // If the pins cannot be read, every tool may have changed.
    std::fs::write(folder.join("pins.json"), "{").unwrap();
    let hub = Hub::connect(&config, options).await;
    assert!(hub.pins_problem().is_some_and(|problem| problem.contains("pins.json")));
    assert_eq!((names(&hub).len(), hub.status()[0].tool_count), (0, 0));
    hub.accept_changes(|_, _| true).unwrap();
    assert_eq!((names(&hub), hub.pins_problem()), (vec!["gone".to_owned(), "swapped".to_owned()], None));
    hub.close().await;
}

#[tokio::test]
async fn a_server_that_failed_does_not_affect_the_remembered_server_of_a_tool() {
    let missing = ServerCommand { command: "/does/not/exist".to_owned(), args: Vec::new() };
    let servers = vec![support::misbehaving("bad", &["changes-tools"]), support::launched("broken", missing)];
    let config = Config { servers, toolwire: None };
    let folder = support::scratch();
    assert_eq!(Hub::remembered_server(&config, &folder, "swapped"), None);
    let options = HubOptions::default().with_environment(std::env::vars_os()).with_data_folder(&folder);
    let hub = Hub::connect(&config, options).await;
    hub.close().await;
    assert_eq!(Hub::remembered_server(&config, &folder, "swapped").as_deref(), Some("bad"));
}

#[tokio::test]
async fn a_tool_without_permission_is_not_called() {
    let file = support::scratch().join("effects");
    let hub = TestHub::connect(&[("bad", &["counts", "--file", file.to_str().unwrap()])]).await;
    let permission = |tool: &Tool| Err(format!("`{}` is not allowed", tool.name));
    let mut options = CallOptions::default();
    options.permission = Some(Arc::new(permission));
    let result = hub.inner.call("count_write", &json!({}), options).await;
    let reason = "`count_write` is not allowed".to_owned();
    assert_eq!(result, Err(CallError::NotPermitted { tool: "count_write".to_owned(), reason }));
    assert!(!file.exists());
    hub.close().await;
}

#[tokio::test]
async fn only_repeatable_tools_are_retried() {
    let file = support::scratch().join("effects");
    let arguments = ["counts", "--file", file.to_str().unwrap()];
    let hub = TestHub::connect(&[("bad", &arguments)]).await;
    let tools: Vec<(String, bool)> = hub
        .inner
        .tools()
        .iter()
        .filter(|tool| tool.name != "read_result")
        .map(|tool| (tool.name.clone(), tool.is_repeatable()))
        .collect();
    assert!(
        tools.iter().any(|(_, is_repeatable)| *is_repeatable)
            && tools.iter().any(|(_, is_repeatable)| !is_repeatable)
    );
    for (tool, is_repeatable) in tools {
        let effects = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
        let before = effects();
        let result = hub.call(&tool, json!({})).await;
        let expected = if is_repeatable { 2 } else { 1 };
        assert_eq!(effects() - before, expected, "{tool}: {result:?}");
        assert_eq!(result.is_ok(), is_repeatable, "{tool}: {result:?}");
        if let Err(error) = result {
            assert_eq!(error.code(), "outcome_unknown", "{tool}");
        }
    }
    hub.close().await;
}

#[tokio::test]
async fn requests_of_a_server_are_refused_without_a_host() {
    let hub = TestHub::connect(&[("bad", &["asks"])]).await;
    let form = json!({"message": "Where to?", "requestedSchema": {"type": "object", "properties": {}}});
    let refusal = json!({"code": -32601, "message": "this client does not support `sampling/createMessage`"});
    for (method, params, key, expected) in [
        ("elicitation/create", form, "result", json!({"action": "decline"})),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1}), "error", refusal),
        ("roots/list", json!({}), "result", json!({"roots": []})),
    ] {
        let result = hub.call("ask", json!({"method": method, "params": params})).await.unwrap();
        let response: Value = serde_json::from_str(&text(&result)).unwrap();
        assert_eq!(response[key], expected, "{method}: {response}");
    }
    hub.close().await;
}

#[tokio::test]
async fn a_server_receives_only_necessary_variables() {
    let hub = TestHub::connect(&[("bad", &["prints-environment"])]).await;
    let variables = text(&hub.call("environment", json!({})).await.unwrap());
    assert!(variables.contains("PATH") && !variables.contains("TOOLWIRE_TEST_SECRET"), "{variables}");
    hub.close().await;
}

#[tokio::test]
async fn an_interrupted_stream_affects_only_its_own_call() {
    let server = toolwire_testkit::start_misbehaving_http(&["--behaviour", "cut-stream"]);
    let config = support::listening("bad", &server.url("/mcp"), HttpKind::Streamable);
    let hub = TestHub::start(vec![config], Arc::new(NoHost));
    hub.inner.settled().await;
    let interrupted = async {
        let error = hub.call("echo", json!({"text": "x"})).await.unwrap_err();
        assert_eq!(error.code(), "outcome_unknown", "{error}");
    };
    // This call is running before and after the other one is interrupted.
    let (result, ()) = tokio::join!(hub.call("wait", json!({"milliseconds": 1000})), interrupted);
    assert_eq!(text(&result.unwrap()), "wait was called");
    assert_eq!(hub.inner.status()[0].restarts, 0);
    hub.close().await;
}
