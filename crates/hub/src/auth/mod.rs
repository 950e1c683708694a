//! OAuth for servers on the network.
//!
//! A transport knows one thing of it, [`Bearer`]: a token to send, or none. [`OAuth`] is the Bearer that
//! follows MCP's authorization rules on rmcp's `auth` module. What that module does is used as it is: discovery
//! (RFC 9728, RFC 8414, OpenID Connect), PKCE, `resource`, `iss`, registration, the token requests. What it lacks
//! is here, one module each: one attempt at a time (`oauth`), what an attempt does (`keeper`) and why (`decide`),
//! tokens on disk (`store`), a person's login (`login`) and the page it ends at (`redirect`), client
//! authentication with a key (`key`), and answers without their secrets (`answer`).

mod answer;
mod challenge;
mod decide;
mod error;
mod flow;
mod keeper;
mod key;
mod login;
mod oauth;
mod redirect;
mod store;

use std::io;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::Secret;

pub use error::AuthError;
pub use oauth::OAuth;

/// Where a transport gets the token it sends as `Authorization: Bearer …`.
///
/// Before each request it asks for `token(None)`. If the answer is a 401, or a 403 whose challenge says
/// `insufficient_scope`, it asks once more, with the value of `WWW-Authenticate` (several values joined with
/// `, `; the empty string when there was none), and repeats the request once with what it gets.
///
/// Dropping a returned future stops only the wait: a refresh or a login that has begun goes on, so that a call's
/// deadline never loses a rotated refresh token, and the next caller joins what is under way.
pub trait Bearer: Send + Sync {
    /// `Ok(None)`: send the request without a token.
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Result<Option<Secret>, AuthError>>;

    /// As `token(Some(challenge))`, for a transport that remembers which token was refused: with many requests in
    /// flight, one that failed with the old token then gets the new one instead of starting another refresh.
    fn replace<'a>(
        &'a self,
        refused: Option<&'a Secret>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        let _ = refused;
        self.token(Some(challenge))
    }

    /// Whether a person is asked at the moment, where one can be: what waits for it does not count that time.
    fn asking(&self) -> Option<watch::Receiver<bool>> {
        None
    }

    /// Lets what must not be lost come to its end, in bounded time. Nobody asks for a token any more.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Shows a login page to a person. The application gives one where there is a person to ask.
pub trait Browser: Send + Sync {
    /// Opens `url`, or prints it for the person to open. May return at once or when the page is done with: the
    /// answer arrives at a local port, not here. `url` is `https`, or `http` on this machine, and nothing else.
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>>;
}

/// The key `oauth` of a server in `mcp.json`. All of it may be missing: then the client registers itself and a
/// person logs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthConfig {
    /// `clientId`: a client that was registered beforehand.
    pub client_id: Option<String>,
    /// `clientSecret`
    pub client_secret: Option<Secret>,
    /// `scopes`: asked for instead of those the server names.
    pub scopes: Vec<String>,
    /// `grant`
    pub grant: GrantKind,
    /// `privateKey`: an RSA or EC key as PEM, or the path of a file with it; signs client authentication.
    pub private_key: Option<Secret>,
    /// `clientMetadataUrl`: where this client's metadata document is published (https).
    pub client_metadata_url: Option<String>,
    /// `redirectPort`: the local port of `http://127.0.0.1:PORT/callback`; any free one otherwise.
    pub redirect_port: Option<u16>,
}

/// On whose behalf a token is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GrantKind {
    /// `"authorization_code"`: a person's, who logs in with a browser.
    #[default]
    AuthorizationCode,
    /// `"client_credentials"`: the client's own.
    ClientCredentials,
}
