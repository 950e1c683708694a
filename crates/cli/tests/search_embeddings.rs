//! `toolwire ask` with embeddings for the tool search.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::json;
use tokio::runtime::Runtime;
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, ReceivedRequest, Script, ScriptedResponse,
};

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("search_embeddings").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let settings =
        json!({"embeddings": "openai/text-embedding-3-small", "agent": {"search": {"tools": 1, "hits": 1}}});
    let demo = json!({"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]});
    let config = json!({"mcpServers": {"demo": demo}, "toolwire": settings});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    folder
}

fn script() -> Script {
    Script::from([
        ModelOutput::default().call("call_1", "search_tools", r#"{"query": "weather"}"#),
        ModelOutput::default().call("call_2", "search_tools", r#"{"query": "forecast"}"#),
        ModelOutput::text("Sunny."),
    ])
}

/// Runs `ask` with a provider. Returns its requests for embeddings, and stderr.
fn ask(folder: &Path, script: Script) -> (Vec<ReceivedRequest>, String) {
    let runtime = Runtime::new().unwrap();
    let provider = runtime.block_on(FakeProvider::start(Api::OpenAiChat, script));
    let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .current_dir(folder)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("OPENAI_BASE_URL", provider.base_url())
        .env("OPENAI_API_KEY", API_KEY)
        .env("NO_COLOR", "1")
        .env_remove("TOOLWIRE_CONFIG")
        .args(["ask", "--model", "openai/gpt-5.2", "Hello"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Sunny.\n");
    let mut requests = provider.requests();
    assert!(requests.iter().all(|request| request.rejection.is_none()), "{requests:?}");
    requests.retain(|request| request.path == "/v1/embeddings");
    (requests, stderr)
}

#[test]
fn tools_are_embedded_once_and_their_vectors_are_private() {
    let folder = empty_folder("once");
    let (requests, stderr) = ask(&folder, script());
    assert_eq!(stderr, "");
    let texts: Vec<&str> = requests.iter().filter_map(|request| request.body["input"][0].as_str()).collect();
    assert_eq!(texts[1..], ["weather", "forecast"]);
    assert_eq!(requests[0].body["model"], "text-embedding-3-small");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("data/toolwire/embeddings.db");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_failure_is_reported_once_and_the_search_goes_on() {
    let folder = empty_folder("failure");
    let error =
        ScriptedResponse::error(403, json!({"error": {"message": format!("no access for {API_KEY}")}}));
    let (requests, stderr) = ask(&folder, script().with_embeddings([error]));
    assert_eq!(requests.len(), 1);
    let note = "note: the tool search compares only words: `openai/text-embedding-3-small` returned an error (403): \
                no access for …\n";
    assert_eq!(stderr, note);
}
