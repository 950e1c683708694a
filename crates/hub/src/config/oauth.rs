//! How a token for a server on the network is got: the key `oauth`.

use crate::Secret;

/// Whether and how a token is got when a server asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `"oauth": false`, or a header `Authorization` is set: a server that asks for a token is an error.
    Off,
    OAuth(Box<AuthConfig>),
}

/// The key `oauth` of a server in `mcp.json`. All of it may be missing: then the client registers itself and a
/// person logs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrantKind {
    /// `"authorization_code"`: a person's, who logs in with a browser.
    #[default]
    AuthorizationCode,
    /// `"client_credentials"`: the client's own.
    ClientCredentials,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth::OAuth(Box::default())
    }
}
