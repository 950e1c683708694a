//! Connects to a server.
//!
//! The two protocol eras start differently, and so do the two HTTP transports. The client probes a new server
//! with `server/discover`. If the response is not from a modern server, or there is none, it falls back to
//! `initialize`. A server whose era is known needs no probe.

mod explain;

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolwire_contract::Secret;

use super::early_requests::EarlyRequests;
use super::error::{ConnectError, ConnectFailure};
use super::start_extension::{OnSlowStart, StartExtension};
use super::task::{SessionTask, Subscriber};
use super::{PausableDeadline, ProtocolEra, ServerInfo, Session, SessionEvent};
use crate::allowed_hosts::AllowedHosts;
use crate::auth::TokenProvider;
use crate::client_service::ClientService;
use crate::config::{SentSecrets, Transport, redact_url};
use crate::host::Host;
use crate::raw_capture::{IgnoredOutput, SdkSchemas};
use crate::transport::http::{HttpClient, max_message_bytes};
use crate::transport::stdio::{self, ServerCommand, ServerProcess};
use crate::transport::{Connection, HttpKind, TransportFailure, http, sse};
use explain::explain;

/// The maximum time that a process may take to respond to `server/discover` after reading it, before it is
/// treated as legacy.
const STDIO_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The same for a remote server, which may be distant or have to wake up.
const HTTP_PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of abandoned calls that wait until the server is notified.
const MAX_ABANDONED_CALLS: usize = 256;

/// The data that a connection needs in addition to the transport.
#[derive(Clone)]
pub(crate) struct ConnectContext {
    /// The server's name, for logs and for the application.
    pub(crate) server: String,
    pub(crate) host: Arc<dyn Host>,
    /// Receives events. An event is dropped if the channel is full.
    pub(crate) events: mpsc::Sender<SessionEvent>,
    /// The era of the server, if known.
    pub(crate) era: Option<ProtocolEra>,
    pub(crate) token_provider: Option<Arc<dyn TokenProvider>>,
    /// Our own environment, of which a process receives only the necessary variables.
    pub(crate) environment: Arc<[(OsString, OsString)]>,
    /// See [`HubOptions::guard`](crate::HubOptions::guard).
    pub(crate) guard: Option<Arc<Path>>,
    /// See [`HubOptions::allowed_hosts`](crate::HubOptions::allowed_hosts).
    pub(crate) allowed_hosts: Option<Arc<AllowedHosts>>,
    /// Removed from messages of the server.
    pub(crate) secrets: SentSecrets,
    /// The maximum time for connecting, and also for listing all tools. The time that a user takes to log in
    /// does not count.
    pub(crate) timeout: Duration,
    /// Receives the reason when a process gets more time to start. Without it, the timeout is exact.
    pub(crate) on_slow_start: Option<OnSlowStart>,
    /// Cancels the attempt.
    pub(crate) stop: CancellationToken,
}

impl Session {
    /// Connects to a server. A failed or cancelled attempt leaves no process behind.
    pub(crate) async fn connect(
        transport: &Transport,
        context: ConnectContext,
    ) -> Result<Session, ConnectFailure> {
        let login =
            context.token_provider.as_ref().and_then(|token_provider| token_provider.login_in_progress());
        let extension = match (transport, &context.on_slow_start) {
            (Transport::Stdio { command, .. }, Some(on_slow_start)) => {
                Some(StartExtension::new(command, context.timeout, on_slow_start.clone()))
            }
            _ => None,
        };
        let deadline = PausableDeadline::new(context.timeout, login).extended_by(extension);
        let attempt = ConnectAttempt { context: &context, deadline };
        let established = match transport {
            _ if context.stop.is_cancelled() => Err(ConnectError::Stopped.into()),
            Transport::Stdio { command, args, env, cwd } => {
                let command = ServerCommand { command, args, env, cwd: cwd.as_deref() };
                attempt.connect_process(&command).await
            }
            Transport::Http { url, headers, kind, .. } => attempt.connect_http(url, headers, *kind).await,
        };
        let ConnectAttempt { deadline, .. } = attempt;
        match established {
            Ok(established) => Ok(established.into_session(context, deadline)),
            Err(AttemptFailure { error, stderr, ignored_output, .. }) => {
                let is_remote = matches!(transport, Transport::Http { .. });
                Err(ConnectFailure { error, stderr, ignored_output, is_remote })
            }
        }
    }
}

struct ConnectAttempt<'a> {
    context: &'a ConnectContext,
    deadline: PausableDeadline,
}

struct EstablishedConnection {
    service: RunningService<RoleClient, ClientService>,
    connection: Arc<Connection>,
    process: Option<ServerProcess>,
    /// The transport that it uses, if the configuration names the other one.
    corrected: Option<HttpKind>,
}

/// The reason why one way to connect failed, and whether another one may succeed.
struct AttemptFailure {
    error: ConnectError,
    stderr: Vec<String>,
    ignored_output: IgnoredOutput,
    /// The server responded to the probe late, as a modern server.
    discovered_late: bool,
    /// The server responded, but not as expected.
    has_responded: bool,
}

