//! Hubs with servers around them that are looked after: none of their processes may outlive them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::{CallError, CallOptions, Content, ToolResult, Toolbox};
use toolwire_hub::{Budget, Config, HttpKind, Hub, HubOptions, Secret, ServerConfig, ServerName, Transport};
use toolwire_testkit::{marked, misbehaving_server};

const MARK: &str = "TOOLWIRE_TEST_HUB";

/// A hub, and the mark that its servers' processes carry.
pub(crate) struct Around {
    pub(crate) hub: Hub,
    mark: String,
}

/// A folder of its own for each use.
pub(crate) fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("toolwire-hub-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

impl Around {
    /// Connected to servers that each behave as they are told. With more than one, each name has the server's prefix.
    pub(crate) async fn with(servers: &[(&str, &[&str])]) -> Around {
        let around = Around::start(servers, Duration::from_secs(60));
        around.hub.settled().await;
        around
    }

    /// The same, without waiting for them.
    pub(crate) fn slow(servers: &[(&str, &[&str])]) -> Around {
        Around::start(servers, Duration::from_secs(60))
    }

    fn start(servers: &[(&str, &[&str])], timeout: Duration) -> Around {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let several = servers.len() > 1;
        let servers = servers
            .iter()
            .map(|(name, behaviour)| {
                let mut args = vec!["--behaviour".to_owned()];
                args.extend(behaviour.iter().map(|word| (*word).to_owned()));
                let transport = Transport::Stdio {
                    command: misbehaving_server().to_str().unwrap().to_owned(),
                    args,
                    env: vec![(MARK.to_owned(), Secret::new(&mark))],
                    cwd: None,
                };
                let mut config = ServerConfig::new(ServerName::new(*name).unwrap(), transport);
                config.connect_timeout = timeout;
                config.prefix = several.then(|| (*name).to_owned());
                config
            })
            .collect();
        Around { hub: Hub::start(&Config { servers, toolwire: None }, options()), mark }
    }

    /// Connected to one server on the network.
    pub(crate) async fn http(url: &str) -> Around {
        let transport = Transport::Http {
            url: url.parse().unwrap(),
            headers: Vec::new(),
            kind: HttpKind::Streamable,
            auth: toolwire_hub::Auth::Off,
        };
        let config = ServerConfig::new(ServerName::new("bad").unwrap(), transport);
        let hub = Hub::connect(&Config { servers: vec![config], toolwire: None }, options()).await;
        Around { hub, mark: "none".to_owned() }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<ToolResult, CallError> {
        let options = CallOptions { timeout: Some(Duration::from_secs(30)), progress: None };
        self.hub.call(tool, &arguments, options).await
    }

    /// Closes the hub, and looks whether anything is left.
    pub(crate) async fn close(self) {
        self.hub.close().await;
        let left = marked(MARK, &self.mark);
        assert!(left.is_empty(), "processes are left: {left:?}");
    }
}

fn options() -> HubOptions {
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.push(("TOOLWIRE_TEST_SECRET".into(), "hidden".into()));
    HubOptions {
        environment,
        folder: Some(scratch()),
        budget: Some(Budget::default()),
        ..HubOptions::default()
    }
}

/// All text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    let texts = result.blocks().iter().filter_map(|block| match block {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
