//! MCP servers that clients of the gateway name by URL.
//!
//! Each is a hub of its own, for one client, URL and set of headers. It is used again by the next requests of
//! this client, and closed soon after the last one. A run that waits for an approval keeps the headers in
//! memory and connects again.

mod server;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use toolwire_contract::toolbox::Toolbox;
use toolwire_gateway::{RequestServer, RequestServerError, RequestServers};
use toolwire_hub::config::HttpKind;
use toolwire_hub::{AllowedHosts, ServerConfig, ServerName, Transport};

use server::PooledServer;

/// The time after which a server that no request uses is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval in which servers are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The time for a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of servers, in total and for each client, whether they are connected or not.
const MAX_SERVERS: usize = 512;
const MAX_SERVERS_PER_CLIENT: usize = 128;

/// The servers that clients have named by URL.
pub(super) struct ServerPool {
    pool: Arc<Pool>,
    sweeper: JoinHandle<()>,
}

struct Pool {
    hosts: Arc<AllowedHosts>,
    /// The time to connect.
    connect_timeout: Duration,
    /// The maximum duration of a run. A server that was not used for so long can only be in use by a paused
    /// run.
    run_timeout: Duration,
    servers: Mutex<Vec<Arc<PooledServer>>>,
    /// Connections that are being closed.
    closing: TaskTracker,
}

impl ServerPool {
    pub(super) fn new(hosts: AllowedHosts, connect_timeout: Duration, run_timeout: Duration) -> ServerPool {
        let pool = Arc::new(Pool {
            hosts: Arc::new(hosts),
            connect_timeout,
            run_timeout,
            servers: Mutex::default(),
            closing: TaskTracker::new(),
        });
        let weak = Arc::downgrade(&pool);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(pool) = weak.upgrade() else { return };
                pool.remove_idle(Instant::now());
            }
        });
        ServerPool { pool, sweeper }
    }

    /// Closes all connections, and waits for those that are being closed already.
    pub(super) async fn close(&self) {
        let servers = std::mem::take(&mut *self.pool.servers());
        let connections: Vec<_> =
            servers.iter().filter_map(|server| server.state().connection.take()).collect();
        join_all(connections.iter().map(|connection| connection.hub().close())).await;
        drop(connections);
        self.pool.closing.close();
        self.pool.closing.wait().await;
    }
}

impl Drop for ServerPool {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl RequestServers for ServerPool {
    fn connect(&self, server: RequestServer) -> BoxFuture<'_, Result<Arc<dyn Toolbox>, RequestServerError>> {
        Box::pin(async move {
            let entry = self.pool.find(server)?;
            match entry.server().connect().await {
                Ok(_) => Ok(entry.server().clone() as Arc<dyn Toolbox>),
                Err(reason) => Err(RequestServerError::Unavailable { reason }),
            }
        })
    }
}

/// The use of a server while it is being connected. If it is not connected in the end, because this failed or
/// the request was cancelled, it is removed from the pool, unless something else uses it.
struct ConnectingServer<'a> {
    pool: &'a Pool,
    /// Only `drop` takes it.
    server: Option<Arc<PooledServer>>,
}

impl ConnectingServer<'_> {
    fn server(&self) -> &Arc<PooledServer> {
        self.server.as_ref().expect("only `drop` takes it")
    }
}

impl Drop for ConnectingServer<'_> {
    fn drop(&mut self) {
        let mut servers = self.pool.servers();
        let Some(server) = self.server.take() else { return };
        // The pool and this entry use it. Entries are created and dropped only while the pool is locked.
        let is_unused = Arc::strong_count(&server) == 2;
        if is_unused && server.state().connection.is_none() {
            servers.retain(|other| !Arc::ptr_eq(other, &server));
        }
        // Before the pool is unlocked, so that another entry that is dropped next is the last one.
        drop(server);
    }
}

