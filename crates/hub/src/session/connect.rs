//! From an address to a session.
//!
//! The two eras begin differently, and so do the two HTTP transports. What a server speaks is found out by asking: first
//! in the new way, then, on any answer that is not of the new era or on silence, in the old one. The era is worth
//! remembering, for then the right way comes first.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::keep::Keeper;
use super::{ConnectError, Era, Facts, Limit, Session, SessionEvent};
use crate::auth::TokenProvider;
use crate::host::Host;
use crate::tee::Schemas;
use crate::transport::stdio::{self, Process};
use crate::transport::{Ending, Failure, HttpKind, Link, Target, http, sse};
use crate::wire::Client;

/// How long a process may be silent on `server/discover`, once it has read it, before it counts as of the old era.
const PROBE: Duration = Duration::from_secs(2);

/// The same for a server on the network, which may be far away or asleep.
const PROBE_HTTP: Duration = Duration::from_secs(5);

/// How many calls may be given up faster than the server can be told.
const MOST_ABANDONED: usize = 256;

/// What a connection needs beside the address.
#[derive(Clone)]
pub struct ConnectContext {
    /// The server's name, for logs and for the application.
    pub server: String,
    /// Answers what the server asks for.
    pub host: Arc<dyn Host>,
    /// Where changes are told. Its length is the caller's choice; an event that finds it full is dropped.
    pub events: mpsc::Sender<SessionEvent>,
    /// The era of the server, if it is known from before.
    pub era: Option<Era>,
    /// Gives the bearer token of a server on the network.
    pub bearer: Option<Arc<dyn TokenProvider>>,
    /// Our own environment. A process sees no more of it than it needs to run.
    pub environment: Arc<[(OsString, OsString)]>,
    /// How long connecting may take in all, and likewise reading the whole list of tools; what a person takes to log in
    /// does not count.
    pub timeout: Duration,
    /// Ends the attempt early; like any that fails, it leaves no process behind.
    pub stop: CancellationToken,
}

impl Session {
    /// Connects. What comes back is ready for calls; what fails leaves no process behind.
    pub async fn connect(target: &Target, context: ConnectContext) -> Result<Session, ConnectError> {
        let asking = context.bearer.as_ref().and_then(|bearer| bearer.login_in_progress());
        let limit = Limit::new(context.timeout, asking);
        let attempt = Attempt { target, context: &context, limit };
        let connected = match target {
            Target::Stdio { .. } => attempt.process().await?,
            Target::Http { url, kind, .. } => attempt.http(url, *kind).await?,
        };
        let Attempt { limit, .. } = attempt;
        Ok(connected.into_session(context, limit))
    }
}

struct Attempt<'a> {
    target: &'a Target,
    context: &'a ConnectContext,
    limit: Limit,
}

struct Connected {
    running: RunningService<RoleClient, Client>,
    link: Arc<Link>,
    process: Option<Process>,
}

/// Why one way of connecting failed, and whether another one may do better.
struct Failed {
    error: ConnectError,
    /// The server answered late, in the new way.
    woke_late: bool,
    /// The server is there and said something, only not what we hoped for.
    answered: bool,
}

