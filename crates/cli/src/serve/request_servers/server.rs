//! One server that a client has named by URL.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_gateway::RequestServer;
use toolwire_hub::{AllowedHosts, Config, Hub, HubOptions, Phase, ServerConfig};

/// A server of one client.
pub(super) struct PooledServer {
    pub(super) server: RequestServer,
    config: ServerConfig,
    hosts: Arc<AllowedHosts>,
    closing: TaskTracker,
    /// Held while the server is being connected.
    connecting: tokio::sync::Mutex<()>,
    state: Mutex<PooledState>,
}

pub(super) struct PooledState {
    /// The connection, if there is one.
    pub(super) connection: Option<Arc<Connection>>,
    /// The tools as they were listed last.
    listed: Arc<ListedTools>,
    pub(super) used_at: Instant,
    /// Whether the connection was closed because it was not used for a long time, such as that of a run that
    /// waits for approval.
    pub(super) is_dormant: bool,
}

#[derive(Default)]
struct ListedTools {
    tools: Arc<[Tool]>,
    /// For each listed name, the server's own name if it is another one.
    originals: BTreeMap<String, Option<String>>,
}

/// A connection to a server. It is closed when nothing uses it.
pub(super) struct Connection {
    hub: Option<Arc<Hub>>,
    /// Tracks the task that closes the connection: the pool waits for it when the gateway stops.
    closing: TaskTracker,
}

impl Connection {
    pub(super) fn new(hub: Hub, closing: TaskTracker) -> Connection {
        Connection { hub: Some(Arc::new(hub)), closing }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        self.hub.as_ref().expect("only `drop` takes it")
    }

    /// Returns why the only server of the hub is unavailable.
    fn unavailable_reason(&self) -> Option<String> {
        match self.hub().status().pop().map(|status| status.phase) {
            Some(Phase::Ready) => None,
            Some(Phase::Recovering { reason } | Phase::Down { reason }) => Some(reason),
            _ => Some("it is not connected".to_owned()),
        }
    }
}

impl Connection {
    /// Whether the hub lists the tools of its only server. It does not while the server is down.
    fn lists_tools(&self) -> bool {
        let phase = self.hub().status().pop().map(|status| status.phase);
        matches!(phase, Some(Phase::Ready | Phase::Recovering { .. }))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Outside of a runtime, the process ends.
        if let (Some(hub), Ok(runtime)) = (self.hub.take(), Handle::try_current()) {
            self.closing.spawn_on(async move { hub.close().await }, &runtime);
        }
    }
}

impl PooledState {
    /// Takes over the current list of tools.
    fn update(&mut self) {
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.lists_tools()) else {
            return;
        };
        let hub = connection.hub();
        let tools = hub.tools();
        if !Arc::ptr_eq(&tools, &self.listed.tools) {
            let original = |tool: &Tool| (tool.name.clone(), hub.original_name(&tool.name));
            let originals = tools.iter().map(original).collect();
            self.listed = Arc::new(ListedTools { tools, originals });
        }
    }

    /// Removes the connection. The tools stay known.
    pub(super) fn disconnect(&mut self) {
        self.update();
        self.connection = None;
        self.is_dormant = true;
    }
}

impl PooledServer {
    pub(super) fn new(
        server: RequestServer,
        config: ServerConfig,
        hosts: Arc<AllowedHosts>,
        closing: TaskTracker,
    ) -> PooledServer {
        let state = PooledState {
            connection: None,
            listed: Arc::default(),
            used_at: Instant::now(),
            is_dormant: false,
        };
        let state = Mutex::new(state);
        PooledServer { server, config, hosts, closing, connecting: Default::default(), state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PooledState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> Arc<ListedTools> {
        let mut state = self.state();
        state.update();
        state.listed.clone()
    }

    /// Returns the connection, or connects. The error is the reason why this is not possible.
    pub(super) async fn connect(&self) -> Result<Arc<Connection>, String> {
        let _turn = self.connecting.lock().await;
        let known = self.state().connection.clone();
        if let Some(connection) = known.filter(|connection| connection.unavailable_reason().is_none()) {
            return Ok(connection);
        }
        let config = Config { servers: vec![self.config.clone()], toolwire: None };
        let options = HubOptions::default().with_allowed_hosts(self.hosts.clone());
        let connection = Arc::new(Connection::new(Hub::start(&config, options), self.closing.clone()));
        connection.hub().settled().await;
        if let Some(reason) = connection.unavailable_reason() {
            return Err(reason);
        }
        let mut state = self.state();
        state.connection = Some(connection.clone());
        state.used_at = Instant::now();
        state.is_dormant = false;
        Ok(connection)
    }
}

impl Toolbox for PooledServer {
    fn tools(&self) -> Arc<[Tool]> {
        self.listed().tools.clone()
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let connection = self.state().connection.clone();
        let is_listed = || self.listed().originals.contains_key(tool);
        let unknown = || ToolServer { name: self.server.label.clone(), title: None };
        connection
            .and_then(|connection| connection.hub().server_of(tool))
            .or_else(|| is_listed().then(unknown))
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.listed().originals.get(tool).cloned().flatten()
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let connection = self.state().connection.clone();
        connection.map_or_else(Vec::new, |connection| connection.hub().missing_servers())
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let connection = self.state().connection.clone()?;
        Toolbox::changes(&**connection.hub())
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let connected = {
                let mut state = self.state();
                state.used_at = Instant::now();
                state.connection.clone()
            };
            let connection = match connected {
                Some(connection) => connection,
                None => self.connect().await.map_err(|reason| CallError::Unavailable {
                    server: self.server.label.clone(),
                    tool: tool.to_owned(),
                    reason,
                })?,
            };
            let result = connection.hub().call(tool, arguments, options).await;
            self.state().used_at = Instant::now();
            result
        })
    }
}
