//! MCP servers that clients of the gateway name by URL.
//!
//! Each is a hub of its own, for one client, URL and set of headers. It is used again by the next requests of this client, and
//! closed soon after the last one. A run that waits for an approval keeps the headers in memory and connects again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::task::JoinHandle;
use toolwire_contract::{CallError, CallOptions, Tool, ToolResult, ToolServer, Toolbox};
use toolwire_gateway::{RequestServer, RequestServerError, RequestServers};
use toolwire_hub::{
    AllowedHosts, Config, HttpKind, Hub, HubOptions, Phase, ServerConfig, ServerName, Transport,
};

/// The time after which a server that no request uses is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval in which servers are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The time for a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of connected servers, in total and for each client.
const MAX_CONNECTED: usize = 512;
const MAX_CONNECTED_PER_CLIENT: usize = 128;

/// The servers that clients have named by URL.
pub(super) struct ServerPool {
    pool: Arc<Pool>,
    sweeper: JoinHandle<()>,
}

struct Pool {
    hosts: Arc<AllowedHosts>,
    /// The time to connect.
    connect_timeout: Duration,
    /// The maximum duration of a run. A server that was not used for so long can only be in use by a paused run.
    run_timeout: Duration,
    servers: Mutex<Vec<Arc<PooledServer>>>,
}

impl ServerPool {
    pub(super) fn new(hosts: AllowedHosts, connect_timeout: Duration, run_timeout: Duration) -> ServerPool {
        let pool = Arc::new(Pool {
            hosts: Arc::new(hosts),
            connect_timeout,
            run_timeout,
            servers: Mutex::default(),
        });
        let weak = Arc::downgrade(&pool);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(pool) = weak.upgrade() else { return };
                close_all(pool.remove_idle(Instant::now())).await;
            }
        });
        ServerPool { pool, sweeper }
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        let servers = std::mem::take(&mut *self.pool.servers());
        close_all(servers.iter().filter_map(|server| server.state().hub.take()).collect()).await;
    }
}

impl Drop for ServerPool {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

async fn close_all(hubs: Vec<Arc<Hub>>) {
    join_all(hubs.iter().map(|hub| hub.close())).await;
}

impl RequestServers for ServerPool {
    fn connect(&self, server: RequestServer) -> BoxFuture<'_, Result<Arc<dyn Toolbox>, RequestServerError>> {
        Box::pin(async move {
            let pooled = self.pool.find(server)?;
            match pooled.connect().await {
                Ok(_) => Ok(pooled as Arc<dyn Toolbox>),
                Err(reason) => {
                    self.pool.servers().retain(|other| !Arc::ptr_eq(other, &pooled));
                    Err(RequestServerError::Unavailable { reason })
                }
            }
        })
    }
}

impl Pool {
    fn servers(&self) -> MutexGuard<'_, Vec<Arc<PooledServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server of a client, which may not be connected yet.
    fn find(&self, server: RequestServer) -> Result<Arc<PooledServer>, RequestServerError> {
        let refused = |reason: String| RequestServerError::Refused { reason };
        // Also for a known server: only this decides which URLs are allowed.
        let url = self.hosts.check(&server.url).map_err(|refusal| refused(refusal.to_string()))?;
        let mut servers = self.servers();
        if let Some(known) = servers.iter().find(|known| known.server == server) {
            known.state().used_at = Instant::now();
            return Ok(known.clone());
        }
        make_room(&mut servers, &server)?;
        let name = ServerName::new(server.label.as_str());
        let name = name.ok_or_else(|| refused("the name of the server is not valid".to_owned()))?;
        let transport =
            Transport::Http { url, headers: server.headers.clone(), kind: HttpKind::Auto, oauth: None };
        let config = ServerConfig {
            name,
            transport,
            disabled: false,
            connect_timeout: self.connect_timeout,
            extends_connect_timeout: false,
            call_timeout: CALL_TIMEOUT,
            prefix: None,
            allow: Vec::new(),
            deny: Vec::new(),
        };
        let state = Mutex::new(State { hub: None, listed: Listed::default(), used_at: Instant::now() });
        let hosts = self.hosts.clone();
        let created = Arc::new(PooledServer { server, config, hosts, connecting: Default::default(), state });
        servers.push(created.clone());
        Ok(created)
    }

