//! Errors and warnings about a configuration, each with its location.

use std::fmt;
use std::path::PathBuf;

use super::expand::MAX_FALLBACK_DEPTH;
use super::hosts::input_variable;
use super::parse::MAX_PREFIX_CHARS;

/// A configuration that cannot be used, with all its problems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub(super) Vec<ConfigProblem>);

impl ConfigError {
    /// Returns the problems in the order in which they were found; there is at least one.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.0
    }
}

/// A problem of a configuration: where and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct ConfigProblem {
    pub(super) location: Box<Location>,
    pub(super) problem: Problem,
}

/// A part of a configuration that is ignored or probably wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    pub(super) location: Box<Location>,
    pub(super) kind: WarningKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) file: PathBuf,
    /// Both counted from 1, the column in characters; `None` in a TOML file.
    pub(super) line_and_column: Option<(usize, usize)>,
    pub(super) server: Option<String>,
    /// A path such as `env.TOKEN` or `args[1]`.
    pub(super) key: Option<String>,
}

/// The reason for a [`ConfigProblem`]. It contains no values that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("invalid JSON: {message}")]
    Syntax { message: String },
    #[cfg(feature = "toml")]
    #[error("invalid TOML: {message}")]
    TomlSyntax { message: String },
    #[cfg(feature = "yaml")]
    #[error("invalid YAML: {message}")]
    YamlSyntax { message: String },
    #[cfg(not(all(feature = "toml", feature = "yaml")))]
    #[error("this build cannot read {format}")]
    UnsupportedFormat { format: &'static str, feature: &'static str },
    #[error("only a JSON file can be changed")]
    ReadOnlyFormat,
    #[error("server `{name}` cannot be changed where it is")]
    UnknownPlace { name: String },
    #[error("must be {expected}, not {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("must not be empty")]
    Empty,
    #[error("variable `{variable}` is not set")]
    MissingVariable { variable: String },
    /// The value of the key is the name of the variable.
    #[error("variable `{variable}` is not set")]
    MissingNamedVariable { variable: String },
    #[error("no value for the input `{id}`")]
    MissingInput { id: String },
    #[error("`${{{variable}}}` is available only in VS Code")]
    EditorVariable { variable: String },
    #[error("cannot read `{}`: {reason}", path.display())]
    UnreadableEnvFile { path: PathBuf, reason: String },
    #[error("`${{` has no closing brace")]
    VariableNotClosed,
    #[error("variables are nested more than {MAX_FALLBACK_DEPTH} levels deep")]
    VariablesTooDeep,
    #[error("missing key `mcpServers`")]
    NoServers { similar_key: Option<String> },
    #[error("invalid server name: it must not be blank or contain control characters")]
    InvalidServerName,
    #[error("the server has no `name`")]
    MissingName,
    #[error("neither `command` nor `url` is set")]
    NoTransport { mistyped: Option<MistypedKey> },
    #[error("both `command` and `url` are set")]
    TwoTransports,
    #[error("type `{kind}` requires `{missing}`")]
    IncompleteTransport { kind: String, missing: &'static str },
    #[error("unknown type `{text}`; expected `stdio`, `http`, `streamable-http` or `sse`")]
    UnknownType { text: String },
    #[error("`{text}` is not a duration between 1ms and 24h")]
    InvalidTimeout { text: String },
    #[error("invalid URL: {reason}")]
    InvalidUrl { reason: String },
    #[error("invalid header name `{name}`")]
    InvalidHeaderName { name: String },
    #[error("invalid header value: it contains a line break or another control character")]
    InvalidHeaderValue,
    #[error("invalid environment variable name `{name}`")]
    InvalidVariableName { name: String },
    #[error("a NUL character cannot be passed to a process")]
    Nul,
    #[error(
        "invalid prefix `{text}`; use up to {MAX_PREFIX_CHARS} letters, digits, `_` and `-`, and do not start \
         with a digit or `-`"
    )]
    InvalidPrefix { text: String },
    #[error("unknown grant `{text}`; expected `authorization_code` or `client_credentials`")]
    UnknownGrant { text: String },
    #[error("grant `client_credentials` requires `{missing}`")]
    IncompleteGrant { missing: &'static str },
    #[error("must be a port number from 1 to 65535")]
    InvalidPort,
    #[error("unknown value `{text}`; expected `shared` or `per-user`")]
    UnknownAuth { text: String },
    #[error("the credentials of users require a remote server")]
    UserCredentialsOfProcess,
    #[error("users cannot sign in, because the server has a token or other credentials")]
    NoLoginOfUsers,
    #[error("requires `\"auth\": \"per-user\"`")]
    NotPerUser,
    #[error("the header `{name}` cannot be forwarded")]
    NotForwardable { name: String },
    #[error("{reason}")]
    InvalidSetting { reason: String },
}

