//! The servers of the gateway's page: their state, and what a user can do about it.

mod actions;
mod changed_place;
mod edit;
mod file_change;
mod logins;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolwire_contract::toolbox::Toolbox as _;
use toolwire_gateway::page::{PageServers, ServerChangeError, ServerChangeErrorKind};
use toolwire_hub::pins::{Drift, DriftKind};
use toolwire_hub::status::{Attempt, StartProgress};
use toolwire_hub::{Config, Hub, HubOptions, Phase, ServerConfig, ServerStatus};
use toolwire_page::link::Link;
use toolwire_page::servers::{
    ChangedTool, ConnectionAttempt, ListedTool, Server, ServerCalls, ServerDescription, ServerProblem,
    ServerState, WithheldTool,
};

use super::user_servers::UserPool;
use crate::connection_progress::start_message;
use crate::servers::{LoadedConfig, config_candidates, shared_servers};
use crate::tools::warnings;
use changed_place::changed_place;
use edit::ConfigEditor;
pub(super) use logins::PageLogins;

/// The maximum time until the login page of a server is known.
const LOGIN_PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The servers of a hub.
pub(super) struct HubServers {
    hub: Arc<Hub>,
    logins: Arc<PageLogins>,
    editor: ConfigEditor,
    /// The servers for which each user has credentials.
    users: Arc<UserPool>,
    /// The configuration that the hub uses.
    config: RwLock<Arc<Config>>,
    /// Whether the demo server replaces a missing configuration.
    is_demo: AtomicBool,
}

impl HubServers {
    /// `flag` is the configuration file of the command line.
    pub(super) fn new(
        hub: Arc<Hub>,
        options: HubOptions,
        logins: Arc<PageLogins>,
        users: Arc<UserPool>,
        loaded: &LoadedConfig,
        flag: Option<&Path>,
    ) -> HubServers {
        let candidates: Vec<_> =
            config_candidates(flag).into_iter().map(|candidate| candidate.path).collect();
        HubServers {
            hub,
            logins,
            users,
            editor: ConfigEditor::new(edit::target_path(&candidates), options),
            config: RwLock::new(Arc::new(loaded.config.clone())),
            is_demo: AtomicBool::new(loaded.is_demo()),
        }
    }

    /// Uses another configuration, which was read from the file.
    pub(super) async fn reconfigure(&self, loaded: &LoadedConfig) {
        let config = Arc::new(loaded.config.clone());
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
        self.is_demo.store(loaded.is_demo(), Ordering::Relaxed);
        self.hub.reconfigure(&config).await;
    }

    fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that the definition of a tool changed, and that the current one has this fingerprint.
    fn check_changed(&self, server: &str, tool: &str, fingerprint: &str) -> Result<(), ServerChangeError> {
        let status = self.hub.status();
        let is_changed = |drift: &&Drift| drift.tool == tool && needs_review(&drift.kind);
        let found = status.iter().find(|status| status.name == server);
        if found.is_none_or(|status| !status.drifts.iter().any(|drift| is_changed(&drift))) {
            let message = format!("tool `{tool}` of server `{server}` has no changed definition");
            return Err(ServerChangeError::new(ServerChangeErrorKind::NotFound, message));
        }
        if self.fingerprint(server, tool) != fingerprint {
            let message = format!("tool `{tool}` of server `{server}` changed again since it was displayed");
            return Err(ServerChangeError::new(ServerChangeErrorKind::Conflict, message)
                .with_hint("review the definition as it is now"));
        }
        Ok(())
    }

    fn fingerprint(&self, server: &str, tool: &str) -> String {
        let definition = self.hub.definition(server, tool).map(Value::from).unwrap_or_default();
        format!("{:x}", Sha256::digest(definition.to_string()))
    }

