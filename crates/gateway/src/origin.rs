//! Checks the headers `Host` and `Origin`. They protect a gateway on this machine from web pages that the
//! user visits: a page can send requests to local addresses, and its own domain can resolve to a local
//! address (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri};

use crate::page::user_login;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names under which the gateway may be reached, and the web pages that may use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginPolicy {
    /// Host names of this gateway, with or without a port, in lower case.
    hosts: Vec<String>,
    /// Origins of web pages, such as `https://chat.example`.
    origins: Vec<String>,
    /// Whether the connections are encrypted.
    is_tls: bool,
}

/// A request that is refused because of where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedOrigin {
    #[error("the request needs exactly one valid `Host` header")]
    NoHost,
    #[error("`{0}` is not a known host name of this gateway; add it to `toolwire.gateway.hosts`")]
    Host(String),
    #[error("web pages of `{0}` may not use this gateway; add it to `toolwire.gateway.origins`")]
    Origin(String),
    #[error("web pages of other sites may not use this gateway")]
    OtherSite,
}

/// An invalid name or origin in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    #[error("`{0}` is not a host name")]
    Host(String),
    #[error("`{0}` is not the origin of a web page")]
    Origin(String),
}

impl OriginError {
    /// Suggests what to do, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            OriginError::Host(_) => "write a name such as `gateway.example`, with a port if it needs one",
            OriginError::Origin(_) => "write a scheme and a host, such as `https://chat.example`",
        }
    }
}

impl OriginPolicy {
    pub(crate) fn new(hosts: &[String], origins: &[String], is_tls: bool) -> OriginPolicy {
        let lower = |text: &String| text.to_ascii_lowercase();
        OriginPolicy {
            hosts: hosts.iter().map(lower).collect(),
            origins: origins.iter().map(lower).collect(),
            is_tls,
        }
    }

    /// Checks the syntax of each host name and each origin. An invalid one would never match a request.
    pub(crate) fn check_settings(&self) -> Result<(), OriginError> {
        if let Some(host) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(OriginError::Host(host.clone()));
        }
        let is_origin = |origin: &&String| {
            origin.split_once("://").is_some_and(|(scheme, host)| {
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                !scheme.is_empty() && scheme.bytes().all(is_name) && is_host(host)
            })
        };
        match self.origins.iter().find(|origin| !is_origin(origin)) {
            Some(origin) => Err(OriginError::Origin(origin.clone())),
            None => Ok(()),
        }
    }

    /// Checks a request that arrived at a local address. Returns the origin to allow in the response, if the
    /// request comes from a configured web page.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        local: SocketAddr,
    ) -> Result<Option<HeaderValue>, RefusedOrigin> {
        let host = single_host(uri, headers)?;
        if !self.allows_host(&host, local) {
            return Err(RefusedOrigin::Host(host.to_string()));
        }
        let configured = match headers.get(ORIGIN) {
            None => None,
            Some(origin) => self.check_origin(origin, &host)?,
        };
        if configured.is_none()
            && let Some(site) = headers.get(FETCH_SITE)
        {
            let is_page_of_ours = site == "same-origin" || (site == "none" && method == Method::GET);
            if !is_page_of_ours && !is_link_to_login(method, uri, headers) {
                return Err(RefusedOrigin::OtherSite);
            }
        }
        Ok(configured)
    }

    /// Allows configured names, the address at which the request arrived, and `localhost` if that is a
    /// loopback address. A literal address is safe, because it is not resolved by DNS.
    fn allows_host(&self, host: &Authority, local: SocketAddr) -> bool {
        let name = host.host().to_ascii_lowercase();
        let with_port = |port: u16| format!("{name}:{port}");
        let is_configured = |allowed: &String| {
            *allowed == name || host.port_u16().is_some_and(|port| *allowed == with_port(port))
        };
        if self.hosts.iter().any(is_configured) {
            return true;
        }
        let address = local.ip().to_canonical();
        if host.port_u16().unwrap_or(if self.is_tls { 443 } else { 80 }) != local.port() {
            return false;
        }
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        literal.parse() == Ok(address) || (address.is_loopback() && name == "localhost")
    }

    fn check_origin(
        &self,
        origin: &HeaderValue,
        host: &Authority,
    ) -> Result<Option<HeaderValue>, RefusedOrigin> {
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        if self.origins.contains(&text) {
            return Ok(Some(origin.clone()));
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        let own = format!("{scheme}://{host}").to_ascii_lowercase();
        if text == own { Ok(None) } else { Err(RefusedOrigin::Origin(text)) }
    }
}

