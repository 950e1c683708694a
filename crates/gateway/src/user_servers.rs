//! MCP servers for which each user of the gateway has credentials of its own.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::HeaderMap;
use toolwire_contract::Secret;
use toolwire_contract::toolbox::Toolbox;

/// Servers for which each user has credentials of its own.
///
/// A connection, its tools and its results belong to one user and to one set of credentials.
pub trait UserServers: Send + Sync {
    /// Whether there are no such servers.
    fn is_empty(&self) -> bool;

    /// Returns the servers for a user, each with its name and its tools. They are connected when their tools
    /// are used, and the connections may be closed in between.
    fn servers(&self, user: &ServerUser) -> Vec<(String, Arc<dyn Toolbox>)>;

    /// Returns a number that increases with each change of the configured servers.
    fn version(&self) -> u64;

    /// Returns the address of the gateway for browsers, to which logins return, without a path: a scheme, a
    /// host and optionally a port. Without it, no server has a login.
    fn login_address(&self) -> Option<String>;

    /// Returns the names of the headers of requests that contain credentials, in lower case.
    fn headers(&self) -> Vec<String>;

    /// Starts the login of a user at a server, and returns the address of its page.
    fn start_login(&self, login: UserLogin) -> BoxFuture<'_, Result<String, UserLoginError>>;

    /// Completes a login with the query of its redirect, and returns the name of the server. `browser` is
    /// that of the login that was started. A login can be completed once.
    fn complete_login(&self, query: String, browser: Secret)
    -> BoxFuture<'_, Result<String, UserLoginError>>;
}

/// A user of the gateway, and the credentials that its request contains.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerUser {
    /// Identifies the user, also after a restart: letters, digits, `_` and `-`.
    pub id: String,
    /// The headers with credentials, each once: the name in lower case, and the value.
    pub headers: Vec<(String, Secret)>,
}

impl ServerUser {
    /// The id of the only user of a gateway without keys.
    pub const WITHOUT_KEY: &'static str = "nobody";

    pub fn new(id: impl Into<String>, headers: Vec<(String, Secret)>) -> ServerUser {
        ServerUser { id: id.into(), headers }
    }
}

impl fmt::Debug for ServerUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerUser").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A login that begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UserLogin {
    /// The id of the user who gets the tokens.
    pub user: String,
    /// The name of the server.
    pub server: String,
    /// A secret that only the user's browser has. The login can be completed only with it, so that nobody can
    /// complete the login of somebody else.
    pub browser: Secret,
}

impl UserLogin {
    pub fn new(user: impl Into<String>, server: impl Into<String>, browser: Secret) -> UserLogin {
        UserLogin { user: user.into(), server: server.into(), browser }
    }
}

/// The reason why a login does not work. It contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserLoginError {
    #[error("no server named `{server}` has a login of its users")]
    UnknownServer { server: String },
    #[error("this login is unknown: it was completed, it has expired, or it was started in another browser")]
    UnknownLogin,
    #[error("the login failed: {reason}")]
    Failed { reason: String },
}

/// Returns the headers with credentials. A header that a request has several times is not used.
pub(crate) fn credentials(names: &[String], headers: &HeaderMap) -> Vec<(String, Secret)> {
    let mut found = Vec::new();
    for name in names {
        let mut values = headers.get_all(name.as_str()).iter();
        if let (Some(value), None) = (values.next(), values.next())
            && let Ok(text) = value.to_str()
        {
            found.push((name.clone(), Secret::new(text)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_headers_with_credentials_are_taken() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-token", "one"),
            ("x-twice", "a"),
            ("x-twice", "b"),
            ("x-other", "two"),
            ("x-binary", "\u{e9}"),
        ] {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            headers.append(name, value);
        }
        let names = ["x-token", "x-twice", "x-binary", "x-missing"].map(str::to_owned);
        assert_eq!(credentials(&names, &headers), [("x-token".to_owned(), Secret::new("one"))]);
        let user = ServerUser::new("key_1", credentials(&names, &headers));
        assert!(!format!("{user:?}").contains("one"));
    }
}
