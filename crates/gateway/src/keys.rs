//! The keys of the clients.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Longer values are not compared.
const MAX_KEY_BYTES: usize = 4_096;

/// The caller of a request. Only [`Keys::authenticate`] creates one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Principal {
    /// The fingerprint and the name of the key; `None` if the gateway has no keys. Different keys may have
    /// the same name. The fingerprint stays the same when the configuration is read again.
    key: Option<(u64, Arc<str>)>,
}

impl Principal {
    /// Returns the caller of a gateway without keys.
    pub(crate) fn without_key() -> Principal {
        Principal { key: None }
    }

    /// Returns the name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.key.as_ref().map(|(_, name)| &**name)
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns a text that only this key has.
    pub(crate) fn id(&self) -> Option<String> {
        self.key.as_ref().map(|(fingerprint, name)| format!("{fingerprint:016x} {name}"))
    }
}

/// The keys that clients may use. Without any key, every client that can connect may use the gateway.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Clone)]
struct Key {
    name: Arc<str>,
    digest: Digest,
    length: usize,
    /// Whether requests with this key may refer to data that the provider has stored; `None` if the setting
    /// for all keys decides.
    provider_state: Option<bool>,
    is_admin: bool,
}

/// A hash of a key. It does not implement `PartialEq`: the duration of such a comparison would reveal how
/// many bytes match.
#[derive(Clone)]
struct Digest([u8; 32]);

/// The request has no key, a wrong key, or two different keys. The message is the same in all cases, so that
/// it does not help to guess keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a valid key is required: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
pub(crate) struct Unauthenticated;

impl Keys {
    /// The minimum length of keys for clients on other machines.
    pub const MIN_LENGTH: usize = 32;

    /// Adds a key with a name for logs. Clients with different keys are isolated from each other, even if the
    /// names are the same.
    #[must_use]
    pub fn with(self, name: &str, key: &str) -> Keys {
        self.with_rights(name, key, None)
    }

    /// Like [`Keys::with`], with a right of the key: whether its requests may refer to data that the provider
    /// has stored. It replaces [`GatewaySettings::provider_state`](crate::GatewaySettings::provider_state).
    #[must_use]
    pub fn with_rights(mut self, name: &str, key: &str, provider_state: Option<bool>) -> Keys {
        let digest = Digest::of(key.as_bytes());
        self.0.push(Key { name: name.into(), digest, length: key.len(), provider_state, is_admin: false });
        self
    }

    /// Makes the key that was added last one of an administrator, who may change the servers on the page.
    #[must_use]
    pub fn with_admin(mut self) -> Keys {
        if let Some(key) = self.0.last_mut() {
            key.is_admin = true;
        }
        self
    }

    pub(crate) fn is_admin(&self, principal: &Principal) -> bool {
        self.find(principal).is_some_and(|key| key.is_admin)
    }

    /// Whether a caller still has a key, or needed none.
    pub(crate) fn has(&self, principal: &Principal) -> bool {
        !principal.has_key() || self.find(principal).is_some()
    }

    fn find(&self, principal: &Principal) -> Option<&Key> {
        let (fingerprint, name) = principal.key.as_ref()?;
        self.0.iter().find(|key| key.digest.fingerprint() == *fingerprint && key.name == *name)
    }

    /// Returns whether requests of a caller may refer to data that the provider has stored, if the key
    /// decides it.
    pub(crate) fn provider_state(&self, principal: &Principal) -> Option<bool> {
        self.find(principal)?.provider_state
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the name of the first key that is too short for clients on other machines.
    pub fn weak_key(&self) -> Option<&str> {
        self.0.iter().find(|key| key.length < Keys::MIN_LENGTH).map(|key| &*key.name)
    }

    /// Finds the caller. `Authorization: Bearer` and `x-api-key` have the same meaning on every path.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Unauthenticated> {
        if self.0.is_empty() {
            return Ok(Principal { key: None });
        }
        let bearer = headers.get_all(AUTHORIZATION).iter().map(|value| bearer_token(value.as_bytes()));
        let api_key = headers.get_all(API_KEY).iter().map(|value| Some(value.as_bytes()));
        let presented: Option<Vec<&[u8]>> = bearer.chain(api_key).collect();
        let presented = presented.ok_or(Unauthenticated)?;
        let first = *presented.first().ok_or(Unauthenticated)?;
        if presented.iter().any(|other| *other != first) || first.len() > MAX_KEY_BYTES {
            return Err(Unauthenticated);
        }
        let digest = Digest::of(first);
        let mut found = None;
        // The loop does not stop at the matching key, so that its duration does not reveal which key matched.
        for key in &self.0 {
            if bool::from(key.digest.0.ct_eq(&digest.0)) {
                found = Some((key.digest.fingerprint(), key.name.clone()));
            }
        }
        found.map(|key| Principal { key: Some(key) }).ok_or(Unauthenticated)
    }
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

impl Digest {
    fn of(key: &[u8]) -> Digest {
        Digest(Sha256::digest(key).into())
    }

