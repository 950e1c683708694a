//! Adds and changes servers of the configuration file.

mod entry;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use toolwire_contract::toolbox::Toolbox as _;
use toolwire_dialect::{Dialect, Options, Status, Toolset};
use toolwire_gateway::page::{ServerChangeError, ServerChangeErrorKind};
use toolwire_hub::config::{ConfigProblem, ServerEdit};
use toolwire_hub::{Config, Hub, HubOptions, ServerConfig};
use toolwire_page::servers::file_change::FileChange;
use toolwire_page::servers::form::{CheckOutcome, ConfigFile, Draft, ServerCheck};

use super::{file_change, program};
use crate::output;
use crate::servers::unavailable_reason;
use crate::settings;
use crate::source::describe_io_error;
use crate::terminal_text::sanitize;
pub(super) use entry::displayed;
use entry::{changes, fields, without_secrets};

/// The maximum time of a check, with the installation of a package.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// Edits the configuration file of the gateway.
pub(super) struct ConfigEditor {
    path: PathBuf,
    /// The options of the gateway's hub.
    options: HubOptions,
    /// Held while the file is changed, so that a change of another visitor is not lost.
    writing: Mutex<()>,
}

impl ConfigEditor {
    pub(super) fn new(path: PathBuf, options: HubOptions) -> ConfigEditor {
        ConfigEditor { path, options, writing: Mutex::default() }
    }

    pub(super) fn target(&self) -> ConfigFile {
        let by_hand = (!Config::is_writable(&self.path)).then(|| {
            "This page does not write YAML files, because their comments and their style would be lost. It shows \
             the lines to change instead. Restart the gateway afterwards."
                .to_owned()
        });
        ConfigFile { path: self.path.to_string_lossy().into_owned(), by_hand }
    }

    /// Returns the form of a server of the file, or of a new one.
    pub(super) fn draft(&self, server: Option<&str>) -> Result<Draft, ServerChangeError> {
        let text = self.read()?;
        let file_hash = hash(&text);
        let Some(name) = server else { return Ok(Draft { file_hash, ..Draft::default() }) };
        let entry = self.entries(&text)?.remove(name).ok_or_else(|| {
            let message = format!("server `{name}` is not in `{}`", self.path.display());
            ServerChangeError::new(ServerChangeErrorKind::NotFound, message)
        })?;
        Ok(Draft { name: name.to_owned(), is_configured: true, file_hash, ..fields(&entry)? })
    }

    /// Starts the server of a form, and stops it again.
    pub(super) async fn check(&self, draft: &Draft) -> Result<ServerCheck, ServerChangeError> {
        let Changed { after, name, .. } = self.changed(draft)?;
        let config = self.parse(&after)?;
        let mut server = config.server(&name).cloned().ok_or_else(|| unknown(&name))?;
        server.disabled = false;
        let entry = self.entries(&after)?.remove(&name).unwrap_or_default();
        let outcome = tokio::time::timeout(CHECK_TIMEOUT, start(server, self.options.clone())).await;
        let outcome = outcome.unwrap_or_else(|_| CheckOutcome::Failed {
            reason: format!("the server was not ready within {CHECK_TIMEOUT:?}"),
            hint: None,
            stderr: Vec::new(),
        });
        let entry =
            serde_json::to_string_pretty(&json!({ name: without_secrets(entry) })).unwrap_or_default();
        Ok(ServerCheck { outcome, entry })
    }

    /// Returns what the form changes in the file.
    pub(super) fn preview(&self, draft: &Draft) -> Result<FileChange, ServerChangeError> {
        Ok(self.change(&self.changed(draft)?))
    }

    /// Returns what the removal of a server changes in the file, and the hash of the file.
    pub(super) fn removal(&self, name: &str) -> Result<(FileChange, String), ServerChangeError> {
        let changed = self.without(name)?;
        Ok((self.change(&changed), hash(&changed.before)))
    }

    /// Writes the server of a form, and returns the new configuration, which must pass the check.
    pub(super) async fn write(
        &self,
        draft: &Draft,
        check: impl FnOnce(&Config) -> Result<(), ServerChangeError>,
    ) -> Result<Config, ServerChangeError> {
        self.store(&draft.file_hash, || self.changed(draft), check).await
    }

