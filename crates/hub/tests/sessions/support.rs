//! Servers to talk to, and what is left of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwire_hub::{
    CallOptions, ConnectContext, ConnectError, Era, Host, HttpKind, NoHost, Session, SessionEvent, Target,
};
use toolwire_testkit::{InstalledServers, ServerCommand};

/// Long enough for a busy machine; nothing waits for it that goes well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn everything() -> Target {
    launched(InstalledServers::find().everything())
}

pub(crate) fn time() -> Target {
    launched(InstalledServers::find().time())
}

fn launched(launch: ServerCommand) -> Target {
    Target::Stdio { command: launch.command, args: launch.args, env: Vec::new(), cwd: None }
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
            stop: CancellationToken::new(),
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
