//! Authorization errors.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

/// The reason why there is no token for a server. Messages never contain a token, a code or a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    #[error("server `{server}` requires a login, but there is no browser to log in with")]
    LoginRequired { server: String },
    #[error("`oauth.{key}` of server `{server}` {problem}")]
    Config { server: String, key: &'static str, problem: String },
    #[error("cannot discover the authorization server of server `{server}`: {detail}")]
    Discovery { server: String, detail: String },
    #[error("server `{server}` uses the unsafe authorization endpoint `{url}`: {problem}")]
    UnsafeEndpoint { server: String, url: String, problem: &'static str },
    #[error("cannot register a client with the authorization server of server `{server}`: {detail}")]
    Registration { server: String, detail: String },
    #[error("cannot listen on port {port} for the login to server `{server}`")]
    Listen { server: String, port: u16, source: Arc<io::Error> },
    #[error("cannot open a browser for the login to server `{server}`")]
    Browser { server: String, source: Arc<io::Error> },
    #[error("the login to server `{server}` was not completed within {after:?}")]
    LoginTimedOut { server: String, after: Duration },
    #[error("the login to server `{server}` was refused: {detail}")]
    LoginRefused { server: String, detail: String },
    #[error("the login response for server `{server}` came from a different authorization server: {detail}")]
    WrongIssuer { server: String, detail: String },
    #[error("the authorization server of server `{server}` issued no token: {detail}")]
    NoToken { server: String, detail: String },
    #[error("the token of server `{server}` could not be refreshed: {detail}")]
    Refresh { server: String, detail: String },
    #[error("server `{server}` still requires these scopes after a new login: {scopes}")]
    InsufficientScope { server: String, scopes: String },
    #[error("cannot delete the token of server `{server}` in `{}`", path.display())]
    Delete { server: String, path: PathBuf, source: Arc<io::Error> },
    #[error("another process has been refreshing the token of server `{server}` for {after:?}")]
    Locked { server: String, after: Duration },
    #[error("the request for a token of server `{server}` was cancelled")]
    Cancelled { server: String },
}

impl AuthError {
    /// Returns the next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            AuthError::LoginRequired { server } => {
                format!("log in once from a terminal: `toolwire tools --server {server}`")
            }
            AuthError::Config { server, key, .. } => format!("see `oauth.{key}` of `{server}` in mcp.json"),
            AuthError::Discovery { server, .. } => {
                format!("check `url` of `{server}` in mcp.json, or set a fixed token under `headers`")
            }
            AuthError::UnsafeEndpoint { .. } => "ask the operator of the server to use https".to_owned(),
            AuthError::Registration { server, .. } => {
                format!("register a client manually and set `oauth.clientId` of `{server}` in mcp.json")
            }
            AuthError::Listen { server, .. } => {
                format!("free the port or change `oauth.redirectPort` of `{server}` in mcp.json")
            }
            AuthError::Browser { .. } => "run the command where a browser can be opened".to_owned(),
            AuthError::LoginTimedOut { .. } => "try again and complete the login in the browser".to_owned(),
            AuthError::LoginRefused { server, .. } => {
                format!("log in with an account that may use `{server}`, and grant the requested access")
            }
            AuthError::WrongIssuer { .. } => {
                "contact the operator of the server before you try again: this can be an attempt to steal a login"
                    .to_owned()
            }
            AuthError::NoToken { server, .. } => {
                format!("check `oauth.clientId` and `oauth.clientSecret` of `{server}` in mcp.json")
            }
            AuthError::Refresh { .. } => "try again when the authorization server is reachable".to_owned(),
            AuthError::InsufficientScope { server, .. } => {
                format!("check the permissions of your account, or set `oauth.scopes` of `{server}` in mcp.json")
            }
            AuthError::Delete { path, .. } => {
                format!("make `{}` a folder that only you can read and write", path.display())
            }
            AuthError::Locked { .. } => "stop the other process, or try again".to_owned(),
            AuthError::Cancelled { .. } => return None,
        })
    }
}
