//! Authorization errors.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The reason why there is no token for a server. Messages never contain a token, a code or a secret.
#[derive(Debug, Clone)]
pub struct AuthError {
    pub(super) server: String,
    pub(super) problem: AuthProblem,
}

#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum AuthProblem {
    #[error("{}", login_required(refused.as_deref()))]
    LoginRequired {
        /// The reason why the authorization server refused to refresh the last token.
        refused: Option<String>,
    },
    #[error("`oauth.{key}` {problem}")]
    Config { key: &'static str, problem: String },
    #[error("cannot discover its authorization server: {detail}")]
    Discovery { detail: String },
    #[error("it requires a token but names no authorization server")]
    NoAuthorizationServer,
    #[error("unsafe authorization endpoint `{url}`: {problem}")]
    UnsafeEndpoint { url: String, problem: &'static str },
    #[error("cannot register a client with its authorization server: {detail}")]
    Registration { detail: String },
    #[error("cannot listen on port {port} for the login")]
    Listen { port: u16, source: Arc<io::Error> },
    #[error("cannot open a browser for the login")]
    Browser { source: Arc<io::Error> },
    #[error("the login was not completed within {after:?}")]
    LoginTimedOut { after: Duration },
    #[error("the login was refused: {detail}")]
    LoginRefused { detail: String },
    #[error("the login response came from a different authorization server: {detail}")]
    WrongIssuer { detail: String },
    #[error("the login response does not name its authorization server (`iss` is missing)")]
    NoIssuer,
    #[error("its authorization server issued no token: {detail}")]
    NoToken { detail: String },
    #[error("its token could not be refreshed: {detail}")]
    Refresh { detail: String },
    #[error("it still requires these scopes after a new login: {scopes}")]
    InsufficientScope { scopes: String },
    #[error("the login response does not belong to this login")]
    WrongRedirect,
    #[error("cannot store its token")]
    Store { source: Arc<io::Error> },
    #[error("{}", cannot_delete(path.as_deref()))]
    Delete {
        /// The folder of the token files, if the tokens are in files.
        path: Option<PathBuf>,
        source: Arc<io::Error>,
    },
    // The reason is only logged, because it contains the address of the store.
    #[error("its stored token cannot be read")]
    Storage,
    #[error("another process has been refreshing its token for {after:?}")]
    Locked { after: Duration },
    #[error("the request for a token was cancelled")]
    Cancelled,
}

fn login_required(refused: Option<&str>) -> String {
    match refused {
        Some(detail) => format!("a new login is required, because its token was not refreshed: {detail}"),
        None => "a login is required, but there is no browser to log in with".to_owned(),
    }
}

fn cannot_delete(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("cannot delete its token in `{}`", path.display()),
        None => "cannot delete its token".to_owned(),
    }
}

impl AuthError {
    /// Returns the reason without the name of the server.
    pub fn reason(&self) -> String {
        self.problem.to_string()
    }

    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        let server = &self.server;
        Some(match &self.problem {
            AuthProblem::LoginRequired { .. } => format!("log in with `toolwire login {server}`"),
            AuthProblem::Config { key, .. } => format!("see `oauth.{key}` of `{server}` in the configuration"),
            AuthProblem::Discovery { .. } | AuthProblem::NoAuthorizationServer => {
                format!("check `url` of `{server}` in the configuration, or set a fixed token under `headers`")
            }
            AuthProblem::UnsafeEndpoint { .. } => "ask the operator of the server to use https".to_owned(),
            AuthProblem::Registration { .. } => {
                format!("register a client manually and set `oauth.clientId` of `{server}` in the configuration")
            }
            AuthProblem::Listen { .. } => {
                format!("free the port or change `oauth.redirectPort` of `{server}` in the configuration")
            }
            AuthProblem::Browser { .. } => "run the command where a browser can be opened".to_owned(),
            AuthProblem::LoginTimedOut { .. } => "try again and complete the login in the browser".to_owned(),
            AuthProblem::LoginRefused { .. } => {
                format!("log in with an account that may use `{server}`, and grant the requested access")
            }
            AuthProblem::WrongIssuer { .. } | AuthProblem::NoIssuer => {
                "contact the operator of the server before you try again: this can be an attempt to steal a login"
                    .to_owned()
            }
            AuthProblem::NoToken { .. } => {
                format!("check `oauth.clientId` and `oauth.clientSecret` of `{server}` in the configuration")
            }
            AuthProblem::Refresh { .. } => "try again when the authorization server is reachable".to_owned(),
            AuthProblem::InsufficientScope { .. } => {
                format!("check the permissions of your account, or set `oauth.scopes` of `{server}` in the configuration")
            }
            AuthProblem::Delete { path, .. } => {
                let path = path.as_ref()?;
                format!("make `{}` a folder that only you can read and write", path.display())
            }
            AuthProblem::WrongRedirect | AuthProblem::Store { .. } => "start the login again".to_owned(),
            AuthProblem::Storage => "try again when the store of the tokens is reachable".to_owned(),
            AuthProblem::Locked { .. } => "stop the other process, or try again".to_owned(),
            AuthProblem::Cancelled => return None,
        })
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "server `{}`: {}", self.server, self.problem)
    }
}

impl Error for AuthError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}
