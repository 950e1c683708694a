//! The challenge that a server sends with a 401 or 403.

use std::fmt;

use reqwest::Url;
use rmcp::transport::auth::WWWAuthenticateParams;

/// A parsed `WWW-Authenticate` header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The unchanged header, for discovery.
    pub(super) header: String,
    /// Set if the token is valid but lacks these scopes.
    pub(super) missing_scopes: Option<Vec<String>>,
}

impl Challenge {
    pub(super) fn parse(header: &str, server: &Url) -> Challenge {
        let params = WWWAuthenticateParams::parse(header, server);
        let scopes = params.scope.iter().flat_map(|scopes| scopes.split_whitespace());
        let missing_scopes = params.is_insufficient_scope().then(|| scopes.map(str::to_owned).collect());
        Challenge { header: header.to_owned(), missing_scopes }
    }
}

impl fmt::Debug for Challenge {
    // Omits the header, because some servers repeat the refused token in `error_description`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Challenge");
        debug.field("missing_scopes", &self.missing_scopes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, missing_scopes: Option<&[&str]>) {
        let server = Url::parse("https://example.com/mcp").expect("a valid URL");
        let missing_scopes =
            missing_scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect());
        assert_eq!(
            Challenge::parse(header, &server),
            Challenge { header: header.to_owned(), missing_scopes }
        );
    }

    #[test]
    fn only_insufficient_scope_requires_more_scopes() {
        check("", None);
        check("Bearer", None);
        check(r#"Bearer scope="a b""#, None);
        check(r#"Bearer error="invalid_token", scope="a b""#, None);
        check(r#"Bearer error="insufficient_scope", scope="a b""#, Some(&["a", "b"]));
        check(r#"Bearer error="insufficient_scope""#, Some(&[]));
        check(r#"Basic realm="x", Bearer error=insufficient_scope, scope=a"#, Some(&["a"]));
        check(r#"Bearer scope="not closed"#, None);
    }
}
