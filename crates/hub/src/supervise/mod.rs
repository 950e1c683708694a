//! The lifecycle of one server: connected, watched, restarted.
//!
//! A [`Server`] is the handle for the rest of the hub: its status, and its session while there is one. Its
//! background task is in [`task`]; [`restart`] decides when to connect again.

mod refresh_limit;
mod restart;
mod start_queue;
mod task;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::auth::TokenProvider;
use crate::call_times::CallTimes;
use crate::catalog::{Catalog, ToolSummary};
use crate::config::ServerConfig;
use crate::pins::Drift;
use crate::session::Session;
use crate::status::{Attempt, Phase, ServerStatus, StartProgress};
use crate::stderr_tail::with_stderr;

pub(crate) use start_queue::StartQueue;
pub(crate) use task::{ServerContext, supervise};

const COMMAND_QUEUE_LENGTH: usize = 16;

/// One configured server.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) token_provider: Option<Arc<dyn TokenProvider>>,
    pub(crate) snapshot: watch::Sender<ServerSnapshot>,
    pub(crate) call_times: CallTimes,
    commands: mpsc::Sender<SupervisorCommand>,
}

/// The state of a server at one moment.
#[derive(Clone)]
pub(crate) struct ServerSnapshot {
    pub(crate) phase: Phase,
    /// When the phase began.
    since: SystemTime,
    pub(crate) session: Option<Arc<Session>>,
    /// The last listed tools. They stay known while the server is restarted.
    pub(crate) catalog: Option<Arc<Catalog>>,
    start: StartProgress,
    stderr: Vec<String>,
    /// The next thing to try if the server is unavailable.
    hint: Option<String>,
    /// Whether the server requires a token, and there is none.
    needs_login: bool,
    attempt: Attempt,
    restarts: u32,
}

#[derive(Debug)]
pub(crate) enum SupervisorCommand {
    /// A call found that the session has failed, and noted it in the snapshot.
    SessionFailed,
    /// A call waits for the server.
    CallWaiting,
    /// Connect now, even if the circuit is open.
    Retry,
    /// End the session, and connect again.
    Restart,
    Stop,
}

impl ServerSnapshot {
    fn new() -> ServerSnapshot {
        ServerSnapshot {
            phase: Phase::Connecting,
            since: SystemTime::now(),
            session: None,
            catalog: None,
            start: StartProgress::default(),
            stderr: Vec::new(),
            hint: None,
            needs_login: false,
            attempt: Attempt::Running,
            restarts: 0,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.since = SystemTime::now();
    }
}

impl Server {
    pub(crate) fn new(
        config: ServerConfig,
        token_provider: Option<Arc<dyn TokenProvider>>,
    ) -> (Arc<Server>, mpsc::Receiver<SupervisorCommand>) {
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE_LENGTH);
        let snapshot = watch::Sender::new(ServerSnapshot::new());
        let call_times = CallTimes::default();
        (Arc::new(Server { config, token_provider, snapshot, call_times, commands }), inbox)
    }

    pub(crate) fn snapshot(&self) -> ServerSnapshot {
        self.snapshot.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<ServerSnapshot> {
        self.snapshot.subscribe()
    }

    /// Returns the session and its tools, and waits for them while the server is connecting. `Err` is the
    /// reason why the server is unavailable.
    pub(crate) async fn ready(&self, until: Instant) -> Result<(Arc<Session>, Arc<Catalog>), String> {
        let mut watch = self.watch();
        if matches!(watch.borrow().phase, Phase::Recovering { .. }) {
            let _ = self.commands.try_send(SupervisorCommand::CallWaiting);
        }
        let waiting = watch
            .wait_for(|snapshot| !matches!(snapshot.phase, Phase::Connecting | Phase::Recovering { .. }));
        let snapshot = match tokio::time::timeout_at(until.into(), waiting).await {
            Ok(Ok(snapshot)) => snapshot.clone(),
            Ok(Err(_)) => return Err("the hub is closed".to_owned()),
            Err(_) => self.snapshot(),
        };
        match (snapshot.phase, snapshot.session, snapshot.catalog) {
            (Phase::Ready, Some(session), Some(catalog)) => Ok((session, catalog)),
            (phase, ..) => Err(self.explain(&phase).unwrap_or_else(|| "it has no session".to_owned())),
        }
    }

    /// Returns why the server is unavailable, with its last stderr lines; `None` if it is ready.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        self.explain(&self.snapshot().phase)
    }

    fn explain(&self, phase: &Phase) -> Option<String> {
        Some(with_stderr(phase.unavailable_reason()?, &self.stderr()))
    }

