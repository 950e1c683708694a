//! The official clients for JavaScript and Python, and MCP Inspector, at `/mcp` and with `--stdio`, in both
//! eras.

#[path = "../../../toolkit/tests/fixture/mod.rs"]
pub(crate) mod fixture;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use toolwire_testkit::InstalledServers;
use toolwire_toolkit::transport::{HttpOptions, serve_http};

use crate::replaced_gateways::ReplacedGateways;
use crate::{folder, serve};

const KEY: &str = "key-of-official-clients-0123456789abcdef";

/// The revisions of both eras, as the client for JavaScript selects them.
const ERAS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve").join(name)
}

async fn run(mut command: Command, data: &Path) -> Value {
    command.env("XDG_DATA_HOME", data).env_remove("TOOLWIRE_CONFIG").env_remove("TOOLWIRE_KEY");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}"))
}

fn expected(revision: &str, tools: usize) -> Value {
    json!({
        "revision": revision,
        "server": "toolwire",
        "tools": tools,
        "echo": [{"type": "text", "text": "grüß dich"}],
        "image": "image/png",
        "failed": true,
        "unknownTool": -32602,
        "resource": r#"{"id":"7","templateTest":true,"data":"Data for ID: 7"}"#,
        "prompt": 1,
        "completed": ["paris", "park", "party"],
        "progress": [0, 50, 100],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn official_mcp_clients_work() {
    let server = fixture::server();
    let tools = server.tools().len();
    let upstream = serve_http(server, ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await.unwrap();
    let servers = json!({"fixture": {"url": upstream.url()}});
    let open = folder("mcp-official", Some(&json!({"mcpServers": servers})));
    let gateway = serve(&open, &[]);
    let keys = json!({"mcpServers": servers, "toolwire": {"gateway": {"keys": {"test": KEY}}}});
    let closed = serve(&folder("mcp-official-key", Some(&keys)), &[]);
    let config = open.join("mcp.json").display().to_string();
    let stdio = [env!("CARGO_BIN_EXE_toolwire"), "serve", "--stdio", "--config", &config];
    let (url, closed_url) = (format!("{}/mcp", gateway.url), format!("{}/mcp", closed.url));
    let installed = InstalledServers::find();
    for (era, revision) in ERAS {
        for (key, target) in [("-", &[url.as_str()][..]), (KEY, &[closed_url.as_str()]), ("-", &stdio)] {
            let mut command = Command::new(installed.node());
            command.arg(script("mcp_client.mjs")).arg(installed.package("@modelcontextprotocol/client"));
            command.args([era, key]).args(target);
            assert_eq!(
                run(command, &open).await,
                expected(revision, tools),
                "JavaScript, {revision}, {target:?}"
            );
        }
        // With a fixed revision, this client does not request the name of the server.
        let mode = if era == "legacy" { "legacy" } else { "auto" };
        for target in [&[url.as_str()][..], &stdio] {
            let mut command = Command::new(installed.python());
            command.arg(script("mcp_client.py")).arg(mode).args(target);
            assert_eq!(
                run(command, &open).await,
                expected(revision, tools),
                "Python, {revision}, {target:?}"
            );
        }
        let echoed = inspect(&installed, &open, era, &url, &CALL).await;
        assert_eq!(echoed["content"], json!([{"type": "text", "text": "hello"}]), "Inspector, {revision}");
    }
}

/// The options of MCP Inspector for a call.
const CALL: [&str; 5] = ["tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"];

/// Runs a method with MCP Inspector.
async fn inspect(installed: &InstalledServers, data: &Path, era: &str, url: &str, method: &[&str]) -> Value {
    let era = if era == "legacy" { "legacy" } else { "modern" };
    let mut command = installed.inspector().to_command();
    command.args(["--cli", url, "--protocol-era", era, "--header", &format!("Authorization: Bearer {KEY}")]);
    command.arg("--method").args(method);
    run(command, data).await
}

/// The same clients through HAProxy, with one of three gateways killed between every two requests: the others
/// continue the sessions.
#[tokio::test(flavor = "multi_thread")]
async fn official_mcp_clients_survive_the_loss_of_gateways() {
    let server = fixture::server();
    let tools = server.tools().len();
    let upstream = serve_http(server, ([127, 0, 0, 1], 0).into(), HttpOptions::default()).await.unwrap();
    let gateway = json!({"keys": {"test": KEY}, "sessionKey": "a-shared-secret-0123456789-abcdefgh"});
    let config =
        json!({"mcpServers": {"fixture": {"url": upstream.url()}}, "toolwire": {"gateway": gateway}});
    let data = folder("mcp-replaced-clients", None);
    let gateways = ReplacedGateways::start(folder("mcp-replaced", None), &config).await;
    let installed = InstalledServers::find();
    let mut before = (0, 0);
    for (era, revision) in ERAS {
        let mut javascript = Command::new(installed.node());
        javascript.arg(script("mcp_client.mjs")).arg(installed.package("@modelcontextprotocol/client"));
        javascript.args([era, KEY, gateways.url.as_str()]);
        assert_eq!(run(javascript, &data).await, expected(revision, tools), "JavaScript, {revision}");
        let mode = if era == "legacy" { "legacy" } else { "auto" };
        let mut python = Command::new(installed.python());
        python.arg(script("mcp_client.py")).args([mode, gateways.url.as_str()]).env("MCP_TEST_KEY", KEY);
        assert_eq!(run(python, &data).await, expected(revision, tools), "Python, {revision}");
        let inspect = async |method: &[&str]| inspect(&installed, &data, era, &gateways.url, method).await;
        let listed = inspect(&["tools/list"]).await;
        assert_eq!(listed["tools"].as_array().unwrap().len(), tools, "Inspector, {revision}");
        let echoed = inspect(&CALL).await;
        assert_eq!(echoed["content"], json!([{"type": "text", "text": "hello"}]), "Inspector, {revision}");
        let read = inspect(&["resources/read", "--uri", "test://template/7/data"]).await;
        assert_eq!(read["contents"][0]["uri"], "test://template/7/data", "Inspector, {revision}");
        let prompt = inspect(&["prompts/get", "--prompt-name", "test_simple_prompt"]).await;
        assert_eq!(prompt["messages"].as_array().unwrap().len(), 1, "Inspector, {revision}");
        let (requests, killed) = gateways.counts();
        let (new_requests, new_kills) = (requests - before.0, killed - before.1);
        // No gateway is killed before the first request, and while requests overlap.
        assert!(new_requests > 16 && new_kills * 4 > new_requests * 3, "{new_kills} of {new_requests}");
        before = (requests, killed);
    }
}