    /// Removes a server from the file, and returns the new configuration.
    pub(super) async fn remove(&self, name: &str, file_hash: &str) -> Result<Config, ServerChangeError> {
        self.store(file_hash, || self.without(name), |_| Ok(())).await
    }

    /// Writes a change if the file is still the one with this hash.
    async fn store(
        &self,
        file_hash: &str,
        change: impl FnOnce() -> Result<Changed, ServerChangeError>,
        check: impl FnOnce(&Config) -> Result<(), ServerChangeError>,
    ) -> Result<Config, ServerChangeError> {
        let _writing = self.writing.lock().await;
        if let Some(reason) = self.target().by_hand {
            return Err(ServerChangeError::new(ServerChangeErrorKind::Invalid, reason));
        }
        if hash(&self.read()?) != file_hash {
            let message = format!("`{}` changed since this form was opened", self.path.display());
            return Err(ServerChangeError::new(ServerChangeErrorKind::Conflict, message)
                .with_hint("reload the form: it then starts from the file as it is now"));
        }
        let Changed { before, after, .. } = change()?;
        let config = self.parse(&after)?;
        check(&config)?;
        if hash(&before) != file_hash {
            let message = format!("`{}` changed while the server was written", self.path.display());
            return Err(
                ServerChangeError::new(ServerChangeErrorKind::Conflict, message).with_hint("reload the form")
            );
        }
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            if let Some(folder) = path.parent() {
                // An error is reported when the file is written.
                let _ = fs::create_dir_all(folder);
            }
            output::write_private_file(&path, &after)
        });
        let failed = |message: String, hint: Option<String>| {
            let error = ServerChangeError::new(ServerChangeErrorKind::Failed, message);
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        };
        match written.await {
            Ok(Ok(())) => Ok(config),
            Ok(Err(error)) => {
                let (message, hint) = error.into_parts();
                Err(failed(message, hint))
            }
            Err(error) => Err(failed(error.to_string(), None)),
        }
    }

    /// Returns the difference that a user sees.
    fn change(&self, changed: &Changed) -> FileChange {
        let ConfigFile { path, by_hand } = self.target();
        let mut secrets = file_change::secrets(&changed.before, &self.path);
        // The user copies these lines, so they must contain the secrets of the form.
        if by_hand.is_none() {
            secrets.extend(file_change::secrets(&changed.after, &self.path));
        }
        FileChange { path, hunks: file_change::hunks(&changed.before, &changed.after, &secrets), by_hand }
    }

    /// Returns the text of the file; a missing file is empty.
    fn read(&self) -> Result<String, ServerChangeError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => {
                let message = format!("cannot read `{}`: {}", self.path.display(), describe_io_error(&error));
                Err(ServerChangeError::new(ServerChangeErrorKind::Failed, message))
            }
        }
    }

    /// Returns the entries of the file as they are written.
    fn entries(&self, text: &str) -> Result<BTreeMap<String, Value>, ServerChangeError> {
        if text.trim().is_empty() {
            return Ok(BTreeMap::new());
        }
        let servers =
            Config::raw_servers(text, &self.path).map_err(|error| invalid_file(error.problems()))?;
        Ok(servers.into_iter().collect())
    }

    fn parse(&self, text: &str) -> Result<Config, ServerChangeError> {
        let variables = |name: &str| std::env::var(name).ok();
        let parsed = Config::parse_with_settings(text, &self.path, &variables, &settings::hub_problems);
        parsed.map(|(config, _)| config).map_err(|error| invalid_file(error.problems()))
    }

    /// Returns the text of the file with the server of a form.
    fn changed(&self, draft: &Draft) -> Result<Changed, ServerChangeError> {
        let name = draft.name.trim();
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(invalid("name", "the server needs a name of one line"));
        }
        let before = self.read()?;
        let stored = self.entries(&before)?.remove(name);
        match (&stored, draft.is_configured) {
            (Some(_), false) => {
                return Err(invalid("name", format!("server `{name}` is configured already")));
            }
            (None, true) => return Err(unknown(name)),
            _ => {}
        }
        let changes = changes(draft, stored.as_ref())?;
        self.edited(before, name, ServerEdit::Set(&changes))
    }

    /// Returns the text of the file without a server.
    fn without(&self, name: &str) -> Result<Changed, ServerChangeError> {
        let before = self.read()?;
        if !self.entries(&before)?.contains_key(name) {
            return Err(unknown(name));
        }
        self.edited(before, name, ServerEdit::Remove)
    }

    fn edited(&self, before: String, name: &str, edit: ServerEdit<'_>) -> Result<Changed, ServerChangeError> {
        let after = match Config::is_writable(&self.path) {
            true => Config::edit_server(&before, &self.path, name, edit),
            false => Config::edit_server_lines(&before, &self.path, name, edit),
        };
        let after = after.map_err(|error| invalid_file(error.problems()))?;
        Ok(Changed { before, after, name: name.to_owned() })
    }
}

