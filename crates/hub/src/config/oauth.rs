//! How a token for a server on the network is got: the key `oauth`.

use crate::auth::AuthConfig;

/// Whether and how a token is got when a server asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `"oauth": false`, or a header `Authorization` is set: a server that asks for a token is an error.
    Off,
    OAuth(Box<AuthConfig>),
}

impl Default for Auth {
    fn default() -> Auth {
        Auth::OAuth(Box::default())
    }
}
