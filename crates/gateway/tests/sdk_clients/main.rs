//! Runs unmodified clients of the three APIs against a gateway: the SDKs of OpenAI and Anthropic for Python
//! and JavaScript, LangChain, the AI SDK and LiteLLM, and older versions of the two SDKs for Python.
//!
//! Each script checks what its client reports; this program checks what reached the model.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::{MODEL, TestGateway, last_question};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use toolwire_gateway::{GatewaySettings, Keys, ResponseStorage};
use toolwire_store::InMemoryState;
use toolwire_testkit::InstalledServers;

/// The key of the second gateway.
const KEY: &str = "a-key-for-the-tests-of-real-clients";

/// The time that a script may take on a busy machine.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_python() {
    check("openai_python.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_python_requests() {
    check("openai_python_requests.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_python_stored_responses() {
    check("openai_python_state.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_javascript_stored_responses() {
    check("openai_javascript_state.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropic_for_python() {
    check("anthropic_python.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropic_for_python_requests() {
    check("anthropic_python_requests.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_sdks_for_python() {
    check("older_python.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_for_javascript() {
    check("openai_javascript.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropic_for_javascript() {
    check("anthropic_javascript.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ai_sdk() {
    check("ai_sdk.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain() {
    check("langchain_clients.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn litellm() {
    check("litellm_client.py").await;
}

/// Runs a script with the addresses of a gateway without keys, and of one with a key and frequent heartbeats.
async fn check(script: &str) {
    let mut settings = GatewaySettings::default();
    let storage = ResponseStorage::new(Arc::new(InMemoryState::new()), ResponseStorage::DEFAULT_RETENTION);
    settings.responses = Some(storage);
    let gateway = TestGateway::with(settings.clone()).await;
    settings.keys = Keys::default().with("test", KEY);
    settings.limits.heartbeat = Duration::from_millis(200);
    let with_key = TestGateway::with(settings).await;
    let mut command = command(script);
    command
        .env("GATEWAY", gateway.url(""))
        .env("GATEWAY_WITH_KEY", with_key.url(""))
        .env("GATEWAY_KEY", KEY)
        .env("GATEWAY_MODEL", MODEL)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    if let Some(mut input) = child.stdin.take() {
        // JavaScript imports packages relative to the current folder, which is that of the packages, if the
        // program is not a file.
        let program =
            ["support.mjs", script].map(|name| std::fs::read_to_string(folder().join(name)).unwrap());
        input.write_all(program.join("\n").as_bytes()).await.unwrap();
    }
    let output = tokio::time::timeout(SCRIPT_TIMEOUT, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{script} takes too long")).unwrap();
    assert!(
        output.status.success(),
        "{script} failed: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    check_request_counts(&gateway);
    check_nothing_runs(&gateway).await;
}

fn command(script: &str) -> Command {
    let servers = InstalledServers::find();
    let packages = servers.client_packages();
    if script.ends_with(".py") {
        let python = match script.starts_with("older_") {
            true => servers.older_client_python(),
            false => servers.client_python(),
        };
        let mut command = Command::new(python);
        command.arg(folder().join(script)).stdin(Stdio::null());
        // The scripts import others; their compiled form belongs to the installed files.
        command.env("PYTHONPYCACHEPREFIX", packages.join("compiled"));
        // LiteLLM would otherwise load its list of prices from the network.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        return command;
    }
    let mut command = Command::new(servers.node());
    command.args(["--input-type=module", "-"]).current_dir(packages).stdin(Stdio::piped());
    command
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk_clients")
}

/// Checks how often the clients sent a request again. Scripts use each of these questions for one request
/// only.
fn check_request_counts(gateway: &TestGateway) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in gateway.model.requests() {
        *counts.entry(last_question(&request)).or_default() += 1;
    }
    for (question, count) in counts {
        let expected = match question.split_whitespace().collect::<Vec<_>>()[..] {
            // Two rounds; after a call, no client may send the request again.
            ["late-status", ..] => 2,
            // Two rounds, for all attempts together.
            [.., "keyed"] => 2,
            [.., "once"] => 1,
            [.., "twice"] => 2,
            _ => continue,
        };
        assert_eq!(count, expected, "requests to the model for `{question}`");
    }
}

/// Checks that no call is left of the requests that the clients cancelled.
async fn check_nothing_runs(gateway: &TestGateway) {
    let is_idle = async {
        while gateway.running.now.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), is_idle).await;
    assert!(waited.is_ok(), "a call still runs after its client has gone");
}
