//! Servers for which each user of the gateway has credentials of its own.
//!
//! Each is a hub of its own, for one user and one set of credentials. It is connected when the user's
//! requests need it, and closed some time after the last one.

mod logins;
mod server;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use futures::stream::BoxStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use toolwire_contract::Secret;
use toolwire_contract::state::StateStore;
use toolwire_contract::toolbox::Toolbox;
use toolwire_gateway::{ServerUser, UserLogin, UserLoginError, UserServers};
use toolwire_hub::config::UserCredentials;
use toolwire_hub::{Config, HubOptions, ServerConfig, Transport};
use toolwire_store::InMemoryState;

use crate::command_error::CommandError;
use crate::settings::Settings;
pub(super) use logins::LoginPlace;
use server::{Access, UserServer};

/// The time after which a connection that its user does not use is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// The interval in which connections are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum number of connections, in total and of one user to one server: one for each set of
/// credentials.
const MAX_CONNECTIONS: usize = 1_024;
const MAX_CONNECTIONS_OF_USER: usize = 4;

/// The servers of all users.
pub(super) struct UserPool {
    pool: Arc<Pool>,
    sweeper: JoinHandle<()>,
}

pub(super) struct Pool {
    configured: RwLock<Arc<[ServerConfig]>>,
    options: HubOptions,
    place: LoginPlace,
    servers: Mutex<Vec<Arc<UserServer>>>,
    /// Connections that are being closed.
    pub(super) closing: TaskTracker,
    /// Senders of the changes of the tools of each user that has receivers, by the id of the user.
    changes: Mutex<HashMap<String, watch::Sender<u64>>>,
    /// Counts the changes of the configuration.
    version: AtomicU64,
}

/// Checks the servers for which each user has credentials, and returns how users get access to each of them.
/// `local` is the address of a gateway that serves only this machine.
pub(crate) fn check(
    config: &Config,
    settings: &Settings,
    local: Option<String>,
) -> Result<Vec<(String, String)>, CommandError> {
    let servers = of_users(config, &HubOptions::default());
    let store = || -> Arc<dyn StateStore> { Arc::new(InMemoryState::new()) };
    let secret = settings.gateway.credential_key.as_ref().map(|secret| (secret, store()));
    LoginPlace::new(settings.gateway.public_url.as_deref(), local, secret)?.check(&servers)?;
    let access = |server: &ServerConfig| match &server.user_credentials {
        Some(UserCredentials::Headers(headers)) => {
            let names: Vec<String> = headers.iter().map(|header| format!("`{}`", header.from)).collect();
            format!("each user sends {}", names.join(" and "))
        }
        _ => "each user logs in".to_owned(),
    };
    Ok(servers.iter().map(|server| (server.name.to_string(), access(server))).collect())
}

fn of_users(config: &Config, options: &HubOptions) -> Arc<[ServerConfig]> {
    let is_selected =
        |server: &&ServerConfig| options.only_server.as_ref().is_none_or(|only| server.name == *only);
    let servers = config.servers.iter().filter(|server| server.user_credentials.is_some());
    servers.filter(is_selected).filter(|server| !server.disabled).cloned().collect()
}

