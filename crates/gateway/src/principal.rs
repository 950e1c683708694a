//! The caller of a request.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolwire_contract::Secret;
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::{KeyDigest, KeyId, KeyRecord, KeyRights};

use crate::user_servers::ServerUser;

/// The owner of the data of a gateway without keys. The ids of all other owners have a prefix.
const NO_KEY: &str = "anyone";

/// The caller of a request. Only the authentication creates one.
///
/// Two callers are equal if they own the same stored data: they have the same key, or keys of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    /// `None` if the gateway has no keys.
    identity: Option<Arc<Identity>>,
    /// The headers of the request with credentials for servers; `None` if no server has credentials of its
    /// users.
    credentials: Option<Arc<[(String, Secret)]>>,
    /// Whether stored data belongs to the key, and not to its tenant.
    is_alone: bool,
}

/// A valid key, or another proof of who the caller is.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Identifies the key in stores: letters, digits, `_` and `-`.
    id: String,
    /// Identifies the owner of stored data, in the same form.
    owner: String,
    name: Arc<str>,
    rights: Arc<KeyRights>,
    /// The rights about tools; `None` without restrictions.
    tool_rights: Option<Arc<KeyRights>>,
    pub(crate) source: Source,
}

/// The source of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A key of the configuration, and a part of its hash: another key may get the same name.
    Configuration(u64),
    /// A key of the key table.
    Table(KeyId),
    /// A token, its issuer, and its expiry.
    #[cfg(feature = "oidc")]
    Token(Arc<str>, Timestamp),
}

/// The owner of a token, as it is stored with work that continues without the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedToken {
    issuer: String,
    name: String,
    /// The rights that the claims of the token have given.
    rights: KeyRights,
}

impl Identity {
    fn new(id: String, name: &str, tenant: Option<&str>, rights: KeyRights, source: Source) -> Identity {
        let owner = tenant.map_or_else(|| id.clone(), |tenant| format!("tenant_{}", hash(tenant)));
        let of_tools = rights.of_tools();
        let tool_rights = (of_tools != KeyRights::default()).then(|| Arc::new(of_tools));
        Identity { id, owner, name: name.into(), rights: Arc::new(rights), tool_rights, source }
    }

    /// Creates the identity of a configured key. Keys with the same name differ by `number`.
    pub(crate) fn configured(
        name: &str,
        number: usize,
        digest: &KeyDigest,
        tenant: Option<&str>,
        rights: KeyRights,
    ) -> Identity {
        let id = format!("config_{}", hash(&format!("{name}\n{number}")));
        let start = digest.as_bytes().iter().take(8);
        let fingerprint = start.fold(0, |number, byte| number << 8 | u64::from(*byte));
        Identity::new(id, name, tenant, rights, Source::Configuration(fingerprint))
    }

    /// Identifies the key in stores.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether another identity has the same key, tenant and rights.
    pub(crate) fn is_same_key(&self, other: &Identity) -> bool {
        (&self.id, &self.owner, &self.rights) == (&other.id, &other.owner, &other.rights)
    }

    /// Creates the identity of a token.
    #[cfg(feature = "oidc")]
    pub(crate) fn token(
        issuer: &str,
        subject: &str,
        name: &str,
        tenant: Option<&str>,
        rights: KeyRights,
        expires: Timestamp,
    ) -> Identity {
        let id = format!("token_{}", hash(&format!("{issuer}\n{subject}")));
        // Other issuers, and keys, may use the same name for another tenant.
        let tenant = tenant.map(|tenant| format!("{issuer}\n{tenant}"));
        Identity::new(id, name, tenant.as_deref(), rights, Source::Token(issuer.into(), expires))
    }

    /// Creates the identity of a saved token.
    #[cfg(feature = "oidc")]
    pub(crate) fn saved_token(id: &str, owner: &str, token: &SavedToken) -> Identity {
        let source = Source::Token(token.issuer.as_str().into(), Timestamp(0));
        let identity = Identity::new(id.to_owned(), &token.name, None, token.rights.clone(), source);
        Identity { owner: owner.to_owned(), ..identity }
    }

    /// Creates the identity of a stored key.
    pub(crate) fn stored(key: &KeyRecord) -> Identity {
        let (id, source) = (stored_key_owner(&key.id), Source::Table(key.id.clone()));
        Identity::new(id, &key.name, key.tenant.as_deref(), key.rights.clone(), source)
    }
}

/// Returns the name under which the usage of a stored key is counted.
pub fn stored_key_owner(id: &KeyId) -> String {
    format!("key_{id}")
}

/// Returns a part of a hash that is long enough to be unique. Names of people may contain any character.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl SavedToken {
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }
}

impl Principal {
    pub(crate) fn new(identity: Arc<Identity>) -> Principal {
        Principal { identity: Some(identity), credentials: None, is_alone: false }
    }

    /// Returns the caller of a gateway without keys.
    pub(crate) fn without_key() -> Principal {
        Principal { identity: None, credentials: None, is_alone: false }
    }

    /// Adds the credentials for servers in the headers of a request.
    #[must_use]
    pub(crate) fn with_credentials(self, headers: Vec<(String, Secret)>) -> Principal {
        Principal { credentials: Some(headers.into()), ..self }
    }

