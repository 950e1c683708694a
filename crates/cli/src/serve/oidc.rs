//! Fetches the keys of OpenID providers, whose tokens clients may use instead of keys.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::Value;
use toolwire_gateway::{
    Keys,
    tokens::{ClaimRule, KeySetError, KeySetSource, TokenAlgorithm, TokenIssuer},
};

use crate::command_error::CommandError;
use crate::settings::{OidcConfig, Settings};
use crate::terminal_text::sanitize;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 1024 * 1024;

/// Adds the configured issuers.
pub(super) fn add_issuers(mut keys: Keys, settings: &Settings) -> Result<Keys, CommandError> {
    for config in &settings.gateway.oidc {
        let (issuer, source) = read(config).map_err(|problem| {
            let issuer = sanitize(&config.issuer);
            CommandError::usage(format!("`toolwire.gateway.oidc`: issuer `{issuer}`: {problem}"))
                .with_hint("`docs/guide/keys.md` describes the keys")
        })?;
        keys = keys.with_issuer(issuer, Arc::new(source));
    }
    Ok(keys)
}

fn read(config: &OidcConfig) -> Result<(TokenIssuer, JwksUrl), String> {
    let audiences = config.audience.values();
    let [first, ..] = audiences else { return Err("`audience` is empty".to_owned()) };
    if audiences.iter().any(|audience| audience.trim().is_empty()) {
        return Err("`audience` is empty".to_owned());
    }
    let mut issuer = TokenIssuer::new(&config.issuer, first);
    issuer.audiences = audiences.to_vec();
    if let Some(types) = &config.types {
        issuer.types.clone_from(types);
    }
    if let Some(names) = &config.algorithms {
        let find = |name: &String| TokenAlgorithm::ALL.iter().copied().find(|known| known.name() == name);
        let known: Vec<&str> = TokenAlgorithm::ALL.iter().map(|known| known.name()).collect();
        let algorithms: Option<Vec<TokenAlgorithm>> = names.iter().map(find).collect();
        issuer.algorithms =
            algorithms.ok_or_else(|| format!("`algorithms` may contain {}", known.join(", ")))?;
    }
    issuer.tenant_claim.clone_from(&config.tenant_claim);
    issuer.name_claim.clone_from(&config.name_claim);
    let rules = config.rules.iter().cloned();
    issuer.rules = rules.map(|rule| ClaimRule::new(rule.claim, rule.value, rule.rights)).collect();
    // If there are rules, tokens that match none of them are refused.
    let is_open = config.rules.is_empty();
    issuer.rights = config.rights.clone().or_else(|| is_open.then(Default::default));
    for rights in issuer.rules.iter().map(|rule| &rule.rights).chain(&issuer.rights) {
        rights.check().map_err(|error| sanitize(&error.to_string()))?;
    }
    let source = match &config.jwks_url {
        Some(url) => JwksUrl::Known(secure(url)?),
        None => {
            let issuer = secure(&config.issuer)?;
            let url = format!("{}/.well-known/openid-configuration", issuer.as_str().trim_end_matches('/'));
            JwksUrl::Discovered { url: secure(&url)?, issuer: config.issuer.clone() }
        }
    };
    Ok((issuer, source))
}

/// Parses a URL. Without encryption, an attacker on the network could replace the keys.
fn secure(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| format!("`{}` is not a URL", sanitize(text)))?;
    let is_local = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err(format!("`{}` must begin with `https://`", sanitize(text))),
    }
}

/// The address of a JSON Web Key Set.
enum JwksUrl {
    Known(Url),
    /// The configuration of the issuer names it.
    Discovered {
        url: Url,
        issuer: String,
    },
}

impl KeySetSource for JwksUrl {
    fn fetch(&self) -> BoxFuture<'_, Result<Value, KeySetError>> {
        Box::pin(async move {
            let fetched = match self {
                JwksUrl::Known(url) => fetch(url.clone()).await,
                JwksUrl::Discovered { url, issuer } => discover(url, issuer).await,
            };
            fetched.map_err(|problem| KeySetError { problem })
        })
    }
}

async fn discover(url: &Url, issuer: &str) -> Result<Value, String> {
    let configuration = fetch(url.clone()).await?;
    if configuration["issuer"] != issuer {
        return Err(format!("`{url}` describes another issuer"));
    }
    let keys = configuration["jwks_uri"].as_str().ok_or_else(|| format!("`{url}` has no `jwks_uri`"))?;
    fetch(secure(keys)?).await
}

async fn fetch(url: Url) -> Result<Value, String> {
    let problem = |error: reqwest::Error| format!("`{url}`: {}", error.without_url());
    // The HTTP client uses the cryptography of the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().redirect(Policy::none()).timeout(TIMEOUT).no_proxy();
    let client = client.build().map_err(problem)?;
    let response = client.get(url.clone()).send().await.map_err(problem)?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("`{url}` returned status {status}"));
    }
    let mut body = Vec::new();
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        body.extend_from_slice(&part.map_err(problem)?);
        if body.len() > MAX_BYTES {
            return Err(format!("`{url}` is larger than {MAX_BYTES} bytes"));
        }
    }
    serde_json::from_slice(&body).map_err(|_| format!("`{url}` is not JSON"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_config(config: Value) -> Result<TokenIssuer, String> {
        let config: OidcConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
        read(&config).map(|(issuer, _)| issuer)
    }

    #[test]
    fn an_issuer_is_read() {
        let issuer =
            read_config(json!({"issuer": "https://login.example", "audience": "a"})).expect("an issuer");
        assert_eq!(issuer, TokenIssuer::new("https://login.example", "a"));
        let issuer = read_config(json!({
            "issuer": "https://login.example", "audience": ["a", "b"], "types": ["JWT"], "algorithms": ["ES256"],
            "rules": [{"claim": "groups", "value": "ml", "rights": {"models": ["x"]}}],
        }))
        .expect("an issuer");
        assert_eq!(issuer.rights, None, "tokens that match no rule are refused");
        assert_eq!((issuer.audiences.len(), issuer.algorithms), (2, vec![TokenAlgorithm::Es256]));
    }

    #[test]
    fn mistakes_are_explained() {
        let with = |key: &str, value: Value| {
            let mut config = json!({"issuer": "https://login.example", "audience": "a"});
            config[key] = value;
            read_config(config).expect_err("a mistake")
        };
        for (key, value, expected) in [
            ("issuer", json!("http://login.example"), "must begin with `https://`"),
            ("issuer", json!("login"), "is not a URL"),
            ("jwksUrl", json!("ftp://login.example"), "must begin with `https://`"),
            ("audience", json!([]), "`audience` is empty"),
            ("algorithms", json!(["HS256"]), "`algorithms` may contain RS256, ES256, EdDSA"),
            ("algorithms", json!(["none"]), "`algorithms` may contain RS256, ES256, EdDSA"),
            ("rights", json!({"model": ["x"]}), "unknown field `model`"),
            ("rights", json!({"deny": ["hint:x"]}), "unknown annotation"),
            ("audiences", json!("a"), "unknown field `audiences`"),
        ] {
            let message = with(key, value);
            assert!(message.contains(expected), "{key}: {message}");
        }
    }
}
