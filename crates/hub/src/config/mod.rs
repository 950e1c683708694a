//! The configuration file `mcp.json`, in the format that other MCP hosts use.
//!
//! [`Config::parse`] validates the complete file, so its result needs no further checks. The caller passes in
//! the text and the environment variables. `docs/guide/configuration.md` documents the keys.

mod edit;
mod env_file;
mod expand;
mod formats;
mod hosts;
mod json;
mod parse;
mod problem;
mod sent_secrets;
#[cfg(test)]
mod tests;
#[cfg(feature = "toml")]
mod toml;
mod transport;
mod user_credentials;
mod values;
#[cfg(feature = "yaml")]
mod yaml;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use edit::ServerEdit;
pub use problem::{ConfigError, ConfigProblem, ConfigWarning};
use reqwest::Url;
pub(crate) use sent_secrets::SentSecrets;
use serde_json::Value;

use toolwire_contract::Glob;

use crate::Secret;
use crate::auth::AuthConfig;
pub use crate::transport::HttpKind;
use crate::transport::is_inherited;
pub use user_credentials::{ForwardedHeader, UserCredentials};

/// The time to connect to a server if the configuration sets no `timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time for connecting, as a multiple of the timeout, if it may be extended.
pub(crate) const MAX_CONNECT_EXTENSION: u32 = 10;
/// The time for a call if neither the configuration nor the call sets a timeout.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A parsed `mcp.json`.
#[derive(Clone, Default, PartialEq)]
pub struct Config {
    /// All servers in the order of the file, including disabled ones; their names are unique.
    pub servers: Vec<ServerConfig>,
    /// The value of the key `toolwire`, with variables expanded.
    pub toolwire: Option<Value>,
}

/// The configuration of one server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerConfig {
    pub name: ServerName,
    pub transport: Transport,
    pub disabled: bool,
    pub connect_timeout: Duration,
    /// Whether a process gets longer to connect: up to ten times while its package is being installed, and up
    /// to four times while the processor is busy. `false` if `timeout` is configured.
    pub extends_connect_timeout: bool,
    pub call_timeout: Duration,
    /// The credentials that each user of a gateway has for the server; `None` if all users share those of
    /// this configuration.
    pub user_credentials: Option<UserCredentials>,
    /// Prepended to the names of the server's tools; a legal start of a tool name.
    pub prefix: Option<String>,
    /// If not empty, only tools whose name on the server matches one of these patterns are offered.
    pub allow: Vec<Glob>,
    /// Tools whose name on the server matches one of these patterns are not offered, even if allowed.
    pub deny: Vec<Glob>,
}

/// The configured name of a server: not empty and without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

/// The way to connect to a server.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Transport {
    /// A child process that communicates over its standard streams.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, Secret)>, cwd: Option<PathBuf> },
    Http {
        /// `http` or `https`, with a host.
        url: Url,
        /// Valid HTTP header names and values.
        headers: Vec<(String, Secret)>,
        kind: HttpKind,
        /// Settings for getting a token if the server requires one. `None` if that requirement is an error:
        /// with `"oauth": false` or a configured `Authorization` header.
        oauth: Option<Box<AuthConfig>>,
    },
}

impl Config {
    /// Parses the text of `file`; `variables` returns the values for `${…}`.
    pub fn parse(
        text: &str,
        file: &Path,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
        parse::parse(text, file, variables, &|_| Vec::new())
    }

    /// Like [`Config::parse`], and reports the problems of the key `toolwire` that `check` finds together
    /// with the others. `check` returns the path of each value below `toolwire`, and what is wrong with it.
    pub fn parse_with_settings(
        text: &str,
        file: &Path,
        variables: &dyn Fn(&str) -> Option<String>,
        check: &dyn Fn(&Value) -> Vec<(String, String)>,
    ) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
        parse::parse(text, file, variables, check)
    }

    /// Returns the servers of a file in the shape of any known host, as they are written: names and JSON
    /// values. Only inputs with a default are replaced, and a relative path in `envFile` is made absolute.
    pub fn raw_servers(text: &str, file: &Path) -> Result<Vec<(String, Value)>, ConfigError> {
        parse::raw_servers(text, file)
    }

    /// Returns the value of the key `toolwire` as it is written.
    pub fn raw_settings(text: &str, file: &Path) -> Result<Option<Value>, ConfigError> {
        parse::raw_settings(text, file)
    }

    /// Adds servers to the text of `file`, or replaces those with the same names. Comments and the rest of
    /// the text stay unchanged. An empty text is an empty configuration.
    pub fn insert_servers(
        text: &str,
        file: &Path,
        servers: &[(String, Value)],
    ) -> Result<String, ConfigError> {
        edit::insert_servers(text, file, servers)
    }

    /// Changes one server in the text of `file`. Comments and the rest of the text stay unchanged.
    pub fn edit_server(
        text: &str,
        file: &Path,
        name: &str,
        edit: ServerEdit<'_>,
    ) -> Result<String, ConfigError> {
        edit::edit_server(text, file, name, edit)
    }

    /// Whether [`edit_server`](Config::edit_server) supports the format of a file.
    pub fn is_writable(file: &Path) -> bool {
        edit::is_writable(file)
    }

    /// Returns the text of a YAML file in which the lines of one server are replaced. The comments and the
    /// style of these lines are lost, so this is a proposal for a person and not a text to write.
    pub fn edit_server_lines(
        text: &str,
        file: &Path,
        name: &str,
        edit: ServerEdit<'_>,
    ) -> Result<String, ConfigError> {
        edit::edit_server_lines(text, file, name, edit)
    }

    /// Whether a key of a server is `name`, or a key of another host with the same meaning.
    pub fn is_spelling(key: &str, name: &str) -> bool {
        hosts::is_spelling_of(key, name)
    }

    /// Returns the value of a key in a server of [`raw_servers`](Config::raw_servers), or of the key of
    /// another host with the same meaning.
    pub fn raw_value<'v>(server: &'v Value, key: &str) -> Option<&'v Value> {
        edit::raw_value(server, key)
    }

    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }
}