    /// Removes servers that no run uses, and returns the connections to close.
    fn remove_idle(&self, now: Instant) -> Vec<Arc<Hub>> {
        let mut closed = Vec::new();
        self.servers().retain(|server| {
            let is_unused = Arc::strong_count(server) == 1;
            let mut state = server.state();
            let idle = now.saturating_duration_since(state.used_at);
            let is_old = if is_unused { idle >= IDLE_TIMEOUT } else { idle >= self.run_timeout };
            // A call that is still running has its own reference.
            if is_old && state.hub.as_ref().is_some_and(|hub| Arc::strong_count(hub) == 1) {
                state.update();
                closed.extend(state.hub.take());
            }
            !(is_unused && is_old)
        });
        closed
    }
}

/// Makes room for one more server of a client. Servers that no run uses are removed first, those that were used last at last.
fn make_room(servers: &mut Vec<Arc<PooledServer>>, new: &RequestServer) -> Result<(), RequestServerError> {
    let connected = |servers: &[Arc<PooledServer>]| {
        let of_client = |server: &&Arc<PooledServer>| server.server.client == new.client;
        let connected = servers.iter().filter(|server| server.state().hub.is_some());
        (connected.clone().count(), connected.filter(of_client).count())
    };
    loop {
        let (all, own) = connected(servers);
        if all < MAX_CONNECTED && own < MAX_CONNECTED_PER_CLIENT {
            return Ok(());
        }
        let is_removable = |server: &Arc<PooledServer>| {
            let is_of_client = server.server.client == new.client || own < MAX_CONNECTED_PER_CLIENT;
            is_of_client && Arc::strong_count(server) == 1
        };
        let unused = servers.iter().enumerate().filter(|(_, server)| is_removable(server));
        let oldest = unused.min_by_key(|(_, server)| server.state().used_at).map(|(index, _)| index);
        let Some(oldest) = oldest else {
            let reason = "too many servers of requests are connected".to_owned();
            return Err(RequestServerError::Unavailable { reason });
        };
        servers.remove(oldest);
    }
}

/// A server of one client.
struct PooledServer {
    server: RequestServer,
    config: ServerConfig,
    hosts: Arc<AllowedHosts>,
    /// Held while the server is being connected.
    connecting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    /// The connection, if there is one.
    hub: Option<Arc<Hub>>,
    /// The tools as they were listed last.
    listed: Listed,
    used_at: Instant,
}

#[derive(Clone, Default)]
struct Listed {
    tools: Arc<[Tool]>,
    /// The server's own names of tools that have another one.
    originals: BTreeMap<String, String>,
}

impl State {
    /// Takes over the current list of tools.
    fn update(&mut self) {
        let Some(hub) = &self.hub else { return };
        let tools = hub.tools();
        if !Arc::ptr_eq(&tools, &self.listed.tools) {
            let original = |tool: &Tool| Some((tool.name.clone(), hub.original_name(&tool.name)?));
            self.listed = Listed { originals: tools.iter().filter_map(original).collect(), tools };
        }
    }
}

