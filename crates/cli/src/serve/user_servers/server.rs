//! One server of one user.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Tool, ToolResult};
use toolwire_gateway::ServerUser;
use toolwire_hub::status::Attempt;
use toolwire_hub::{Config, Hub, HubOptions, Phase, ServerConfig};

use super::Pool;

/// The minimum time between two attempts to connect without a login. The user may have logged in at another
/// gateway.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// The time to connect again when a user asks for the login page.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// A tool name has at most 64 characters.
const MAX_NAME_CHARS: usize = 48;

/// A server of one user, with one set of credentials.
pub(super) struct UserServer {
    pub(super) user: ServerUser,
    /// The server, with the headers of the user.
    pub(super) config: ServerConfig,
    /// The server as it is configured.
    pub(super) configured: ServerConfig,
    pub(super) access: Access,
    options: HubOptions,
    pool: Weak<Pool>,
    /// The only tool while the user has to log in.
    login_tools: Arc<[Tool]>,
    state: Mutex<UserServerState>,
}

/// How the user gets access to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// The user logs in on a page of the gateway.
    Login { page: String },
    /// The request has the headers with credentials.
    Headers,
    /// The request lacks this header.
    MissingHeader(String),
}

pub(super) struct UserServerState {
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) used_at: Instant,
    /// Whether the user has to log in. Set until the server is ready.
    needs_login: bool,
    retried_at: Instant,
    /// Whether the server was removed from the configuration.
    pub(super) is_removed: bool,
}

/// A connection to a server. It is closed when nothing uses it.
pub(super) struct Connection {
    hub: Option<Arc<Hub>>,
    reporting: JoinHandle<()>,
    /// Tracks the task that closes the connection: the pool waits for it when the gateway stops.
    closing: TaskTracker,
}

