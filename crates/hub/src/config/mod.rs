//! `mcp.json`, as other hosts write it.
//!
//! [`Config::parse`] checks everything once, here: what it returns can be used as it is. It reads no file and no
//! environment; whoever calls it does. `docs/guide/configuration.md` is the reference of the keys.

mod expand;
mod fault;
mod json;
mod oauth;
mod places;
mod read;
mod reader;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use fault::{Concern, ConfigError, Fault, Place, Warning};
pub use oauth::Auth;
pub use places::{Candidate, Origin};
use reqwest::Url;
use serde_json::Value;

use toolwire_contract::Glob;

use crate::{HttpKind, Secret};

/// How long connecting to a server may take, unless the configuration says otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call may take, unless the configuration or the call says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// One `mcp.json`.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// In the order of the file, disabled ones too; the names are unique.
    pub servers: Vec<ServerConfig>,
    /// What stands under the key `toolwire`, with its variables expanded.
    pub toolwire: Option<Value>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub name: ServerName,
    pub transport: Transport,
    pub disabled: bool,
    pub connect_timeout: Duration,
    pub call_timeout: Duration,
    /// Put before the name of each of its tools; a legal beginning of a name.
    pub prefix: Option<String>,
    /// If not empty, only tools whose own name matches one of these are offered.
    pub allow: Vec<Glob>,
    /// Tools whose own name matches one of these are not offered, allowed or not.
    pub deny: Vec<Glob>,
}

/// What the configuration calls a server: some text without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// A child process that speaks on its standard streams.
    Stdio { command: String, args: Vec<String>, env: Vec<(String, Secret)>, cwd: Option<PathBuf> },
    Http {
        /// `http` or `https`, with a host.
        url: Url,
        /// Names and values that HTTP allows.
        headers: Vec<(String, Secret)>,
        kind: HttpKind,
        auth: Auth,
    },
}

impl Config {
    /// Reads the text of a file called `file`; `variables` gives the values for `${…}`.
    pub fn parse(
        text: &str,
        file: &Path,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<Warning>), ConfigError> {
        read::read(text, file, variables)
    }

    /// The places where the configuration is looked for, in order; the first that exists counts.
    ///
    /// `flag` is `--config`, `variable` is `$TOOLWIRE_CONFIG`, `user_folder` is where this user's configuration of
    /// Toolwire lives.
    pub fn candidates(
        flag: Option<&Path>,
        variable: Option<&Path>,
        user_folder: Option<&Path>,
    ) -> Vec<Candidate> {
        places::candidates(flag, variable, user_folder)
    }

    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }
}

impl ServerConfig {
    /// A server with nothing but defaults around its transport.
    pub fn new(name: ServerName, transport: Transport) -> ServerConfig {
        ServerConfig {
            name,
            transport,
            disabled: false,
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            prefix: None,
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }

    /// Whether the tool that the server calls `tool` may be offered.
    pub fn admits(&self, tool: &str) -> bool {
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        (self.allow.is_empty() || matches(&self.allow)) && !matches(&self.deny)
    }
}

impl ServerName {
    /// `None` for text that cannot be a name: empty, or with control characters.
    pub fn new(name: impl Into<String>) -> Option<ServerName> {
        let name = name.into();
        let is_name = !name.trim().is_empty() && !name.chars().any(char::is_control);
        is_name.then_some(ServerName(name))
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
        let toolwire = self.toolwire.as_ref().map(|_| Hidden);
        formatter.debug_struct("Config").field("servers", &self.servers).field("toolwire", &toolwire).finish()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // People pass tokens as arguments too, so only their number shows.
            Transport::Stdio { command, args, env, cwd } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &vec![Hidden; args.len()])
                .field("env", env)
                .field("cwd", cwd)
                .finish(),
            Transport::Http { url, headers, kind, auth } => formatter
                .debug_struct("Http")
                .field("url", &shown_url(url))
                .field("headers", headers)
                .field("kind", kind)
                .field("auth", auth)
                .finish(),
        }
    }
}

/// A URL as it may be seen: without user, password, query and fragment, where people put tokens.
pub fn shown_url(url: &Url) -> String {
    let mut bare = url.clone();
    let has_user = !url.username().is_empty() || url.password().is_some();
    // Both fail only for URLs without a host, which have no user either.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare.set_query(None);
    bare.set_fragment(None);
    let hidden = if has_user || url.query().is_some() || url.fragment().is_some() { "…" } else { "" };
    format!("{bare}{hidden}")
}

#[derive(Clone, Copy)]
struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}
