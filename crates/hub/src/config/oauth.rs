//! How a token for a server on the network is got: the key `oauth`.

use reqwest::Url;

use crate::Secret;

/// Whether and how a token is got when a server asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthConfig {
    /// `"oauth": false`, or a header `Authorization` is set: a server that asks for a token is an error.
    Off,
    OAuth(Box<OAuthConfig>),
}

/// What is known before the server and its authorization server are asked. Most servers need nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    pub grant: Grant,
    /// Of a client that was registered by hand; without it, one is registered when it is needed.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// A key in PEM that signs the client's assertions, instead of a secret.
    pub private_key: Option<Secret>,
    /// Where this client's metadata document is published, for servers that take its URL as the client's id.
    pub client_metadata_url: Option<Url>,
    /// Asked for instead of those that the server names.
    pub scopes: Vec<String>,
    /// Of the redirect to this machine, where the registration fixed it.
    pub callback_port: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person signs in with a browser.
    #[default]
    AuthorizationCode,
    /// The client signs in as itself, with its id and a secret or key.
    ClientCredentials,
}

impl Default for AuthConfig {
    fn default() -> AuthConfig {
        AuthConfig::OAuth(Box::default())
    }
}
