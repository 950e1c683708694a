//! Many servers as one toolbox.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use toolwire_contract::{CallError, CallOptions, MissingServer, Tool, ToolResult, Toolbox};
use toolwire_dialect::{Dialect, Options, Toolset};

use crate::auth::{Browser, OAuth, TokenProvider};
use crate::call;
use crate::catalog::Catalog;
use crate::config::{Config, ServerConfig, ServerName, Transport};
use crate::drift::DriftMonitor;
use crate::host::{Host, NoHost};
use crate::last_words::with_last_words;
use crate::results::{READ_RESULT, Results};
use crate::route::{Route, Routes, ServerTools, ToolHistory};
use crate::spill::Budget;
use crate::supervise::{Outside, Phase, Server, ServerStatus, keep};

/// What a hub needs beside the configuration.
#[derive(Clone)]
pub struct HubOptions {
    /// Answers what servers ask of the application.
    pub host: Arc<dyn Host>,
    /// Our own environment; a process sees no more of it than it needs to run.
    pub environment: Vec<(OsString, OsString)>,
    /// Where tokens, known definitions and large results are kept. Without it none of them outlives the hub: servers
    /// that ask for a login fail, and what is over the budget is only cut.
    pub folder: Option<PathBuf>,
    /// Shows login pages to a person.
    pub browser: Option<Arc<dyn Browser>>,
    /// How much of a result is handed on; `None` hands on everything.
    pub budget: Option<Budget>,
    /// Connects to this server alone. The others count for the names of its tools all the same.
    pub only: Option<ServerName>,
}

impl Default for HubOptions {
    fn default() -> HubOptions {
        HubOptions {
            host: Arc::new(NoHost),
            environment: Vec::new(),
            folder: None,
            browser: None,
            budget: Some(Budget::default()),
            only: None,
        }
    }
}

/// Many servers as one toolbox. It stops them when it is dropped; [`Hub::close`] also waits for that.
pub struct Hub {
    inner: Arc<Inner>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Writes what the hub remembers.
    keeping: JoinHandle<()>,
}

struct Inner {
    servers: Vec<Arc<Server>>,
    /// Configured, and not connected to.
    absent: Vec<ServerConfig>,
    /// Never there in an earlier life: what their tools are called is not known before they are.
    unseen: HashSet<ServerName>,
    /// Whether every server was ready or had failed.
    has_settled: AtomicBool,
    bearers: Vec<Arc<dyn TokenProvider>>,
    known: Mutex<ToolHistory>,
    /// What the list was put together from, server by server.
    listed: Mutex<Option<Vec<Weak<Catalog>>>>,
    offer: RwLock<Arc<Routes>>,
    /// Counts the lists that were offered.
    version: watch::Sender<u64>,
    memory: Arc<DriftMonitor>,
    results: Results,
}

/// How long a call waits for servers that were never seen, which may have a tool of the same name.
const FIRST_SIGHT: Duration = Duration::from_secs(5);

/// Closing waits this long for all servers together.
const CLOSING: Duration = Duration::from_secs(15);

impl Hub {
    /// Connects to all servers at once and comes back when each of them is ready or has failed for the first time. A bad
    /// server is a status with a reason; it is tried again in the background.
    pub async fn connect(config: &Config, options: HubOptions) -> Hub {
        let hub = Hub::start(config, options);
        hub.settled().await;
        hub
    }