impl UserPool {
    /// `options` are those of the shared servers.
    pub(super) fn new(
        config: &Config,
        options: &HubOptions,
        place: LoginPlace,
    ) -> Result<UserPool, CommandError> {
        // Files would not be separated by user: known definitions and complete results.
        let mut of_users = HubOptions::default().with_host(options.host.clone());
        of_users.only_server.clone_from(&options.only_server);
        let pool = Arc::new(Pool {
            configured: RwLock::default(),
            options: of_users,
            place,
            servers: Mutex::default(),
            closing: TaskTracker::new(),
            changes: Mutex::default(),
            version: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&pool);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(pool) = weak.upgrade() else { return };
                pool.close_idle(Instant::now());
            }
        });
        let pool = UserPool { pool, sweeper };
        pool.check(config)?;
        pool.reconfigure(config);
        Ok(pool)
    }

    /// Checks that the servers of a configuration can be used.
    pub(super) fn check(&self, config: &Config) -> Result<(), CommandError> {
        self.pool.place.check(&of_users(config, &self.pool.options))
    }

    /// Uses another configuration. Connections to servers that are configured as before stay open.
    pub(super) fn reconfigure(&self, config: &Config) {
        let configured = of_users(config, &self.pool.options);
        *self.pool.configured.write().unwrap_or_else(PoisonError::into_inner) = configured.clone();
        self.pool.servers().retain(|server| {
            let is_kept = configured.contains(&server.configured);
            if !is_kept {
                let mut state = server.state();
                (state.connection, state.is_removed) = (None, true);
            }
            is_kept
        });
        self.pool.version.fetch_add(1, Ordering::Release);
        self.pool.changes().values().for_each(report);
    }

    /// Returns the changes of the tools that only a user of `/mcp` has, from now on. A gateway without keys
    /// has one user, without an id.
    pub(super) fn changes_of(&self, user: &str) -> BoxStream<'static, ()> {
        let user = if user.is_empty() { ServerUser::WITHOUT_KEY } else { user };
        server::changes(self.pool.subscribe(user))
    }

    /// Closes all connections, and waits for those that are being closed already.
    pub(super) async fn close(&self) {
        let servers = std::mem::take(&mut *self.pool.servers());
        let connections: Vec<_> =
            servers.iter().filter_map(|server| server.state().connection.take()).collect();
        join_all(connections.iter().map(|connection| connection.close())).await;
        drop(connections);
        self.pool.closing.close();
        self.pool.closing.wait().await;
    }
}

