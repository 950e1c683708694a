//! Patterns of hosts.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

use super::address::literal;

/// A pattern of hosts with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPattern {
    name: NamePattern,
    port: PortPattern,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NamePattern {
    Any,
    /// A name or an address, as the URL parser normalizes it.
    Exact(String),
    /// The names that end with this text, which starts with a dot.
    EndingWith(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortPattern {
    /// The default port of the scheme.
    Default,
    Any,
    Exact(u16),
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Option<HostPattern> {
        // An IPv6 address without brackets has no port.
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Some(HostPattern {
                name: NamePattern::Exact(format!("[{ip}]")),
                port: PortPattern::Default,
            });
        }
        let after_address = text.rfind(']').map_or(0, |position| position + 1);
        let (name, port) = match text[after_address..].rfind(':') {
            Some(position) => {
                let (name, port) = text.split_at(after_address + position);
                (name, port_pattern(&port[1..])?)
            }
            None => (text, PortPattern::Default),
        };
        Some(HostPattern { name: name_pattern(name)?, port })
    }

    /// Whether a URL has a matching host and port.
    pub(super) fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let is_name = match &self.name {
            NamePattern::Any => true,
            NamePattern::Exact(name) => name == host,
            NamePattern::EndingWith(end) => {
                literal(url).is_none() && host.len() > end.len() && host.ends_with(end.as_str())
            }
        };
        let is_port = match self.port {
            // The parser removes the port of the scheme.
            PortPattern::Default => url.port().is_none(),
            PortPattern::Any => true,
            PortPattern::Exact(port) => url.port_or_known_default() == Some(port),
        };
        is_name && is_port
    }
}

fn port_pattern(text: &str) -> Option<PortPattern> {
    match text {
        "*" => Some(PortPattern::Any),
        _ => text.parse().ok().filter(|port| *port > 0).map(PortPattern::Exact),
    }
}

fn name_pattern(text: &str) -> Option<NamePattern> {
    if text == "*" {
        return Some(NamePattern::Any);
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.is_empty()
        || name.contains(['*', '/', '@', '\\', '?', '#', '%'])
        || name.contains(char::is_whitespace)
    {
        return None;
    }
    // The caller has removed the port, so only an address in brackets has colons.
    if name.contains(':') && !(name.starts_with('[') && name.ends_with(']')) {
        return None;
    }
    let url = Url::parse(&format!("https://{name}/")).ok()?;
    let normalized = url.host_str()?.to_owned();
    match name.len() == text.len() {
        true => Some(NamePattern::Exact(normalized)),
        // An address has no subdomains.
        false => {
            normalized.parse::<IpAddr>().is_err().then(|| NamePattern::EndingWith(format!(".{normalized}")))
        }
    }
}
