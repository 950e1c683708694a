//! The reasons why a transport delivered no response.

use std::path::Path;
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
    #[error("could not reach the server{}: {reason}", via(proxy))]
    Unreachable { reason: String, proxy: Option<ProxySetting> },
    #[error("no TLS connection: {0}")]
    Tls(TlsProblem),
    #[error("the connection failed: {reason}")]
    Interrupted { reason: String },
    #[error("the connection failed: the stream ended before the `endpoint` event")]
    NoEndpoint,
    #[error("the server redirects to `{target}` (HTTP {status})")]
    Redirected {
        status: u16,
        target: String,
        /// Whether `target` is the complete address, without anything that may be secret.
        is_complete: bool,
    },
    #[error("the server redirects in a loop")]
    RedirectLoop,
    #[error("the server requires authorization (HTTP {status})")]
    Unauthorized { status: u16, challenge: String, sent: Credentials },
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

/// The credentials of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// The configured `Authorization` header.
    Header,
    /// A token of OAuth, if there was one.
    OAuth,
    /// A token of OAuth that was issued after the server had refused another one, or none.
    NewToken,
    /// None: OAuth is switched off.
    None,
}

/// The proxy of a request, and the environment variable that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxySetting {
    pub(crate) variable: &'static str,
    /// Without a user and a password.
    pub(crate) url: String,
}

fn via(proxy: &Option<ProxySetting>) -> String {
    proxy.as_ref().map_or_else(String::new, |proxy| format!(" through the proxy `{}`", proxy.url))
}

/// The reason why a TLS handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error("this port uses plain HTTP")]
    PlainHttp,
    #[error("its certificate has expired")]
    Expired,
    #[error("its certificate is not valid yet")]
    NotValidYet,
    #[error("its certificate is for another host")]
    WrongHost,
    #[error("its certificate was issued by an unknown authority")]
    UnknownIssuer,
    #[error("its certificate is that of an authority (CA), which cannot be used as a server certificate")]
    Authority,
    #[error("its certificate was not signed by the authority that it names")]
    BadSignature,
    #[error("its certificate cannot be verified ({0})")]
    Unverified(String),
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    fn hint(&self) -> String {
        let is_unknown =
            matches!(self, TlsProblem::UnknownIssuer | TlsProblem::BadSignature | TlsProblem::Unverified(_));
        let file = std::env::var_os("SSL_CERT_FILE").filter(|_| is_unknown);
        if let Some(hint) = file.and_then(|file| unreadable_certificates(Path::new(&file))) {
            return hint;
        }
        let hint = match self {
            TlsProblem::PlainHttp => "write `http://` instead of `https://` in its `url`",
            TlsProblem::Expired | TlsProblem::NotValidYet => {
                "renew the certificate, or correct the clock of this computer"
            }
            TlsProblem::WrongHost => "use the host of the certificate in its `url`",
            TlsProblem::UnknownIssuer | TlsProblem::BadSignature | TlsProblem::Unverified(_) => {
                "set `SSL_CERT_FILE` to a file with the certificate of its authority"
            }
            TlsProblem::Authority => {
                "create the certificate with `basicConstraints=CA:FALSE` (`openssl req -x509 -addext …`), and set \
                 `SSL_CERT_FILE` to it"
            }
            TlsProblem::Other(_) => "check its `url` and the TLS settings of the server",
        };
        hint.to_owned()
    }
}

/// Returns the hint if the file of `SSL_CERT_FILE` cannot be read.
fn unreadable_certificates(file: &Path) -> Option<String> {
    let error = std::fs::read(file).err()?;
    Some(format!("`SSL_CERT_FILE` names `{}`, which cannot be read: {error}", file.display()))
}

impl TransportFailure {
    /// Whether the server requires a token, and there is no valid one.
    pub(crate) fn needs_token(&self) -> bool {
        matches!(self, TransportFailure::Unauthorized { .. } | TransportFailure::NoToken { .. })
    }

