//! What can go wrong between a server and its authorization server.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

/// Why there is no token. Says which server; never shows a token, a code or a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    #[error("server `{server}` asks for a login and there is nobody to ask")]
    LoginNeeded { server: String },
    #[error("key `oauth.{key}` of server `{server}` {why}")]
    Config { server: String, key: &'static str, why: String },
    #[error("cannot find out how to log in to server `{server}`: {detail}")]
    Discovery { server: String, detail: String },
    #[error("server `{server}` names `{url}` for its login, which is not safe: {why}")]
    Unsafe { server: String, url: String, why: &'static str },
    #[error("cannot register with the authorization server of server `{server}`: {detail}")]
    Registration { server: String, detail: String },
    #[error("cannot listen on port {port} for the login to server `{server}`")]
    Listen { server: String, port: u16, source: Arc<io::Error> },
    #[error("cannot open a browser for the login to server `{server}`")]
    Browser { server: String, source: Arc<io::Error> },
    #[error("nobody logged in to server `{server}` within {after:?}")]
    LoginTimedOut { server: String, after: Duration },
    #[error("the login to server `{server}` was refused: {detail}")]
    LoginRefused { server: String, detail: String },
    #[error("the answer to the login to server `{server}` is from another authorization server: {detail}")]
    WrongIssuer { server: String, detail: String },
    #[error("server `{server}`'s authorization server gave no token: {detail}")]
    NoToken { server: String, detail: String },
    #[error("server `{server}`'s token has run out and could not be refreshed: {detail}")]
    Refresh { server: String, detail: String },
    #[error("server `{server}` still asks for more rights after they were granted: {scopes}")]
    InsufficientScope { server: String, scopes: String },
    #[error("cannot keep the token of server `{server}` in `{}`", path.display())]
    Store { server: String, path: PathBuf, source: Arc<io::Error> },
    #[error("another process has been refreshing the token of server `{server}` for {after:?}")]
    Busy { server: String, after: Duration },
    #[error("the login to server `{server}` was stopped")]
    Stopped { server: String },
}

impl AuthError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            AuthError::LoginNeeded { server } => {
                format!("log in once from a terminal: `toolwire tools --server {server}`")
            }
            AuthError::Config { server, key, .. } => format!("see `oauth.{key}` of `{server}` in mcp.json"),
            AuthError::Discovery { server, .. } => {
                format!(
                    "check `url` of `{server}` in mcp.json; if it takes a fixed token, set it under `headers`"
                )
            }
            AuthError::Unsafe { .. } => "ask whoever runs the server to use https".to_owned(),
            AuthError::Registration { server, .. } => {
                format!("register a client by hand and set `oauth.clientId` of `{server}` in mcp.json")
            }
            AuthError::Listen { server, .. } => {
                format!("free the port or change `oauth.redirectPort` of `{server}` in mcp.json")
            }
            AuthError::Browser { .. } => "run it where a browser can be opened".to_owned(),
            AuthError::LoginTimedOut { .. } => "try again and finish the login in the browser".to_owned(),
            AuthError::LoginRefused { server, .. } => {
                format!("log in with an account that may use `{server}`, and allow what it asks for")
            }
            AuthError::WrongIssuer { .. } => {
                "do not try again before whoever runs the server has explained it: this is how a login is stolen"
                    .to_owned()
            }
            AuthError::NoToken { server, .. } => {
                format!("check `oauth.clientId` and `oauth.clientSecret` of `{server}` in mcp.json")
            }
            AuthError::Refresh { .. } => "try again when the authorization server can be reached".to_owned(),
            AuthError::InsufficientScope { server, .. } => {
                format!("your account may lack these rights; or set `oauth.scopes` of `{server}` in mcp.json")
            }
            AuthError::Store { path, .. } => {
                format!("make `{}` a folder that only you can read and write", path.display())
            }
            AuthError::Busy { .. } => "end the other process, or try again".to_owned(),
            AuthError::Stopped { .. } => return None,
        })
    }

    /// Whether trying again is of no use before a person has done something.
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self,
            AuthError::Discovery { .. }
                | AuthError::Refresh { .. }
                | AuthError::NoToken { .. }
                | AuthError::Store { .. }
                | AuthError::Busy { .. }
                | AuthError::Stopped { .. }
        )
    }
}
