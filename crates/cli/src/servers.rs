//! Loads the server configuration and runs commands with a hub connected to the servers.

mod candidates;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwire_hub::config::ConfigProblem;
use toolwire_hub::pins::PinPolicy;
use toolwire_hub::{Browser, Config, Hub, HubOptions, Phase, ServerConfig, ServerName, ServerStatus};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::connection_progress::ConnectionProgress;
use crate::demo_server;
use crate::interrupt;
use crate::log;
use crate::settings::{self, HubSettings, Pins};
use crate::source::describe_io_error;
use crate::stored_secrets::server_tokens::TokenPlace;
use crate::terminal_text::sanitize;
pub(crate) use candidates::config_candidates;

/// The configuration of the servers, and where it came from.
#[derive(Clone)]
pub(crate) struct LoadedConfig {
    /// The file, or a text if there is none; safe for a terminal.
    pub(crate) origin: String,
    pub(crate) config: Config,
    /// The configuration files that were searched for. `None` unless the demo server replaces a missing
    /// configuration.
    missing_files: Option<String>,
    /// The only server to connect to. The others stay in `config`, because tool names depend on all servers.
    only_server: Option<ServerName>,
    hub: HubSettings,
    /// Where the tokens of the servers are stored.
    pub(crate) tokens: TokenPlace,
}

/// Finds and parses the configuration, and prints its warnings and a note if the demo server is used.
pub(crate) fn load_config(flag: Option<&Path>) -> Result<LoadedConfig, CommandError> {
    let loaded = find_config(flag)?;
    if let Some(missing) = &loaded.missing_files {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} no servers are configured (found {missing}); using the demo server\n\
             {HINT}hint:{HINT:#} {SERVER_EXAMPLE}\n",
        ));
    }
    Ok(loaded)
}

/// Finds and parses the configuration, and prints its warnings.
pub(crate) fn find_config(flag: Option<&Path>) -> Result<LoadedConfig, CommandError> {
    let candidates = config_candidates(flag);
    for candidate in &candidates {
        match fs::read_to_string(&candidate.path) {
            Ok(text) => return parse_config(&candidate.path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !candidate.must_exist => {}
            Err(error) => {
                let file = sanitize(&candidate.path.to_string_lossy());
                return Err(CommandError::usage(format!(
                    "cannot read `{file}`: {}",
                    describe_io_error(&error)
                ))
                .with_hint("use `--config FILE` for another configuration"));
            }
        }
    }
    let missing: Vec<String> =
        candidates.iter().map(|candidate| format!("no `{}`", candidate.path.display())).collect();
    demo_config(missing.join(", "))
}

const SERVER_EXAMPLE: &str =
    r#"write an mcp.json such as {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#;

/// Returns a configuration with only the demo server. `missing` lists the files that do not exist.
fn demo_config(missing: String) -> Result<LoadedConfig, CommandError> {
    let config = demo_server::config().map_err(|error| {
        CommandError::work(format!("cannot find the path of this program: {}", describe_io_error(&error)))
    })?;
    Ok(LoadedConfig {
        origin: "the built-in demo configuration".to_owned(),
        config,
        missing_files: Some(missing),
        only_server: None,
        hub: HubSettings::default(),
        tokens: TokenPlace::default(),
    })
}

fn parse_config(file: &Path, text: &str) -> Result<LoadedConfig, CommandError> {
    let variables = |name: &str| std::env::var(name).ok();
    let (config, warnings) = Config::parse_with_settings(text, file, &variables, &settings::hub_problems)
        .map_err(|error| {
            let to_error = |problem: &ConfigProblem| {
                CommandError::usage(sanitize(&problem.to_string())).with_untrusted_hint(problem.hint())
            };
            let (last, others) = error.problems().split_last().expect("there is at least one problem");
            for problem in others {
                to_error(problem).print();
            }
            to_error(last)
        })?;
    for warning in warnings {
        print_stderr(&format!("{NOTE}warning:{NOTE:#} {}\n", sanitize(&warning.to_string())));
        if let Some(hint) = warning.hint() {
            print_stderr(&format!("{HINT}hint:{HINT:#} {}\n", sanitize(&hint)));
        }
    }
    let origin = sanitize(&file.to_string_lossy());
    if config.servers.is_empty() && config.toolwire.is_none() {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} no servers are configured in {origin}\n{HINT}hint:{HINT:#} {SERVER_EXAMPLE}\n"
        ));
    }
    let hub = settings::read_hub(config.toolwire.as_ref(), &origin)?;
    let tokens = TokenPlace::new(&hub.store, hub.gateway.credential_key.as_ref())?;
    Ok(LoadedConfig { origin, config, missing_files: None, only_server: None, hub, tokens })
}

/// Returns the configuration of the servers that all users of a gateway share.
pub(crate) fn shared_servers(config: &Config) -> Config {
    let mut shared = config.clone();
    shared.servers.retain(|server| server.user_credentials.is_none());
    shared
}

/// The folder for persistent data: tokens, pinned definitions, conversations.
pub(crate) fn data_folder() -> Option<PathBuf> {
    toolwire_folder("XDG_DATA_HOME", "LOCALAPPDATA", ".local/share")
}

