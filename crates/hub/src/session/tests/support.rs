//! Servers for the tests, and checks for remaining processes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwire_testkit::{InstalledServers, ServerCommand};

use crate::auth::TokenProvider;
use crate::config::Transport;
use crate::host::{Host, NoHost};
use crate::session::{ConnectContext, ConnectFailure, ProtocolEra, Session, SessionCall, SessionEvent};
use crate::transport::HttpKind;

/// Long enough for a busy machine. Tests reach it only if they fail.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn everything_server() -> Transport {
    stdio_transport(InstalledServers::find().everything())
}

pub(super) fn time_server() -> Transport {
    stdio_transport(InstalledServers::find().time())
}

fn stdio_transport(command: ServerCommand) -> Transport {
    Transport::Stdio { command: command.command, args: command.args, env: Vec::new(), cwd: None }
}

pub(super) fn stdio(command: &str, args: &[&str]) -> Transport {
    let args = args.iter().map(|&argument| argument.to_owned()).collect();
    stdio_transport(ServerCommand { command: command.to_owned(), args })
}

/// A server written in shell: `script` reads and writes lines.
pub(super) fn shell(script: &str) -> Transport {
    stdio("/bin/sh", &["-c", script])
}

/// A legacy server written in shell. The command `first` runs at the start, and `call` for each `tools/call`,
/// with `$id` set.
pub(super) fn shell_server(first: &str, call: &str) -> Transport {
    shell(&shell_script(first, call))
}

pub(super) fn shell_script(first: &str, call: &str) -> String {
    format!(
        r#"{first}
        respond() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        while read -r line; do
            id=${{line#*'"id":'}}
            id=${{id%%[,\}}]*}}
            case $line in
                *'"method":"initialize"'*) respond '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"shell","version":"1"}}}}' ;;
                *'"method":"server/discover"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"unknown"}}}}\n' "$id" ;;
                *'"method":"tools/list"'*) respond '{{"tools":[{{"name":"one","inputSchema":{{"type":"object"}}}}]}}' ;;
                *'"method":"tools/call"'*) {call} ;;
            esac
        done"#
    )
}

/// The shell command that responds with the text `done`.
pub(super) const RESPOND_DONE: &str = r#"respond '{"content":[{"type":"text","text":"done"}]}'"#;

pub(super) fn http(url: &str, kind: HttpKind) -> Transport {
    Transport::Http { url: url.parse().unwrap(), headers: Vec::new(), kind, oauth: None }
}

/// The options of a test connection.
pub(super) struct Connector {
    pub(super) host: Arc<dyn Host>,
    pub(super) era: Option<ProtocolEra>,
    pub(super) timeout: Duration,
    pub(super) token_provider: Option<Arc<dyn TokenProvider>>,
}

impl Default for Connector {
    fn default() -> Connector {
        Connector { host: Arc::new(NoHost), era: None, timeout: TEST_TIMEOUT, token_provider: None }
    }
}

impl Connector {
    pub(super) async fn connect(
        self,
        transport: &Transport,
    ) -> Result<(Session, mpsc::Receiver<SessionEvent>), ConnectFailure> {
        let (events, receiver) = mpsc::channel(16);
        let secret = [("OUR_API_KEY".into(), "secret".into())];
        let context = ConnectContext {
            server: "test".to_owned(),
            host: self.host,
            events,
            era: self.era,
            token_provider: self.token_provider,
            environment: std::env::vars_os().chain(secret).collect(),
            guard: None,
            allowed_hosts: None,
            secrets: Default::default(),
            on_slow_start: None,
            timeout: self.timeout,
            stop: CancellationToken::new(),
        };
        Ok((Session::connect(transport, context).await?, receiver))
    }

    /// Returns the error of a connection that must fail.
    pub(super) async fn connect_error(self, transport: &Transport) -> ConnectFailure {
        self.connect(transport).await.err().unwrap()
    }
}

pub(super) async fn connect(transport: &Transport) -> Session {
    match Connector::default().connect(transport).await {
        Ok((session, _)) => session,
        Err(failure) => panic!("{}\n{}", failure.error, failure.stderr.join("\n")),
    }
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

pub(super) fn options() -> SessionCall {
    let (timeout, max_total) = (Duration::from_secs(60), Duration::from_secs(600));
    SessionCall {
        timeout,
        max_total,
        progress: None,
        trace: None,
        elicitation: None,
        sampling: None,
        log: None,
        owner: None,
        accepts_task: false,
    }
}

pub(super) async fn call(session: &Session, tool: &str, arguments: Value) -> Value {
    session.call(tool, object(arguments), options()).await.unwrap()
}

/// Returns the processes whose command line contains `mark`, without zombies.
pub(super) fn processes_with(mark: &str) -> Vec<i32> {
    let own_id = std::process::id();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&id: &i32| id != own_id as i32)
        .filter(|id| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.windows(mark.len()).any(|window| window == mark.as_bytes())
        })
        .collect()
}

/// Polls until `condition` is true, because the end of a process that is not a child cannot be awaited.
pub(super) async fn wait_until(goal: &str, condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(TEST_TIMEOUT, polling).await.is_ok(), "timed out waiting for {goal}");
}
