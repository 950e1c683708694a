//! Hubs with servers around them that are looked after: none of their processes may outlive them.

// Each of the test programs that share this uses a part of it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::{CallError, CallOptions, Content, ToolResult, Toolbox};
use toolwire_hub::{
    Budget, Config, Host, HttpKind, Hub, HubOptions, NoHost, Secret, ServerConfig, ServerName, Transport,
};
use toolwire_testkit::{ServerCommand, misbehaving_server, processes_with_variable};

const MARK: &str = "TOOLWIRE_TEST_HUB";

/// Long enough for a busy machine; nothing waits for it that goes well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A hub, and the mark that its servers' processes carry.
pub(crate) struct Around {
    pub(crate) hub: Hub,
    mark: String,
}

/// A folder of its own for each use, where the builds' other leavings are.
pub(crate) fn scratch() -> PathBuf {
    tempfile::Builder::new().prefix("hub-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep()
}

/// The server that misbehaves as it is told, on stdio.
pub(crate) fn misbehaving(name: &str, behaviour: &[&str]) -> ServerConfig {
    let mut args = vec!["--behaviour".to_owned()];
    args.extend(behaviour.iter().map(|word| (*word).to_owned()));
    launched(name, ServerCommand { command: misbehaving_server().to_str().unwrap().to_owned(), args })
}

/// A server that is a process.
pub(crate) fn launched(name: &str, launch: ServerCommand) -> ServerConfig {
    let ServerCommand { command, args } = launch;
    server(name, Transport::Stdio { command, args, env: Vec::new(), cwd: None })
}

/// A server on the network.
pub(crate) fn listening(name: &str, url: &str, kind: HttpKind) -> ServerConfig {
    let url = url.parse().unwrap();
    server(name, Transport::Http { url, headers: Vec::new(), kind, oauth: None })
}

fn server(name: &str, transport: Transport) -> ServerConfig {
    let mut config = ServerConfig::new(ServerName::new(name).unwrap(), transport);
    config.connect_timeout = PATIENCE;
    config
}

/// The same with one more variable in its environment.
pub(crate) fn with_variable(mut config: ServerConfig, name: &str, value: &str) -> ServerConfig {
    if let Transport::Stdio { env, .. } = &mut config.transport {
        env.push((name.to_owned(), Secret::new(value)));
    }
    config
}

impl Around {
    /// Connected to servers that each behave as they are told. With more than one, each name has the server's prefix.
    pub(crate) async fn with(servers: &[(&str, &[&str])]) -> Around {
        let around = Around::slow(servers);
        around.hub.settled().await;
        around
    }

    /// The same, without waiting for them.
    pub(crate) fn slow(servers: &[(&str, &[&str])]) -> Around {
        let several = servers.len() > 1;
        let servers = servers.iter().map(|(name, behaviour)| {
            let mut config = misbehaving(name, behaviour);
            config.prefix = several.then(|| (*name).to_owned());
            config
        });
        Around::start(servers.collect(), Arc::new(NoHost))
    }

    /// Any servers, and an application that they may ask. They are not waited for.
    pub(crate) fn start(servers: Vec<ServerConfig>, host: Arc<dyn Host>) -> Around {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let servers = servers.into_iter().map(|config| with_variable(config, MARK, &mark)).collect();
        Around { hub: Hub::start(&Config { servers, toolwire: None }, options(host)), mark }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, CallError> {
        self.call_within(PATIENCE, tool, arguments).await
    }

    pub(crate) async fn call_within(
        &self,
        timeout: Duration,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolResult, CallError> {
        let options = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
        self.hub.call(tool, &arguments, options).await
    }

    /// Waits until a tool of this name is offered.
    pub(crate) async fn offers(&self, name: &str) {
        let mut changes = self.hub.changes();
        let offered = async {
            loop {
                changes.borrow_and_update();
                if self.hub.tools().iter().any(|tool| tool.name == name) {
                    break;
                }
                changes.changed().await.unwrap();
            }
        };
        let offered = tokio::time::timeout(PATIENCE, offered).await;
        assert!(offered.is_ok(), "no `{name}` in {:?}: {:#?}", names(&self.hub), self.hub.status());
    }

    /// Closes the hub, and looks whether anything is left.
    pub(crate) async fn close(self) {
        self.hub.close().await;
        let left = processes_with_variable(MARK, &self.mark);
        assert!(left.is_empty(), "processes are left: {left:?}");
    }
}

fn options(host: Arc<dyn Host>) -> HubOptions {
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.push(("TOOLWIRE_TEST_SECRET".into(), "hidden".into()));
    let (folder, budget) = (Some(scratch()), Some(Budget::default()));
    HubOptions { host, environment, folder, budget, ..HubOptions::default() }
}

/// The names that a hub offers.
pub(crate) fn names(hub: &Hub) -> Vec<String> {
    hub.tools().iter().map(|tool| tool.name.clone()).collect()
}

/// All text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    let texts = result.blocks().iter().filter_map(|block| match block {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