/// Whether a link of another site opens a page for the login of a user at a server, as a page of its own.
/// Opening such a page changes nothing that does not need a secret of the browser.
fn is_link_to_login(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let has = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    method == Method::GET
        && user_login::has_path(uri)
        && has("sec-fetch-mode", "navigate")
        && has("sec-fetch-dest", "document")
}

/// Whether a request comes from this machine, and not through a proxy on it: a proxy keeps the name that its
/// client used, or adds a header such as `x-forwarded-for`.
pub(crate) fn is_from_this_machine(headers: &HeaderMap, local: SocketAddr, client: IpAddr) -> bool {
    const PROXY_HEADERS: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
    let is_loopback = |name: &str| {
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let address = literal.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback());
        address || name.eq_ignore_ascii_case("localhost")
    };
    let host = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    [client, local.ip()].iter().all(|address| address.to_canonical().is_loopback())
        && host.is_some_and(|host| is_loopback(host.host()))
        && !PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

/// Whether a text is a host name or an address, with or without a port.
fn is_host(text: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    Authority::try_from(text).is_ok_and(|host| {
        !host.host().is_empty()
            && host.host().bytes().all(is_name_byte)
            && (host.as_str() == host.host() || host.port_u16().is_some())
    })
}

/// Returns the host of a request, which must have exactly one `Host` header.
fn single_host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, RefusedOrigin> {
    let mut values = headers.get_all(HOST).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(RefusedOrigin::NoHost) };
    let host = Authority::try_from(value.as_bytes()).map_err(|_| RefusedOrigin::NoHost)?;
    let has_valid_port = host.as_str() == host.host() || host.port_u16().is_some();
    let agrees = uri.authority().is_none_or(|target| target == &host);
    if host.as_str().contains('@') || !has_valid_port || !agrees {
        return Err(RefusedOrigin::NoHost);
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &str)], method: Method, local: &str) -> Result<bool, RefusedOrigin> {
        let policy = OriginPolicy::new(
            &["gateway.example".to_owned(), "other.example:8443".to_owned()],
            &["https://chat.example".to_owned()],
            false,
        );
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a header value"));
        }
        let uri = Uri::from_static("/v1/models");
        let local = local.parse().expect("an address");
        policy.check(&method, &uri, &map, local).map(|origin| origin.is_some())
    }

    #[test]
    fn a_request_through_a_proxy_is_not_from_this_machine() {
        let is_direct = |headers: &[(&'static str, &str)], local: &str, client: &str| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_str(value).expect("a header value"));
            }
            is_from_this_machine(
                &map,
                local.parse().expect("an address"),
                client.parse().expect("an address"),
            )
        };
        let (local, client) = ("127.0.0.1:8787", "127.0.0.1");
        for host in ["127.0.0.1:8787", "localhost:8787", "127.0.0.5"] {
            assert!(is_direct(&[("host", host)], local, client), "{host}");
        }
        assert!(is_direct(&[("host", "[::1]:8787")], "[::1]:8787", "::1"));
        assert!(!is_direct(&[("host", "gateway.example")], local, client));
        assert!(!is_direct(&[("host", "localhost"), ("x-forwarded-for", "192.0.2.1")], local, client));
        assert!(!is_direct(&[("host", "localhost"), ("forwarded", "for=192.0.2.1")], local, client));
        assert!(!is_direct(&[("host", "localhost")], local, "192.0.2.1"));
        assert!(!is_direct(&[("host", "localhost")], "192.0.2.1:8787", client));
        assert!(!is_direct(&[], local, client));
    }

    #[test]
    fn only_names_of_this_server_are_accepted() {
        let host = |host: &str, local: &str| check(&[("host", host)], Method::GET, local);
        for allowed in
            ["127.0.0.1:8787", "localhost:8787", "LOCALHOST:8787", "gateway.example", "Gateway.Example:1"]
        {
            assert_eq!(host(allowed, "127.0.0.1:8787"), Ok(false), "{allowed}");
        }
        assert_eq!(host("[::1]:8787", "[::1]:8787"), Ok(false));
        assert_eq!(host("127.0.0.1:8787", "[::ffff:127.0.0.1]:8787"), Ok(false));
        assert_eq!(host("192.0.2.7:8787", "192.0.2.7:8787"), Ok(false));
        assert_eq!(host("other.example:8443", "127.0.0.1:8787"), Ok(false));
        assert_eq!(host("localhost", "127.0.0.1:80"), Ok(false));
        for refused in [
            "evil.test:8787",
            "localhost:8788",
            "localhost",
            "localhost.:8787",
            "127.0.0.1.evil.test:8787",
            "127.1:8787",
            "2130706433:8787",
            "0x7f.0.0.1:8787",
            "other.example:1",
            "other.example",
            "localhost.evil.test:8787",
            "[::1]:8787",
            "0.0.0.0:8787",
            "192.0.2.7:8787",
        ] {
            assert!(matches!(host(refused, "127.0.0.1:8787"), Err(RefusedOrigin::Host(_))), "{refused}");
        }
        for invalid in [
            "",
            "user@localhost:8787",
            "localhost:x",
            "localhost:99999",
            "x/healthz?",
            "a b",
            "localhost:8787,evil",
        ] {
            assert_eq!(host(invalid, "127.0.0.1:8787"), Err(RefusedOrigin::NoHost), "{invalid}");
        }
        assert_eq!(
            host("localhost:8787", "192.0.2.7:8787"),
            Err(RefusedOrigin::Host("localhost:8787".into()))
        );
        assert_eq!(check(&[], Method::GET, "127.0.0.1:8787"), Err(RefusedOrigin::NoHost));
        let twice = [("host", "localhost:8787"), ("host", "localhost:8787")];
        assert_eq!(check(&twice, Method::GET, "127.0.0.1:8787"), Err(RefusedOrigin::NoHost));
    }

    #[test]
    fn settings_that_match_nothing_are_reported() {
        let check = |host: &str, origin: &str| {
            OriginPolicy::new(&[host.to_owned()], &[origin.to_owned()], false).check_settings()
        };
        for (host, origin) in [
            ("gateway.example", "https://chat.example"),
            ("[::1]:80", "http://localhost:3000"),
            ("a", "app://b"),
        ] {
            assert_eq!(check(host, origin), Ok(()), "{host} {origin}");
        }
        for host in ["https://gateway.example", "gateway.example/", "*", "a b", "", "a@b", "a:b"] {
            assert_eq!(check(host, "http://a"), Err(OriginError::Host(host.to_owned())));
        }
        for origin in
            ["*", "chat.example", "https://chat.example/", "https://", "null", "https://*.example", ""]
        {
            assert_eq!(check("a", origin), Err(OriginError::Origin(origin.to_owned())));
        }
    }

    #[test]
    fn only_configured_web_pages_and_our_own_are_accepted() {
        let check = |headers: &[(&'static str, &str)], method: Method| {
            let headers: Vec<_> =
                [("host", "localhost:8787")].into_iter().chain(headers.iter().copied()).collect();
            check(&headers, method, "127.0.0.1:8787")
        };
        assert_eq!(check(&[("origin", "http://localhost:8787")], Method::POST), Ok(false));
        assert_eq!(
            check(&[("origin", "https://chat.example"), ("sec-fetch-site", "cross-site")], Method::POST),
            Ok(true)
        );
        assert_eq!(check(&[("sec-fetch-site", "same-origin")], Method::POST), Ok(false));
        assert_eq!(check(&[("sec-fetch-site", "none")], Method::GET), Ok(false));
        for origin in [
            "null",
            "http://localhost:3000",
            "http://127.0.0.1:8787",
            "https://localhost:8787",
            "",
            "http://evil.test",
        ] {
            assert_eq!(
                check(&[("origin", origin)], Method::POST),
                Err(RefusedOrigin::Origin(origin.to_owned()))
            );
        }
        for (site, method) in
            [("cross-site", Method::GET), ("same-site", Method::POST), ("none", Method::POST)]
        {
            assert_eq!(check(&[("sec-fetch-site", site)], method), Err(RefusedOrigin::OtherSite), "{site}");
        }
    }
}
