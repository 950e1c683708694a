//! What a server said with its 401 or 403.

use std::fmt;

use reqwest::Url;
use rmcp::transport::auth::WWWAuthenticateParams;

/// The value of `WWW-Authenticate`, and what counts of it here.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    /// As it came, for discovery.
    pub(super) header: String,
    /// Set when the token was good and its rights were not enough.
    pub(super) wants_scopes: Option<Vec<String>>,
}

impl Challenge {
    pub(super) fn read(header: &str, server: &Url) -> Challenge {
        let params = WWWAuthenticateParams::parse(header, server);
        let scopes = params.scope.iter().flat_map(|scopes| scopes.split_whitespace());
        let wants_scopes = params.is_insufficient_scope().then(|| scopes.map(str::to_owned).collect());
        Challenge { header: header.to_owned(), wants_scopes }
    }
}

impl fmt::Debug for Challenge {
    // Some servers repeat the refused token in `error_description`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Challenge").field("wants_scopes", &self.wants_scopes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, wants_scopes: Option<&[&str]>) {
        let server = Url::parse("https://example.com/mcp").expect("it is a URL");
        let wants_scopes =
            wants_scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect::<Vec<_>>());
        assert_eq!(Challenge::read(header, &server), Challenge { header: header.to_owned(), wants_scopes });
    }

    #[test]
    fn only_insufficient_scope_asks_for_more_rights() {
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