    /// As [`Hub::connect`], without waiting: tools appear as their servers come up.
    pub fn start(config: &Config, options: HubOptions) -> Hub {
        let environment: Arc<[(OsString, OsString)]> = options.environment.as_slice().into();
        let (changed, mut news) = mpsc::channel(1);
        let mut servers = Vec::new();
        let mut bearers = Vec::new();
        let mut tasks = Vec::new();
        let is_wanted =
            |server: &&ServerConfig| options.only.as_ref().is_none_or(|only| server.name == *only);
        let (wanted, absent): (Vec<&ServerConfig>, Vec<&ServerConfig>) =
            config.servers.iter().filter(|server| !server.disabled).partition(is_wanted);
        for config in wanted {
            let (server, inbox) = Server::new(config.clone());
            let bearer = bearer(config, &options);
            bearers.extend(bearer.clone());
            let outside = Outside {
                host: options.host.clone(),
                bearer,
                environment: environment.clone(),
                changed: changed.clone(),
            };
            tasks.push(tokio::spawn(keep(server.clone(), inbox, outside)));
            servers.push(server);
        }
        drop(changed);
        let configured = || servers.iter().map(|server| &server.config).chain(absent.iter().copied());
        let memory = Arc::new(DriftMonitor::open(options.folder.as_deref(), configured()));
        let keeping = tokio::spawn(memory.clone().save_changes());
        let mut known = ToolHistory::default();
        let mut unseen = HashSet::new();
        for server in configured() {
            let tools = memory.known_tools(&server.name);
            if tools.is_none() {
                unseen.insert(server.name.clone());
            }
            known.add(&server.name, tools.iter().flatten().map(String::as_str));
        }
        let inner = Arc::new(Inner {
            servers,
            absent: absent.into_iter().cloned().collect(),
            unseen,
            has_settled: AtomicBool::new(false),
            bearers,
            known: Mutex::new(known),
            listed: Mutex::default(),
            memory,
            results: Results::new(options.budget, options.folder.as_deref()),
            offer: RwLock::default(),
            version: watch::Sender::new(0),
        });
        let watched = Arc::downgrade(&inner);
        tasks.push(tokio::spawn(async move {
            while news.recv().await.is_some() {
                let Some(inner) = watched.upgrade() else { break };
                inner.offer_anew();
            }
        }));
        Hub { inner, tasks: Mutex::new(tasks), keeping }
    }

    /// Waits until every server is ready or has failed at least once.
    pub async fn settled(&self) {
        let waiting = self.inner.servers.iter().map(|server| async {
            let _ = server.watch().wait_for(|view| view.phase != Phase::Connecting).await;
        });
        join_all(waiting).await;
        self.inner.offer_anew();
        self.inner.has_settled.store(true, Ordering::Relaxed);
    }

    /// How each server is, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        let memory = &self.inner.memory;
        let servers = self.inner.servers.iter();
        servers
            .map(|server| ServerStatus { drifts: memory.drifts(&server.config.name), ..server.status() })
            .collect()
    }

    /// Accepts the definitions that changed since they were first seen, as [`status`](Hub::status) tells of them: they are
    /// what the next ones are compared with.
    pub fn accept_changes(&self) -> io::Result<()> {
        self.inner.memory.accept()
    }

    /// The tools of one server under the names they are offered by; `None` if no such server is configured.
    pub fn tools_of(&self, server: &str) -> Option<Vec<Tool>> {
        self.inner.servers.iter().find(|each| each.config.name.as_str() == server)?;
        let offer = self.inner.offer();
        let offered = offer.offered().filter(|(_, route)| route.server.as_str() == server);
        Some(offered.map(|(tool, _)| tool.clone()).collect())
    }

    /// All tools in the words of a dialect, with the way back for a model's arguments. The list is byte-stable.
    pub fn get_tools(&self, dialect: Dialect, options: &Options) -> Toolset {
        Toolset::new(&self.tools(), dialect, options)
    }

    /// The server and the server's own name of a tool.
    pub fn origin(&self, tool: &str) -> Option<(String, String)> {
        let offer = self.inner.offer();
        let route = offer.lookup(tool)?;
        Some((route.server.to_string(), route.tool.clone()))
    }

    /// The name that a server's tool is offered under.
    pub fn offered_as(&self, server: &str, tool: &str) -> Option<String> {
        let offer = self.inner.offer();
        let is_it = |route: &Route| route.server.as_str() == server && route.tool == tool;
        let (found, _) = offer.offered().find(|(_, route)| is_it(route))?;
        Some(found.name.clone())
    }

    /// Changes whenever another list of tools is offered.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.version.subscribe()
    }

    /// Tries a server again at once, whatever happened to it before.
    pub fn retry(&self, server: &str) {
        if let Some(server) = self.inner.servers.iter().find(|each| each.config.name.as_str() == server) {
            server.retry();
        }
    }

    /// Stops all servers and waits until their processes are gone.
    pub async fn close(&self) {
        join_all(self.inner.servers.iter().map(|server| server.stop())).await;
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let aborts: Vec<_> = tasks.iter().map(|task| task.abort_handle()).collect();
        if tokio::time::timeout(CLOSING, join_all(tasks)).await.is_err() {
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        // A refresh that is under way may have used up the only token that could be used another time.
        let bearers = join_all(self.inner.bearers.iter().map(|bearer| bearer.close()));
        if tokio::time::timeout(CLOSING, bearers).await.is_err() {
            tracing::warn!(target: "toolwire::hub", "a token was not ready when the hub was closed");
        }
        self.keeping.abort();
        let memory = self.inner.memory.clone();
        let _ = tokio::task::spawn_blocking(move || memory.save()).await;
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            task.abort();
        }
        self.keeping.abort();
        self.inner.memory.save();
    }
}