impl PooledServer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> Listed {
        let mut state = self.state();
        state.update();
        state.listed.clone()
    }

    /// Returns the connection, or connects. The error is the reason why this is not possible.
    async fn connect(&self) -> Result<Arc<Hub>, String> {
        let _turn = self.connecting.lock().await;
        let known = self.state().hub.clone();
        if let Some(hub) = known.filter(|hub| unavailable_reason(hub).is_none()) {
            return Ok(hub);
        }
        let config = Config { servers: vec![self.config.clone()], toolwire: None };
        let options = HubOptions::default().with_allowed_hosts(self.hosts.clone());
        let hub = Arc::new(Hub::connect(&config, options).await);
        if let Some(reason) = unavailable_reason(&hub) {
            return Err(reason);
        }
        let mut state = self.state();
        state.hub = Some(hub.clone());
        state.used_at = Instant::now();
        Ok(hub)
    }

    /// Connects again for a call. The call was decided with the earlier definition of the tool.
    async fn reconnect(&self, tool: &str) -> Result<Arc<Hub>, CallError> {
        let definition = || self.listed().tools.iter().find(|listed| listed.name == tool).cloned();
        let before = definition();
        let hub = self.connect().await.map_err(|reason| CallError::Unavailable {
            server: self.server.label.clone(),
            tool: tool.to_owned(),
            reason,
        })?;
        match definition() == before {
            true => Ok(hub),
            false => Err(CallError::NotPermitted {
                tool: tool.to_owned(),
                reason: "the tool changed after it was listed".to_owned(),
            }),
        }
    }

    /// Removes the client's credentials from an error that may contain text of the server.
    fn redact(&self, error: CallError) -> CallError {
        let redact = |text| self.config.redact(text);
        match error {
            CallError::Unavailable { server, tool, reason } => {
                CallError::Unavailable { server, tool, reason: redact(reason) }
            }
            CallError::Unauthorized { server, tool, reason, hint } => {
                CallError::Unauthorized { server, tool, reason: redact(reason), hint: hint.map(redact) }
            }
            CallError::OutcomeUnknown { server, tool, reason } => {
                CallError::OutcomeUnknown { server, tool, reason: redact(reason) }
            }
            CallError::Refused { server, tool, code, message } => {
                CallError::Refused { server, tool, code, message: redact(message) }
            }
            CallError::Malformed { server, tool, reason } => {
                CallError::Malformed { server, tool, reason: redact(reason) }
            }
            other => other,
        }
    }
}

/// Returns why the only server of a hub is unavailable.
fn unavailable_reason(hub: &Hub) -> Option<String> {
    match hub.status().pop().map(|status| status.phase) {
        Some(Phase::Ready) => None,
        Some(Phase::Recovering { reason } | Phase::Down { reason }) => Some(reason),
        _ => Some("it is not connected".to_owned()),
    }
}

