//! Tokens (JWT) of an OpenID provider, as an alternative to keys.

mod claims;
mod jwk;
mod jwt;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::Value;
use toolwire_contract::keys::KeyRights;

use crate::principal::{Identity, now};
use claims::Claims;
use jwk::KeySet;
use jwt::Jwt;

/// The keys of an issuer are fetched again after this time.
const REFRESH_AFTER: Duration = Duration::from_secs(10 * 60);

/// The minimum time between two fetches, even if tokens name unknown keys.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// The maximum age of the keys that are used if fetching them fails.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// An issuer whose tokens clients may use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenIssuer {
    /// The value of `iss`.
    pub issuer: String,
    /// The accepted values of `aud`.
    pub audiences: Vec<String>,
    /// The accepted values of the header `typ`; `at+jwt` by default. ID tokens have `JWT`.
    pub types: Vec<String>,
    /// The accepted algorithms.
    pub algorithms: Vec<TokenAlgorithm>,
    /// The claim that names the tenant. By default, subjects do not share stored data.
    pub tenant_claim: Option<String>,
    /// The claim that names the client in logs; `sub` by default.
    pub name_claim: Option<String>,
    /// The rights of tokens that match no rule; `None` refuses them.
    pub rights: Option<KeyRights>,
    /// Rights by claims. The first rule that matches a token decides.
    pub rules: Vec<ClaimRule>,
}

/// A signature algorithm of tokens. Algorithms with a shared secret are not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenAlgorithm {
    Rs256,
    Es256,
    EdDsa,
}

/// The rights of tokens with a value in a claim: a text, a list of texts, or a text with values between
/// spaces.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClaimRule {
    pub claim: String,
    pub value: String,
    pub rights: KeyRights,
}

impl ClaimRule {
    pub fn new(claim: String, value: String, rights: KeyRights) -> ClaimRule {
        ClaimRule { claim, value, rights }
    }
}

impl TokenIssuer {
    /// Creates an issuer whose tokens have no restrictions.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> TokenIssuer {
        TokenIssuer {
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            types: vec!["at+jwt".to_owned()],
            algorithms: vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::EdDsa],
            tenant_claim: None,
            name_claim: None,
            rights: Some(KeyRights::default()),
            rules: Vec::new(),
        }
    }
}

impl TokenAlgorithm {
    pub const ALL: &[TokenAlgorithm] = &[TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::EdDsa];

    /// Returns the name in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            TokenAlgorithm::Rs256 => "RS256",
            TokenAlgorithm::Es256 => "ES256",
            TokenAlgorithm::EdDsa => "EdDSA",
        }
    }
}

/// Fetches the public keys of an issuer.
pub trait KeySetSource: Send + Sync {
    /// Returns the JSON Web Key Set.
    fn fetch(&self) -> BoxFuture<'_, Result<Value, KeySetError>>;
}

/// The keys of an issuer could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys of the issuer cannot be fetched: {problem}")]
pub struct KeySetError {
    pub problem: String,
}

/// The reason why a token is not accepted. It is logged, and clients do not get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("{0}")]
    Refused(&'static str),
    /// The keys of the issuer are not available.
    #[error("the keys of the issuer are not available")]
    Unavailable,
}

/// The issuers whose tokens are accepted.
#[derive(Clone, Default)]
pub(crate) struct Issuers(BTreeMap<String, Arc<Issuer>>);

struct Issuer {
    settings: TokenIssuer,
    source: Arc<dyn KeySetSource>,
    keys: Mutex<Fetched>,
    /// Held while the keys are fetched, so that requests at the same time fetch them once.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Fetched {
    keys: Option<(Instant, Arc<KeySet>)>,
    last_attempt: Option<Instant>,
}

impl Issuers {
    pub(crate) fn add(&mut self, settings: TokenIssuer, source: Arc<dyn KeySetSource>) {
        let (name, keys) = (settings.issuer.clone(), Mutex::default());
        let issuer = Issuer { settings, source, keys, fetching: tokio::sync::Mutex::default() };
        self.0.insert(name, Arc::new(issuer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the issuers, each with the audiences that its tokens may have.
    pub(crate) fn audiences(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(name, issuer)| {
            issuer.settings.audiences.iter().map(|audience| (name.as_str(), audience.as_str()))
        })
    }

    /// Checks a token, and returns its owner.
    pub(crate) async fn verify(&self, token: &[u8]) -> Result<Arc<Identity>, TokenError> {
        let jwt = Jwt::parse(token)?;
        // At this point, the issuer only selects the keys and the rules; it is not yet verified.
        let issuer = jwt.issuer().and_then(|name| self.0.get(name));
        let issuer = issuer.ok_or(TokenError::Refused("its issuer is not configured"))?;
        let algorithm = jwt.check_header(&issuer.settings)?;
        let keys = issuer.keys_for(&jwt, algorithm).await?;
        jwt.check_signature(&keys, algorithm)?;
        let claims = Claims::check(jwt.claims(), &issuer.settings, now())?;
        Ok(Arc::new(claims.identity(&issuer.settings)?))
    }
}

impl Issuer {
    /// Returns the keys of the issuer. They are fetched if they are old, or do not have the key of a token.
    async fn keys_for(&self, jwt: &Jwt, algorithm: TokenAlgorithm) -> Result<Arc<KeySet>, TokenError> {
        let fits = |keys: &KeySet| keys.find(jwt.key_id(), algorithm).is_some();
        if let Some((at, keys)) = &self.lock().keys
            && at.elapsed() < REFRESH_AFTER
            && fits(keys)
        {
            return Ok(keys.clone());
        }
        let _fetching = self.fetching.lock().await;
        let is_due = {
            let fetched = self.lock();
            let is_current =
                fetched.keys.as_ref().is_some_and(|(at, keys)| at.elapsed() < REFRESH_AFTER && fits(keys));
            let is_recent = fetched.last_attempt.is_some_and(|at| at.elapsed() < MIN_INTERVAL);
            !is_current && !is_recent
        };
        if is_due {
            self.lock().last_attempt = Some(Instant::now());
            match self.source.fetch().await {
                Ok(keys) => self.lock().keys = Some((Instant::now(), Arc::new(KeySet::read(&keys)))),
                Err(error) => {
                    tracing::warn!(%error, issuer = self.settings.issuer, "tokens cannot be checked");
                }
            }
        }
        let fetched = self.lock();
        let current = fetched.keys.as_ref().filter(|(at, _)| at.elapsed() < MAX_AGE);
        current.map(|(_, keys)| keys.clone()).ok_or(TokenError::Unavailable)
    }

    fn lock(&self) -> MutexGuard<'_, Fetched> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
