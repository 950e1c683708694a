//! The background task of one server: connects it, watches its session and restarts it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use toolwire_contract::offers::{OfferChange, OfferKind};

use super::refresh_limit::RefreshLimit;
use super::restart::{RestartEvent, RestartMachine, RestartPolicy, RestartState};
use super::start_queue::StartQueue;
use super::{Server, ServerSnapshot, SupervisorCommand};
use crate::allowed_hosts::AllowedHosts;
use crate::catalog::Catalog;
use crate::config::{SentSecrets, Transport};
use crate::host::Host;
use crate::session::{
    ConnectContext, ConnectFailure, OnSlowStart, ProtocolEra, Session, SessionError, SessionEvent, SlowStart,
};
use crate::status::{Attempt, Phase, StartProgress};

/// The limits of how often a tool list is refreshed, for any TTL that a server states.
const MIN_TTL: Duration = Duration::from_secs(5);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// Change notifications within this time lead to one refresh.
const DEBOUNCE: Duration = Duration::from_millis(50);

const EVENT_QUEUE_LENGTH: usize = 8;

const RESTART_REASON: &str = "a user restarted it";

/// The parts of the hub that the task of a server needs.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) environment: Arc<[(OsString, OsString)]>,
    pub(crate) guard: Option<Arc<Path>>,
    pub(crate) allowed_hosts: Option<Arc<AllowedHosts>>,
    pub(crate) start_queue: Arc<StartQueue>,
    /// Notifies the hub that something about the server has changed.
    pub(crate) changed: mpsc::Sender<()>,
    /// Receives the changes of prompts and resources.
    pub(crate) offer_changes: broadcast::Sender<OfferChange>,
}

impl ServerContext {
    fn notify_hub(&self) {
        // If the queue is full, the hub will check all servers anyway.
        let _ = self.changed.try_send(());
    }

    fn report_offers(&self, change: OfferChange) {
        // The error means that there is no receiver, so nothing is lost.
        let _ = self.offer_changes.send(change);
    }
}

/// Runs the server until it is stopped.
pub(crate) async fn supervise(
    server: Arc<Server>,
    mut inbox: mpsc::Receiver<SupervisorCommand>,
    context: ServerContext,
) {
    let mut machine = RestartMachine::new(RestartPolicy::default());
    let mut era = None;
    loop {
        let (event, stderr, hint, needs_login) = match connect(&server, &context, &mut era, &mut inbox).await
        {
            ConnectOutcome::Stopped => break,
            ConnectOutcome::Failed { reason, stderr, is_permanent, hint, needs_login } => {
                // The server may have repeated what it was sent.
                let reason = server.config.redact(reason);
                let hint = hint.map(|hint| server.config.redact(hint));
                (RestartEvent::ConnectFailed { reason, is_permanent }, stderr, hint, needs_login)
            }
            ConnectOutcome::Ready(session, events) => {
                machine.handle(RestartEvent::Connected, Instant::now(), random_fraction());
                match watch_session(&server, &context, session, events, &mut inbox).await {
                    SessionOutcome::Stopped => break,
                    SessionOutcome::RestartRequested => {
                        machine = RestartMachine::new(RestartPolicy::default());
                        server.snapshot.send_modify(|snapshot| {
                            // Its tools stay in the list, so that prompt caches remain valid.
                            snapshot.enter(Phase::Recovering { reason: RESTART_REASON.to_owned() });
                            snapshot.session = None;
                            snapshot.attempt = Attempt::Running;
                            snapshot.restarts += 1;
                        });
                        context.notify_hub();
                        continue;
                    }
                    SessionOutcome::Ended { reason, stderr } => {
                        let reason = server.config.redact(reason);
                        (RestartEvent::Died { reason }, stderr, None, false)
                    }
                }
            }
        };
        let now = Instant::now();
        machine.handle(event, now, random_fraction());
        let at = |until: Instant| Attempt::At(SystemTime::now() + until.saturating_duration_since(now));
        let (phase, attempt) = match machine.state() {
            RestartState::BackingOff { reason, until } => {
                (Phase::Recovering { reason: reason.clone() }, at(*until))
            }
            RestartState::CircuitOpen { reason, until } => {
                (Phase::Down { reason: reason.clone() }, until.map_or(Attempt::OnRequest, at))
            }
            RestartState::Connecting { .. } | RestartState::Ready { .. } => break,
        };
        tracing::warn!(target: "toolwire::hub::status", server = %server.config.name, ?phase);
        server.snapshot.send_modify(|snapshot| {
            snapshot.enter(phase);
            snapshot.session = None;
            snapshot.stderr = stderr;
            snapshot.hint = hint;
            snapshot.needs_login = needs_login;
            snapshot.attempt = attempt;
            snapshot.restarts += 1;
        });
        context.notify_hub();
        let stored_token = async {
            match server.token_provider.as_ref().filter(|_| needs_login) {
                Some(token_provider) => token_provider.stored_token().await,
                None => std::future::pending().await,
            }
        };
        if !wait_for_restart(&mut machine, &mut inbox, stored_token).await {
            break;
        }
        server.snapshot.send_modify(|snapshot| snapshot.attempt = Attempt::Running);
    }
    server.snapshot.send_modify(|snapshot| {
        snapshot.enter(Phase::Stopped);
        snapshot.session = None;
    });
    context.notify_hub();
}

