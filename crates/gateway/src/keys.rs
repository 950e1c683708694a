//! The keys of the clients, and the authentication.

mod owners;
mod validity;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use subtle::ConstantTimeEq as _;
use toolwire_contract::keys::{KeyDigest, KeyRights, KeyTable, UsageCounter};

use crate::issued_key::{digest, id_of};
use crate::principal::{Identity, Principal, now};
use crate::stored_keys::StoredKeys;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Longer values are not compared. Tokens are longer than keys.
const MAX_KEY_BYTES: usize = 8 * 1_024;

/// The keys that clients may use. Without any key, every client that can connect may use the gateway.
#[derive(Clone, Default)]
pub struct Keys {
    configured: Vec<Key>,
    stored: Option<StoredKeys>,
    #[cfg(feature = "oidc")]
    issuers: crate::tokens::Issuers,
}

#[derive(Clone)]
struct Key {
    digest: KeyDigest,
    length: usize,
    name: String,
    number: usize,
    tenant: Option<String>,
    rights: KeyRights,
    identity: Arc<Identity>,
}

/// The reason why a caller is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthenticationError {
    /// The request has no key, a wrong key, or a header with several keys. The message is the same in all
    /// cases, so that it does not help to guess keys.
    #[error("a valid key is required: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
    Unauthenticated,
    /// The two headers have different keys, whether these are valid or not.
    #[error(
        "the headers `Authorization` and `x-api-key` have different keys; hint: send only one of them, or the same key in both"
    )]
    DifferentKeys,
    /// The key table cannot be read. No key is accepted then, except those of the configuration.
    #[error("keys cannot be checked at the moment; try again later")]
    Unavailable,
}

pub(crate) use owners::WorkOwner;

use AuthenticationError::{DifferentKeys, Unauthenticated, Unavailable};

impl Keys {
    /// The minimum length of configured keys for clients on other machines.
    pub const MIN_LENGTH: usize = 32;

    /// Adds a key with a name for logs. Clients with different keys are isolated from each other, even if the
    /// names are the same.
    #[must_use]
    pub fn with(self, name: &str, key: &str) -> Keys {
        self.with_rights(name, key, KeyRights::default())
    }

    /// Like [`Keys::with`], with the rights of the key.
    #[must_use]
    pub fn with_rights(mut self, name: &str, key: &str, rights: KeyRights) -> Keys {
        let number = self.configured.iter().filter(|other| other.name == name).count();
        let (digest, length) = (digest(key.as_bytes()), key.len());
        let identity = Arc::new(Identity::configured(name, number, &digest, None, rights.clone()));
        let name = name.to_owned();
        self.configured.push(Key { digest, length, name, number, tenant: None, rights, identity });
        self
    }

    /// Gives the key that was added last the rights of an administrator, who may change the servers on the
    /// page.
    #[must_use]
    pub fn with_admin(self) -> Keys {
        self.changing_last(|key| key.rights.admin = true)
    }

    /// Sets the tenant of the key that was added last. Keys of one tenant share stored data.
    #[must_use]
    pub fn with_tenant(self, tenant: &str) -> Keys {
        self.changing_last(|key| key.tenant = Some(tenant.to_owned()))
    }

    fn changing_last(mut self, change: impl FnOnce(&mut Key)) -> Keys {
        if let Some(key) = self.configured.last_mut() {
            change(key);
            let tenant = key.tenant.as_deref();
            key.identity = Arc::new(Identity::configured(
                &key.name,
                key.number,
                &key.digest,
                tenant,
                key.rights.clone(),
            ));
        }
        self
    }

    /// Adds the keys of a key table, and the counters for the limits of all keys. As long as the table is
    /// empty and there is no other key, clients need no key.
    #[must_use]
    pub fn with_table(self, table: Arc<dyn KeyTable>, usage: Arc<dyn UsageCounter>) -> Keys {
        Keys { stored: Some(StoredKeys::new(table, usage)), ..self }
    }

