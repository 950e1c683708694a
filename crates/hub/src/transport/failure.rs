//! The reasons why a transport delivered no response.

use std::time::Duration;

/// The transport could not deliver a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransportFailure {
    #[error("the response is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the response cannot be parsed: {reason}")]
    Unreadable { reason: String },
    #[error("the response is compressed (content-encoding: {encoding}), which was not requested")]
    Compressed { encoding: String },
    #[error("could not reach the server: {reason}")]
    Unreachable { reason: String },
    #[error("no TLS connection: {0}")]
    Tls(TlsProblem),
    #[error("the connection failed: {reason}")]
    Interrupted { reason: String },
    #[error("the connection failed: the stream ended before the `endpoint` event")]
    NoEndpoint,
    #[error("the server redirects to `{target}` (HTTP {status})")]
    Redirected { status: u16, target: String },
    #[error("the server requires authorization (HTTP {status})")]
    Unauthorized { status: u16, challenge: String },
    #[error("no token for the server: {reason}")]
    NoToken { reason: String, hint: Option<String> },
    #[error("{} (HTTP {status}){}", overload(*status), suffix(excerpt))]
    RateLimited { status: u16, retry_after: Option<Duration>, excerpt: String },
    #[error("the server responded with HTTP {status}{}", suffix(excerpt))]
    Status { status: u16, excerpt: String },
    #[error(
        "the server responded with {} instead of JSON or server-sent events{}",
        content_type.as_deref().unwrap_or("no content type"),
        suffix(excerpt)
    )]
    WrongContent { content_type: Option<String>, excerpt: String },
}

/// The reason why a TLS handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error("this port speaks plain http")]
    PlainHttp,
    #[error("its certificate has expired")]
    Expired,
    #[error("its certificate is not valid yet")]
    NotValidYet,
    #[error("its certificate is for another host")]
    WrongHost,
    #[error("its certificate was issued by an unknown authority")]
    UnknownIssuer,
    /// Self-signed certificates, for example.
    #[error("its certificate cannot be verified ({0})")]
    Unverified(String),
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    fn hint(&self) -> &'static str {
        match self {
            TlsProblem::PlainHttp => "write `http://` instead of `https://` in its `url`",
            TlsProblem::Expired | TlsProblem::NotValidYet => {
                "renew the certificate, or correct the clock of this computer"
            }
            TlsProblem::WrongHost => "use the host of the certificate in its `url`",
            TlsProblem::UnknownIssuer | TlsProblem::Unverified(_) => {
                "set `SSL_CERT_FILE` to a file with the certificate of its authority"
            }
            TlsProblem::Other(_) => "check its `url` and the TLS settings of the server",
        }
    }
}

impl TransportFailure {
    /// Returns the next thing to try, in one line.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            TransportFailure::NoToken { hint, .. } => return hint.clone(),
            TransportFailure::Redirected { target, .. } => {
                return Some(format!("if you trust that address, set its `url` to `{target}`"));
            }
            TransportFailure::RateLimited { retry_after: Some(delay), .. } => {
                return Some(format!("try again in {delay:?}"));
            }
            TransportFailure::RateLimited { retry_after: None, .. } => "try again later",
            TransportFailure::Unauthorized { status: 401, .. } => {
                "configure a header with a token, or log in with `toolwire login`"
            }
            TransportFailure::Unauthorized { .. } => {
                "the token lacks a permission: add its scope to `oauth.scopes`"
            }
            TransportFailure::Unreachable { .. } => "check that it is running and that its `url` is correct",
            TransportFailure::Tls(problem) => problem.hint(),
            TransportFailure::Compressed { .. } => {
                "switch off the compression of the server, or of the proxy in front of it"
            }
            TransportFailure::Status { status: 403, .. } => "check the permissions of its token or key",
            TransportFailure::Status { status: 400..=499, .. } | TransportFailure::WrongContent { .. } => {
                "check its `url`: an MCP server does not respond like this"
            }
            TransportFailure::Status { .. } => "check the server's log",
            TransportFailure::Interrupted { .. } => {
                "check the server's log, and whether its `url` must start with `https://`"
            }
            TransportFailure::TooLong { .. }
            | TransportFailure::Unreadable { .. }
            | TransportFailure::NoEndpoint => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether the server may have acted on the request.
    pub(crate) fn may_have_run(&self) -> bool {
        match self {
            TransportFailure::TooLong { .. }
            | TransportFailure::Unreadable { .. }
            | TransportFailure::Compressed { .. }
            | TransportFailure::Interrupted { .. }
            | TransportFailure::WrongContent { .. } => true,
            TransportFailure::Unreachable { .. }
            | TransportFailure::Tls(_)
            | TransportFailure::NoEndpoint
            | TransportFailure::Redirected { .. }
            | TransportFailure::Unauthorized { .. }
            | TransportFailure::NoToken { .. } => false,
            TransportFailure::Status { status, .. } | TransportFailure::RateLimited { status, .. } => {
                *status >= 500 || *status == 408
            }
        }
    }

    /// Whether the failure has nothing to do with the protocol, so that no other way to connect would succeed.
    pub(crate) fn is_independent_of_protocol(&self) -> bool {
        matches!(
            self,
            TransportFailure::Unreachable { .. }
                | TransportFailure::Tls(_)
                | TransportFailure::Redirected { .. }
                | TransportFailure::Unauthorized { .. }
                | TransportFailure::NoToken { .. }
                | TransportFailure::RateLimited { .. }
        )
    }
}

fn overload(status: u16) -> &'static str {
    if status == 503 { "the server is temporarily unavailable" } else { "too many requests" }
}

fn suffix(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}