enum ConnectOutcome {
    Ready(Arc<Session>, mpsc::Receiver<SessionEvent>),
    Failed {
        reason: String,
        stderr: Vec<String>,
        is_permanent: bool,
        hint: Option<String>,
        needs_login: bool,
    },
    Stopped,
}

/// The reason why a session is over.
enum SessionOutcome {
    Ended { reason: String, stderr: Vec<String> },
    RestartRequested,
    Stopped,
}

async fn connect(
    server: &Server,
    context: &ServerContext,
    era: &mut Option<ProtocolEra>,
    inbox: &mut mpsc::Receiver<SupervisorCommand>,
) -> ConnectOutcome {
    let (events, event_receiver) = mpsc::channel(EVENT_QUEUE_LENGTH);
    let stop = CancellationToken::new();
    let connect_context = ConnectContext {
        server: server.config.name.to_string(),
        host: context.host.clone(),
        events,
        era: *era,
        token_provider: server.token_provider.clone(),
        environment: context.environment.clone(),
        guard: context.guard.clone(),
        allowed_hosts: context.allowed_hosts.clone(),
        secrets: SentSecrets::new(&server.config.transport),
        timeout: server.config.connect_timeout,
        on_slow_start: server.config.extends_connect_timeout.then(|| -> OnSlowStart {
            let snapshot = server.snapshot.clone();
            Arc::new(move |reason| {
                let start = match reason {
                    SlowStart::Installing => StartProgress::Installing,
                    SlowStart::BusyProcessor => StartProgress::BusyProcessor,
                };
                set_start(&snapshot, start);
            })
        }),
        stop: stop.clone(),
    };
    let is_process = matches!(server.config.transport, Transport::Stdio { .. });
    let connecting = async {
        // The timeout of the server begins when it is started. Dropped when the server is ready or has
        // failed.
        let _permit = match is_process {
            true => {
                set_start(&server.snapshot, StartProgress::Waiting);
                stop.run_until_cancelled(context.start_queue.enter()).await
            }
            false => None,
        };
        set_start(&server.snapshot, StartProgress::Started);
        let session = Session::connect(&server.config.transport, connect_context).await?;
        let listed = stop.run_until_cancelled(session.list_tools_initially()).await;
        Ok::<_, ConnectFailure>((session, listed))
    };
    tokio::pin!(connecting);
    let connected = loop {
        tokio::select! {
            connected = &mut connecting => break connected,
            command = inbox.recv(), if !stop.is_cancelled() => match command {
                // The attempt is cancelled and awaited, not dropped, so that its process has ended
                // afterwards.
                None | Some(SupervisorCommand::Stop) => stop.cancel(),
                Some(_) => {}
            },
        }
    };
    let (session, listed) = match connected {
        _ if stop.is_cancelled() => {
            if let Ok((session, _)) = connected {
                session.close().await;
            }
            return ConnectOutcome::Stopped;
        }
        Ok((_, None)) => return ConnectOutcome::Stopped,
        Ok((session, Some(listed))) => (session, listed),
        Err(failure) => {
            // The known era may be the cause.
            *era = None;
            let hint = failure.hint();
            let ConnectFailure { error, stderr, .. } = failure;
            let (reason, is_permanent) = (error.to_string(), error.is_permanent());
            let needs_login = error.needs_token();
            return ConnectOutcome::Failed { reason, stderr, is_permanent, hint, needs_login };
        }
    };
    match listed {
        Ok(listing) => {
            *era = Some(session.info().era);
            let (session, catalog) = (Arc::new(session), Arc::new(Catalog::new(listing)));
            server.snapshot.send_modify(|snapshot| {
                snapshot.enter(Phase::Ready);
                snapshot.needs_login = false;
                snapshot.session = Some(session.clone());
                snapshot.catalog = Some(catalog);
                snapshot.stderr = Vec::new();
                snapshot.hint = None;
            });
            context.notify_hub();
            for (kind, change) in
                [(OfferKind::Prompt, OfferChange::Prompts), (OfferKind::Resource, OfferChange::Resources)]
            {
                if session.offers(kind) {
                    context.report_offers(change);
                }
            }
            ConnectOutcome::Ready(session, event_receiver)
        }
        Err(error) => {
            let stderr = session.stderr_tail();
            session.close().await;
            let (reason, hint) = match &error {
                SessionError::TimedOut { after } => (
                    format!("listing its tools took longer than {after:?}"),
                    Some("increase its `timeout`".to_owned()),
                ),
                SessionError::Failed(failure) => {
                    (format!("cannot list its tools: {failure}"), failure.hint())
                }
                error => (format!("cannot list its tools: {error}"), None),
            };
            let needs_login = matches!(&error, SessionError::Failed(failure) if failure.needs_token());
            ConnectOutcome::Failed { reason, stderr, is_permanent: false, hint, needs_login }
        }
    }
}

