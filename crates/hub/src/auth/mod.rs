//! OAuth for remote servers.
//!
//! A transport only sees `TokenProvider`: it returns a token to send, or none. [`OAuth`] implements it
//! according to MCP's authorization rules, based on rmcp's `auth` module. rmcp does discovery (RFC 9728, RFC
//! 8414, OpenID Connect), PKCE, `resource` and registration. The modules here add what it lacks:
//!
//! - `oauth`: at most one attempt to get a token at a time
//! - `token_manager`: one attempt, and `next_step`: its decisions
//! - `new_grant`: a new login, or the credentials of the client
//! - `stored_token`: the token that other processes renew
//! - `token_storage`: where tokens are stored, and `token_store`: token files
//! - `login`: a user's login, and `redirect`: the local page where it ends
//! - `authorization_server`: discovery, refreshes and client credentials
//! - `token_endpoint`: requests for tokens, with typed errors that contain no secrets
//! - `token_response`: the tokens in its responses
//! - `client_assertion` and `signing_key`: client authentication with a private key

mod authorization_server;
mod challenge;
mod client_assertion;
mod error;
mod login;
mod new_grant;
mod next_step;
mod oauth;
mod redirect;
mod signing_key;
mod stored_token;
mod text;
mod token_endpoint;
mod token_manager;
mod token_response;
mod token_storage;
mod token_store;

use std::io;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::Secret;

pub use error::AuthError;
pub use oauth::{OAuth, StartedLogin};
pub use token_storage::{TokenLock, TokenStorage};

/// Provides the tokens that a transport sends as `Authorization: Bearer …`.
///
/// Before each request, the transport calls `token(None)`. If the response is a 401, or a 403 with the
/// challenge `insufficient_scope`, it calls [`replace`](TokenProvider::replace) with the value of
/// `WWW-Authenticate` (multiple values joined with `, `; an empty string if the header is missing) and
/// repeats the request once with the new token.
///
/// Dropping a returned future only stops waiting: a refresh or a login that has started continues, and the
/// next caller joins it. A call that times out therefore never loses a rotated refresh token.
pub(crate) trait TokenProvider: Send + Sync {
    /// Returns the token to send; `Ok(None)` means to send the request without one.
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Result<Option<Secret>, AuthError>>;

    /// Like `token(Some(challenge))`, for a transport that knows which token was refused. If that token has
    /// been replaced in the meantime, the new token is returned without another refresh.
    fn replace<'a>(
        &'a self,
        refused: Option<&'a Secret>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        let _ = refused;
        self.token(Some(challenge))
    }

    /// Reports whether a user is logging in, so that this time does not count against timeouts. `None` if
    /// there is never a login.
    fn login_in_progress(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Waits until another process has stored a token, after an attempt that had none. Never returns if
    /// tokens are not stored.
    fn stored_token(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Allows a login immediately, because the user requested it.
    fn allow_login(&self) {}

    /// Waits a limited time for a running refresh. No token is requested afterwards.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Opens a login page for the user. Applications without a user provide none.
pub trait Browser: Send + Sync {
    /// Whether a user can see a login page of this server now. If not, the connection fails with the hint to
    /// log in with `toolwire login`.
    fn can_open(&self, server: &str) -> bool {
        let _ = server;
        true
    }

    /// Opens `url`, or prints it for the user to open. May return immediately or when the page is closed: the
    /// result of the login arrives at a local port. `url` is always `https`, or `http` on this machine.
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>>;
}

/// The key `oauth` of a server in `mcp.json`. By default, the client registers itself and a user logs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig {
    /// `clientId`: the id of a client that was registered manually.
    pub client_id: Option<String>,
    /// `clientSecret`
    pub client_secret: Option<Secret>,
    /// `scopes`: requested instead of the scopes that the server names.
    pub scopes: Vec<String>,
    /// `grant`
    pub grant: GrantKind,
    /// `privateKey`: an RSA or EC key in PEM format, or the path of its file; signs client authentication.
    pub private_key: Option<Secret>,
    /// `clientMetadataUrl`: the https URL of this client's metadata document.
    pub client_metadata_url: Option<String>,
    /// `redirectPort`: the local port of `http://127.0.0.1:PORT/callback`; any free port by default.
    pub redirect_port: Option<u16>,
}

impl AuthConfig {
    /// Returns the key that the grant requires and that is not set.
    pub(crate) fn missing_key(&self) -> Option<&'static str> {
        match self {
            AuthConfig { grant: GrantKind::AuthorizationCode, .. } => None,
            AuthConfig { client_id: None, .. } => Some("clientId"),
            AuthConfig { client_secret: None, private_key: None, .. } => Some("clientSecret"),
            _ => None,
        }
    }
}

/// The party that a token is issued to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantKind {
    /// `"authorization_code"`: a user, who logs in with a browser.
    #[default]
    AuthorizationCode,
    /// `"client_credentials"`: the client itself.
    ClientCredentials,
}
