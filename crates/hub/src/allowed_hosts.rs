//! The hosts that URLs from untrusted sources may name, and the addresses that they may have.
//!
//! A URL is checked twice: [`AllowedHosts::check`] checks its text, and the resolver of the HTTP client
//! checks every address of its host. The client connects to the checked addresses, so a name cannot have
//! other ones a moment later.

mod address;
mod pattern;
mod resolver;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use address::{AddressRange, is_public, literal};
use pattern::HostPattern;
pub(crate) use resolver::CheckedResolver;

/// The maximum length of a URL.
const MAX_URL_BYTES: usize = 8 * 1024;

/// The hosts that URLs from untrusted sources may name, and the addresses that they may have. By default
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    hosts: Vec<HostPattern>,
    /// Addresses that are allowed although they are not public.
    addresses: Vec<AddressRange>,
}

/// A pattern that is not a host or a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    #[error("`{0}` is not a host such as `mcp.example.com`, `*.example.com` or `mcp.example.com:8443`")]
    Host(String),
    #[error("`{0}` is not an address or a range of addresses such as `10.1.0.0/16`")]
    Address(String),
}

/// The reason why a URL is not connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlRefusal {
    #[error("the URL is invalid")]
    Invalid,
    #[error("the URL contains a user or a password")]
    Credentials,
    #[error("the URL does not start with `https://`")]
    Scheme,
    #[error("the configuration does not allow the host `{host}`")]
    Host { host: String },
    #[error("the address of the host `{host}` is not public")]
    Address { host: String },
}

impl AllowedHosts {
    /// Parses patterns of hosts (`mcp.example.com`, `*.example.com`, `mcp.example.com:8443`,
    /// `mcp.example.com:*`, `*`), and ranges of addresses that these hosts may have although they are not
    /// public (`127.0.0.1`, `10.1.0.0/16`).
    pub fn new<T: AsRef<str>>(hosts: &[T], addresses: &[T]) -> Result<AllowedHosts, PatternError> {
        let host = |text: &T| {
            HostPattern::parse(text.as_ref()).ok_or_else(|| PatternError::Host(text.as_ref().to_owned()))
        };
        let address = |text: &T| {
            AddressRange::parse(text.as_ref()).ok_or_else(|| PatternError::Address(text.as_ref().to_owned()))
        };
        Ok(AllowedHosts {
            hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
            addresses: addresses.iter().map(address).collect::<Result<_, _>>()?,
        })
    }

