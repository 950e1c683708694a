//! The task that keeps one server alive.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::state::{Event, Machine, Policy, State};
use super::{Order, Phase, Server};
use crate::auth::TokenProvider;
use crate::catalog::Catalog;
use crate::config::Transport;
use crate::host::Host;
use crate::session::{ConnectContext, Era, Session, SessionError, SessionEvent};
use crate::transport::Target;

/// A list is not read again more often than this, whatever a server says.
const SHORTEST_TTL: Duration = Duration::from_secs(5);
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// Notifications that come together lead to one reading.
const SETTLE: Duration = Duration::from_millis(50);

/// What a server needs from outside.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) bearer: Option<Arc<dyn TokenProvider>>,
    pub(crate) environment: Arc<[(OsString, OsString)]>,
    /// Told whenever something about the server has changed.
    pub(crate) changed: mpsc::Sender<()>,
}

/// Keeps the server alive until it is told to stop.
pub(crate) async fn keep(server: Arc<Server>, mut inbox: mpsc::Receiver<Order>, outside: Outside) {
    let (mut machine, _) = Machine::start(Policy::default());
    let mut era = None;
    loop {
        let (event, stderr, hint) = match connect(&server, &outside, &mut era, &mut inbox).await {
            Connected::Stopped => break,
            Connected::Failed { reason, stderr, permanent, hint } => {
                (Event::ConnectFailed { reason, permanent }, stderr, hint)
            }
            Connected::Ready(session, events) => {
                machine.step(Event::Connected, Instant::now(), luck());
                match serve(&server, &outside, session, events, &mut inbox).await {
                    None => break,
                    Some((reason, stderr)) => (Event::Died { reason }, stderr, None),
                }
            }
        };
        machine.step(event, Instant::now(), luck());
        let phase = match machine.state() {
            State::BackingOff { reason, .. } => Phase::Recovering { reason: reason.clone() },
            State::Broken { reason, .. } => Phase::Down { reason: reason.clone() },
            _ => break,
        };
        tracing::warn!(target: "toolwire::hub::status", server = %server.config.name, ?phase);
        server.view.send_modify(|view| {
            view.phase = phase;
            view.session = None;
            view.stderr = stderr;
            view.hint = hint;
            view.restarts += 1;
        });
        told(&outside);
        if !pause(&mut machine, &mut inbox).await {
            break;
        }
    }
    server.view.send_modify(|view| {
        view.phase = Phase::Stopped;
        view.session = None;
    });
    told(&outside);
}

enum Connected {
    Ready(Arc<Session>, mpsc::Receiver<SessionEvent>),
    Failed { reason: String, stderr: Vec<String>, permanent: bool, hint: Option<String> },
    Stopped,
}

async fn connect(
    server: &Server,
    outside: &Outside,
    era: &mut Option<Era>,
    inbox: &mut mpsc::Receiver<Order>,
) -> Connected {
    let (events, received) = mpsc::channel(8);
    let stop = CancellationToken::new();
    let context = ConnectContext {
        server: server.config.name.to_string(),
        host: outside.host.clone(),
        events,
        era: *era,
        bearer: outside.bearer.clone(),
        environment: outside.environment.clone(),
        timeout: server.config.connect_timeout,
        stop: stop.clone(),
    };
    let target = target(&server.config.transport);
    let connecting = async {
        let session = Session::connect(&target, context).await.map_err(|error| {
            (error.to_string(), error.stderr().to_vec(), error.is_permanent(), error.hint())
        })?;
        let listed = stop.run_until_cancelled(session.first_list()).await;
        Ok((session, listed))
    };
    tokio::pin!(connecting);
    let connected = loop {
        tokio::select! {
            connected = &mut connecting => break connected,
            order = inbox.recv(), if !stop.is_cancelled() => match order {
                // The attempt is not dropped but ended: a process that it started is gone when it comes back.
                None | Some(Order::Stop) => stop.cancel(),
                Some(Order::Lost | Order::Retry | Order::Wanted) => {}
            },
        }
    };
    let (session, listed) = match connected {
        _ if stop.is_cancelled() => {
            if let Ok((session, _)) = connected {
                session.close().await;
            }
            return Connected::Stopped;
        }
        Ok((_, None)) => return Connected::Stopped,
        Ok((session, Some(listed))) => (session, listed),
        Err((reason, stderr, permanent, hint)) => {
            // What was remembered may be what is wrong.
            *era = None;
            return Connected::Failed { reason, stderr, permanent, hint };
        }
    };
    match listed {
        Ok(listing) => {
            *era = Some(session.facts().era);
            let (session, catalog) = (Arc::new(session), Arc::new(Catalog::read(listing)));
            server.view.send_modify(|view| {
                view.phase = Phase::Ready;
                view.session = Some(session.clone());
                view.catalog = Some(catalog);
                view.stderr = Vec::new();
                view.hint = None;
            });
            told(outside);
            Connected::Ready(session, received)
        }
        Err(error) => {
            let stderr = session.stderr_tail();
            session.close().await;
            let (reason, hint) = match error {
                SessionError::TimedOut { after } => (
                    format!("it did not list its tools within {after:?}"),
                    Some("raise its `timeout`".to_owned()),
                ),
                SessionError::Failed(failure) => {
                    (format!("its tools cannot be listed: {failure}"), failure.hint())
                }
                error => (format!("its tools cannot be listed: {error}"), None),
            };
            Connected::Failed { reason, stderr, permanent: false, hint }
        }
    }
}