impl Connection {
    fn new(hub: Hub, pool: Weak<Pool>, user: String, closing: TaskTracker) -> Connection {
        let hub = Arc::new(hub);
        let (mut tools, mut status) = (hub.changes(), hub.status_changes());
        let reporting = tokio::spawn(async move {
            loop {
                let changed = tokio::select! {
                    changed = tools.changed() => changed,
                    changed = status.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
                match pool.upgrade() {
                    Some(pool) => pool.report_change(&user),
                    None => return,
                }
            }
        });
        Connection { hub: Some(hub), reporting, closing }
    }

    pub(super) async fn close(&self) {
        self.hub().close().await;
    }

    fn hub(&self) -> &Arc<Hub> {
        self.hub.as_ref().expect("only `drop` takes it")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reporting.abort();
        // Outside of a runtime, the process ends.
        if let (Some(hub), Ok(runtime)) = (self.hub.take(), Handle::try_current()) {
            self.closing.spawn_on(async move { hub.close().await }, &runtime);
        }
    }
}

impl UserServer {
    pub(super) fn new(
        user: ServerUser,
        configured: ServerConfig,
        config: ServerConfig,
        access: Access,
        options: HubOptions,
        pool: Weak<Pool>,
    ) -> UserServer {
        let login_tools: Arc<[Tool]> = match &access {
            Access::Login { .. } => [login_tool(config.name.as_str())].into(),
            _ => Arc::default(),
        };
        let now = Instant::now();
        let state = UserServerState {
            connection: None,
            used_at: now,
            needs_login: false,
            retried_at: now,
            is_removed: false,
        };
        UserServer { user, configured, config, access, options, pool, login_tools, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, UserServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// Returns the connection, or starts to connect. The error is the reason why this is not possible.
    fn connection(&self) -> Result<Arc<Connection>, String> {
        if let Access::MissingHeader(header) = &self.access {
            return Err(format!(
                "the request has no header `{header}`, which contains the credentials of the user"
            ));
        }
        let known = {
            let mut state = self.state();
            state.used_at = Instant::now();
            if state.is_removed {
                return Err("it is no longer configured".to_owned());
            }
            state.connection.clone()
        };
        if let Some(connection) = known {
            return Ok(connection);
        }
        let pool = self.pool.upgrade().ok_or("the gateway stops")?;
        if !pool.make_room(self) {
            return Err("too many connections of users are open".to_owned());
        }
        let mut state = self.state();
        // The configuration may have changed in the meantime.
        if state.is_removed {
            return Err("it is no longer configured".to_owned());
        }
        if let Some(connection) = &state.connection {
            return Ok(connection.clone());
        }
        let config = Config { servers: vec![self.config.clone()], toolwire: None };
        let hub = Hub::start(&config, self.options.clone());
        let (owner, closing) = (self.user.id.clone(), pool.closing.clone());
        let connection = Arc::new(Connection::new(hub, self.pool.clone(), owner, closing));
        state.connection = Some(connection.clone());
        Ok(connection)
    }

    /// Whether the user has to log in. Connects again from time to time until the user has done it.
    fn needs_login(&self, hub: &Hub) -> bool {
        let Some(status) = hub.status().pop() else { return false };
        let mut state = self.state();
        match (&status.phase, status.attempt) {
            (Phase::Ready, _) => state.needs_login = false,
            (_, Some(Attempt::NeedsLogin)) => {
                if state.needs_login && state.retried_at.elapsed() >= RETRY_INTERVAL {
                    state.retried_at = Instant::now();
                    hub.retry(self.name());
                } else if !state.needs_login {
                    state.retried_at = Instant::now();
                }
                state.needs_login = true;
            }
            _ => {}
        }
        state.needs_login
    }

    /// Connects again, because the user may have logged in.
    pub(super) fn retry(&self) {
        let connection = self.state().connection.clone();
        if let Some(connection) = connection {
            connection.hub().retry(self.name());
        }
    }

    /// Returns the result of the login tool.
    async fn log_in(&self, hub: &Hub, page: &str) -> ToolResult {
        let name = self.name();
        let is_ready = || hub.status().iter().any(|status| status.phase == Phase::Ready);
        let mut changes = hub.status_changes();
        hub.retry(name);
        let settled = async {
            while !is_ready() && changes.changed().await.is_ok() {
                let attempt = hub.status().pop().and_then(|status| status.attempt);
                if attempt.is_some_and(|attempt| attempt != Attempt::Running) {
                    return;
                }
            }
        };
        // If this takes long, the page works as well.
        let _ = tokio::time::timeout(RETRY_TIMEOUT, settled).await;
        match is_ready() {
            true => {
                self.state().needs_login = false;
                ToolResult::text(format!("The user is logged in to `{name}`. Its tools are available now."))
            }
            false => ToolResult::text(format!(
                "The user has to log in to `{name}`. Show the user this link: {page}\nIts tools are available after the login."
            )),
        }
    }

    /// Explains an error whose cause is that the user has to log in.
    fn with_login(&self, error: CallError, hub: &Hub) -> CallError {
        let Access::Login { page } = &self.access else { return error };
        let (server, tool) = match &error {
            CallError::Unauthorized { server, tool, .. } => (server.clone(), tool.clone()),
            CallError::Unavailable { server, tool, .. } if self.needs_login(hub) => {
                (server.clone(), tool.clone())
            }
            _ => return error,
        };
        let reason = "the user has to log in".to_owned();
        CallError::Unauthorized {
            server,
            tool,
            reason,
            hint: Some(format!("show the user this link: {page}")),
        }
    }
}

impl Toolbox for UserServer {
    fn tools(&self) -> Arc<[Tool]> {
        match self.connection() {
            Ok(connection) if self.needs_login(connection.hub()) => self.login_tools.clone(),
            Ok(connection) => connection.hub().tools(),
            Err(_) => Arc::default(),
        }
    }

    fn server_of(&self, tool: &str) -> Option<ToolServer> {
        if self.login_tools.iter().any(|login| login.name == tool) {
            return Some(ToolServer { name: self.name().to_owned(), title: None });
        }
        self.connection().ok()?.hub().server_of(tool)
    }

    fn original_name(&self, tool: &str) -> Option<String> {
        self.connection().ok()?.hub().original_name(tool)
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        match self.connection() {
            Ok(connection) if self.needs_login(connection.hub()) => Vec::new(),
            Ok(connection) => connection.hub().missing_servers(),
            Err(reason) => {
                vec![MissingServer { server: self.name().to_owned(), reason, is_starting: false }]
            }
        }
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Ok(connection) = self.connection() {
                connection.hub().started(servers).await;
            }
        })
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        Some(changes(self.pool.upgrade()?.subscribe(&self.user.id)))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        mut options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            // Tasks are looked up among the servers that all users share.
            options.accepts_task = false;
            // The connection has only this user.
            options.owner = None;
            let connection = self.connection().map_err(|reason| CallError::Unavailable {
                server: self.name().to_owned(),
                tool: tool.to_owned(),
                reason,
            })?;
            let hub = connection.hub();
            if let Access::Login { page } = &self.access
                && self.login_tools.iter().any(|login| login.name == tool)
                && (self.needs_login(hub) || hub.server_of(tool).is_none())
            {
                return Ok(self.log_in(hub, page).await);
            }
            let result = hub.call(tool, arguments, options).await;
            self.state().used_at = Instant::now();
            result.map_err(|error| self.with_login(error, hub))
        })
    }
}

/// Yields an item for each change of a version.
pub(super) fn changes(version: watch::Receiver<u64>) -> BoxStream<'static, ()> {
    futures::stream::unfold(version, |mut version| async move {
        version.changed().await.ok()?;
        Some(((), version))
    })
    .boxed()
}

/// Returns the tool that a server has while its user has to log in.
fn login_tool(server: &str) -> Tool {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = server.chars().take(MAX_NAME_CHARS).map(plain).collect();
    let mut tool = Tool::new(format!("log_in_to_{name}"), json!({"type": "object", "properties": {}}));
    tool.description = Some(format!(
        "Returns a link for the user, who has to log in to the server `{server}` before its tools are available."
    ));
    let annotations = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    tool.annotations = annotations.as_object().cloned();
    tool
}