/// An unknown key and the key that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MistypedKey {
    pub(super) found: String,
    pub(super) meant: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WarningKind {
    #[error("unknown key `{key}`")]
    UnknownKey { key: String, similar_key: Option<&'static str> },
    #[error("duplicate key; the last value is used")]
    DuplicateKey,
    #[error("ignored, because the server is configured with `{used}`")]
    UnusedKey { used: &'static str },
    #[error("skipped, because {reason}")]
    Skipped { reason: SkipReason },
    #[error("{seconds} seconds is unusually long")]
    LongTimeout { seconds: u64 },
}

/// The reason why an entry is not a server that can be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SkipReason {
    #[error("an extension of the editor starts the server")]
    EditorExtension,
    #[error("it is a part of goose")]
    PartOfGoose,
    #[error("its definition is on the hub of Continue")]
    OnContinueHub,
}

impl ConfigProblem {
    /// Returns the key and what is wrong with it, without the location.
    pub fn reason(&self) -> String {
        match &self.location.key {
            Some(key) => format!("key `{key}`: {}", self.problem),
            None => self.problem.to_string(),
        }
    }

    /// Returns the environment variable that must be set, if this is the problem.
    pub fn missing_variable(&self) -> Option<String> {
        match &self.problem {
            Problem::MissingNamedVariable { variable } | Problem::MissingVariable { variable } => {
                Some(variable.clone())
            }
            Problem::MissingInput { id } => Some(input_variable(id)),
            _ => None,
        }
    }

    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match &self.problem {
            Problem::MissingVariable { variable } => {
                format!("set it, or add a fallback: `${{{variable}:-…}}`")
            }
            Problem::MissingInput { id } => {
                format!("set the environment variable `{}`", input_variable(id))
            }
            Problem::MissingNamedVariable { variable } => {
                format!("set the environment variable `{variable}`")
            }
            Problem::InvalidSetting { .. } => "`docs/guide/configuration.md` describes the keys".to_owned(),
            Problem::UnknownPlace { .. } => "change the file in an editor".to_owned(),
            Problem::ReadOnlyFormat => "name another file with `--config FILE`".to_owned(),
            #[cfg(not(all(feature = "toml", feature = "yaml")))]
            Problem::UnsupportedFormat { feature, .. } => {
                format!(
                    "build with the feature `{feature}`, which is on by default, or write the file as JSON"
                )
            }
            Problem::MissingName => "add `name`, such as `- name: files`".to_owned(),
            Problem::EditorVariable { .. } => "write the value instead".to_owned(),
            Problem::UnreadableEnvFile { .. } => "correct `envFile`, or remove it".to_owned(),
            Problem::VariableNotClosed => "write `$${` for a literal `${`".to_owned(),
            Problem::NoServers { similar_key: Some(key) } => did_you_mean_instead("mcpServers", key),
            Problem::NoServers { similar_key: None } => {
                r#"add the servers as an object: {"mcpServers": {"name": {"command": "…"}}}"#.to_owned()
            }
            Problem::NoTransport { mistyped: Some(key) } => did_you_mean_instead(key.meant, &key.found),
            Problem::NoTransport { mistyped: None } => {
                "set `command` for a local process, or `url` for a remote server".to_owned()
            }
            Problem::TwoTransports => "remove one of them, or set `type`".to_owned(),
            Problem::UnknownType { .. } => {
                "remove `type`; the transport is detected from `command` or `url`".to_owned()
            }
            Problem::InvalidTimeout { .. } => {
                "write a number of seconds, or a string such as \"30s\", \"500ms\" or \"2m\"".to_owned()
            }
            Problem::InvalidUrl { .. } => {
                "write the complete URL, such as `https://example.com/mcp`".to_owned()
            }
            Problem::UserCredentialsOfProcess => {
                "set `url` instead of `command`, or remove `auth`".to_owned()
            }
            Problem::NoLoginOfUsers => {
                "remove `oauth` and the header `Authorization`, or set `forwardHeaders`".to_owned()
            }
            Problem::NotForwardable { .. } => {
                "use a header of its own, such as `{\"authorization\": \"x-github-authorization\"}`"
                    .to_owned()
            }
            Problem::Syntax { .. } => "comments and trailing commas are allowed".to_owned(),
            _ => return None,
        })
    }
}

impl ConfigWarning {
    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        match &self.kind {
            WarningKind::UnknownKey { similar_key, .. } => {
                similar_key.map(|similar_key| format!("did you mean `{similar_key}`?"))
            }
            WarningKind::LongTimeout { seconds } => {
                Some(format!("a number is in seconds; for milliseconds, write \"{seconds}ms\""))
            }
            WarningKind::Skipped { reason: SkipReason::EditorExtension | SkipReason::OnContinueHub } => {
                Some("configure its `command` here".to_owned())
            }
            WarningKind::Skipped { reason: SkipReason::PartOfGoose } => None,
            WarningKind::DuplicateKey | WarningKind::UnusedKey { .. } => None,
        }
    }

    /// Returns the reason why the server is skipped, if this is the warning.
    pub fn skip_reason(&self) -> Option<String> {
        match &self.kind {
            WarningKind::Skipped { reason } => Some(reason.to_string()),
            _ => None,
        }
    }

    /// Returns the key that is unknown and therefore ignored, if this is the reason of the warning.
    pub fn unknown_key(&self) -> Option<&str> {
        match &self.kind {
            WarningKind::UnknownKey { key, .. } => Some(key),
            _ => None,
        }
    }
}

fn did_you_mean_instead(meant: &str, found: &str) -> String {
    format!("did you mean `{meant}` instead of `{found}`?")
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.location, self.kind)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some((line, column)) = self.line_and_column {
            write!(formatter, ":{line}:{column}")?;
        }
        match (&self.server, &self.key) {
            (Some(server), Some(key)) => write!(formatter, ": server `{server}`, key `{key}`"),
            (Some(server), None) => write!(formatter, ": server `{server}`"),
            (None, Some(key)) => write!(formatter, ": key `{key}`"),
            (None, None) => Ok(()),
        }
    }
}