impl Drop for UserPool {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl Pool {
    fn servers(&self) -> MutexGuard<'_, Vec<Arc<UserServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes of the tools of a user.
    pub(super) fn subscribe(&self, user: &str) -> watch::Receiver<u64> {
        self.changes().entry(user.to_owned()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Reports that the tools of a user have changed.
    pub(super) fn report_change(&self, user: &str) {
        if let Some(sender) = self.changes().get(user) {
            report(sender);
        }
    }

    fn configured(&self) -> Arc<[ServerConfig]> {
        self.configured.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a server for a user.
    fn server(self: &Arc<Pool>, user: &ServerUser, configured: &ServerConfig) -> Arc<UserServer> {
        let (config, access, headers) = self.with_credentials(user, configured);
        let user = ServerUser::new(user.id.clone(), headers);
        let mut servers = self.servers();
        let is_same = |known: &&Arc<UserServer>| {
            known.user == user && known.configured == *configured && known.access == access
        };
        if let Some(known) = servers.iter().find(is_same) {
            return known.clone();
        }
        let mut options = self.options.clone();
        if let Access::Login { .. } = access {
            options.token_storage = self.place.tokens(&user.id);
        }
        let pool = Arc::downgrade(self);
        let server = UserServer::new(user, configured.clone(), config, access, options, pool);
        let server = Arc::new(server);
        // A client can send any number of different headers, so nothing unused is kept until it is idle.
        servers.retain(|known| known.state().connection.is_some() || Arc::strong_count(known) > 1);
        servers.push(server.clone());
        server
    }

    /// Returns the configuration of a server with the headers of a user, which no other server gets.
    fn with_credentials(
        &self,
        user: &ServerUser,
        configured: &ServerConfig,
    ) -> (ServerConfig, Access, Vec<(String, Secret)>) {
        let mut config = configured.clone();
        let Some(UserCredentials::Headers(forwarded)) = &configured.user_credentials else {
            let page = self.place.page(configured.name.as_str());
            return (config, Access::Login { page }, Vec::new());
        };
        let mut sent = Vec::new();
        for header in forwarded {
            match user.headers.iter().find(|(name, _)| *name == header.from) {
                Some((_, value)) => sent.push((header.name.clone(), value.clone())),
                None => return (config, Access::MissingHeader(header.from.clone()), Vec::new()),
            }
        }
        if let Transport::Http { headers, oauth, .. } = &mut config.transport {
            let is_replaced = |name: &String| sent.iter().any(|(new, _)| name.eq_ignore_ascii_case(new));
            headers.retain(|(name, _)| !is_replaced(name));
            headers.extend(sent.iter().cloned());
            *oauth = None;
        }
        (config, Access::Headers, sent)
    }

    /// Closes the connections that were not used for a long time, and removes what nothing uses.
    fn close_idle(&self, now: Instant) {
        self.changes().retain(|_, sender| sender.receiver_count() > 0);
        self.servers().retain(|server| {
            let mut state = server.state();
            let is_idle = now.saturating_duration_since(state.used_at) >= IDLE_TIMEOUT;
            // A call that is still running has its own reference.
            let is_calling =
                state.connection.as_ref().is_some_and(|connection| Arc::strong_count(connection) > 1);
            if is_idle && !is_calling {
                state.connection = None;
            }
            !(is_idle && state.connection.is_none() && Arc::strong_count(server) == 1)
        });
    }

    /// Makes room for one more connection: closes those that are not calling and that were not used for the
    /// longest time. Returns whether there is room.
    fn make_room(&self, new: &UserServer) -> bool {
        let servers = self.servers();
        loop {
            let is_open = |server: &&Arc<UserServer>| server.state().connection.is_some();
            let is_own = |server: &&Arc<UserServer>| {
                server.user.id == new.user.id && server.configured.name == new.configured.name
            };
            let open: Vec<&Arc<UserServer>> = servers.iter().filter(is_open).collect();
            let own = open.iter().filter(|server| is_own(server)).count();
            let is_own_full = own >= MAX_CONNECTIONS_OF_USER;
            if open.len() < MAX_CONNECTIONS && !is_own_full {
                return true;
            }
            let is_closable = |server: &&&Arc<UserServer>| {
                let state = server.state();
                (!is_own_full || is_own(server))
                    && state.connection.as_ref().is_some_and(|connection| Arc::strong_count(connection) == 1)
            };
            let oldest = open.iter().filter(is_closable).min_by_key(|server| server.state().used_at);
            match oldest {
                Some(oldest) => oldest.state().connection = None,
                None => return false,
            }
        }
    }
}

/// Reports a change to the receivers of a user.
fn report(user: &watch::Sender<u64>) {
    user.send_modify(|version| *version += 1);
}

impl UserServers for UserPool {
    fn is_empty(&self) -> bool {
        self.pool.configured().is_empty()
    }

    fn version(&self) -> u64 {
        self.pool.version.load(Ordering::Acquire)
    }

    fn login_address(&self) -> Option<String> {
        self.pool.place.address().map(str::to_owned)
    }

    fn servers(&self, user: &ServerUser) -> Vec<(String, Arc<dyn Toolbox>)> {
        let configured = self.pool.configured();
        let of_user = |server: &ServerConfig| -> (String, Arc<dyn Toolbox>) {
            (server.name.to_string(), self.pool.server(user, server))
        };
        configured.iter().map(of_user).collect()
    }

    fn headers(&self) -> Vec<String> {
        let configured = self.pool.configured();
        let mut names = BTreeSet::new();
        for server in configured.iter() {
            if let Some(UserCredentials::Headers(headers)) = &server.user_credentials {
                names.extend(headers.iter().map(|header| header.from.clone()));
            }
        }
        names.into_iter().collect()
    }

    fn start_login(&self, login: UserLogin) -> BoxFuture<'_, Result<String, UserLoginError>> {
        Box::pin(async move { self.pool.place.start(&self.pool.configured(), login).await })
    }

    fn complete_login(
        &self,
        query: String,
        browser: Secret,
    ) -> BoxFuture<'_, Result<String, UserLoginError>> {
        Box::pin(async move {
            let login = self.pool.place.complete(&self.pool.configured(), &query, &browser).await?;
            let is_of_login =
                |known: &&Arc<UserServer>| known.user.id == login.user && known.name() == login.server;
            self.pool.servers().iter().filter(is_of_login).for_each(|server| server.retry());
            Ok(login.server)
        })
    }
}

#[cfg(test)]
mod tests;