    /// Whether the request has credentials for servers in its headers.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.as_ref().is_some_and(|headers| !headers.is_empty())
    }

    /// Returns the caller as the owner of what contains its connections to servers. If users have credentials
    /// of their own, the keys of one tenant do not share it.
    pub(crate) fn owner_of_connections(&self) -> Principal {
        Principal { is_alone: self.credentials.is_some(), ..self.clone() }
    }

    /// Returns the credentials for servers in the headers of the request.
    pub(crate) fn credentials(&self) -> &[(String, Secret)] {
        self.credentials.as_deref().unwrap_or_default()
    }

    /// Returns the user for servers that have credentials of their users. Keys of one tenant are different
    /// users.
    pub(crate) fn server_user(&self) -> ServerUser {
        let headers = self.credentials().to_vec();
        ServerUser::new(self.key_id().unwrap_or(ServerUser::WITHOUT_KEY), headers)
    }

    /// Whether the caller has a token, which expires soon, instead of a key.
    pub(crate) fn is_token(&self) -> bool {
        #[cfg(feature = "oidc")]
        let is_token =
            self.identity.as_ref().is_some_and(|identity| matches!(identity.source, Source::Token(..)));
        #[cfg(not(feature = "oidc"))]
        let is_token = false;
        is_token
    }

    /// Returns the owner of a token, to store it with work that continues without the token.
    pub(crate) fn saved_token(&self) -> Option<SavedToken> {
        #[cfg(feature = "oidc")]
        if let Some(identity) = &self.identity
            && let Source::Token(issuer, _) = &identity.source
        {
            let (name, rights) = (identity.name.to_string(), (*identity.rights).clone());
            return Some(SavedToken { issuer: issuer.to_string(), name, rights });
        }
        None
    }

    /// Returns the name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| &*identity.name)
    }

    /// Identifies the key, also after a restart.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.id.as_str())
    }

    /// Identifies the owner of stored data, also after a restart.
    pub(crate) fn owner_id(&self) -> Option<String> {
        self.identity.as_ref().map(|identity| identity.owner.clone())
    }

    /// Identifies the owner of stored data, also of a gateway without keys.
    pub(crate) fn store_owner(&self) -> &str {
        self.identity.as_ref().map_or(NO_KEY, |identity| &identity.owner)
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.rights.admin)
    }

    pub(crate) fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Returns the rights of the key; `None` if the gateway has no keys.
    pub(crate) fn rights(&self) -> Option<&Arc<KeyRights>> {
        self.identity.as_ref().map(|identity| &identity.rights)
    }

    /// Returns the rights about tools, if there are restrictions or rules.
    pub(crate) fn tool_rights(&self) -> Option<&Arc<KeyRights>> {
        self.identity.as_ref()?.tool_rights.as_ref()
    }

    /// Whether the caller may use a model that has any of these names.
    pub(crate) fn permits_model(&self, names: &[&str]) -> bool {
        self.rights().is_none_or(|rights| rights.permits_model(names))
    }

    /// Whether the caller may use all servers and tools.
    pub(crate) fn permits_all_tools(&self) -> bool {
        self.rights().is_none_or(|rights| rights.permits_all_tools())
    }

    pub(crate) fn permits_server(&self, server: &str) -> bool {
        self.rights().is_none_or(|rights| rights.permits_server(server))
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Principal) -> bool {
        self.owner() == other.owner()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.owner().hash(hasher);
    }
}

impl Principal {
    fn owner(&self) -> Option<&str> {
        let identity = self.identity.as_deref()?;
        Some(if self.is_alone { &identity.id } else { &identity.owner })
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn configured(name: &str, number: usize, tenant: Option<&str>) -> Principal {
        let digest = KeyDigest::new([1; 32]);
        let identity = Identity::configured(name, number, &digest, tenant, KeyRights::default());
        Principal::new(Arc::new(identity))
    }

    /// Returns the callers of three different keys.
    pub(crate) fn principals() -> [Principal; 3] {
        // The names do not distinguish them.
        [0, 1, 2].map(|number| configured("name", number, None))
    }

    #[test]
    fn keys_of_one_tenant_own_the_same_data() {
        let [one, other, _] = principals();
        assert_ne!(one, other);
        assert_ne!(one, Principal::without_key());
        let (first, second) = (configured("a", 0, Some("acme")), configured("b", 0, Some("acme")));
        assert_eq!(first, second);
        assert_ne!(first.key_id(), second.key_id());
        assert_ne!(first, configured("a", 0, Some("acme2")));
        // A tenant cannot have the name of a key.
        let id = configured("a", 0, None).owner_id().expect("a key");
        assert_ne!(configured("b", 0, Some(&id)), configured("a", 0, None));
    }

    #[test]
    fn keys_of_one_tenant_do_not_share_connections() {
        let (one, two) = (configured("a", 0, Some("acme")), configured("b", 0, Some("acme")));
        assert_eq!(one.owner_of_connections(), two.owner_of_connections(), "servers have no users");
        let [one, two] = [one, two].map(|principal| principal.with_credentials(Vec::new()));
        assert_eq!(one, two);
        assert_ne!(one.owner_of_connections(), two.owner_of_connections());
        assert_ne!(one.server_user(), two.server_user());
        let token = vec![("x-token".to_owned(), Secret::new("t"))];
        assert_ne!(one.server_user(), one.clone().with_credentials(token).server_user());
    }

    #[test]
    fn ids_are_plain_whatever_the_name_is() {
        for name in ["{a}", "a b\n", "é", ""] {
            for principal in [configured(name, 0, None), configured("x", 0, Some(name))] {
                let id = principal.owner_id().expect("a key");
                assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{id}");
            }
        }
    }
}