    /// Returns the next thing to try, in one line.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            TransportFailure::NoToken { hint, .. } => return hint.clone(),
            // Browsers are sent to a login page with these.
            TransportFailure::Redirected { status: 302 | 303, .. } => {
                "if that is a login page, configure a token under `headers`; otherwise correct its `url`"
            }
            TransportFailure::Redirected { target, is_complete: true, .. } => {
                return Some(format!("if you trust that address, set its `url` to `{target}`"));
            }
            TransportFailure::Redirected { .. } => "if you trust that address, set its `url` to it",
            TransportFailure::RedirectLoop => "check its `url`, and the redirects of the server",
            TransportFailure::RateLimited { retry_after: Some(delay), .. } => {
                return Some(format!("try again in {delay:?}"));
            }
            TransportFailure::RateLimited { retry_after: None, .. } => "try again later",
            TransportFailure::Unauthorized { status: 401, sent, .. } => match sent {
                Credentials::Header => "check the token in its `Authorization` header",
                Credentials::OAuth => "configure a token under `headers`, or log in with `toolwire login`",
                Credentials::NewToken => {
                    "it refuses even a token that was just issued: check its `url` and `oauth.scopes`, or configure \
                     a token under `headers`"
                }
                Credentials::None => "configure a token under `headers`, or remove `\"oauth\": false`",
            },
            TransportFailure::Unauthorized { sent: Credentials::Header | Credentials::None, .. } => {
                "check the permissions of its token or key"
            }
            TransportFailure::Unauthorized { .. } => {
                "the token lacks a permission: add its scope to `oauth.scopes`"
            }
            TransportFailure::Unreachable { proxy: Some(proxy), .. } => {
                return Some(format!(
                    "check the environment variable `{}`, or add the host to `NO_PROXY`",
                    proxy.variable
                ));
            }
            TransportFailure::Unreachable { .. } => "check that it is running and that its `url` is correct",
            TransportFailure::Tls(problem) => return Some(problem.hint()),
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
            | TransportFailure::RedirectLoop
            | TransportFailure::Unauthorized { .. }
            | TransportFailure::NoToken { .. } => false,
            TransportFailure::Status { status, .. } | TransportFailure::RateLimited { status, .. } => {
                *status >= 500 || *status == 408
            }
        }
    }

    /// Whether the failure has nothing to do with the protocol, so that no other way to connect would
    /// succeed.
    pub(crate) fn is_independent_of_protocol(&self) -> bool {
        matches!(
            self,
            TransportFailure::Unreachable { .. }
                | TransportFailure::Tls(_)
                | TransportFailure::Redirected { .. }
                | TransportFailure::RedirectLoop
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_file_of_certificates_is_named() {
        let hint = unreadable_certificates(Path::new("/no/such/file.pem")).unwrap_or_default();
        assert!(
            hint.starts_with("`SSL_CERT_FILE` names `/no/such/file.pem`, which cannot be read: "),
            "{hint}"
        );
        assert_eq!(unreadable_certificates(&std::env::current_exe().unwrap_or_default()), None);
    }

    #[test]
    fn hints_suggest_only_what_helps() {
        let hint = |failure: TransportFailure| failure.hint().unwrap_or_default();
        let refused = |sent| TransportFailure::Unauthorized { status: 401, challenge: String::new(), sent };
        assert!(hint(refused(Credentials::OAuth)).contains("toolwire login"));
        assert!(!hint(refused(Credentials::NewToken)).contains("toolwire login"));
        assert!(!hint(refused(Credentials::Header)).contains("login"));
        assert!(!hint(refused(Credentials::None)).contains("login"));
        let redirected = |status, is_complete| TransportFailure::Redirected {
            status,
            target: "https://example.com/…".to_owned(),
            is_complete,
        };
        assert!(hint(redirected(302, true)).contains("login page"));
        assert!(hint(redirected(308, true)).ends_with("set its `url` to `https://example.com/…`"));
        assert!(hint(redirected(308, false)).ends_with("set its `url` to it"));
        let proxy = ProxySetting { variable: "HTTPS_PROXY", url: "http://127.0.0.1:9/".to_owned() };
        let failure = TransportFailure::Unreachable { reason: "refused".to_owned(), proxy: Some(proxy) };
        assert_eq!(
            failure.to_string(),
            "could not reach the server through the proxy `http://127.0.0.1:9/`: refused"
        );
        assert!(hint(failure).contains("`HTTPS_PROXY`"));
    }
}
