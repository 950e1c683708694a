//! The life of one server: connected, watched, brought back.
//!
//! A [`Server`] is what others see of it: its state, and its session while there is one. The task that keeps it alive is
//! in [`drive`]; when to try again is decided by [`state`], which awaits nothing.

mod drive;
pub(crate) mod state;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use crate::catalog::{Catalog, Census, Quarantined};
use crate::config::ServerConfig;
use crate::last_words::with_last_words;
use crate::session::{Facts, Session};

pub(crate) use drive::{Outside, keep};

/// One configured server.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) view: watch::Sender<View>,
    orders: mpsc::Sender<Order>,
}

/// What is known of a server at one moment.
#[derive(Clone, Default)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    pub(crate) session: Option<Arc<Session>>,
    /// What it listed last; kept while it is brought back.
    pub(crate) catalog: Option<Arc<Catalog>>,
    pub(crate) stderr: Vec<String>,
    /// What may help against why it is not there.
    pub(crate) hint: Option<String>,
    /// How often it was brought back.
    pub(crate) restarts: u32,
}

/// Where a server is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It is being connected for the first time.
    #[default]
    Connecting,
    Ready,
    /// It failed and is tried again soon.
    Recovering {
        reason: String,
    },
    /// It kept failing, or cannot work as it is configured.
    Down {
        reason: String,
    },
    Stopped,
}

/// What the task is told from outside.
#[derive(Debug)]
pub(crate) enum Order {
    /// Its session is of no more use, as a call found out and noted in the view.
    Lost,
    /// A call waits for it.
    Wanted,
    /// Try now, whatever happened.
    Retry,
    Stop,
}

/// How one server is, for people and programs.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: String,
    pub phase: Phase,
    pub facts: Option<Facts>,
    /// Tools that it lists and that the configuration admits.
    pub tool_count: usize,
    /// Tools that it lists and that `tools.allow` or `tools.deny` keeps out.
    pub denied: usize,
    /// Patterns of `tools.allow` and `tools.deny` that fit none of its tools.
    pub idle_patterns: Vec<String>,
    /// Tools that it lists more than once; the first of each counts.
    pub doubled: Vec<String>,
    pub quarantined: Vec<Quarantined>,
    /// Why its list of tools may not be whole.
    pub cut: Option<String>,
    /// What to try, where something is wrong.
    pub hint: Option<String>,
    /// The last lines it said on stderr.
    pub stderr: Vec<String>,
    /// Lines on stdout that were no messages, and the last of them.
    pub noise: crate::tee::Noise,
    pub restarts: u32,
    /// Tools that are not as they were when the server was last seen.
    pub drifts: Vec<crate::pins::Drift>,
}

impl Server {
    pub(crate) fn new(config: ServerConfig) -> (Arc<Server>, mpsc::Receiver<Order>) {
        let (orders, inbox) = mpsc::channel(16);
        (Arc::new(Server { config, view: watch::Sender::new(View::default()), orders }), inbox)
    }

    pub(crate) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// The session and its tools, waiting for a server that is on its way. `Err` says why there is none.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(Arc<Session>, Arc<Catalog>), String> {
        let mut watch = self.watch();
        if matches!(watch.borrow().phase, Phase::Recovering { .. }) {
            let _ = self.orders.try_send(Order::Wanted);
        }
        let waiting =
            watch.wait_for(|view| !matches!(view.phase, Phase::Connecting | Phase::Recovering { .. }));
        let view = match tokio::time::timeout_at(until.into(), waiting).await {
            Ok(Ok(view)) => view.clone(),
            Ok(Err(_)) => return Err("the hub was closed".to_owned()),
            Err(_) => self.view(),
        };
        match (view.phase, view.session, view.catalog) {
            (Phase::Ready, Some(session), Some(catalog)) => Ok((session, catalog)),
            (Phase::Down { reason } | Phase::Recovering { reason }, ..) => {
                Err(with_last_words(reason, &self.stderr()))
            }
            (Phase::Stopped, ..) => Err("it was stopped".to_owned()),
            _ => Err("it is still connecting".to_owned()),
        }
    }

    /// Tells that a session turned out to be of no more use.
    pub(crate) fn lost(&self, session: &Arc<Session>) {
        // Whoever calls next must not get the same session again.
        self.view.send_if_modified(|view| {
            let same = view.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session));
            let is_news = same && view.phase == Phase::Ready;
            if is_news {
                let reason =
                    session.ending().map_or("the connection broke".to_owned(), |ending| ending.to_string());
                view.phase = Phase::Recovering { reason };
            }
            is_news
        });
        // A full inbox means that the task is about to look anyway.
        let _ = self.orders.try_send(Order::Lost);
    }

    /// The last lines it said on stderr.
    pub(crate) fn stderr(&self) -> Vec<String> {
        let view = self.view();
        view.session.map_or(view.stderr, |session| session.stderr_tail())
    }

    pub(crate) fn retry(&self) {
        let _ = self.orders.try_send(Order::Retry);
    }

    pub(crate) async fn stop(&self) {
        let _ = self.orders.send(Order::Stop).await;
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let view = self.view();
        let session = view.session.as_ref();
        let Census { admitted, denied, doubled, idle_patterns } =
            view.catalog.as_ref().map(|catalog| Census::of(catalog, &self.config)).unwrap_or_default();
        ServerStatus {
            name: self.config.name.to_string(),
            phase: view.phase,
            facts: session.map(|session| session.facts().clone()),
            tool_count: admitted,
            denied,
            idle_patterns,
            doubled,
            hint: view.hint,
            quarantined: view.catalog.as_ref().map_or_else(Vec::new, |catalog| catalog.quarantined.clone()),
            cut: view.catalog.as_ref().and_then(|catalog| catalog.cut.clone()),
            stderr: self.stderr(),
            noise: session.map(|session| session.noise()).unwrap_or_default(),
            restarts: view.restarts,
            drifts: Vec::new(),
        }
    }
}