    /// Accepts the tokens of an issuer, as an alternative to keys.
    #[cfg(feature = "oidc")]
    #[must_use]
    pub fn with_issuer(
        mut self,
        issuer: crate::tokens::TokenIssuer,
        keys: Arc<dyn crate::tokens::KeySetSource>,
    ) -> Keys {
        self.issuers.add(issuer, keys);
        self
    }

    /// Returns the issuers whose tokens are accepted.
    #[cfg(feature = "oidc")]
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.names()
    }

    /// Returns the issuers whose tokens are accepted, each with the audiences that its tokens may have.
    #[cfg(feature = "oidc")]
    pub(crate) fn audiences(&self) -> impl Iterator<Item = (&str, &str)> {
        self.issuers.audiences()
    }

    #[cfg(not(feature = "oidc"))]
    pub(crate) fn audiences(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    /// Whether tokens are accepted.
    #[cfg(feature = "oidc")]
    fn accepts_tokens(&self) -> bool {
        !self.issuers.is_empty()
    }

    #[cfg(not(feature = "oidc"))]
    fn accepts_tokens(&self) -> bool {
        false
    }

    /// Returns these keys with the key table of others, if they have none.
    #[must_use]
    pub(crate) fn sharing_table_of(self, others: &Keys) -> Keys {
        Keys { stored: self.stored.clone().or_else(|| others.stored.clone()), ..self }
    }

    /// Returns the number of configured keys.
    pub fn len(&self) -> usize {
        self.configured.len()
    }

    /// Whether no key is configured. There may be keys in the table.
    pub fn is_empty(&self) -> bool {
        self.configured.is_empty()
    }

    /// Whether clients need a key, by the state of the key table when it was last read.
    pub(crate) fn may_be_needed(&self) -> bool {
        !self.is_empty()
            || self.accepts_tokens()
            || self.stored.as_ref().is_some_and(StoredKeys::may_have_keys)
    }

    /// Returns the counters for the limits of keys.
    pub(crate) fn usage(&self) -> Option<&Arc<dyn UsageCounter>> {
        self.stored.as_ref().map(StoredKeys::usage)
    }

    /// Whether there may be several keys, by the state of the key table when it was last read.
    pub(crate) fn may_be_several(&self) -> bool {
        self.configured.len() > 1
            || self.accepts_tokens()
            || self.stored.as_ref().is_some_and(StoredKeys::may_have_keys)
    }

    /// Whether clients need a key. If the key table cannot be read, they do.
    pub async fn is_needed(&self) -> bool {
        self.needs_key().await.unwrap_or(true)
    }

    async fn needs_key(&self) -> Result<bool, AuthenticationError> {
        let has_stored = match &self.stored {
            Some(stored) => stored.has_keys().await.map_err(|error| {
                tracing::warn!(%error, "the key table cannot be read");
                Unavailable
            }),
            None => Ok(false),
        };
        if self.configured.is_empty() && !self.accepts_tokens() { has_stored } else { Ok(true) }
    }

    /// Returns the name of the first configured key that is too short for clients on other machines.
    pub fn weak_key(&self) -> Option<&str> {
        self.configured.iter().find(|key| key.length < Keys::MIN_LENGTH).map(|key| &*key.name)
    }

    /// Finds the caller. `Authorization: Bearer` and `x-api-key` have the same meaning on every path.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, AuthenticationError> {
        if !self.needs_key().await? {
            return Ok(Principal::without_key());
        }
        let bearer = headers.get_all(AUTHORIZATION).iter().map(|value| bearer_token(value.as_bytes()));
        let bearer: Vec<&[u8]> = bearer.collect::<Option<_>>().ok_or(Unauthenticated)?;
        let api_key: Vec<&[u8]> = headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes).collect();
        if [&bearer, &api_key].into_iter().any(|values| values.windows(2).any(|pair| pair[0] != pair[1])) {
            return Err(Unauthenticated);
        }
        match (bearer.first(), api_key.first()) {
            (Some(bearer), Some(api_key)) if bearer != api_key => Err(DifferentKeys),
            (Some(key), _) | (None, Some(key)) => self.find(key).await,
            (None, None) => Err(Unauthenticated),
        }
    }

    /// Finds the caller with a key.
    pub(crate) async fn find(&self, key: &[u8]) -> Result<Principal, AuthenticationError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Unauthenticated);
        }
        let presented = digest(key);
        let is_same = |stored: &KeyDigest| bool::from(stored.as_bytes().ct_eq(presented.as_bytes()));
        let mut found = None;
        // The loop does not stop at the matching key, so that its duration does not reveal which key matched.
        for key in &self.configured {
            if is_same(&key.digest) {
                found = Some(key.identity.clone());
            }
        }
        if let Some(identity) = found {
            return Ok(Principal::new(identity));
        }
        let (Some(stored), Some(id)) = (&self.stored, id_of(key)) else { return self.find_token(key).await };
        let found = stored.find(&id).await.map_err(|error| {
            tracing::warn!(%error, "the key table cannot be read");
            Unavailable
        })?;
        // The hash is compared even if there is no such key.
        let no_key = KeyDigest::new([0; 32]);
        let matches = is_same(found.as_ref().map_or(&no_key, |key| &key.record.digest));
        let valid = found.filter(|key| matches && key.record.is_valid_at(now()));
        valid.map(|key| Principal::new(key.identity)).ok_or(Unauthenticated)
    }

    #[cfg(feature = "oidc")]
    async fn find_token(&self, token: &[u8]) -> Result<Principal, AuthenticationError> {
        use crate::tokens::TokenError;

        if self.issuers.is_empty() {
            return Err(Unauthenticated);
        }
        match self.issuers.verify(token).await {
            Ok(identity) => Ok(Principal::new(identity)),
            Err(error) => {
                tracing::debug!(%error, "a token is refused");
                Err(if error == TokenError::Unavailable { Unavailable } else { Unauthenticated })
            }
        }
    }

    #[cfg(not(feature = "oidc"))]
    async fn find_token(&self, _: &[u8]) -> Result<Principal, AuthenticationError> {
        Err(Unauthenticated)
    }
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.configured.iter().map(|key| &*key.name).collect();
        formatter.debug_struct("Keys").field("configured", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "tw_0123456789abcdef0123456789abcdef";

    /// Configured keys are compared without waiting.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("it does not wait")
    }

    fn keys() -> Keys {
        Keys::default().with("one", "other-key-0123456789abcdef012345").with("two", SECRET)
    }

    fn verdict(headers: &[(&str, &[u8])]) -> Result<Option<String>, AuthenticationError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            map.append(name, HeaderValue::from_bytes(value).expect("a header value"));
        }
        block_on(keys().authenticate(&map)).map(|principal| principal.name().map(str::to_owned))
    }

    fn caller(keys: &Keys, key: &str) -> Principal {
        block_on(keys.find(key.as_bytes())).expect("a valid key")
    }

    #[test]
    fn keys_with_the_same_name_are_different_callers() {
        let keys = Keys::default().with("name", "a").with("name", "b");
        assert_eq!(caller(&keys, "a"), caller(&keys, "a"));
        assert_ne!(caller(&keys, "a"), caller(&keys, "b"));
        let keys = Keys::default().with("name", "a").with_tenant("t").with("name", "b").with_tenant("t");
        assert_eq!(caller(&keys, "a"), caller(&keys, "b"));
    }

    /// When the configuration is read again, another key may be at the same position.
    #[test]
    fn a_caller_stays_the_same_when_other_keys_are_added_or_removed() {
        let keys = Keys::default().with("one", "a").with("two", "b");
        let found = caller(&keys, "b");
        let fewer = Keys::default().with("two", "b");
        assert_eq!(caller(&fewer, "b"), found);
        assert!(block_on(fewer.check_again(&found)).is_ok());
        // A session has the rights with which it began, so it ends when they change.
        let with_other_rights = Keys::default().with("two", "b").with_admin();
        assert_eq!(caller(&with_other_rights, "b"), found);
        assert!(block_on(with_other_rights.check_again(&found)).is_err());
        assert!(block_on(Keys::default().with("two", "c").check_again(&found)).is_err());
        assert!(block_on(Keys::default().check_again(&Principal::without_key())).is_ok());
    }

    #[test]
    fn both_headers_have_the_same_meaning() {
        let bearer = format!("Bearer {SECRET}");
        let two = Ok(Some("two".into()));
        assert_eq!(verdict(&[("authorization", bearer.as_bytes())]), two);
        assert_eq!(verdict(&[("authorization", format!("bEARER  {SECRET} ").as_bytes())]), two);
        assert_eq!(verdict(&[("x-api-key", SECRET.as_bytes())]), two);
        assert_eq!(verdict(&[("x-api-key", SECRET.as_bytes()), ("authorization", bearer.as_bytes())]), two);
        for wrong in [
            &[][..],
            &[("authorization", SECRET.as_bytes())],
            &[("authorization", b"Basic dXNlcjprZXk=")],
            &[("x-api-key", b"")],
            &[("x-api-key", SECRET.as_bytes()), ("x-api-key", b"x")],
            &[("x-api-key", &SECRET.as_bytes()[..SECRET.len() - 1])],
        ] {
            assert_eq!(verdict(wrong), Err(Unauthenticated), "{wrong:?}");
        }
        for different in [
            [
                ("x-api-key", SECRET.as_bytes()),
                ("authorization", &b"Bearer other-key-0123456789abcdef012345"[..]),
            ],
            [("x-api-key", &b"x"[..]), ("authorization", &b"Bearer y"[..])],
        ] {
            assert_eq!(verdict(&different), Err(DifferentKeys), "{different:?}");
        }
    }

    #[test]
    fn a_key_may_have_its_own_right_to_stored_data() {
        let rights = |provider_state| KeyRights { provider_state, ..KeyRights::default() };
        let keys = Keys::default().with("one", "a").with_rights("two", "b", rights(Some(true))).with_rights(
            "three",
            "c",
            rights(Some(false)),
        );
        let settings = |provider_state| {
            let keys = keys.clone();
            crate::GatewaySettings { keys, provider_state, ..crate::GatewaySettings::default() }
        };
        let rights = |setting: Option<bool>| {
            ["a", "b", "c"].map(|key| settings(setting).allows_provider_state(&caller(&keys, key)))
        };
        assert_eq!(rights(None), [false, true, false]);
        assert_eq!(rights(Some(true)), [true, true, false]);
        assert_eq!(rights(Some(false)), [false, true, false]);
    }

    #[test]
    fn without_keys_every_client_is_accepted() {
        let principal = block_on(Keys::default().authenticate(&HeaderMap::new()));
        assert_eq!(principal, Ok(Principal::without_key()));
        assert_eq!(keys().weak_key(), None);
        assert_eq!(keys().with("short", "0123456789").weak_key(), Some("short"));
        assert!(!format!("{:?}", keys()).contains(SECRET));
    }

    proptest! {
        #[test]
        fn any_other_value_is_refused(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let value: Vec<u8> = value.into_iter().filter(|byte| *byte >= 32 && *byte != 127).collect();
            prop_assume!(value != SECRET.as_bytes());
            prop_assert_eq!(verdict(&[("x-api-key", &value)]), Err(Unauthenticated));
            prop_assert_eq!(verdict(&[("authorization", &value)]), Err(Unauthenticated));
        }
    }
}
