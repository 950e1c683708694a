//! Servers to talk to, and what is left of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use toolwire_hub::{
    CallOptions, ConnectContext, ConnectError, Era, Host, HttpKind, NoHost, Session, SessionEvent, Target,
};

/// Long enough for a busy machine; nothing waits for it that goes well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The folder with the installed servers.
#[track_caller]
pub(crate) fn servers() -> PathBuf {
    let folder = match std::env::var_os("TOOLWIRE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers"),
    };
    assert!(
        folder.join("node_modules").is_dir() && folder.join("venv").is_dir(),
        "there are no servers in `{}`: run `scripts/servers`, or say where they are with TOOLWIRE_TEST_SERVERS",
        folder.display()
    );
    folder
}

#[track_caller]
pub(crate) fn everything_script() -> String {
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    servers().join(script).into_os_string().into_string().unwrap()
}

#[track_caller]
pub(crate) fn everything() -> Target {
    stdio("node", &[&everything_script(), "stdio"])
}

#[track_caller]
pub(crate) fn time() -> Target {
    let program = servers().join("venv/bin/mcp-server-time").into_os_string().into_string().unwrap();
    stdio(&program, &["--local-timezone", "UTC"])
}

pub(crate) fn stdio(command: &str, args: &[&str]) -> Target {
    Target::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|&argument| argument.to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
    }
}

/// A server written in shell: `script` reads and writes lines.
pub(crate) fn shell(script: &str) -> Target {
    stdio("/bin/sh", &["-c", script])
}

/// A server of the old era written in shell. `first` runs at the start, `call` for each `tools/call`, with `$id` set.
pub(crate) fn shell_server(first: &str, call: &str) -> Target {
    shell(&format!(
        r#"{first}
        answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        while read -r line; do
            id=${{line#*'"id":'}}
            id=${{id%%[,\}}]*}}
            case $line in
                *'"method":"initialize"'*) answer '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"shell","version":"1"}}}}' ;;
                *'"method":"server/discover"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"unknown"}}}}\n' "$id" ;;
                *'"method":"tools/list"'*) answer '{{"tools":[{{"name":"one","inputSchema":{{"type":"object"}}}}]}}' ;;
                *'"method":"tools/call"'*) {call} ;;
            esac
        done"#
    ))
}

/// What `answer` of a shell server says for text.
pub(crate) const DONE: &str = r#"answer '{"content":[{"type":"text","text":"done"}]}'"#;

pub(crate) fn http(url: String, kind: HttpKind) -> Target {
    Target::Http { url, headers: Vec::new(), kind }
}

/// A connection to make, with nothing unusual about it.
pub(crate) struct Connecting {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) era: Option<Era>,
    pub(crate) timeout: Duration,
}

impl Default for Connecting {
    fn default() -> Connecting {
        Connecting { host: Arc::new(NoHost), era: None, timeout: PATIENCE }
    }
}

impl Connecting {
    pub(crate) async fn to(
        self,
        target: &Target,
    ) -> Result<(Session, mpsc::Receiver<SessionEvent>), ConnectError> {
        let (events, heard) = mpsc::channel(16);
        let context = ConnectContext {
            server: "test".to_owned(),
            host: self.host,
            events,
            era: self.era,
            bearer: None,
            environment: std::env::vars_os().collect(),
            timeout: self.timeout,
        };
        Ok((Session::connect(target, context).await?, heard))
    }
}

pub(crate) async fn connect(target: &Target) -> Session {
    match Connecting::default().to(target).await {
        Ok((session, _)) => session,
        Err(error) => panic!("{error}\n{}", error.stderr().join("\n")),
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

pub(crate) async fn call(session: &Session, tool: &str, arguments: Value) -> Value {
    session.call(tool, object(arguments), CallOptions::default()).await.unwrap()
}

/// A server on the network that runs until this is dropped.
pub(crate) struct Listening {
    pub(crate) url: String,
    pub(crate) child: tokio::process::Child,
}

/// Starts `server-everything` in one of its HTTP modes.
pub(crate) async fn listen_everything(mode: &str, path: &str, port: Option<u16>) -> Listening {
    let port = port.unwrap_or_else(free_port);
    let mut child = tokio::process::Command::new("node")
        .args([&everything_script(), mode])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let started = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            said.push_str(&line);
            if line.contains("on port") {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(PATIENCE, started).await == Ok(true), "the server did not start: {said}");
    // Its log must be read, or it stops when the pipe is full.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Listening { url: format!("http://127.0.0.1:{port}{path}"), child }
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The processes whose command line has `mark` in it, and that are no zombies.
pub(crate) fn processes_with(mark: &str) -> Vec<i32> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&id: &i32| id != own as i32)
        .filter(|id| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.windows(mark.len()).any(|window| window == mark.as_bytes())
        })
        .collect()
}

/// Waits until `condition` holds: there is no event for the end of a process that is not ours.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waited).await.is_ok(), "{what} did not come about");
}