impl Inner {
    fn offer(&self) -> Arc<Routes> {
        self.offer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a server that was never seen, and is on its way, may want the same name.
    fn is_contestable(&self, route: &Route) -> bool {
        if self.has_settled.load(Ordering::Relaxed) || self.unseen.is_empty() {
            return false;
        }
        let mut servers = self.servers.iter();
        servers.clone().any(|server| server.config.name == route.server && server.config.prefix.is_none())
            && servers.any(|server| {
                server.config.name != route.server
                    && self.unseen.contains(&server.config.name)
                    && server.view.borrow().phase == Phase::Connecting
            })
    }

    /// Puts the list together from what each server has now.
    fn offer_anew(&self) {
        // One at a time, so that the newest list is the one that stays.
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let views: Vec<(Arc<Server>, Option<Arc<Catalog>>)> = self
            .servers
            .iter()
            .map(|server| {
                let view = server.view();
                // A server that is being brought back keeps its place in the list, so that prompt caches hold.
                let offered = matches!(view.phase, Phase::Ready | Phase::Recovering { .. });
                (server.clone(), view.catalog.filter(|_| offered))
            })
            .collect();
        // Not again for what is listed already.
        let catalogs: Vec<Weak<Catalog>> = views
            .iter()
            .map(|(_, catalog)| catalog.as_ref().map_or_else(Weak::new, Arc::downgrade))
            .collect();
        let is_same = |before: &Vec<Weak<Catalog>>| {
            before.iter().zip(&catalogs).all(|(before, now)| Weak::ptr_eq(before, now))
        };
        if listed.as_ref().is_some_and(is_same) {
            return;
        }
        *listed = Some(catalogs);
        let absent = self.absent.iter().map(|server| ServerTools { server, tools: None });
        let servers: Vec<ServerTools<'_>> = views
            .iter()
            .map(|(server, catalog)| ServerTools {
                server: &server.config,
                tools: catalog.as_ref().map(|catalog| catalog.tools.as_slice()),
            })
            .chain(absent)
            .collect();
        for (server, catalog) in &views {
            if let Some(catalog) = catalog {
                self.memory.check(&server.config.name, catalog);
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let routes = Routes::build(&servers, self.results.tool(), &mut known);
        let same = *self.offer().tools() == *routes.tools();
        *self.offer.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
        if !same {
            self.version.send_modify(|version| *version += 1);
        }
    }
}

impl Toolbox for Hub {
    fn tools(&self) -> Arc<[Tool]> {
        self.inner.offer().tools().clone()
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        let servers = self.inner.servers.iter();
        servers
            .filter_map(|server| {
                let reason = match server.view().phase {
                    Phase::Ready => return None,
                    Phase::Connecting => "it is still connecting".to_owned(),
                    Phase::Recovering { reason } => format!("{reason}; it is being restarted"),
                    Phase::Down { reason } => reason,
                    Phase::Stopped => "it was stopped".to_owned(),
                };
                Some(MissingServer { server: server.config.name.to_string(), reason })
            })
            .collect()
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        let changes = Hub::changes(self);
        Some(Box::pin(stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        })))
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            if tool == READ_RESULT && self.inner.results.tool().is_some() {
                return self.inner.results.read(arguments).await;
            }
            let timeout = options.timeout;
            let offer = self.inner.offer();
            let route = match offer.lookup(tool) {
                Some(route) => route.clone(),
                None => self.late(tool, timeout).await?,
            };
            let route = match self.inner.is_contestable(&route) {
                true => self.uncontested(tool, timeout).await?,
                false => route,
            };
            let server = self.inner.servers.iter().find(|server| server.config.name == route.server);
            let Some(server) = server else { return Err(self.unknown(tool)) };
            match call::call(server, &route, arguments, options).await {
                Ok(result) => Ok(self.inner.results.hand_on(result).await),
                Err(CallError::UnknownTool { .. }) => Err(self.unknown(tool)),
                Err(other) => Err(other),
            }
        })
    }
}

