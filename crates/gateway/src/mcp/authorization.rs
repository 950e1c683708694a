//! The metadata that tells MCP clients where they get tokens for `/mcp` (RFC 9728).
//!
//! Everything in it comes from the configuration: the resource is the audience of the tokens, if that is a
//! URL. The headers of a request never change it.

use http::Uri;
use serde_json::{Value, json};

use crate::keys::Keys;

pub(crate) const PATH: &str = "/.well-known/oauth-protected-resource";

/// The same path, for a resource with the path `/mcp`.
pub(crate) const MCP_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// The resource that tokens are for, and the issuers of the tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtectedResource {
    resource: String,
    issuers: Vec<String>,
}

impl ProtectedResource {
    /// Returns the resource, if an issuer is configured whose audience is a URL.
    pub(crate) fn of(keys: &Keys) -> Option<ProtectedResource> {
        ProtectedResource::new(keys.audiences())
    }

    /// Creates a resource from issuers and their audiences.
    fn new<'k>(audiences: impl Iterator<Item = (&'k str, &'k str)>) -> Option<ProtectedResource> {
        let mut found: Option<ProtectedResource> = None;
        for (issuer, audience) in audiences.filter(|(_, audience)| is_url(audience)) {
            let resource = found.get_or_insert_with(|| ProtectedResource {
                resource: audience.to_owned(),
                issuers: Vec::new(),
            });
            if resource.resource == audience {
                resource.issuers.push(issuer.to_owned());
            }
        }
        found
    }

    /// Returns the body of the metadata.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        })
    }

    /// Returns the value of `WWW-Authenticate` for a client without a valid token.
    pub(crate) fn challenge(&self) -> String {
        let path = match self.resource.trim_end_matches('/').ends_with("/mcp") {
            true => MCP_PATH,
            false => PATH,
        };
        let uri: Option<Uri> = self.resource.parse().ok();
        let origin = uri.and_then(|uri| Some(format!("{}://{}", uri.scheme()?, uri.authority()?)));
        match origin {
            Some(origin) => format!("Bearer resource_metadata=\"{origin}{path}\""),
            None => "Bearer".to_owned(),
        }
    }
}

fn is_url(text: &str) -> bool {
    let uri: Option<Uri> = text.parse().ok();
    uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_is_the_first_audience_that_is_a_url() {
        let audiences = [
            ("https://a.example", "gateway"),
            ("https://a.example", "https://gateway.example/mcp"),
            ("https://b.example", "https://gateway.example/mcp"),
            ("https://c.example", "https://other.example"),
        ];
        let resource = ProtectedResource::new(audiences.into_iter()).expect("a resource");
        let expected = json!({
            "resource": "https://gateway.example/mcp",
            "authorization_servers": ["https://a.example", "https://b.example"],
            "bearer_methods_supported": ["header"],
        });
        assert_eq!(resource.to_json(), expected);
        assert_eq!(
            resource.challenge(),
            "Bearer resource_metadata=\"https://gateway.example/.well-known/oauth-protected-resource/mcp\""
        );
        let root =
            ProtectedResource::new([("https://a.example", "https://gateway.example:8443")].into_iter());
        assert_eq!(
            root.expect("a resource").challenge(),
            "Bearer resource_metadata=\"https://gateway.example:8443/.well-known/oauth-protected-resource\""
        );
        assert_eq!(ProtectedResource::new([("https://a.example", "gateway")].into_iter()), None);
        assert_eq!(ProtectedResource::new(std::iter::empty()), None);
    }
}