impl From<ConnectError> for AttemptFailure {
    fn from(error: ConnectError) -> AttemptFailure {
        AttemptFailure {
            error,
            stderr: Vec::new(),
            ignored_output: IgnoredOutput::default(),
            discovered_late: false,
            has_responded: false,
        }
    }
}

impl AttemptFailure {
    /// Whether the server responded as a server with the other HTTP transport does.
    fn may_have_other_transport(&self) -> bool {
        matches!(
            self.error,
            ConnectError::Failed(
                TransportFailure::Status { status: 400 | 404 | 405 | 406 | 415 | 422, .. }
                    | TransportFailure::WrongContent { .. }
                    | TransportFailure::NoEndpoint
            )
        )
    }
}

type AttemptResult = Result<EstablishedConnection, AttemptFailure>;

impl ConnectAttempt<'_> {
    async fn connect_process(&self, command: &ServerCommand<'_>) -> AttemptResult {
        let start = async |era| self.start_process(command, era, STDIO_PROBE_TIMEOUT).await;
        let mut failure = match start(self.context.era).await {
            Ok(established) => return Ok(established),
            Err(failure) => failure,
        };
        // The known era may be outdated.
        if self.context.era.is_some() && failure.has_responded {
            failure = match start(None).await {
                Ok(established) => return Ok(established),
                Err(failure) => failure,
            };
        }
        if failure.discovered_late && failure.has_responded {
            return self.start_process(command, Some(ProtocolEra::Modern), self.context.timeout).await;
        }
        Err(failure)
    }

    async fn start_process(
        &self,
        command: &ServerCommand<'_>,
        era: Option<ProtocolEra>,
        probe_timeout: Duration,
    ) -> AttemptResult {
        let connection = Connection::new(&self.context.server, SdkSchemas::Unused);
        let ConnectContext { environment, guard, .. } = self.context;
        let spawned = stdio::spawn(command, environment, guard.as_deref(), probe_timeout, connection.clone());
        let (transport, process) = spawned.map_err(ConnectError::from)?;
        if let Some(extension) = self.deadline.extension() {
            extension.set_process(process.id(), &connection);
        }
        match self.establish(transport, lifecycle(era), &connection).await {
            Ok(service) => {
                Ok(EstablishedConnection { service, connection, process: Some(process), corrected: None })
            }
            Err(failure) => {
                // The reason is usually on stderr, which is complete when the process has ended.
                process.stop_without_session().await;
                let ignored_output = connection.capture.ignored_output();
                Err(AttemptFailure { stderr: connection.stderr.lines(), ignored_output, ..failure })
            }
        }
    }

    async fn connect_http(&self, url: &Url, headers: &[(String, Secret)], kind: HttpKind) -> AttemptResult {
        let ConnectContext { token_provider, allowed_hosts, secrets, .. } = self.context;
        let client =
            HttpClient::new(url, headers, token_provider.clone(), allowed_hosts.clone(), secrets.clone())
                .map_err(|reason| ConnectError::InvalidUrl { url: redact_url(url), reason })?;
        // A server with the other transport is used too, because a wrong `type` is a common mistake.
        let (first, second) = match kind {
            HttpKind::Auto | HttpKind::Streamable => (HttpKind::Streamable, HttpKind::Sse),
            HttpKind::Sse => (HttpKind::Sse, HttpKind::Streamable),
        };
        let failure = match self.connect_http_as(&client, first).await {
            Err(failure) if failure.may_have_other_transport() => failure,
            established => return established,
        };
        match self.connect_http_as(&client, second).await {
            // It does not support the other transport either, so the first reason is the better one.
            Err(other) if other.may_have_other_transport() => Err(failure),
            Ok(established) if kind == first => {
                Ok(EstablishedConnection { corrected: Some(second), ..established })
            }
            established => established,
        }
    }

    async fn connect_http_as(&self, client: &HttpClient, kind: HttpKind) -> AttemptResult {
        if kind == HttpKind::Sse {
            return self.connect_sse(client).await;
        }
        match self.connect_streamable(client, self.context.era).await {
            // The known era may be outdated.
            Err(failure) if self.context.era.is_some() && failure.has_responded => {
                self.connect_streamable(client, None).await
            }
            established => established,
        }
    }

    async fn connect_streamable(&self, client: &HttpClient, era: Option<ProtocolEra>) -> AttemptResult {
        match self.connect_streamable_once(client, era).await {
            // While the user logged in, the SDK's probe timed out, and it cannot match the late responses.
            // Now there is a token, so a second attempt needs no login.
            Err(failure)
                if self.deadline.take_was_paused()
                    && matches!(
                        failure.error,
                        ConnectError::Protocol { .. } | ConnectError::Rejected { .. }
                    ) =>
            {
                self.connect_streamable_once(client, era).await
            }
            established => established,
        }
    }

    async fn connect_streamable_once(&self, client: &HttpClient, era: Option<ProtocolEra>) -> AttemptResult {
        let connection = Connection::new(&self.context.server, SdkSchemas::Needed);
        let transport = http::streamable(client.clone(), HTTP_PROBE_TIMEOUT, connection.clone());
        let service = self.establish(transport, lifecycle(era), &connection).await?;
        Ok(EstablishedConnection { service, connection, process: None, corrected: None })
    }

    async fn connect_sse(&self, client: &HttpClient) -> AttemptResult {
        let connection = Connection::new(&self.context.server, SdkSchemas::Unused);
        let opened = self.within_deadline(sse::open(client.clone(), connection.clone())).await?;
        let transport = opened.map_err(ConnectError::Failed)?;
        let service = self.establish(transport, ClientLifecycleMode::Initialize, &connection).await?;
        Ok(EstablishedConnection { service, connection, process: None, corrected: None })
    }

    async fn establish<T>(
        &self,
        transport: T,
        lifecycle: ClientLifecycleMode,
        connection: &Arc<Connection>,
    ) -> Result<RunningService<RoleClient, ClientService>, AttemptFailure>
    where
        T: rmcp::transport::Transport<RoleClient> + 'static,
    {
        let client = ClientService {
            server: self.context.server.as_str().into(),
            host: self.context.host.clone(),
            events: self.context.events.clone(),
            connection: connection.clone(),
        };
        let transport = EarlyRequests {
            transport,
            server: client.server.clone(),
            host: client.host.clone(),
            connection: connection.clone(),
            has_started: false,
            responses: JoinSet::new(),
        };
        let serving = serve_client_with_lifecycle(client, transport, lifecycle);
        let error = match self.within_deadline(serving).await? {
            Ok(service) => return Ok(service),
            Err(error) => error,
        };
        let discovered_late = connection.capture.discovered_late();
        let error = explain(error, connection, &self.context.secrets).await;
        let has_responded = matches!(
            error,
            ConnectError::Rejected { .. }
                | ConnectError::Protocol { .. }
                | ConnectError::Failed(TransportFailure::Status { .. })
        );
        Err(AttemptFailure { discovered_late, has_responded, ..error.into() })
    }

    /// Runs a step, unless the deadline passes or the attempt is cancelled.
    async fn within_deadline<T>(&self, step: impl Future<Output = T>) -> Result<T, ConnectError> {
        tokio::select! {
            done = step => Ok(done),
            () = self.deadline.expired() => Err(ConnectError::TimedOut {
                after: self.deadline.total(),
                extended: self.deadline.extension().and_then(StartExtension::extended),
            }),
            () = self.context.stop.cancelled() => Err(ConnectError::Stopped),
        }
    }
}

