//! Addresses of links.

use std::fmt::{self, Write as _};

use maud::Render;

/// The address of a link: a path of the page, or an external address with a safe scheme. It is the only type
/// that the templates use for `href`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link(String);

impl Link {
    /// Creates a link to a path of the page. Each segment is escaped.
    pub fn to(segments: &[&str]) -> Link {
        let mut path = String::new();
        for segment in segments {
            path.push('/');
            escape(&mut path, segment);
        }
        Link(if path.is_empty() { "/".to_owned() } else { path })
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Link {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        escape(&mut self.0, name);
        self.0.push('=');
        escape(&mut self.0, value);
        self
    }

    /// Adds the id of an element.
    #[must_use]
    pub fn at(mut self, id: &str) -> Link {
        self.0.push('#');
        escape(&mut self.0, id);
        self
    }

    /// Returns a link to an external address, if its scheme is `http`, `https` or `mailto`, and it has no
    /// characters that browsers remove or replace.
    pub fn external(address: &str) -> Option<Link> {
        let (scheme, rest) = address.split_once(':')?;
        let is_safe = match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => rest.strip_prefix("//").is_some_and(has_host),
            "mailto" => rest.contains('@'),
            _ => false,
        };
        let is_plain = |character: char| {
            !character.is_control() && !character.is_whitespace() && !"\\<>\"`".contains(character)
        };
        (is_safe && address.chars().all(is_plain)).then(|| Link(address.to_owned()))
    }

    /// Returns the host of an external address.
    pub fn host(&self) -> Option<&str> {
        let (_, rest) = self.0.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        Some(authority.rsplit_once('@').map_or(authority, |(_, host)| host))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Render for Link {
    fn render_to(&self, buffer: &mut String) {
        self.0.as_str().render_to(buffer);
    }
}

fn has_host(rest: &str) -> bool {
    rest.split(['/', '?', '#']).next().is_some_and(|host| !host.is_empty())
}

/// Appends a text with percent escapes for all bytes that have a meaning in an address.
fn escape(target: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:@".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_values_are_escaped() {
        let link = Link::to(&["tools", "my server", "a/b?c#d"]).with("args", "{\"a\":1}&x").at("m 1");
        assert_eq!(link.as_str(), "/tools/my%20server/a%2Fb%3Fc%23d?args=%7B%22a%22:1%7D%26x#m%201");
        assert_eq!(Link::to(&[]).as_str(), "/");
    }

    #[test]
    fn only_safe_addresses_are_links() {
        for address in ["https://example.com", "HTTP://example.com/a?b#c", "mailto:a@example.com"] {
            assert!(Link::external(address).is_some(), "{address}");
        }
        for address in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            "\u{1}javascript:alert(1)",
            " https://example.com",
            "https:///path",
            "https:example.com",
            "https://a b",
            "https://a\\b",
            "data:text/html,x",
            "vbscript:x",
            "blob:https://example.com/1",
            "file:///etc/passwd",
            "//example.com",
            "/path",
            "mailto:",
            "",
        ] {
            assert!(Link::external(address).is_none(), "{address}");
        }
    }

    #[test]
    fn the_host_is_without_user_and_path() {
        let host = |address: &str| Link::external(address).and_then(|link| link.host().map(str::to_owned));
        assert_eq!(host("https://user@example.com:80/a").as_deref(), Some("example.com:80"));
        assert_eq!(host("mailto:a@example.com"), None);
    }
}
