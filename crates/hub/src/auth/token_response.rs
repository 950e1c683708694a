//! Tokens that the token endpoint issued.

use serde::Deserialize;

use super::{
    text::single_line,
    token_store::{Grant, unix_now},
};
use crate::Secret;

/// A successful response of the token endpoint (RFC 6749 section 5.1).
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

/// Updates `grant` from a token response. Its scopes become `requested` if the response names none.
pub(super) fn apply_token_response(
    grant: &mut Grant,
    response: TokenResponse,
    requested: &[String],
) -> Result<(), String> {
    if !response.token_type.eq_ignore_ascii_case("bearer") {
        return Err(single_line(&format!(
            "unsupported token type `{}`; expected `Bearer`",
            response.token_type
        )));
    }
    if response.access_token.is_empty()
        || response.access_token.contains(|character: char| !character.is_ascii_graphic())
    {
        return Err("the token is empty or contains characters that are not allowed in a header".to_owned());
    }
    grant.access_token = Some(Secret::new(response.access_token));
    if let Some(token) = response.refresh_token.filter(|token| !token.is_empty()) {
        grant.refresh_token = Some(Secret::new(token));
    }
    grant.issued_at = unix_now();
    grant.expires_at = response.expires_in.map(|seconds| grant.issued_at.saturating_add(seconds));
    grant.scopes = match response.scope {
        Some(scope) => scope.split_whitespace().map(str::to_owned).collect(),
        None => requested.to_vec(),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::token_store::OAuthClient;

    fn grant() -> Grant {
        let client = OAuthClient { id: "client".to_owned(), secret: None, registered: true };
        Grant {
            refresh_token: Some(Secret::new("old refresh")),
            ..Grant::new("https://example.com/mcp".to_owned(), "https://issuer.example".to_owned(), client)
        }
    }

    fn apply(response: Value) -> Result<Grant, String> {
        let response = serde_json::from_value(response).expect("a token response");
        let mut grant = grant();
        apply_token_response(&mut grant, response, &["requested".to_owned()])?;
        Ok(grant)
    }

    #[test]
    fn an_omitted_refresh_token_is_unchanged_and_omitted_scopes_are_those_requested() {
        let minimal = apply(json!({"access_token": "new", "token_type": "bearer"})).expect("a token");
        let expected = Grant {
            access_token: Some(Secret::new("new")),
            issued_at: minimal.issued_at,
            scopes: vec!["requested".to_owned()],
            ..grant()
        };
        assert_eq!(minimal, expected);
        let complete = json!({
            "access_token": "new", "token_type": "Bearer", "expires_in": 60, "refresh_token": "next", "scope": "a b",
            "id_token": "not ours"
        });
        let complete = apply(complete).expect("a token");
        let expected = Grant {
            refresh_token: Some(Secret::new("next")),
            issued_at: complete.issued_at,
            expires_at: Some(complete.issued_at + 60),
            scopes: vec!["a".to_owned(), "b".to_owned()],
            ..expected
        };
        assert_eq!(complete, expected);
    }

    #[test]
    fn a_token_that_cannot_be_sent_is_rejected() {
        for response in [
            json!({"access_token": "secret", "token_type": "DPoP"}),
            json!({"access_token": "secret", "token_type": "mac"}),
            json!({"access_token": "", "token_type": "bearer"}),
            json!({"access_token": "secret\r\nX-Evil: 1", "token_type": "bearer"}),
            json!({"access_token": "secret ü", "token_type": "bearer"}),
        ] {
            let error = apply(response.clone()).expect_err("an unusable token");
            assert!(!error.contains("secret"), "{response}: {error}");
        }
    }
}
