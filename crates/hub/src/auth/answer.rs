//! What a token endpoint answers: a token, or a reason that may be shown.

use std::time::{SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{AuthError as SdkError, OAuthTokenResponse};
use serde::Deserialize;

use super::store::Grant;
use crate::Secret;

const SHOWN: usize = 300;

/// Puts a token response into `grant`. `asked` are the scopes it holds for if it names none.
pub(super) fn accept(grant: &mut Grant, answer: &OAuthTokenResponse, asked: &[String]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: String,
        token_type: String,
        expires_in: Option<u64>,
        refresh_token: Option<String>,
        scope: Option<String>,
    }
    let answer = serde_json::to_value(answer).and_then(serde_json::from_value::<Answer>);
    // The message would quote the answer, which is a token.
    let answer = answer.map_err(|_| "its answer is no token response".to_owned())?;
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(shown(&format!("its token is of type `{}`, not `Bearer`", answer.token_type)));
    }
    if answer.access_token.is_empty()
        || answer.access_token.contains(|letter: char| !letter.is_ascii_graphic())
    {
        return Err("its token cannot be sent in a header".to_owned());
    }
    grant.access_token = Some(Secret::new(answer.access_token));
    if let Some(token) = answer.refresh_token.filter(|token| !token.is_empty()) {
        grant.refresh_token = Some(Secret::new(token));
    }
    grant.issued_at = now();
    grant.expires_at = answer.expires_in.map(|seconds| grant.issued_at.saturating_add(seconds));
    grant.scopes = match answer.scope {
        Some(scope) => scope.split_whitespace().map(str::to_owned).collect(),
        None => asked.to_vec(),
    };
    Ok(())
}

/// What a token endpoint told, without what must not be seen.
pub(super) struct Told {
    /// OAuth's error code, if it gave one.
    pub(super) code: Option<String>,
    pub(super) text: String,
}

impl Told {
    /// `hidden` is what was sent, and must not be seen.
    pub(super) fn read(error: &SdkError, endpoint: &str, hidden: &[Secret]) -> Told {
        let endpoint = shown(endpoint);
        let text = match error {
            SdkError::TokenExchangeFailed(text)
            | SdkError::TokenRefreshFailed(text)
            | SdkError::TokenRefreshRejected(text) => text.as_str(),
            SdkError::ClientCredentialsError(text) => {
                text.strip_prefix("Token exchange failed: ").unwrap_or(text)
            }
            SdkError::JwtSigningError(_) => {
                return Told { code: None, text: "the key cannot sign".to_owned() };
            }
            _ => return Told { code: None, text: hide(&shown(&error.to_string()), hidden) },
        };
        if let Some(said) = text.strip_prefix("Server returned error response: ") {
            let code = said.split(':').next().map(|code| code.trim().to_owned());
            return Told { code, text: shown(&hide(said, hidden)) };
        }
        let text = if text == "Request failed" || text.starts_with("Token exchange request failed") {
            format!("no answer from `{endpoint}`")
        } else if matches!(error, SdkError::ClientCredentialsError(_)) && !text.contains("parse") {
            shown(&hide(text, hidden))
        } else {
            // A parser's message may quote the answer, which may hold a token.
            format!("the answer of `{endpoint}` is no token response")
        };
        Told { code: None, text }
    }
}

/// Authorization servers repeat what they were sent when they refuse it.
pub(super) fn hide(text: &str, hidden: &[Secret]) -> String {
    hidden
        .iter()
        .filter(|secret| !secret.expose().is_empty())
        .fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "…"))
}

/// One line of a text from elsewhere, of bearable length.
pub(super) fn shown(text: &str) -> String {
    let line: String = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect();
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::store::Client;

    fn grant() -> Grant {
        let client = Client { id: "client".to_owned(), secret: None, registered: true };
        Grant {
            refresh_token: Some(Secret::new("old refresh")),
            ..Grant::new("https://example.com/mcp".to_owned(), "https://issuer.example".to_owned(), client)
        }
    }

    fn accepted(answer: Value) -> Result<Grant, String> {
        let answer = serde_json::from_value(answer).expect("the SDK reads it");
        let mut grant = grant();
        accept(&mut grant, &answer, &["asked".to_owned()])?;
        Ok(grant)
    }

    #[test]
    fn what_an_answer_leaves_out_stays_as_it_was() {
        let short = accepted(json!({"access_token": "new", "token_type": "bearer"})).expect("a token");
        let expected = Grant {
            access_token: Some(Secret::new("new")),
            issued_at: short.issued_at,
            scopes: vec!["asked".to_owned()],
            ..grant()
        };
        assert_eq!(short, expected);
        let full = json!({
            "access_token": "new", "token_type": "Bearer", "expires_in": 60, "refresh_token": "next", "scope": "a b",
            "id_token": "not ours"
        });
        let full = accepted(full).expect("a token");
        let expected = Grant {
            refresh_token: Some(Secret::new("next")),
            issued_at: full.issued_at,
            expires_at: Some(full.issued_at + 60),
            scopes: vec!["a".to_owned(), "b".to_owned()],
            ..expected
        };
        assert_eq!(full, expected);
    }

    #[test]
    fn a_token_that_cannot_be_sent_is_refused() {
        for answer in [
            json!({"access_token": "secret", "token_type": "DPoP"}),
            json!({"access_token": "secret", "token_type": "mac"}),
            json!({"access_token": "", "token_type": "bearer"}),
            json!({"access_token": "secret\r\nX-Evil: 1", "token_type": "bearer"}),
            json!({"access_token": "secret ü", "token_type": "bearer"}),
        ] {
            let refused = accepted(answer.clone()).expect_err("it cannot be used");
            assert!(!refused.contains("secret"), "{answer}: {refused}");
        }
    }

    #[track_caller]
    fn check(error: SdkError, code: Option<&str>, text: &str) {
        let hidden = [Secret::new("hush-1"), Secret::new("")];
        let told = Told::read(&error, "https://issuer.example/token", &hidden);
        assert_eq!((told.code.as_deref(), told.text.as_str()), (code, text));
    }

    #[test]
    fn a_reason_is_shown_without_what_was_sent() {
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
            "no answer from `https://issuer.example/token`",
        );
        for error in [
            SdkError::TokenExchangeFailed("invalid type: string \"a-new-token\", expected".to_owned()),
            SdkError::TokenRefreshFailed("Failed to parse server response".to_owned()),
            SdkError::ClientCredentialsError("Failed to parse token response: \"a-new-token\"".to_owned()),
        ] {
            check(error, None, "the answer of `https://issuer.example/token` is no token response");
        }
    }

    #[test]
    fn a_text_from_elsewhere_is_one_line_of_bearable_length() {
        assert_eq!(shown("a\n  b\u{1b}[31m"), "a b\u{fffd}[31m");
        assert_eq!(shown(&"ü".repeat(1000)).chars().count(), SHOWN + 1);
    }
}