impl Toolbox for PooledServer {
    fn tools(&self) -> Arc<[Tool]> {
        self.listed().tools
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        let hub = self.state().hub.clone();
        let is_listed = || self.listed().tools.iter().any(|listed| listed.name == tool);
        let unknown = || ToolServer { name: self.server.label.clone(), title: None };
        hub.and_then(|hub| hub.server_of(tool)).or_else(|| is_listed().then(unknown))
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.listed().originals.remove(tool)
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let hub = self.state().hub.clone()?;
        Toolbox::changes(&*hub)
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
                state.hub.clone()
            };
            let hub = match connected {
                Some(hub) => hub,
                None => self.reconnect(tool).await?,
            };
            let result = hub.call(tool, arguments, options).await;
            self.state().used_at = Instant::now();
            result.map_err(|error| self.redact(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde_json::json;
    use toolwire_agent::Functions;
    use toolwire_gateway::{RequestServer, RequestServers};
    use toolwire_toolkit::{HttpOptions, HttpServer, Server, serve_http};

    use super::*;

    /// A server with one tool, whose description can differ.
    async fn serve(address: SocketAddr, description: &str) -> HttpServer {
        let mut tool = Tool::new("temperature", json!({"type": "object"}));
        tool.description = Some(description.to_owned());
        let tools = Functions::new().with(tool, |_| async { Ok::<_, String>("20 degrees") });
        let server = Server::builder("weather").environment::<&str, &str>([]).toolbox(Arc::new(tools));
        serve_http(server.build().expect("a server"), address, HttpOptions::default())
            .await
            .expect("an address")
    }

    fn pool() -> ServerPool {
        let hosts = AllowedHosts::new(&["127.0.0.1:*"], &["127.0.0.0/8"]).expect("valid patterns");
        ServerPool::new(hosts, Duration::from_secs(60), Duration::from_secs(600))
    }

    fn server(client: &str, url: String) -> RequestServer {
        RequestServer::new(Some(client.to_owned()), "weather".to_owned(), url, Vec::new())
    }

    fn connected(pool: &ServerPool) -> Vec<bool> {
        pool.pool.servers().iter().map(|server| server.state().hub.is_some()).collect()
    }

    async fn close_idle(pool: &ServerPool, after: Duration) {
        close_all(pool.pool.remove_idle(Instant::now() + after)).await;
    }

    #[tokio::test]
    async fn servers_that_are_not_used_are_closed() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let pool = pool();
        let used = pool.connect(server("one", mcp.url())).await.expect("a server");
        drop(pool.connect(server("two", mcp.url())).await.expect("a server"));
        assert_eq!(connected(&pool), [true, true]);
        close_idle(&pool, Duration::from_secs(30)).await;
        assert_eq!(connected(&pool), [true, true]);
        close_idle(&pool, IDLE_TIMEOUT).await;
        assert_eq!(connected(&pool), [true], "the first one is in use");
        // Only a paused run can use it for so long. It connects again when it continues.
        close_idle(&pool, Duration::from_secs(600)).await;
        assert_eq!(connected(&pool), [false]);
        let [tool] = &used.tools()[..] else { panic!("the tools are still known") };
        assert_eq!(used.server_of(&tool.name).map(|server| server.name).as_deref(), Some("weather"));
        let result = used.call(&tool.name, &json!({}), CallOptions::default()).await.expect("a result");
        assert!(!result.is_error(), "{result:?}");
        assert_eq!(connected(&pool), [true]);
        drop(used);
        close_idle(&pool, IDLE_TIMEOUT).await;
        assert_eq!(connected(&pool), [false; 0]);
    }

    /// A call was approved with the definition that the tool had before the connection was closed.
    #[tokio::test]
    async fn a_tool_that_changed_in_the_meantime_is_not_called() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let (address, pool) = (mcp.address(), pool());
        let used = pool.connect(server("one", mcp.url())).await.expect("a server");
        let name = used.tools()[0].name.clone();
        close_idle(&pool, Duration::from_secs(600)).await;
        mcp.shutdown(Duration::ZERO).await;
        let gone = used.call(&name, &json!({}), CallOptions::default()).await;
        assert!(matches!(gone, Err(CallError::Unavailable { .. })), "{gone:?}");
        let _other = serve(address, "Another temperature").await;
        let refused = used.call(&name, &json!({}), CallOptions::default()).await;
        assert!(matches!(refused, Err(CallError::NotPermitted { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_client_has_a_limited_number_of_servers() {
        let pool = pool();
        let add = |client: &str, number: usize| {
            let server = server(client, format!("http://127.0.0.1:1/{number}"));
            let pooled = pool.pool.find(server)?;
            let config = Config::default();
            pooled.state().hub = Some(Arc::new(Hub::start(&config, HubOptions::default())));
            Ok::<_, RequestServerError>(pooled)
        };
        let used: Vec<_> =
            (0..MAX_CONNECTED_PER_CLIENT).map(|number| add("one", number).expect("room")).collect();
        let full = add("one", MAX_CONNECTED_PER_CLIENT);
        assert!(matches!(full, Err(RequestServerError::Unavailable { .. })));
        assert!(add("two", 0).is_ok());
        drop(used);
        assert!(add("one", MAX_CONNECTED_PER_CLIENT).is_ok(), "one that is not used is removed");
        assert_eq!(pool.pool.servers().len(), MAX_CONNECTED_PER_CLIENT + 1);
    }
}