impl Hub {
    fn unknown(&self, tool: &str) -> CallError {
        let nearest = self.inner.offer().nearest(tool);
        let mut missing = self.missing_servers();
        for missing in &mut missing {
            let server = self.inner.servers.iter().find(|each| each.config.name.as_str() == missing.server);
            let stderr = server.map(|server| server.stderr()).unwrap_or_default();
            missing.reason = with_last_words(std::mem::take(&mut missing.reason), &stderr);
        }
        CallError::UnknownTool { tool: tool.to_owned(), nearest, missing }
    }

    /// A name may turn out to be wanted by two: who comes first must not decide which of them is called.
    async fn uncontested(&self, tool: &str, timeout: Option<Duration>) -> Result<Route, CallError> {
        let patience = timeout.map_or(FIRST_SIGHT, |timeout| timeout.min(FIRST_SIGHT));
        let _ = tokio::time::timeout(patience, self.settled()).await;
        let offer = self.inner.offer();
        let found = offer.offered().find(|(offered, _)| offered.name == tool);
        found.map(|(_, route)| route.clone()).ok_or_else(|| self.unknown(tool))
    }

    /// A tool that nobody offers yet may belong to a server that is still connecting.
    async fn late(&self, tool: &str, timeout: Option<Duration>) -> Result<Route, CallError> {
        let connecting = |server: &&Arc<Server>| server.view().phase == Phase::Connecting;
        let Some(longest) =
            self.inner.servers.iter().filter(connecting).map(|server| server.config.connect_timeout).max()
        else {
            // One that has just become ready may not be in the list yet.
            self.inner.offer_anew();
            return self.inner.offer().lookup(tool).cloned().ok_or_else(|| self.unknown(tool));
        };
        let until = Instant::now() + timeout.unwrap_or(longest).min(longest);
        let mut changes = self.changes();
        let offered = async {
            loop {
                changes.borrow_and_update();
                if let Some(route) = self.inner.offer().lookup(tool) {
                    return route.clone();
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let found = tokio::time::timeout_at(until.into(), async {
            tokio::select! {
                route = offered => Some(route),
                () = self.settled() => None,
            }
        });
        let found = found.await.ok().flatten();
        found.or_else(|| self.inner.offer().lookup(tool).cloned()).ok_or_else(|| self.unknown(tool))
    }
}

/// Who gives the tokens of a server on the network.
fn bearer(config: &ServerConfig, options: &HubOptions) -> Option<Arc<dyn TokenProvider>> {
    let Transport::Http { url, oauth: Some(auth), .. } = &config.transport else { return None };
    let folder = options.folder.as_ref()?.join("tokens");
    match OAuth::new(config.name.as_str(), url.as_str(), (**auth).clone(), folder, options.browser.clone()) {
        Ok(oauth) => Some(Arc::new(oauth)),
        Err(error) => {
            tracing::warn!(target: "toolwire::hub", server = %config.name, "{error}");
            None
        }
    }
}