/// Returns the folder `toolwire` in the folder that `variable` names, or else in `home_subfolder` of the home
/// folder.
fn toolwire_folder(variable: &str, windows_variable: &str, home_subfolder: &str) -> Option<PathBuf> {
    let from_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = from_env(variable)
        .or_else(|| from_env(windows_variable).filter(|_| cfg!(windows)))
        .or_else(|| Some(from_env("HOME")?.join(home_subfolder)))?;
    Some(base.join("toolwire"))
}

impl LoadedConfig {
    /// Whether the demo server replaces a missing configuration.
    pub(crate) fn is_demo(&self) -> bool {
        self.missing_files.is_some()
    }

    /// Restricts the connections to one server.
    pub(crate) fn only(mut self, server: Option<&str>) -> Result<LoadedConfig, CommandError> {
        let Some(name) = server else { return Ok(self) };
        let server = self.server(name)?;
        if server.disabled {
            return Err(CommandError::usage(format!("server `{name}` is disabled in {}", self.origin))
                .with_hint("remove `disabled` or `enabled` there"));
        }
        self.only_server = Some(server.name.clone());
        Ok(self)
    }

    /// Returns the same without the servers for which each user of a gateway has credentials.
    pub(crate) fn with_shared_servers(&self) -> LoadedConfig {
        LoadedConfig { config: shared_servers(&self.config), ..self.clone() }
    }

    /// Returns a configured server, which may be disabled.
    pub(crate) fn server(&self, name: &str) -> Result<&ServerConfig, CommandError> {
        self.config.server(name).ok_or_else(|| {
            let known: Vec<String> =
                self.config.servers.iter().map(|server| format!("`{}`", server.name)).collect();
            CommandError::usage(format!("unknown server `{}` in {}", sanitize(name), self.origin))
                .with_hint(format!("configured servers: {}", known.join(", ")))
        })
    }

    pub(crate) fn options(&self) -> HubOptions {
        // Results are not truncated by default: a person or a program reads them.
        let mut options =
            HubOptions::default().with_environment(std::env::vars_os()).with_result_budget(None);
        // This program, even if its file was replaced by an update. Only Linux has guards.
        options.guard = Some(PathBuf::from("/proc/self/exe")).filter(|program| program.exists());
        options.data_folder = data_folder();
        options.shared_token_storage = self.tokens.storage();
        options.browser =
            io::stderr().is_terminal().then(|| -> Arc<dyn Browser> { Arc::new(TerminalBrowser) });
        options.only_server = self.only_server.clone();
        options.concurrent_starts = self.hub.limits.as_ref().and_then(|limits| limits.concurrent_starts);
        if self.hub.pins == Some(Pins::Block) {
            options.pin_policy = PinPolicy::Block;
        }
        options
    }

    /// Runs `work` with a hub that connects to the servers, then stops the servers.
    ///
    /// An interrupt drops `work`, which cancels its pending calls, and stops the servers. A second interrupt
    /// exits without waiting for them.
    pub(crate) fn with_hub<T>(
        &self,
        work: impl AsyncFnOnce(&Hub) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.with_hub_options(self.options(), work)
    }

    /// Like [`with_hub`](LoadedConfig::with_hub), with other options.
    pub(crate) fn with_hub_options<T>(
        &self,
        options: HubOptions,
        work: impl AsyncFnOnce(&Hub) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        run(async {
            let interrupted = interrupt::wait();
            let hub = Hub::start(&self.config, options);
            let outcome = tokio::select! {
                outcome = work(&hub) => Some(outcome),
                () = interrupted => None,
            };
            match outcome {
                Some(outcome) => {
                    hub.close().await;
                    outcome
                }
                None => {
                    close(&hub).await;
                    Err(CommandError::interrupted())
                }
            }
        })
    }
}

/// Waits until all servers are ready or have failed, and shows the progress of each on a terminal.
pub(crate) async fn wait_until_settled(hub: &Hub) {
    let progress = ConnectionProgress::new(&hub.status());
    tokio::select! {
        () = hub.settled() => {}
        () = progress.redraw(hub) => {}
    }
    progress.finish(&hub.status());
}

/// Stops the servers, with a timeout.
pub(crate) async fn close(hub: &Hub) {
    // After the timeout, the watchdog stops the remaining processes.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, hub.close()).await;
}

/// Slightly longer than it takes to stop a process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

/// Prints the URL of a login page, for the user to open.
pub(crate) struct TerminalBrowser;

impl Browser for TerminalBrowser {
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        print_stderr(&format!(
            "{NOTE}login:{NOTE:#} server `{}` requires a login. Open this page in a browser:\n  {}\n",
            sanitize(server),
            sanitize(url)
        ));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Runs `work` on a new runtime.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    log::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime
        .map_err(|error| CommandError::work(format!("cannot start: {}", describe_io_error(&error))))?;
    runtime.block_on(work)
}

/// Returns why a server offers no tools, or `None` if it is ready.
pub(crate) fn unavailable_reason(server: &ServerStatus) -> Option<String> {
    match &server.phase {
        Phase::Ready => None,
        Phase::Connecting => Some("still connecting".to_owned()),
        Phase::Recovering { reason } | Phase::Down { reason } => Some(reason.clone()),
        Phase::Stopped => Some("stopped".to_owned()),
        other => other.unavailable_reason(),
    }
}