    /// Returns a part of the hash that identifies the key.
    fn fingerprint(&self) -> u64 {
        self.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "tw_0123456789abcdef0123456789abcdef";

    fn keys() -> Keys {
        Keys::default().with("one", "other-key-0123456789abcdef012345").with("two", SECRET)
    }

    fn verdict(headers: &[(&str, &[u8])]) -> Result<Option<Arc<str>>, Unauthenticated> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            map.append(name, HeaderValue::from_bytes(value).expect("a header value"));
        }
        keys().authenticate(&map).map(|principal| principal.key.map(|(_, name)| name))
    }

    /// Returns the callers of three different keys.
    pub(crate) fn principals() -> [Principal; 3] {
        // The names do not distinguish them.
        [0, 1, 2].map(|position| Principal { key: Some((position, "name".into())) })
    }

    #[test]
    fn keys_with_the_same_name_are_different_callers() {
        let keys = Keys::default().with("name", "a").with("name", "b");
        let caller = |key: &'static str| {
            keys.authenticate(&HeaderMap::from_iter([(API_KEY, HeaderValue::from_static(key))]))
        };
        assert_eq!(caller("a"), caller("a"));
        assert_ne!(caller("a"), caller("b"));
    }

    /// When the configuration is read again, another key may be at the same position.
    #[test]
    fn a_caller_stays_the_same_when_other_keys_are_added_or_removed() {
        let keys = Keys::default().with("one", "a").with("two", "b").with_admin();
        let header = HeaderMap::from_iter([(API_KEY, HeaderValue::from_static("b"))]);
        let caller = keys.authenticate(&header).expect("a valid key");
        let fewer = Keys::default().with("two", "b");
        assert_eq!(fewer.authenticate(&header), Ok(caller.clone()));
        assert!(keys.is_admin(&caller) && !fewer.is_admin(&caller) && fewer.has(&caller));
        assert!(!Keys::default().with("two", "c").has(&caller));
        assert!(Keys::default().has(&Principal::without_key()));
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
            &[
                ("x-api-key", SECRET.as_bytes()),
                ("authorization", b"Bearer other-key-0123456789abcdef012345"),
            ],
            &[("x-api-key", SECRET.as_bytes()), ("x-api-key", b"x")],
            &[("x-api-key", &SECRET.as_bytes()[..SECRET.len() - 1])],
        ] {
            assert_eq!(verdict(wrong), Err(Unauthenticated), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_may_have_its_own_right_to_stored_data() {
        let keys = Keys::default().with("one", "a").with_rights("two", "b", Some(true)).with_rights(
            "three",
            "c",
            Some(false),
        );
        let settings = |provider_state| {
            let keys = keys.clone();
            crate::GatewaySettings { keys, provider_state, ..crate::GatewaySettings::default() }
        };
        let rights = |setting: Option<bool>| {
            ["a", "b", "c"].map(|key| {
                let headers = HeaderMap::from_iter([(API_KEY, HeaderValue::from_static(key))]);
                let caller = keys.authenticate(&headers).expect("a valid key");
                settings(setting).allows_provider_state(&caller)
            })
        };
        assert_eq!(rights(None), [false, true, false]);
        assert_eq!(rights(Some(true)), [true, true, false]);
        assert_eq!(rights(Some(false)), [false, true, false]);
    }

    #[test]
    fn without_keys_every_client_is_accepted() {
        assert_eq!(Keys::default().authenticate(&HeaderMap::new()), Ok(Principal { key: None }));
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