impl EstablishedConnection {
    fn into_session(self, context: ConnectContext, connect_deadline: PausableDeadline) -> Session {
        let EstablishedConnection { service, connection, process, corrected } = self;
        let peer = service.peer().clone();
        let protocol = peer.peer_info().map(|info| info.protocol_version.to_string());
        let info = ServerInfo { corrected_type: corrected, ..server_info(&connection, protocol) };
        let watched = watch::Sender::new(Vec::new());
        let subscriber = (info.era == ProtocolEra::Modern).then(|| Subscriber {
            events: context.events,
            capabilities: info.capabilities.clone(),
            watched: watched.subscribe(),
        });
        let stop = CancellationToken::new();
        let (abandoned, abandoned_receiver) = mpsc::channel(MAX_ABANDONED_CALLS);
        let task = SessionTask {
            service,
            process,
            connection: connection.clone(),
            abandoned: abandoned_receiver,
            stop: stop.clone(),
            subscriber,
        };
        Session {
            server: context.server.into(),
            host: context.host,
            info,
            peer,
            connection,
            abandoned,
            late_receivers: Default::default(),
            list_timeout: context.timeout,
            max_list_bytes: max_message_bytes(context.allowed_hosts.is_some()),
            connect_deadline,
            login: context
                .token_provider
                .as_ref()
                .and_then(|token_provider| token_provider.login_in_progress()),
            watched,
            log_level: Mutex::default(),
            secrets: context.secrets,
            stop,
            task: Mutex::new(Some(tokio::spawn(task.run()))),
        }
    }
}

fn lifecycle(era: Option<ProtocolEra>) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        Some(ProtocolEra::Legacy) => ClientLifecycleMode::Initialize,
        Some(ProtocolEra::Modern) => ClientLifecycleMode::Discover { preferred_versions },
        None => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

fn server_info(connection: &Connection, protocol: Option<String>) -> ServerInfo {
    let handshake = connection.capture.handshake();
    let (is_discovery, result) =
        handshake.map_or((false, Value::Null), |handshake| (handshake.is_discovery, handshake.result));
    let in_meta = result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").filter(|_| is_discovery);
    let implementation = in_meta.or_else(|| result.get("serverInfo"));
    ServerInfo {
        implementation: implementation.cloned().unwrap_or_default(),
        protocol: protocol.unwrap_or_default(),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        era: if is_discovery { ProtocolEra::Modern } else { ProtocolEra::Legacy },
        corrected_type: None,
    }
}
