//! Responses of the token endpoint: a token, or an error that can be displayed.

use rmcp::transport::auth::{AuthError as SdkError, OAuthTokenResponse};
use serde::Deserialize;
use toolwire_contract::text::truncate;

use super::token_store::{Grant, unix_now};
use crate::Secret;

const MAX_DETAIL_CHARS: usize = 300;

/// Updates `grant` from a token response. Its scopes become `requested` if the response names none.
pub(super) fn apply_token_response(
    grant: &mut Grant,
    response: &OAuthTokenResponse,
    requested: &[String],
) -> Result<(), String> {
    #[derive(Deserialize)]
    struct TokenResponse {
        access_token: String,
        token_type: String,
        expires_in: Option<u64>,
        refresh_token: Option<String>,
        scope: Option<String>,
    }
    let response = serde_json::to_value(response).and_then(serde_json::from_value::<TokenResponse>);
    // The parser's message would quote the response, which contains a token.
    let response = response.map_err(|_| "invalid token response".to_owned())?;
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

/// An error of the token endpoint, without secrets.
pub(super) struct TokenEndpointError {
    /// OAuth's error code, if the response has one.
    pub(super) code: Option<String>,
    pub(super) message: String,
}

impl TokenEndpointError {
    /// Converts an error of the SDK. `secrets` were part of the request and are redacted.
    ///
    /// The SDK reports the OAuth error code only as a part of its message, so the prefixes of its messages
    /// are parsed here.
    pub(super) fn from_sdk(error: &SdkError, endpoint: &str, secrets: &[Secret]) -> TokenEndpointError {
        let without_code = |message: String| TokenEndpointError { code: None, message };
        let endpoint = single_line(endpoint);
        let text = match error {
            SdkError::TokenExchangeFailed(text)
            | SdkError::TokenRefreshFailed(text)
            | SdkError::TokenRefreshRejected(text) => text.as_str(),
            SdkError::ClientCredentialsError(text) => {
                text.strip_prefix("Token exchange failed: ").unwrap_or(text)
            }
            _ => return without_code(single_line(&redact(&error.to_string(), secrets))),
        };
        if let Some(response) = text.strip_prefix("Server returned error response: ") {
            let code = response.split(':').next().map(|code| code.trim().to_owned());
            return TokenEndpointError { code, message: single_line(&redact(response, secrets)) };
        }
        if text == "Request failed" || text.starts_with("Token exchange request failed") {
            without_code(format!("no response from `{endpoint}`"))
        } else if matches!(error, SdkError::ClientCredentialsError(_)) && !text.contains("parse") {
            without_code(single_line(&redact(text, secrets)))
        } else {
            // A parser's message may quote the response, which may contain a token.
            without_code(format!("invalid token response from `{endpoint}`"))
        }
    }
}

/// Redacts secrets that were sent: authorization servers repeat them in error messages.
pub(super) fn redact(text: &str, secrets: &[Secret]) -> String {
    secrets
        .iter()
        .filter(|secret| !secret.expose().is_empty())
        .fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "…"))
}

/// Converts a text from a remote server to one line without control characters, and truncates it.
pub(super) fn single_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace(char::is_control, "\u{fffd}");
    truncate(&line, MAX_DETAIL_CHARS).into_owned()
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
        let response = serde_json::from_value(response).expect("a response that the SDK can parse");
        let mut grant = grant();
        apply_token_response(&mut grant, &response, &["requested".to_owned()])?;
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

    #[track_caller]
    fn check(error: SdkError, code: Option<&str>, message: &str) {
        let secrets = [Secret::new("hush-1"), Secret::new("")];
        let error = TokenEndpointError::from_sdk(&error, "https://issuer.example/token", &secrets);
        assert_eq!((error.code.as_deref(), error.message.as_str()), (code, message));
    }

    #[test]
    fn error_messages_contain_no_secrets_of_the_request() {
        let refused = |text: &str| format!("Server returned error response: {text}");
        check(
            SdkError::TokenRefreshRejected(refused("invalid_grant: token hush-1 is unknown")),
            Some("invalid_grant"),
            "invalid_grant: token … is unknown",
        );
        check(
            SdkError::TokenExchangeFailed(refused("invalid_client")),
            Some("invalid_client"),
            "invalid_client",
        );
        check(
            SdkError::ClientCredentialsError(format!(
                "Token exchange failed: {}",
                refused("invalid_client: no")
            )),
            Some("invalid_client"),
            "invalid_client: no",
        );
        check(
            SdkError::ClientCredentialsError("Token exchange failed: invalid_client: no\nhush-1".to_owned()),
            None,
            "invalid_client: no …",
        );
        check(
            SdkError::TokenRefreshFailed("Request failed".to_owned()),
            None,
            "no response from `https://issuer.example/token`",
        );
        for error in [
            SdkError::TokenExchangeFailed("invalid type: string \"a-new-token\", expected".to_owned()),
            SdkError::TokenRefreshFailed("Failed to parse server response".to_owned()),
            SdkError::ClientCredentialsError("Failed to parse token response: \"a-new-token\"".to_owned()),
        ] {
            check(error, None, "invalid token response from `https://issuer.example/token`");
        }
    }

    #[test]
    fn text_from_a_server_becomes_one_short_line() {
        assert_eq!(single_line("a\n  b\u{1b}[31m"), "a b\u{fffd}[31m");
        assert_eq!(single_line(&"ü".repeat(1000)).chars().count(), MAX_DETAIL_CHARS);
    }
}
