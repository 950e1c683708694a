//! Hubs for tests. When one is closed, no process of its servers may remain.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Content, Secret, ToolResult};
use toolwire_hub::config::HttpKind;
use toolwire_hub::{Config, Host, Hub, HubOptions, ResultBudget, ServerConfig, ServerName, Transport};
use toolwire_testkit::{ServerCommand, misbehaving_server, processes_with_variable};

/// The variable that identifies the server processes of one hub.
const MARK: &str = "TOOLWIRE_TEST_HUB";

/// Long enough for a busy machine. Tests reach it only if they fail.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A hub, and the value of [`MARK`] in the environment of its server processes.
pub(crate) struct TestHub {
    pub(crate) inner: Hub,
    mark: String,
}

/// Declines all requests of servers.
pub(crate) struct NoHost;

impl Host for NoHost {}

/// Creates a new folder in the build directory.
pub(crate) fn scratch() -> PathBuf {
    tempfile::Builder::new().prefix("hub-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep()
}

/// Configures a server process with the given misbehaviour.
pub(crate) fn misbehaving(name: &str, behaviour: &[&str]) -> ServerConfig {
    let mut args = vec!["--behaviour".to_owned()];
    args.extend(behaviour.iter().map(|argument| (*argument).to_owned()));
    launched(name, ServerCommand { command: misbehaving_server().to_str().unwrap().to_owned(), args })
}

/// Configures a server process.
pub(crate) fn launched(name: &str, command: ServerCommand) -> ServerConfig {
    let ServerCommand { command, args } = command;
    server(name, Transport::Stdio { command, args, env: Vec::new(), cwd: None })
}

/// Configures a remote server.
pub(crate) fn listening(name: &str, url: &str, kind: HttpKind) -> ServerConfig {
    let url = url.parse().unwrap();
    server(name, Transport::Http { url, headers: Vec::new(), kind, oauth: None })
}

fn server(name: &str, transport: Transport) -> ServerConfig {
    let mut config = ServerConfig::new(ServerName::new(name).unwrap(), transport);
    config.connect_timeout = TEST_TIMEOUT;
    config.extends_connect_timeout = false;
    config
}

/// Adds a variable to the environment of a server process.
pub(crate) fn with_variable(mut config: ServerConfig, name: &str, value: &str) -> ServerConfig {
    if let Transport::Stdio { env, .. } = &mut config.transport {
        env.push((name.to_owned(), Secret::new(value)));
    }
    config
}

impl TestHub {
    /// Connects to servers with the given behaviours. If there are several, each tool name has its server's
    /// prefix.
    pub(crate) async fn connect(servers: &[(&str, &[&str])]) -> TestHub {
        let hub = TestHub::start_misbehaving(servers);
        hub.inner.settled().await;
        hub
    }

    /// Does the same as [`TestHub::connect`], without waiting for the servers.
    pub(crate) fn start_misbehaving(servers: &[(&str, &[&str])]) -> TestHub {
        let has_several = servers.len() > 1;
        let servers = servers.iter().map(|(name, behaviour)| {
            let mut config = misbehaving(name, behaviour);
            config.prefix = has_several.then(|| (*name).to_owned());
            config
        });
        TestHub::start(servers.collect(), Arc::new(NoHost))
    }

    /// Starts a hub with any servers and host, without waiting for the servers.
    pub(crate) fn start(servers: Vec<ServerConfig>, host: Arc<dyn Host>) -> TestHub {
        TestHub::start_with(servers, HubOptions::default().with_host(host))
    }

    /// Does the same as [`TestHub::start`], with other options.
    pub(crate) fn start_with(servers: Vec<ServerConfig>, options: HubOptions) -> TestHub {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let servers = servers.into_iter().map(|config| with_variable(config, MARK, &mark)).collect();
        let environment = std::env::vars_os().chain([("TOOLWIRE_TEST_SECRET".into(), "hidden".into())]);
        let options = options
            .with_environment(environment)
            .with_data_folder(scratch())
            .with_result_budget(Some(ResultBudget::default()));
        TestHub { inner: Hub::start(&Config { servers, toolwire: None }, options), mark }
    }

    /// Uses other servers from now on.
    pub(crate) async fn reconfigure(&self, servers: Vec<ServerConfig>) {
        let servers = servers.into_iter().map(|config| with_variable(config, MARK, &self.mark)).collect();
        self.inner.reconfigure(&Config { servers, toolwire: None }).await;
    }

    /// Returns how many server processes exist.
    pub(crate) fn running(&self) -> usize {
        processes_with_variable(MARK, &self.mark).len()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, CallError> {
        self.call_within(TEST_TIMEOUT, tool, arguments).await
    }

    pub(crate) async fn call_within(
        &self,
        timeout: Duration,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolResult, CallError> {
        let mut options = CallOptions::default();
        options.timeout = Some(timeout);
        self.inner.call(tool, &arguments, options).await
    }

    /// Waits until a tool of this name is listed.
    pub(crate) async fn wait_for_tool(&self, name: &str) {
        let mut changes = self.inner.changes();
        let listed = async {
            loop {
                changes.borrow_and_update();
                if self.inner.tools().iter().any(|tool| tool.name == name) {
                    break;
                }
                changes.changed().await.unwrap();
            }
        };
        let listed = tokio::time::timeout(TEST_TIMEOUT, listed).await;
        assert!(listed.is_ok(), "no `{name}` in {:?}: {:#?}", names(&self.inner), self.inner.status());
    }

    /// Closes the hub, and checks that no process remains.
    pub(crate) async fn close(self) {
        self.inner.close().await;
        let remaining = processes_with_variable(MARK, &self.mark);
        assert!(remaining.is_empty(), "processes remain: {remaining:?}");
    }
}

/// Returns the names of the tools that a hub lists.
pub(crate) fn names(hub: &Hub) -> Vec<String> {
    hub.tools().iter().map(|tool| tool.name.clone()).collect()
}

/// Returns the text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    let texts = result.blocks().iter().filter_map(|block| match block {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