    /// Parses and checks a URL, except for the addresses of its host if it is a name. Plain `http` is only
    /// for this machine, and only if its address is allowed.
    pub fn check(&self, text: &str) -> Result<Url, UrlRefusal> {
        // The parser removes or replaces these characters, and other parsers do not.
        let is_unusual = |char: char| char.is_whitespace() || char.is_control() || char == '\\';
        if text.len() > MAX_URL_BYTES || text.contains(is_unusual) {
            return Err(UrlRefusal::Invalid);
        }
        let mut url = Url::parse(text).map_err(|_| UrlRefusal::Invalid)?;
        let host = url.host_str().ok_or(UrlRefusal::Invalid)?.to_owned();
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlRefusal::Credentials);
        }
        if !self.hosts.iter().any(|pattern| pattern.matches(&url)) {
            let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
            return Err(UrlRefusal::Host { host: host + &port });
        }
        let ip = literal(&url);
        if ip.is_some_and(|ip| !self.allows(ip)) {
            return Err(UrlRefusal::Address { host });
        }
        let is_this_machine = match ip {
            Some(ip) => ip.to_canonical().is_loopback(),
            None => {
                let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
                host == "localhost" && loopback.into_iter().any(|ip| self.allows(ip))
            }
        };
        match url.scheme() {
            "https" => {}
            "http" if is_this_machine => {}
            _ => return Err(UrlRefusal::Scheme),
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Whether a connection to an address is allowed.
    fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        is_public(ip) || self.addresses.iter().any(|range| range.contains(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hosts: &[&str], addresses: &[&str]) -> AllowedHosts {
        AllowedHosts::new(hosts, addresses).expect("valid patterns")
    }

    fn host(host: &str) -> UrlRefusal {
        UrlRefusal::Host { host: host.to_owned() }
    }

    #[track_caller]
    fn check(allowed: &AllowedHosts, url: &str, expected: Result<&str, UrlRefusal>) {
        assert_eq!(allowed.check(url).map(String::from), expected.map(str::to_owned), "{url}");
    }

    #[test]
    fn no_host_is_allowed_by_default() {
        check(&AllowedHosts::default(), "https://mcp.example.com/mcp", Err(host("mcp.example.com")));
    }

    #[test]
    fn only_hosts_of_the_patterns_are_allowed() {
        let allowed =
            hosts(&["mcp.example.com", "*.tools.example", "other.example:8443", "any.example:*"], &[]);
        for url in [
            "https://mcp.example.com/mcp",
            "https://MCP.example.com:443/mcp?key=1",
            "https://a.tools.example/",
            "https://a.b.tools.example/",
            "https://other.example:8443/",
            "https://any.example/",
            "https://any.example:1234/",
        ] {
            assert!(allowed.check(url).is_ok(), "{url}");
        }
        for (url, refused) in [
            ("https://example.com/", "example.com"),
            ("https://mcp.example.com.evil.test/", "mcp.example.com.evil.test"),
            ("https://mcp.example.com./", "mcp.example.com."),
            ("https://mcp.example.com:8443/", "mcp.example.com:8443"),
            ("https://tools.example/", "tools.example"),
            ("https://eviltools.example/", "eviltools.example"),
            ("https://other.example/", "other.example"),
            ("https://8.8.8.8/", "8.8.8.8"),
        ] {
            check(&allowed, url, Err(host(refused)));
        }
        check(&allowed, "http://mcp.example.com:443/mcp", Err(host("mcp.example.com:443")));
        check(&allowed, "http://any.example/mcp", Err(UrlRefusal::Scheme));
        check(&allowed, "ftp://any.example/mcp", Err(UrlRefusal::Scheme));
        check(&allowed, "https://any.example/mcp#part", Ok("https://any.example/mcp"));
    }

    #[test]
    fn urls_with_credentials_or_unusual_characters_are_refused() {
        let allowed = hosts(&["*:*"], &[]);
        for url in [
            "https://user@mcp.example.com/",
            "https://user:pass@mcp.example.com/",
            "https://:p@mcp.example.com/",
        ] {
            check(&allowed, url, Err(UrlRefusal::Credentials));
        }
        let long = format!("https://mcp.example.com/{}", "a".repeat(MAX_URL_BYTES));
        for url in [
            "https://mcp.example.com\\@evil.test/",
            "https:\\\\mcp.example.com/",
            "https://mcp.example.com/a b",
            "https://mcp.exa\tmple.com/",
            "https://mcp.example.com/\n",
            "https://mcp.example.com/\u{a0}",
            "mcp.example.com",
            "https://",
            "data:text/plain,x",
            "file:///etc/passwd",
            "https://[::1%25lo]/",
            "https://1.2.3.4.5/",
            &long,
        ] {
            check(&allowed, url, Err(UrlRefusal::Invalid));
        }
    }

    /// Security test 10 (docs/security-tests.md): no spelling of an address that is not public is accepted,
    /// even if all hosts are allowed.
    #[test]
    fn spellings_of_addresses_that_are_not_public_are_refused() {
        let allowed = hosts(&["*:*"], &[]);
        for literal in [
            // Loopback.
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "0177.1",
            "0x7f.0x0.0x0.0x1",
            "017700000001",
            "127.255.255.254",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[0:0:0:0:0:ffff:7f00:0001]",
            "[::127.0.0.1]",
            "[::7f00:1]",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
            "127。0。0。1",
            // This network and unspecified addresses.
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "[::]",
            "[::ffff:0:0]",
            "[::ffff:0.0.0.0]",
            // Private networks.
            "10.0.0.1",
            "10.1",
            "0x0a000001",
            "167772161",
            "012.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "0xac100001",
            "192.168.0.1",
            "192.168.1",
            "0xc0a80001",
            "3232235521",
            "[::ffff:10.0.0.1]",
            "[::ffff:c0a8:1]",
            "[fc00::1]",
            "[fd12:3456::1]",
            // Link-local addresses, and the metadata of clouds.
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "0251.0376.0251.0376",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "100.100.100.200",
            "192.0.0.192",
            // Addresses that contain others: NAT64, 6to4, Teredo, and translated ones.
            "[64:ff9b::7f00:1]",
            "[64:ff9b::169.254.169.254]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[2002:7f00:1::]",
            "[2002:a9fe:a9fe::1]",
            "[2001:0:7f00:1::]",
            "[::ffff:0:127.0.0.1]",
            "[fec0::1]",
            // Shared, reserved, documentation, benchmarks, multicast, broadcast.
            "100.64.0.1",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "[ff02::1]",
            "[2001:db8::1]",
            "[3fff::1]",
            "[100::1]",
            "[5f00::1]",
        ] {
            let url = format!("https://{literal}/mcp");
            let refused = allowed.check(&url);
            assert!(
                matches!(refused, Err(UrlRefusal::Address { .. } | UrlRefusal::Invalid)),
                "{url}: {refused:?}"
            );
        }
        for public in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "[2606:4700::1111]", "[::ffff:8.8.8.8]"] {
            assert!(allowed.check(&format!("https://{public}/mcp")).is_ok(), "{public}");
        }
    }

    #[test]
    fn addresses_that_are_not_public_can_be_allowed() {
        let allowed =
            hosts(&["127.0.0.1:*", "[::1]:*", "10.1.2.3", "localhost:*"], &["127.0.0.0/8", "10.1.0.0/16"]);
        check(&allowed, "http://127.0.0.1:8080/mcp", Ok("http://127.0.0.1:8080/mcp"));
        check(&allowed, "https://127.0.0.1/mcp", Ok("https://127.0.0.1/mcp"));
        check(&allowed, "http://localhost:8080/mcp", Ok("http://localhost:8080/mcp"));
        check(&allowed, "https://10.1.2.3/mcp", Ok("https://10.1.2.3/mcp"));
        check(&allowed, "http://10.1.2.3/mcp", Err(UrlRefusal::Scheme));
        check(&allowed, "http://[::1]:80/mcp", Err(UrlRefusal::Address { host: "[::1]".to_owned() }));
        check(&allowed, "http://127.0.0.2:80/mcp", Err(host("127.0.0.2")));
        // `localhost.` is a different name from `localhost`, so it is not treated as this machine.
        check(&allowed, "http://localhost.:8080/mcp", Err(host("localhost.:8080")));
        check(&allowed, "https://localhost./mcp", Err(host("localhost.")));
        let any = hosts(&["*:*"], &["127.0.0.0/8"]);
        check(&any, "http://localhost.:8080/mcp", Err(UrlRefusal::Scheme));
        check(&any, "https://localhost./mcp", Ok("https://localhost./mcp"));
        // A range of IPv4 addresses can be written with IPv6 addresses.
        let mapped = hosts(&["*:*"], &["::ffff:10.1.0.0/112", "::ffff:127.0.0.1"]);
        for (url, expected) in [
            ("https://10.1.2.3/", true),
            ("https://[::ffff:10.1.2.3]/", true),
            ("https://127.0.0.1/", true),
            ("https://10.2.0.1/", false),
            ("https://127.0.0.2/", false),
        ] {
            assert_eq!(mapped.check(url).is_ok(), expected, "{url}");
        }
        let only_public = hosts(&["localhost:*"], &[]);
        check(&only_public, "http://localhost:80/mcp", Err(UrlRefusal::Scheme));
    }

    #[test]
    fn invalid_patterns_are_named() {
        for text in [
            "",
            "https://a.example",
            "a.example/",
            "user@a.example",
            "a.*.example",
            "*.",
            "**",
            "a.example:0",
            "a.example:x",
            "a.example:80:90",
            "a.example::80",
            "[::1]:80:90",
            "*.a.example:80:90",
            "a b",
            "*.1.2.3.4",
        ] {
            assert_eq!(AllowedHosts::new(&[text], &[]), Err(PatternError::Host(text.to_owned())));
        }
        for text in
            ["", "localhost", "10.0.0.0/33", "10.0.0.0/x", "::1/129", "10.0.0.0/8/8", "::ffff:10.0.0.0/90"]
        {
            assert_eq!(AllowedHosts::new(&[], &[text]), Err(PatternError::Address(text.to_owned())));
        }
    }
}