    /// Checks that the servers of users in a configuration can be used.
    fn check_users(&self, config: &Config) -> Result<(), ServerChangeError> {
        self.users.check(config).map_err(|error| {
            let (problem, hint) = error.into_parts();
            let error = ServerChangeError::new(ServerChangeErrorKind::Invalid, problem);
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })
    }

    /// Uses another configuration of the servers.
    async fn use_config(&self, config: Config) {
        self.users.reconfigure(&config);
        let config = Arc::new(shared_servers(&config));
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
        self.is_demo.store(false, Ordering::Relaxed);
        self.hub.reconfigure(&config).await;
    }

    /// Starts a login, and waits for its page; `None` if the server is ready without one.
    async fn login_page(&self, server: &str) -> Result<Option<Link>, ServerChangeError> {
        let mut changes = self.changes();
        let since = self.status_of(server)?.since;
        self.logins.allow(server);
        self.hub.retry(server);
        let mut has_started = false;
        let page = async {
            loop {
                if let Some(page) = self.logins.page(server).as_deref().and_then(Link::external) {
                    return Ok(Some(page));
                }
                let status = self.status_of(server)?;
                let is_trying = matches!(status.attempt, Some(Attempt::Running | Attempt::LoggingIn));
                match &status.phase {
                    Phase::Ready => return Ok(None),
                    Phase::Recovering { reason } | Phase::Down { reason }
                        if !is_trying && (has_started || status.since != since) =>
                    {
                        let error = ServerChangeError::new(ServerChangeErrorKind::Failed, reason.clone());
                        return Err(match status.hint {
                            Some(hint) => error.with_hint(hint),
                            None => error,
                        });
                    }
                    phase => has_started |= is_trying || matches!(phase, Phase::Connecting),
                }
                if changes.next().await.is_none() {
                    return Ok(None);
                }
            }
        };
        tokio::time::timeout(LOGIN_PAGE_TIMEOUT, page).await.unwrap_or_else(|_| {
            let message =
                format!("the login of server `{server}` did not begin within {LOGIN_PAGE_TIMEOUT:?}");
            Err(ServerChangeError::new(ServerChangeErrorKind::Failed, message)
                .with_hint("the view of the servers shows its state"))
        })
    }

    fn status_of(&self, server: &str) -> Result<ServerStatus, ServerChangeError> {
        let status = self.hub.status().into_iter().find(|status| status.name == server);
        status.ok_or_else(|| {
            let message = format!("server `{server}` is not connected");
            ServerChangeError::new(ServerChangeErrorKind::NotFound, message)
        })
    }

    fn connected(&self, status: ServerStatus) -> Server {
        let changed: Vec<ChangedTool> = status
            .drifts
            .iter()
            .filter(|drift| needs_review(&drift.kind))
            .map(|drift| self.changed_tool(&status.name, drift))
            .collect();
        let listed = self.hub.tools_of(&status.name).unwrap_or_default().into_iter().map(|tool| ListedTool {
            original: self.hub.original_name(&tool.name),
            name: tool.name,
            description: tool.description,
        });
        let quarantined = status.quarantined.iter().map(|tool| (&tool.name, tool.reason.as_str()));
        let blocked = status.drifts.iter().filter(|drift| drift.is_blocked);
        let blocked = blocked.map(|drift| (&drift.tool, "its definition changed"));
        let withheld = quarantined
            .chain(blocked)
            .map(|(name, reason)| WithheldTool { name: name.clone(), reason: reason.to_owned() });
        Server {
            transport: status.transport.clone(),
            address: status.address.clone(),
            state: self.state(&status),
            since: status.since,
            description: status.info.as_ref().map(|info| ServerDescription {
                protocol: info.protocol.clone(),
                program: program(&info.implementation),
                instructions: info.instructions.clone(),
            }),
            tools: listed.collect(),
            withheld: withheld.collect(),
            notes: notes(&status),
            restarts: status.restarts,
            calls: ServerCalls {
                answered: status.calls.completed,
                failed: status.calls.failed,
                p50: status.calls.p50,
                p99: status.calls.p99,
            },
            stderr: status.stderr,
            changed,
            is_editable: false,
            name: status.name,
        }
    }

