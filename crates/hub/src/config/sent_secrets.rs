//! The secrets that a remote server receives with each request. Its messages may repeat them.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;
use toolwire_contract::Secret;

use super::Transport;
use crate::excerpt::excerpt_of;

/// Shorter values are not treated as secrets, because they also occur as parts of other words.
const MIN_SECRET_BYTES: usize = 8;

/// The values of the headers and of the URL's query that a server receives, and its token. Cheap to clone;
/// clones share the token.
#[derive(Clone, Default)]
pub(crate) struct SentSecrets {
    configured: Arc<[Secret]>,
    /// The OAuth token that was sent last.
    token: Arc<Mutex<Option<Secret>>>,
}

impl SentSecrets {
    pub(crate) fn new(transport: &Transport) -> SentSecrets {
        let Transport::Http { url, headers, .. } = transport else { return SentSecrets::default() };
        let mut secrets = Vec::new();
        for (_, value) in headers {
            let value = value.expose();
            secrets.push(value.to_owned());
            // The token of `Bearer TOKEN`, too.
            secrets.extend(value.split_once(' ').map(|(_, token)| token.to_owned()));
        }
        secrets.extend(secrets_of_url(url));
        secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
        // A secret can be a part of another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        SentSecrets { configured: secrets.into_iter().map(Secret::new).collect(), token: Arc::default() }
    }

    /// Records the OAuth token that is sent now.
    pub(crate) fn set_token(&self, token: &Secret) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
    }

    /// Replaces the secrets in a text that may come from the server.
    pub(crate) fn redact(&self, text: String) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = token.filter(|token| token.expose().len() >= MIN_SECRET_BYTES);
        token.iter().chain(&*self.configured).fold(text, |text, secret| {
            match text.contains(secret.expose()) {
                true => text.replace(secret.expose(), "…"),
                false => text,
            }
        })
    }

    /// Returns the beginning of what the server sent as one line of text. Secrets are replaced before the
    /// text is cut, because a part of a secret would not be recognized later.
    pub(crate) fn excerpt(&self, bytes: &[u8]) -> String {
        excerpt_of(bytes, |text| self.redact(text))
    }
}

/// Returns the user, the password and the values of the query, as they are written and decoded.
fn secrets_of_url(url: &Url) -> Vec<String> {
    let mut secrets: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
    let pairs = url.query().into_iter().flat_map(|query| query.split('&'));
    secrets.extend(pairs.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value).to_owned()));
    secrets.push(url.username().to_owned());
    secrets.extend(url.password().map(str::to_owned));
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HttpKind;

    fn secrets() -> SentSecrets {
        let url = "https://a.example/mcp?key=query%2Fsecret%2B1&v=1&bare-secret-2";
        SentSecrets::new(&Transport::Http {
            url: Url::parse(url).expect("a valid URL"),
            headers: vec![
                ("authorization".to_owned(), Secret::new("Bearer token-0123456789")),
                ("x-team".to_owned(), Secret::new("token-0123456789-and-more")),
            ],
            kind: HttpKind::Auto,
            oauth: None,
        })
    }

    #[test]
    fn values_of_headers_and_of_the_query_are_removed() {
        for (text, expected) in [
            ("invalid token token-0123456789", "invalid token …"),
            ("invalid header Bearer token-0123456789", "invalid header …"),
            ("token-0123456789-and-more", "…"),
            ("no key query/secret+1", "no key …"),
            ("GET /mcp?key=query%2Fsecret%2B1&v=1&bare-secret-2", "GET /mcp?key=…&v=1&…"),
            ("v is 1", "v is 1"),
        ] {
            assert_eq!(secrets().redact(text.to_owned()), expected);
        }
    }

    #[test]
    fn the_current_token_is_removed() {
        let secrets = secrets();
        let shared = secrets.clone();
        shared.set_token(&Secret::new("oauth-token-1"));
        assert_eq!(secrets.excerpt(b"invalid token oauth-token-1"), "invalid token …");
    }

    /// The excerpt would end in the middle of the token.
    #[test]
    fn secrets_are_removed_before_a_text_is_cut() {
        for length in 170..200 {
            let text = format!("{} token-0123456789", "x".repeat(length));
            let excerpt = secrets().excerpt(text.as_bytes());
            assert!(!excerpt.contains("token"), "{excerpt}");
        }
    }
}