impl Pool {
    fn servers(&self) -> MutexGuard<'_, Vec<Arc<PooledServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server of a client, which may not be connected yet.
    fn find(&self, server: RequestServer) -> Result<ConnectingServer<'_>, RequestServerError> {
        let refused = |reason: String| RequestServerError::Refused { reason };
        // Also for a known server: only this decides which URLs are allowed.
        let url = self.hosts.check(&server.url).map_err(|refusal| refused(refusal.to_string()))?;
        let mut servers = self.servers();
        if let Some(known) = servers.iter().find(|known| known.server == server) {
            known.state().used_at = Instant::now();
            return Ok(ConnectingServer { pool: self, server: Some(known.clone()) });
        }
        make_room(&mut servers, &server)?;
        let name = ServerName::new(server.label.as_str());
        let name = name.ok_or_else(|| refused("the name of the server is not valid".to_owned()))?;
        let transport =
            Transport::Http { url, headers: server.headers.clone(), kind: HttpKind::Auto, oauth: None };
        let mut config = ServerConfig::new(name, transport);
        config.connect_timeout = self.connect_timeout;
        config.extends_connect_timeout = false;
        config.call_timeout = CALL_TIMEOUT;
        let created = Arc::new(PooledServer::new(server, config, self.hosts.clone(), self.closing.clone()));
        servers.push(created.clone());
        Ok(ConnectingServer { pool: self, server: Some(created) })
    }

    /// Removes servers that no run uses, and closes connections that were not used for a long time.
    fn remove_idle(&self, now: Instant) {
        self.servers().retain(|server| {
            let is_unused = Arc::strong_count(server) == 1;
            let mut state = server.state();
            let idle = now.saturating_duration_since(state.used_at);
            let is_old = if is_unused { idle >= IDLE_TIMEOUT } else { idle >= self.run_timeout };
            // A call that is still running has its own reference.
            let connection = state.connection.as_ref();
            if is_old && connection.is_some_and(|connection| Arc::strong_count(connection) == 1) {
                state.disconnect();
            }
            !(is_unused && is_old)
        });
    }
}