/// The text of the file before and after a change of a server.
#[derive(Debug)]
struct Changed {
    before: String,
    after: String,
    name: String,
}

/// Starts a server with a hub of its own.
async fn start(server: ServerConfig, mut options: HubOptions) -> CheckOutcome {
    // A check pins no definitions and opens no login page.
    options.data_folder = None;
    options.shared_token_storage = None;
    options.browser = None;
    options.only_server = None;
    let started = Instant::now();
    let hub = Hub::connect(&Config { servers: vec![server], toolwire: None }, options).await;
    let after = started.elapsed();
    let outcome = outcome(&hub, after).await;
    hub.close().await;
    outcome
}

async fn outcome(hub: &Hub, after: Duration) -> CheckOutcome {
    let Some(status) = hub.status().pop() else { return failed("the server was not started".to_owned()) };
    if let Some(reason) = unavailable_reason(&status) {
        return CheckOutcome::Failed { reason, hint: status.hint, stderr: status.stderr };
    }
    let tools = hub.tools();
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let refused = tokio::task::spawn_blocking(move || {
        let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for dialect in Dialect::all() {
            let toolset = Toolset::new(&tools, dialect, &Options::default());
            for report in toolset.reports().iter().filter(|report| report.status == Status::Refused) {
                refused.entry(report.tool.clone()).or_default().push(dialect.name().to_owned());
            }
        }
        refused.into_iter().collect()
    });
    let info = status.info.as_ref();
    CheckOutcome::Started {
        after,
        protocol: info.map(|info| info.protocol.clone()).unwrap_or_default(),
        program: info.and_then(|info| program(&info.implementation)),
        tools: names,
        refused: refused.await.unwrap_or_default(),
        unusable: status.quarantined.into_iter().map(|tool| (tool.name, tool.reason)).collect(),
    }
}

fn failed(reason: String) -> CheckOutcome {
    CheckOutcome::Failed { reason, hint: None, stderr: Vec::new() }
}

fn hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

fn unknown(name: &str) -> ServerChangeError {
    let message = format!("server `{name}` is not in the configuration any more");
    ServerChangeError::new(ServerChangeErrorKind::NotFound, message)
}

fn invalid(field: &str, message: impl Into<String>) -> ServerChangeError {
    ServerChangeError::new(ServerChangeErrorKind::Invalid, message).with_field(field)
}

/// Returns the first problem of a configuration.
fn invalid_file(problems: &[ConfigProblem]) -> ServerChangeError {
    let Some(problem) = problems.first() else { return invalid("", "the configuration is not valid") };
    let error = ServerChangeError::new(ServerChangeErrorKind::Invalid, sanitize(&problem.to_string()));
    match problem.hint() {
        Some(hint) => error.with_hint(sanitize(&hint)),
        None => error,
    }
}

/// Returns the file that the page writes: the one that is used, or the user's own if there is none.
pub(super) fn target_path(candidates: &[PathBuf]) -> PathBuf {
    let existing = candidates.iter().find(|path| Path::exists(path));
    existing.or(candidates.last()).cloned().unwrap_or_else(|| PathBuf::from("mcp.json"))
}

#[cfg(test)]
mod tests;