impl Transport {
    /// Returns `stdio`, or the type of a remote server, such as `http`.
    pub fn kind(&self) -> String {
        match self {
            Transport::Stdio { .. } => "stdio".to_owned(),
            Transport::Http { kind, .. } => kind.to_string(),
        }
    }

    /// Returns the program or the URL, without what may be secret: arguments, password and query.
    pub fn address(&self) -> String {
        match self {
            Transport::Stdio { command, .. } => command.clone(),
            Transport::Http { url, .. } => redact_url(url),
        }
    }
}

impl ServerConfig {
    /// Creates a server configuration with default values.
    pub fn new(name: ServerName, transport: Transport) -> ServerConfig {
        ServerConfig {
            name,
            transport,
            disabled: false,
            connect_timeout: CONNECT_TIMEOUT,
            extends_connect_timeout: true,
            call_timeout: CALL_TIMEOUT,
            user_credentials: None,
            prefix: None,
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }

    /// Returns the names of our variables that the process of the server does not get.
    pub fn withheld_variables(&self, ours: impl IntoIterator<Item = OsString>) -> Vec<String> {
        let Transport::Stdio { env, .. } = &self.transport else { return Vec::new() };
        let names = ours.into_iter().filter_map(|name| name.into_string().ok());
        names.filter(|name| !is_inherited(name) && env.iter().all(|(added, _)| added != name)).collect()
    }

    /// Returns the time after which the server is ready or has failed, once it is started.
    pub(crate) fn max_connect_time(&self) -> Duration {
        self.connect_timeout * if self.extends_connect_timeout { MAX_CONNECT_EXTENSION } else { 1 }
    }

    /// Whether `allow` and `deny` permit the tool with this name on the server.
    pub(crate) fn allows_tool(&self, tool: &str) -> bool {
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        (self.allow.is_empty() || matches(&self.allow)) && !matches(&self.deny)
    }

    /// Replaces the values of the configured headers and of the URL's query in a text that may come from the
    /// server.
    pub fn redact(&self, text: String) -> String {
        SentSecrets::new(&self.transport).redact(text)
    }
}

impl ServerName {
    /// Returns `None` if `name` is blank or contains control characters.
    pub fn new(name: impl Into<String>) -> Option<ServerName> {
        let name = name.into();
        let is_valid = !name.trim().is_empty() && !name.chars().any(char::is_control);
        is_valid.then_some(ServerName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let toolwire = self.toolwire.as_ref().map(|_| Redacted);
        formatter.debug_struct("Config").field("servers", &self.servers).field("toolwire", &toolwire).finish()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Arguments often contain tokens, so only their number is printed.
            Transport::Stdio { command, args, env, cwd } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &vec![Redacted; args.len()])
                .field("env", env)
                .field("cwd", cwd)
                .finish(),
            Transport::Http { url, headers, kind, oauth } => formatter
                .debug_struct("Http")
                .field("url", &redact_url(url))
                .field("headers", headers)
                .field("kind", kind)
                .field("oauth", oauth)
                .finish(),
        }
    }
}

/// Removes the user, password, query and fragment of a URL, because they often contain tokens.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut bare = url.clone();
    let has_user = !url.username().is_empty() || url.password().is_some();
    // Both fail only for URLs without a host, which have no user either.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare.set_query(None);
    bare.set_fragment(None);
    let mark = if has_user || url.query().is_some() || url.fragment().is_some() { "…" } else { "" };
    format!("{bare}{mark}")
}

#[derive(Clone, Copy)]
struct Redacted;

impl fmt::Debug for Redacted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}