impl Attempt<'_> {
    async fn process(&self) -> Result<Connected, ConnectError> {
        let mut failed = match self.start(self.context.era, PROBE).await {
            Ok(connected) => return Ok(connected),
            Err(failed) => failed,
        };
        // What is remembered may be out of date.
        if self.context.era.is_some() && failed.answered {
            failed = match self.start(None, PROBE).await {
                Ok(connected) => return Ok(connected),
                Err(failed) => failed,
            };
        }
        if failed.woke_late && failed.answered {
            return self.start(Some(Era::Modern), self.context.timeout).await.map_err(|failed| failed.error);
        }
        Err(failed.error)
    }

    async fn start(&self, era: Option<Era>, probe: Duration) -> Result<Connected, Failed> {
        let link = Link::new(&self.context.server, Schemas::Unused);
        let spawned = stdio::spawn(self.target, &self.context.environment, probe, link.clone());
        let (transport, process) =
            spawned.map_err(|error| Failed { error: error.into(), woke_late: false, answered: false })?;
        match self.establish(transport, lifecycle(era), &link).await {
            Ok(running) => Ok(Connected { running, link, process: Some(process) }),
            Err(failed) => {
                // The reason stands on stderr more often than not: wait until it is read.
                process.stop().await;
                Err(with_stderr(failed, link.stderr.lines()))
            }
        }
    }

    async fn http(&self, url: &str, kind: HttpKind) -> Result<Connected, ConnectError> {
        let client = http::Client::new(self.target, self.context.bearer.clone())
            .map_err(|reason| ConnectError::BadAddress { url: url.to_owned(), reason })?;
        if kind == HttpKind::Sse {
            return self.sse(&client).await.map_err(|failed| failed.error);
        }
        let mut failed = match self.streamable(&client, self.context.era).await {
            Ok(connected) => return Ok(connected),
            Err(failed) => failed,
        };
        if self.context.era.is_some() && failed.answered {
            failed = match self.streamable(&client, None).await {
                Ok(connected) => return Ok(connected),
                Err(failed) => failed,
            };
        }
        let is_older = matches!(
            failed.error,
            ConnectError::Failed(Failure::Status { status: 400 | 404 | 405 | 406 | 415 | 422, .. })
        );
        if kind == HttpKind::Auto && is_older {
            return self.sse(&client).await.map_err(|older| match older.error {
                // It has no stream of events: what the newer transport was told is the better reason.
                ConnectError::Failed(Failure::Status { .. } | Failure::WrongContent { .. }) => failed.error,
                reason => reason,
            });
        }
        Err(failed.error)
    }

    async fn streamable(&self, client: &http::Client, era: Option<Era>) -> Result<Connected, Failed> {
        match self.streamable_once(client, era).await {
            // The SDK does not wait for a person: it has long asked in the other way when the answer to its first question
            // comes, and then understands neither. Now that there is a token, nobody needs to be waited for.
            Err(failed)
                if self.limit.stood_still()
                    && matches!(
                        failed.error,
                        ConnectError::Protocol { .. } | ConnectError::Refused { .. }
                    ) =>
            {
                self.streamable_once(client, era).await
            }
            connected => connected,
        }
    }

    async fn streamable_once(&self, client: &http::Client, era: Option<Era>) -> Result<Connected, Failed> {
        let link = Link::new(&self.context.server, Schemas::Needed);
        let transport = http::streamable(client.clone(), PROBE_HTTP, link.clone());
        let running = self.establish(transport, lifecycle(era), &link).await?;
        Ok(Connected { running, link, process: None })
    }

    async fn sse(&self, client: &http::Client) -> Result<Connected, Failed> {
        let link = Link::new(&self.context.server, Schemas::Unused);
        let opened = self.in_time(sse::open(client.clone(), link.clone())).await?;
        let transport = opened.map_err(|failure| Failed::plain(ConnectError::Failed(failure)))?;
        let running = self.establish(transport, ClientLifecycleMode::Initialize, &link).await?;
        Ok(Connected { running, link, process: None })
    }

    async fn establish<T>(
        &self,
        transport: T,
        lifecycle: ClientLifecycleMode,
        link: &Arc<Link>,
    ) -> Result<RunningService<RoleClient, Client>, Failed>
    where
        T: Transport<RoleClient> + 'static,
    {
        let client = Client {
            server: self.context.server.as_str().into(),
            host: self.context.host.clone(),
            events: self.context.events.clone(),
            link: link.clone(),
        };
        let serving = serve_client_with_lifecycle(client, transport, lifecycle);
        let error = match self.in_time(serving).await? {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        let woke_late = link.tee.woke_late();
        let error = explain(error, link).await;
        let answered = matches!(
            error,
            ConnectError::Refused { .. }
                | ConnectError::Protocol { .. }
                | ConnectError::Failed(Failure::Status { .. })
        );
        Err(Failed { error, woke_late, answered })
    }

    /// What comes of a step, unless the time for the whole attempt is over or nobody wants it any more.
    async fn in_time<T>(&self, step: impl Future<Output = T>) -> Result<T, Failed> {
        let stderr = Vec::new();
        tokio::select! {
            done = step => Ok(done),
            () = self.limit.over() => {
                Err(Failed::plain(ConnectError::TimedOut { after: self.limit.time(), stderr }))
            }
            () = self.context.stop.cancelled() => Err(Failed::plain(ConnectError::Stopped)),
        }
    }
}