fn set_start(snapshot: &watch::Sender<ServerSnapshot>, start: StartProgress) {
    snapshot.send_if_modified(|snapshot| std::mem::replace(&mut snapshot.start, start) != start);
}

/// Watches a session until it is over.
async fn watch_session(
    server: &Server,
    context: &ServerContext,
    session: Arc<Session>,
    events: mpsc::Receiver<SessionEvent>,
    inbox: &mut mpsc::Receiver<SupervisorCommand>,
) -> SessionOutcome {
    let mut refreshing = std::pin::pin!(refresh_tools(server, context, &session, events));
    let reason = loop {
        tokio::select! {
            end = session.ended() => break Ok(end.to_string()),
            command = inbox.recv() => match command {
                None | Some(SupervisorCommand::Stop) => break Err(SessionOutcome::Stopped),
                Some(SupervisorCommand::Restart) => break Err(SessionOutcome::RestartRequested),
                // Any command is a reason to check for a session that a call found unusable, because
                // `SessionFailed` is dropped if the queue is full.
                Some(_) => {
                    if let Phase::Recovering { reason } = server.snapshot().phase {
                        break Ok(reason);
                    }
                }
            },
            () = &mut refreshing => return SessionOutcome::Stopped,
        }
    };
    let stderr = session.stderr_tail();
    session.close().await;
    match reason {
        Ok(reason) => SessionOutcome::Ended { reason, stderr },
        Err(outcome) => outcome,
    }
}

/// Refreshes the tool list whenever it is outdated. It never returns, and can be dropped at any time, because
/// a server that is slow to list its tools must not be slow to stop.
async fn refresh_tools(
    server: &Server,
    context: &ServerContext,
    session: &Session,
    mut events: mpsc::Receiver<SessionEvent>,
) {
    let mut has_events = true;
    let mut limit = RefreshLimit::new(MIN_TTL);
    loop {
        let ttl = server.snapshot.borrow().catalog.as_ref().and_then(|catalog| catalog.ttl);
        let expired = async {
            match ttl {
                Some(ttl) => sleep(ttl.clamp(MIN_TTL, MAX_TTL)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv(), if has_events => {
                has_events = event.is_some();
                match event {
                    Some(SessionEvent::ToolsChanged) => {}
                    Some(SessionEvent::OffersChanged(change)) => {
                        context.report_offers(change);
                        continue;
                    }
                    None => continue,
                }
            }
            () = expired => {}
        }
        sleep(DEBOUNCE).await;
        sleep_until(limit.next(Instant::now()).into()).await;
        while let Ok(event) = events.try_recv() {
            if let SessionEvent::OffersChanged(change) = event {
                context.report_offers(change);
            }
        }
        match session.list_tools().await {
            Ok(listing) => {
                let catalog = Arc::new(Catalog::new(listing));
                server.snapshot.send_modify(|snapshot| snapshot.catalog = Some(catalog));
                context.notify_hub();
            }
            // The old list stays in use.
            Err(error) => {
                let reason = server.config.redact(error.to_string());
                tracing::warn!(target: "toolwire::hub", server = %server.config.name, "cannot refresh its tools: {reason}");
                sleep(MIN_TTL).await;
            }
        }
    }
}

/// Waits until the server is to be connected again, for example because `stored_token` ends: another process
/// has logged in to the server. Returns false if the server is stopped instead.
async fn wait_for_restart(
    machine: &mut RestartMachine,
    inbox: &mut mpsc::Receiver<SupervisorCommand>,
    stored_token: impl Future<Output = ()>,
) -> bool {
    let mut stored_token = std::pin::pin!(stored_token);
    loop {
        let until = match machine.state() {
            RestartState::BackingOff { until, .. } => Some(*until),
            RestartState::CircuitOpen { until, .. } => *until,
            RestartState::Connecting { .. } => return true,
            RestartState::Ready { .. } => return false,
        };
        let timer = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            () = timer => RestartEvent::Timer,
            // This event ends the wait in every state, so the future is not polled again.
            () = &mut stored_token => RestartEvent::RetryRequested,
            command = inbox.recv() => match command {
                None | Some(SupervisorCommand::Stop) => return false,
                Some(SupervisorCommand::Retry | SupervisorCommand::Restart) => RestartEvent::RetryRequested,
                Some(SupervisorCommand::CallWaiting) => RestartEvent::CallWaiting,
                Some(SupervisorCommand::SessionFailed) => continue,
            },
        };
        machine.handle(event, Instant::now(), random_fraction());
    }
}

/// Returns a random number between 0 and 1 that need not be secret.
fn random_fraction() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}