    fn state(&self, status: &ServerStatus) -> ServerState {
        let attempt = match status.attempt {
            Some(Attempt::At(at)) => ConnectionAttempt::At(at),
            Some(Attempt::Running) => ConnectionAttempt::Running,
            _ => ConnectionAttempt::OnRequest,
        };
        let problem =
            |reason: &str| ServerProblem { reason: reason.to_owned(), hint: status.hint.clone(), attempt };
        match (&status.phase, status.attempt) {
            (Phase::Ready, _) => ServerState::Ready,
            (Phase::Stopped, _) => ServerState::Stopped,
            (_, Some(Attempt::LoggingIn)) => {
                let page = self.logins.page(&status.name);
                ServerState::SignIn {
                    page: page.and_then(|page| Link::external(&page)),
                    reason: String::new(),
                }
            }
            (Phase::Recovering { reason } | Phase::Down { reason }, Some(Attempt::NeedsLogin)) => {
                ServerState::SignIn { page: None, reason: reason.clone() }
            }
            (Phase::Recovering { reason }, _) => ServerState::Recovering { problem: problem(reason) },
            (Phase::Down { reason }, _) => ServerState::Down { problem: problem(reason) },
            (Phase::Connecting, _) => ServerState::Connecting {
                detail: match status.start {
                    StartProgress::Started => String::new(),
                    start => start_message(start).to_owned(),
                },
            },
            (other, _) => ServerState::Connecting { detail: other.unavailable_reason().unwrap_or_default() },
        }
    }

    fn changed_tool(&self, server: &str, drift: &Drift) -> ChangedTool {
        let parts = match &drift.kind {
            DriftKind::Changed(parts) => parts.iter().map(|part| part.name().to_owned()).collect(),
            _ => Vec::new(),
        };
        let places = self.hub.difference(server, &drift.tool);
        ChangedTool {
            tool: drift.tool.clone(),
            fingerprint: self.fingerprint(server, &drift.tool),
            is_blocked: drift.is_blocked,
            parts,
            places: places.map(|places| places.iter().map(changed_place).collect()),
            current_description: self.hub.definition(server, &drift.tool).and_then(|tool| tool.description),
        }
    }
}

fn needs_review(kind: &DriftKind) -> bool {
    matches!(kind, DriftKind::Changed(_) | DriftKind::Unknown)
}

fn unconnected(server: &ServerConfig) -> Server {
    Server {
        name: server.name.to_string(),
        transport: server.transport.kind(),
        address: server.transport.address(),
        state: if server.disabled { ServerState::Disabled } else { ServerState::Stopped },
        since: std::time::SystemTime::UNIX_EPOCH,
        description: None,
        tools: Vec::new(),
        withheld: Vec::new(),
        notes: Vec::new(),
        restarts: 0,
        calls: ServerCalls::default(),
        stderr: Vec::new(),
        changed: Vec::new(),
        is_editable: false,
    }
}

/// Returns the name and the version that a server states.
fn program(implementation: &Value) -> Option<String> {
    let stated = |key: &str| implementation.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = stated("title").or_else(|| stated("name"))?;
    Some(match stated("version") {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    })
}

fn notes(status: &ServerStatus) -> Vec<String> {
    let mut notes = warnings(status);
    if status.denied > 0 {
        notes.push(format!("`tools.allow` and `tools.deny` exclude {} of its tools", status.denied));
    }
    if status.ignored_output.unreadable > 0 {
        let last = status.ignored_output.last_unreadable.as_deref().unwrap_or_default();
        notes.push(format!(
            "lines on stdout that are not MCP messages: {}, the last: `{last}`; logs belong on stderr",
            status.ignored_output.unreadable
        ));
    }
    notes
}