/// Watches over a session. `None`: it was stopped; else why it ended.
async fn serve(
    server: &Server,
    outside: &Outside,
    session: Arc<Session>,
    events: mpsc::Receiver<SessionEvent>,
    inbox: &mut mpsc::Receiver<Order>,
) -> Option<(String, Vec<String>)> {
    let mut refreshing = std::pin::pin!(refresh(server, outside, &session, events));
    loop {
        tokio::select! {
            ending = session.closed() => {
                let stderr = session.stderr_tail();
                session.close().await;
                return Some((ending.to_string(), stderr));
            }
            order = inbox.recv() => match order {
                None | Some(Order::Stop) => {
                    session.close().await;
                    return None;
                }
                // Whatever the order, a session that a call has found wanting is at its end: an order that found the
                // inbox full is not repeated.
                Some(_) => {
                    let Phase::Recovering { reason } = server.view().phase else { continue };
                    let stderr = session.stderr_tail();
                    session.close().await;
                    return Some((reason, stderr));
                }
            },
            () = &mut refreshing => return None,
        }
    }
}

/// Reads the list again whenever it is out of date. It does not come back, and may be dropped at any time: a server that
/// is slow to list must not be slow to stop.
async fn refresh(
    server: &Server,
    outside: &Outside,
    session: &Session,
    mut events: mpsc::Receiver<SessionEvent>,
) {
    let mut has_events = true;
    loop {
        let ttl = server.view.borrow().catalog.as_ref().and_then(|catalog| catalog.ttl);
        let expired = async {
            match ttl {
                Some(ttl) => sleep(ttl.clamp(SHORTEST_TTL, LONGEST_TTL)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv(), if has_events => {
                has_events = event.is_some();
                if !has_events {
                    continue;
                }
            }
            () = expired => {}
        }
        sleep(SETTLE).await;
        while events.try_recv().is_ok() {}
        match session.list_tools().await {
            Ok(listing) => {
                let catalog = Arc::new(Catalog::read(listing));
                server.view.send_modify(|view| view.catalog = Some(catalog));
                told(outside);
            }
            // The old list stands.
            Err(error) => {
                tracing::warn!(target: "toolwire::hub", server = %server.config.name, "its tools cannot be listed again: {error}");
                sleep(SHORTEST_TTL).await;
            }
        }
    }
}

/// Waits until the machine wants another attempt. False: stop.
async fn pause(machine: &mut Machine, inbox: &mut mpsc::Receiver<Order>) -> bool {
    loop {
        let until = match machine.state() {
            State::BackingOff { until, .. } => Some(*until),
            State::Broken { until, .. } => *until,
            State::Connecting { .. } => return true,
            State::Ready { .. } | State::Stopped => return false,
        };
        let waited = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            () = waited => Event::Timer,
            order = inbox.recv() => match order {
                None | Some(Order::Stop) => return false,
                Some(Order::Retry) => Event::RetryNow,
                Some(Order::Wanted) => Event::CallWanted,
                Some(Order::Lost) => continue,
            },
        };
        machine.step(event, Instant::now(), luck());
    }
}

fn told(outside: &Outside) {
    // One word in the queue is enough: whoever reads it looks at everything.
    let _ = outside.changed.try_send(());
}

fn target(transport: &Transport) -> Target {
    match transport {
        Transport::Stdio { command, args, env, cwd } => {
            Target::Stdio { command: command.clone(), args: args.clone(), env: env.clone(), cwd: cwd.clone() }
        }
        Transport::Http { url, headers, kind, .. } => {
            Target::Http { url: url.to_string(), headers: headers.clone(), kind: *kind }
        }
    }
}

/// Something between 0 and 1. It need not be secret, only different.
fn luck() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}