impl Failed {
    fn plain(error: ConnectError) -> Failed {
        Failed { error, woke_late: false, answered: false }
    }
}

impl Connected {
    fn into_session(self, context: ConnectContext, limit: Limit) -> Session {
        let Connected { running, link, process } = self;
        let peer = running.peer().clone();
        let facts = facts(&link, peer.peer_info().map(|info| info.protocol_version.to_string()));
        let tells_changes =
            facts.capabilities.pointer("/tools/listChanged").and_then(Value::as_bool) == Some(true);
        let stop = CancellationToken::new();
        let (abandoned, given_up) = mpsc::channel(MOST_ABANDONED);
        let keeper = Keeper {
            running,
            process,
            link: link.clone(),
            abandoned: given_up,
            stop: stop.clone(),
            subscriber: (facts.era == Era::Modern && tells_changes).then_some(context.events),
        };
        Session {
            server: context.server.into(),
            host: context.host,
            facts,
            peer,
            link,
            abandoned,
            unheard: Default::default(),
            list_timeout: context.timeout,
            limit,
            asking: context.bearer.as_ref().and_then(|bearer| bearer.login_in_progress()),
            stop,
            keeper: Mutex::new(Some(tokio::spawn(keeper.keep()))),
        }
    }
}

fn lifecycle(era: Option<Era>) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        Some(Era::Legacy) => ClientLifecycleMode::Initialize,
        Some(Era::Modern) => ClientLifecycleMode::Discover { preferred_versions },
        None => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

fn facts(link: &Link, protocol: Option<String>) -> Facts {
    let handshake = link.tee.handshake();
    let (discovered, result) =
        handshake.map_or((false, Value::Null), |shake| (shake.discovered, shake.result));
    let server_info = match discovered {
        true => {
            result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").or_else(|| result.get("serverInfo"))
        }
        false => result.get("serverInfo"),
    };
    Facts {
        server_info: server_info.cloned().unwrap_or_default(),
        protocol: protocol.unwrap_or_default(),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        era: if discovered { Era::Modern } else { Era::Legacy },
    }
}

async fn explain(error: ClientInitializeError, link: &Link) -> ConnectError {
    const ENDING: Duration = Duration::from_secs(1);
    let stderr = Vec::new();
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(explain(*fallback, link)).await
        }
        ClientInitializeError::JsonRpcError(error) => ConnectError::Refused {
            code: error.code.0.into(),
            message: error.message.into_owned(),
            data: error.data,
            stderr,
        },
        error => {
            if let Some(failure) = link.last_failure() {
                return ConnectError::Failed(failure);
            }
            // A process that is about to end tells more than the pipe that broke.
            let broke = matches!(
                error,
                ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
            );
            if broke
                && let Ok(ending) = timeout(ENDING, link.ended()).await
                && ending != Ending::Closed
            {
                return ConnectError::Ended { ending, stderr };
            }
            let mut reason = error.to_string();
            if let Some((cut, _)) = reason.char_indices().nth(300) {
                reason.truncate(cut);
                reason.push('…');
            }
            ConnectError::Protocol { reason, stderr }
        }
    }
}

fn with_stderr(mut failed: Failed, lines: Vec<String>) -> Failed {
    if let ConnectError::TimedOut { stderr, .. }
    | ConnectError::Ended { stderr, .. }
    | ConnectError::Refused { stderr, .. }
    | ConnectError::Protocol { stderr, .. } = &mut failed.error
    {
        *stderr = lines;
    }
    failed
}