    /// Reports that a call found the session unusable.
    pub(crate) fn session_failed(&self, session: &Arc<Session>) {
        // The next call must not get the same session again.
        self.snapshot.send_if_modified(|snapshot| {
            let is_current = snapshot.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session));
            let is_new = is_current && snapshot.phase == Phase::Ready;
            if is_new {
                let reason = session.end().map_or("the connection failed".to_owned(), |end| end.to_string());
                let reason = self.config.redact(reason);
                snapshot.enter(Phase::Recovering { reason });
            }
            is_new
        });
        // If the queue is full, the task will check the snapshot anyway.
        let _ = self.commands.try_send(SupervisorCommand::SessionFailed);
    }

    fn stderr(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        snapshot.session.map_or(snapshot.stderr, |session| session.stderr_tail())
    }

    pub(crate) fn retry(&self) {
        if let Some(token_provider) = &self.token_provider {
            token_provider.allow_login();
        }
        let _ = self.commands.try_send(SupervisorCommand::Retry);
    }

    pub(crate) fn restart(&self) {
        if let Some(token_provider) = &self.token_provider {
            token_provider.allow_login();
        }
        let _ = self.commands.try_send(SupervisorCommand::Restart);
    }

    /// Returns the current or the next attempt; `None` if the server is ready or stopped.
    fn attempt(&self, snapshot: &ServerSnapshot) -> Option<Attempt> {
        if matches!(snapshot.phase, Phase::Ready | Phase::Stopped) {
            return None;
        }
        let login =
            self.token_provider.as_ref().and_then(|token_provider| token_provider.login_in_progress());
        Some(match login {
            Some(login) if *login.borrow() => Attempt::LoggingIn,
            Some(_) if snapshot.needs_login && snapshot.attempt != Attempt::Running => Attempt::NeedsLogin,
            _ => snapshot.attempt,
        })
    }

    pub(crate) async fn stop(&self) {
        let _ = self.commands.send(SupervisorCommand::Stop).await;
    }

    pub(crate) fn status(&self, drifts: Vec<Drift>) -> ServerStatus {
        let snapshot = self.snapshot();
        let (session, catalog) = (snapshot.session.as_ref(), snapshot.catalog.as_ref());
        let ToolSummary { allowed, denied, duplicates, unused_patterns } =
            catalog.map(|catalog| ToolSummary::new(catalog, &self.config)).unwrap_or_default();
        let is_withheld = |drift: &&Drift| drift.is_blocked && self.config.allows_tool(&drift.tool);
        ServerStatus {
            name: self.config.name.to_string(),
            transport: self.config.transport.kind(),
            address: self.config.transport.address(),
            since: snapshot.since,
            attempt: self.attempt(&snapshot),
            calls: self.call_times.statistics(),
            phase: snapshot.phase,
            start: snapshot.start,
            info: session.map(|session| session.info().clone()),
            tool_count: allowed.saturating_sub(drifts.iter().filter(is_withheld).count()),
            denied,
            unused_patterns,
            duplicates,
            hint: snapshot.hint,
            quarantined: catalog.map_or_else(Vec::new, |catalog| catalog.quarantined.clone()),
            incomplete: catalog.and_then(|catalog| catalog.incomplete.clone()),
            stderr: self.stderr(),
            ignored_output: session.map(|session| session.ignored_output()).unwrap_or_default(),
            restarts: snapshot.restarts,
            drifts,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;

    use super::*;
    use crate::Secret;
    use crate::auth::AuthError;
    use crate::config::{ServerName, Transport};

    struct UserLogin(watch::Sender<bool>);

    impl TokenProvider for UserLogin {
        fn token<'a>(
            &'a self,
            _challenge: Option<&'a str>,
        ) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
            Box::pin(std::future::ready(Ok(None)))
        }

        fn login_in_progress(&self) -> Option<watch::Receiver<bool>> {
            Some(self.0.subscribe())
        }
    }

    #[test]
    fn the_attempt_says_whether_the_user_must_log_in() {
        let name = ServerName::new("a").expect("a valid name");
        let transport =
            Transport::Stdio { command: "a".into(), args: Vec::new(), env: Vec::new(), cwd: None };
        let login = Arc::new(UserLogin(watch::Sender::new(false)));
        let (server, _inbox) = Server::new(ServerConfig::new(name, transport), Some(login.clone()));
        let attempt = || server.status(Vec::new()).attempt;
        assert_eq!(attempt(), Some(Attempt::Running));
        login.0.send_replace(true);
        assert_eq!(attempt(), Some(Attempt::LoggingIn));
        login.0.send_replace(false);
        server.snapshot.send_modify(|snapshot| {
            snapshot.enter(Phase::Down { reason: "no token".to_owned() });
            snapshot.attempt = Attempt::OnRequest;
        });
        assert_eq!(attempt(), Some(Attempt::OnRequest));
        server.snapshot.send_modify(|snapshot| snapshot.needs_login = true);
        assert_eq!(attempt(), Some(Attempt::NeedsLogin));
        server.snapshot.send_modify(|snapshot| snapshot.enter(Phase::Ready));
        assert_eq!(attempt(), None);
    }
}
