//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ConfigError {
    pub place: Box<Place>,
    pub fault: Fault,
}

/// Something in a configuration that is not as it should be, and can be passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub place: Box<Place>,
    pub concern: Concern,
}

/// A place in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub server: Option<String>,
    /// As a path: `env.TOKEN`, `args[1]`.
    pub key: Option<String>,
}

/// Values are never part of it where they may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not JSON: {message}")]
    Syntax { message: String },
    #[error("must be {expected}, not {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("must not be empty")]
    Empty,
    #[error("variable `{variable}` is not set")]
    MissingVariable { variable: String },
    #[error("`${{` has no closing brace")]
    VariableNotClosed,
    #[error("variables stand within variables, too deep")]
    VariablesTooDeep,
    #[error("no servers: there is no key `mcpServers`")]
    NoServers { nearest: Option<String> },
    #[error("a server's name must be text without control characters")]
    BadServerName,
    #[error("neither `command` nor `url` says how to reach the server")]
    NoTransport { nearest: Option<(String, String)> },
    #[error("both `command` and `url` are there")]
    TwoTransports,
    #[error("`{kind}` needs a `{needs}`, and there is none")]
    TransportLacks { kind: String, needs: &'static str },
    #[error("`{text}` is not `stdio`, `http`, `streamable-http` or `sse`")]
    UnknownType { text: String },
    #[error("`{text}` is no time between 1ms and 24h")]
    BadTimeout { text: String },
    #[error("not a URL of a server: {reason}")]
    BadUrl { reason: String },
    #[error("`{name}` cannot be the name of a header")]
    BadHeaderName { name: String },
    #[error("a header cannot have this value: it holds a line break or another control character")]
    BadHeaderValue,
    #[error("`{name}` cannot be the name of an environment variable")]
    BadVariableName { name: String },
    #[error("a NUL character cannot be handed to a process")]
    Nul,
    #[error(
        "`{text}` cannot begin the name of a tool: it takes up to 32 letters, digits, `_` and `-`, and no digit or `-` first"
    )]
    BadPrefix { text: String },
    #[error("`{text}` is not `authorization_code` or `client_credentials`")]
    UnknownGrant { text: String },
    #[error("`client_credentials` needs a `{needs}`, and there is none")]
    GrantLacks { needs: &'static str },
    #[error("must be a port: a whole number from 1 to 65535")]
    BadPort,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Concern {
    #[error("unknown key `{key}`")]
    UnknownKey { key: String, nearest: Option<String> },
    #[error("stands twice; the later one counts")]
    Twice,
    #[error("has no use for a server that is reached by `{by}`")]
    Unused { by: &'static str },
    #[error("{seconds} seconds is long")]
    LongTimeout { seconds: u64 },
}

impl ConfigError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match &self.fault {
            Fault::MissingVariable { variable } => match variable.strip_prefix("input:") {
                Some(id) => {
                    let name = id.to_uppercase().replace(['-', '.'], "_");
                    format!(
                        "nobody is asked for inputs here: name an environment variable, such as `${{{name}}}`"
                    )
                }
                None => format!("set it, or give a fallback: `${{{variable}:-…}}`"),
            },
            Fault::VariableNotClosed => "write `$${` for a plain `${`".to_owned(),
            Fault::NoServers { nearest: Some(nearest) } => {
                format!("is `{nearest}` meant to be `mcpServers`?")
            }
            Fault::NoServers { nearest: None } => {
                r#"servers stand in an object: {"mcpServers": {"name": {"command": "…"}}}"#.to_owned()
            }
            Fault::NoTransport { nearest: Some((key, known)) } => {
                format!("is `{key}` meant to be `{known}`?")
            }
            Fault::NoTransport { nearest: None } => {
                "give `command` for a process, `url` for a server on the network".to_owned()
            }
            Fault::TwoTransports => "remove one, or say by `type` which one counts".to_owned(),
            Fault::UnknownType { .. } => {
                "leave `type` out: `command` and `url` say it, and which HTTP a URL speaks is found out"
                    .to_owned()
            }
            Fault::BadTimeout { .. } => {
                "write seconds, or a text such as \"30s\", \"500ms\" or \"2m\"".to_owned()
            }
            Fault::BadUrl { .. } => "write it whole, such as `https://example.com/mcp`".to_owned(),
            Fault::Syntax { .. } => "JSON with comments and trailing commas is taken".to_owned(),
            _ => return None,
        })
    }
}

impl Warning {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        match &self.concern {
            Concern::UnknownKey { nearest, .. } => {
                nearest.as_ref().map(|nearest| format!("is it meant to be `{nearest}`?"))
            }
            Concern::LongTimeout { seconds } => {
                Some(format!("a number is seconds here; if these are milliseconds, write \"{seconds}ms\""))
            }
            Concern::Twice | Concern::Unused { .. } => None,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.concern)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file.display(), self.line, self.column)?;
        match (&self.server, &self.key) {
            (Some(server), Some(key)) => write!(formatter, ": server `{server}`, key `{key}`"),
            (Some(server), None) => write!(formatter, ": server `{server}`"),
            (None, Some(key)) => write!(formatter, ": key `{key}`"),
            (None, None) => Ok(()),
        }
    }
}