/// Makes room for one more server of a client. Servers that no run uses are removed, first those that were
/// not used for the longest time. Dormant servers do not count: the limits of stored runs apply to them.
fn make_room(servers: &mut Vec<Arc<PooledServer>>, new: &RequestServer) -> Result<(), RequestServerError> {
    let is_of_client = |server: &Arc<PooledServer>| server.server.client == new.client;
    loop {
        let active = || servers.iter().filter(|server| !server.state().is_dormant);
        let own = active().filter(|server| is_of_client(server)).count();
        if active().count() < MAX_SERVERS && own < MAX_SERVERS_PER_CLIENT {
            return Ok(());
        }
        let is_removable = |server: &Arc<PooledServer>| {
            (is_of_client(server) || own < MAX_SERVERS_PER_CLIENT) && Arc::strong_count(server) == 1
        };
        let unused = servers.iter().enumerate().filter(|(_, server)| is_removable(server));
        let oldest = unused.min_by_key(|(_, server)| server.state().used_at).map(|(index, _)| index);
        let Some(oldest) = oldest else {
            let reason = "too many servers that requests name by URL are in use".to_owned();
            return Err(RequestServerError::Unavailable { reason });
        };
        servers.remove(oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde_json::json;
    use toolwire_agent::Functions;
    use toolwire_contract::Tool;
    use toolwire_contract::toolbox::{CallError, CallOptions};
    use toolwire_gateway::{RequestServer, RequestServers};
    use toolwire_hub::{Config, Hub, HubOptions, Phase};
    use toolwire_toolkit::Server;
    use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};

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
        pool.pool.servers().iter().map(|server| server.state().connection.is_some()).collect()
    }

    fn close_idle(pool: &ServerPool, after: Duration) {
        pool.pool.remove_idle(Instant::now() + after);
    }

    /// Waits until a connection is closed.
    async fn closed(hub: &Hub) {
        let is_stopped = || hub.status().iter().all(|server| server.phase == Phase::Stopped);
        while !is_stopped() {
            tokio::task::yield_now().await;
        }
    }

    /// The hub of the first connected server.
    fn first_hub(pool: &ServerPool) -> Arc<Hub> {
        let servers = pool.pool.servers();
        let connection = servers.iter().find_map(|server| server.state().connection.clone());
        connection.expect("a connection").hub().clone()
    }

    #[tokio::test]
    async fn servers_that_are_not_used_are_closed() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let pool = pool();
        let used = pool.connect(server("one", mcp.url())).await.expect("a server");
        drop(pool.connect(server("two", mcp.url())).await.expect("a server"));
        assert_eq!(connected(&pool), [true, true]);
        close_idle(&pool, Duration::from_secs(30));
        assert_eq!(connected(&pool), [true, true]);
        close_idle(&pool, IDLE_TIMEOUT);
        assert_eq!(connected(&pool), [true], "the first one is in use");
        // Only a paused run can use it for so long. It connects again when it continues.
        close_idle(&pool, Duration::from_secs(600));
        assert_eq!(connected(&pool), [false]);
        let [tool] = &used.tools()[..] else { panic!("the tools are still known") };
        assert_eq!(used.server_of(&tool.name).map(|server| server.name).as_deref(), Some("weather"));
        let result = used.call(&tool.name, &json!({}), CallOptions::default()).await.expect("a result");
        assert!(!result.is_error(), "{result:?}");
        assert_eq!(connected(&pool), [true]);
        drop(used);
        close_idle(&pool, IDLE_TIMEOUT);
        assert_eq!(connected(&pool), [false; 0]);
    }

    /// A new connection lists the tools again. The gateway permits only calls of the definition that the
    /// client has seen.
    #[tokio::test]
    async fn a_tool_that_changed_in_the_meantime_is_not_called() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let (address, pool) = (mcp.address(), pool());
        let used = pool.connect(server("one", mcp.url())).await.expect("a server");
        let name = used.tools()[0].name.clone();
        close_idle(&pool, Duration::from_secs(600));
        mcp.shutdown(Duration::ZERO).await;
        let gone = used.call(&name, &json!({}), CallOptions::default()).await;
        assert!(matches!(gone, Err(CallError::Unavailable { .. })), "{gone:?}");
        let _other = serve(address, "Another temperature").await;
        let permission = |tool: &Tool| match tool.description.as_deref() {
            Some("The temperature") => Ok(()),
            _ => Err("it changed".to_owned()),
        };
        let mut options = CallOptions::default();
        options.permission = Some(Arc::new(permission));
        let refused = used.call(&name, &json!({}), options).await;
        assert!(matches!(refused, Err(CallError::NotPermitted { .. })), "{refused:?}");
    }

    /// An unreachable server leaves nothing behind, whether connecting fails or the request is cancelled.
    #[tokio::test]
    async fn servers_that_never_connected_are_removed() {
        let pool = pool();
        let unreachable = server("one", "http://127.0.0.1:1/mcp".to_owned());
        assert!(pool.connect(unreachable).await.is_err());
        assert_eq!(connected(&pool), [false; 0]);
        // It accepts connections and does not respond.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let (first, second) =
            (pool.connect(server("one", url.clone())), pool.connect(server("one", url.clone())));
        tokio::select! {
            biased;
            _ = first => panic!("it does not respond"),
            _ = second => panic!("it does not respond"),
            accepted = listener.accept() => assert!(accepted.is_ok()),
        }
        assert_eq!(connected(&pool), [false; 0], "both were cancelled");
    }

    /// A run keeps its server, although the next request cannot connect to it.
    #[tokio::test]
    async fn a_failed_connection_does_not_remove_a_server_in_use() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let pool = pool();
        let used = pool.connect(server("one", mcp.url())).await.expect("a server");
        close_idle(&pool, Duration::from_secs(600));
        let url = mcp.url();
        mcp.shutdown(Duration::ZERO).await;
        assert!(pool.connect(server("one", url)).await.is_err());
        assert_eq!(connected(&pool), [false]);
        assert_eq!(used.tools().len(), 1);
    }

    #[tokio::test]
    async fn connections_that_are_removed_are_closed() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let pool = pool();
        drop(pool.connect(server("one", mcp.url())).await.expect("a server"));
        let hub = first_hub(&pool);
        // A client that names this many other servers replaces its first one.
        let others: Vec<_> = (0..MAX_SERVERS_PER_CLIENT)
            .map(|number| pool.pool.find(server("one", format!("http://127.0.0.1:1/{number}"))))
            .collect();
        assert!(others.iter().all(Result::is_ok));
        closed(&hub).await;
        drop(others);
        drop(pool.connect(server("one", mcp.url())).await.expect("a server"));
        let hub = first_hub(&pool);
        close_idle(&pool, IDLE_TIMEOUT);
        closed(&hub).await;
    }

    #[tokio::test]
    async fn the_pool_waits_for_connections_that_are_being_closed() {
        let mcp = serve(SocketAddr::from(([127, 0, 0, 1], 0)), "The temperature").await;
        let pool = pool();
        drop(pool.connect(server("one", mcp.url())).await.expect("a server"));
        let hub = first_hub(&pool);
        close_idle(&pool, IDLE_TIMEOUT);
        assert_eq!(connected(&pool), [false; 0]);
        pool.close().await;
        assert!(hub.status().iter().all(|server| server.phase == Phase::Stopped), "{:?}", hub.status());
    }

    #[tokio::test]
    async fn a_client_has_a_limited_number_of_servers() {
        let pool = pool();
        let add = |client: &str, number: usize| {
            pool.pool.find(server(client, format!("http://127.0.0.1:1/{number}")))
        };
        // They count although they are not connected.
        let used: Vec<_> =
            (0..MAX_SERVERS_PER_CLIENT).map(|number| add("one", number).expect("room")).collect();
        let full = add("one", MAX_SERVERS_PER_CLIENT);
        assert!(matches!(full, Err(RequestServerError::Unavailable { .. })));
        assert!(add("two", 0).is_ok());
        let connect = |entry: &ConnectingServer<'_>| {
            let hub = Hub::start(&Config::default(), HubOptions::default());
            entry.server().state().connection =
                Some(Arc::new(server::Connection::new(hub, TaskTracker::new())));
        };
        used.iter().for_each(connect);
        drop(used);
        let _new = add("one", MAX_SERVERS_PER_CLIENT).expect("one that is not used is removed");
        assert_eq!(pool.pool.servers().len(), MAX_SERVERS_PER_CLIENT);
    }
}
