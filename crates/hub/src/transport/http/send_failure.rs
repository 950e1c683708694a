//! The reasons why an HTTP request got no response.

use std::error::Error;
use std::io;

use reqwest::Url;
use rustls::CertificateError;

use crate::config::redact_url;
use crate::transport::TransportFailure;
use crate::transport::failure::{ProxySetting, TlsProblem};

/// Returns the reason why a request got no response. `url` is that of the request if a proxy may have been
/// used.
pub(super) fn send_failure(error: &reqwest::Error, url: Option<&Url>) -> TransportFailure {
    if error.is_redirect() {
        return TransportFailure::RedirectLoop;
    }
    if let Some(problem) = tls_problem(error) {
        return TransportFailure::Tls(problem);
    }
    let reason = root_cause(error);
    match error.is_connect() {
        true => {
            let proxy = url.and_then(|url| proxy_of(url, |name| std::env::var(name).ok()));
            TransportFailure::Unreachable { reason, proxy }
        }
        false => TransportFailure::Interrupted { reason },
    }
}

/// Returns the proxy of requests to `url`, as the environment sets it.
fn proxy_of(url: &Url, variables: impl Fn(&str) -> Option<String>) -> Option<ProxySetting> {
    let names: [&'static str; 4] = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let variable = |name: &str| variables(name).filter(|value| !value.trim().is_empty());
    let (name, proxy) = names.into_iter().find_map(|name| Some((name, variable(name)?)))?;
    let host = url.host_str()?;
    let is_exempt = |entry: &str| {
        let entry = entry.trim().trim_start_matches('.');
        let is_parent = || host.strip_suffix(entry).is_some_and(|rest| rest.ends_with('.'));
        entry == "*" || entry == host || (!entry.is_empty() && is_parent())
    };
    let exempt = variable("NO_PROXY").or_else(|| variable("no_proxy")).unwrap_or_default();
    if exempt.split(',').any(is_exempt) {
        return None;
    }
    let has_scheme = proxy.contains("://");
    let proxy = Url::parse(&if has_scheme { proxy } else { format!("http://{proxy}") }).ok()?;
    let mut shown = proxy;
    // Both fail only for URLs without a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    Some(ProxySetting { variable: name, url: redact_url(&shown) })
}

/// Finds an error of TLS among the causes of an error.
fn tls_problem(error: &(dyn Error + 'static)) -> Option<TlsProblem> {
    let mut cause = error;
    let error = loop {
        // `io::Error::source` skips the error that it contains.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn Error + 'static));
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            break error;
        }
        cause = inner.or_else(|| cause.source())?;
    };
    Some(match error {
        rustls::Error::InvalidMessage(_) => TlsProblem::PlainHttp,
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsProblem::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsProblem::NotValidYet
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsProblem::WrongHost
            }
            CertificateError::UnknownIssuer => TlsProblem::UnknownIssuer,
            CertificateError::BadSignature => TlsProblem::BadSignature,
            CertificateError::Other(reason)
                if matches!(reason.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
            {
                TlsProblem::Authority
            }
            CertificateError::Other(reason) => TlsProblem::Unverified(reason.to_string()),
            other => TlsProblem::Unverified(other.to_string()),
        },
        other => TlsProblem::Other(other.to_string()),
    })
}

/// Returns the innermost error: `connection refused` rather than `error sending request`.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut source: &dyn Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    source.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_proxy_is_named_without_credentials() {
        let proxy = |url: &str, exempt: &str| {
            let variables = |name: &str| match name {
                "HTTPS_PROXY" => Some("http://user:s3cret@proxy.example:3128".to_owned()),
                "all_proxy" => Some("127.0.0.1:9".to_owned()),
                "no_proxy" => Some(exempt.to_owned()),
                _ => None,
            };
            let url = Url::parse(url).expect("a valid URL");
            proxy_of(&url, variables).map(|proxy| (proxy.variable, proxy.url))
        };
        let (https, http) = ("https://mcp.example.com/mcp", "http://mcp.example.com/mcp");
        assert_eq!(proxy(https, ""), Some(("HTTPS_PROXY", "http://proxy.example:3128/".to_owned())));
        assert_eq!(proxy(http, "other.com"), Some(("all_proxy", "http://127.0.0.1:9/".to_owned())));
        for exempt in ["*", "localhost, example.com", ".example.com", "mcp.example.com"] {
            assert_eq!(proxy(https, exempt), None, "{exempt}");
        }
    }

    #[test]
    fn tls_errors_are_found_and_described() {
        let described = |error: rustls::Error| {
            let error = io::Error::other(io::Error::other(error));
            tls_problem(&error).map(|problem| problem.to_string())
        };
        for (error, expected) in [
            (CertificateError::Expired, "its certificate has expired"),
            (CertificateError::NotValidForName, "its certificate is for another host"),
            (CertificateError::UnknownIssuer, "its certificate was issued by an unknown authority"),
            (CertificateError::BadSignature, "its certificate was not signed by the authority that it names"),
            (
                CertificateError::Other(rustls::OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity))),
                "its certificate is that of an authority (CA), which cannot be used as a server certificate",
            ),
            (CertificateError::Revoked, "its certificate cannot be verified (Revoked)"),
        ] {
            assert_eq!(described(error.into()).as_deref(), Some(expected));
        }
        let plain = rustls::InvalidMessage::InvalidContentType.into();
        assert_eq!(described(plain).as_deref(), Some("this port uses plain HTTP"));
        assert_eq!(tls_problem(&io::Error::other("closed")), None);
    }
}
