//! The owners of work that continues without a request, such as a response whose gateway has died.

use toolwire_contract::keys::KeyId;

use super::Keys;
#[cfg(feature = "oidc")]
use crate::principal::Identity;
use crate::principal::{Principal, SavedToken, now};

/// The prefix of the ids of stored keys.
const STORED_PREFIX: &str = "key_";

/// The owner of work that continues without a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WorkOwner {
    Known(Principal),
    /// The key has been revoked, or has expired.
    Invalid,
    /// This gateway does not know the key, or cannot check it now.
    Unknown,
}

impl Keys {
    /// Finds the caller whose key has this id, with the current rights of the key. A token has the rights
    /// that it had when it was saved.
    pub(crate) async fn work_owner(
        &self,
        key_id: Option<&str>,
        token: Option<&SavedToken>,
        owner: &str,
    ) -> WorkOwner {
        let Some(id) = key_id else {
            // The work began without a key. If the gateway requires one now, nobody may continue the work.
            return match self.needs_key().await {
                Ok(false) => WorkOwner::Known(Principal::without_key()),
                _ => WorkOwner::Unknown,
            };
        };
        let found = match self.key_owner(id).await {
            WorkOwner::Unknown => self.token_owner(id, token, owner),
            found => found,
        };
        match found {
            // The key may belong to another tenant now.
            WorkOwner::Known(principal) if principal.owner_id().as_deref() != Some(owner) => {
                WorkOwner::Unknown
            }
            found => found,
        }
    }

    async fn key_owner(&self, id: &str) -> WorkOwner {
        if let Some(key) = self.configured.iter().find(|key| key.identity.id() == id) {
            return WorkOwner::Known(Principal::new(key.identity.clone()));
        }
        let key_id = id.strip_prefix(STORED_PREFIX).and_then(|id| id.parse::<KeyId>().ok());
        let (Some(stored), Some(key_id)) = (&self.stored, key_id) else { return WorkOwner::Unknown };
        match stored.find(&key_id).await {
            Ok(Some(key)) if key.record.is_valid_at(now()) => WorkOwner::Known(Principal::new(key.identity)),
            Ok(Some(_)) => WorkOwner::Invalid,
            Ok(None) => WorkOwner::Unknown,
            Err(error) => {
                tracing::warn!(%error, "the key table cannot be read");
                WorkOwner::Unknown
            }
        }
    }

    #[cfg(feature = "oidc")]
    fn token_owner(&self, id: &str, token: Option<&SavedToken>, owner: &str) -> WorkOwner {
        match token.filter(|token| self.issuers().any(|issuer| issuer == token.issuer())) {
            Some(token) => WorkOwner::Known(Principal::new(Identity::saved_token(id, owner, token).into())),
            None => WorkOwner::Unknown,
        }
    }

    #[cfg(not(feature = "oidc"))]
    fn token_owner(&self, _: &str, _: Option<&SavedToken>, _: &str) -> WorkOwner {
        WorkOwner::Unknown
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolwire_contract::conversations::Timestamp;
    use toolwire_contract::keys::{KeyDigest, KeyRecord, KeyRights, KeyTable as _};
    use toolwire_store::InMemoryKeys;

    use super::*;
    use crate::stored_key_owner;

    async fn owner(keys: &Keys, id: Option<&str>, owner: &str) -> WorkOwner {
        keys.work_owner(id, None, owner).await
    }

    #[tokio::test]
    async fn the_owner_of_work_is_found_without_its_key() {
        let rights = KeyRights { deny: vec!["x".to_owned()], ..KeyRights::default() };
        let keys =
            Keys::default().with("one", "a").with_rights("two", "b", rights.clone()).with_tenant("acme");
        for key in ["a", "b"] {
            let known = keys.find(key.as_bytes()).await.expect("a valid key");
            let (id, of) = (known.key_id().expect("an id"), known.owner_id().expect("an owner"));
            let WorkOwner::Known(found) = owner(&keys, Some(id), &of).await else { panic!("{id} is known") };
            assert_eq!((found.key_id(), found.rights()), (known.key_id(), known.rights()));
            assert_eq!(owner(&keys, Some(id), "tenant_other").await, WorkOwner::Unknown);
            assert_eq!(owner(&Keys::default().with("three", "c"), Some(id), &of).await, WorkOwner::Unknown);
        }
        assert_eq!(owner(&keys, None, "anyone").await, WorkOwner::Unknown, "a key is needed now");
        let nobody = WorkOwner::Known(Principal::without_key());
        assert_eq!(owner(&Keys::default(), None, "anyone").await, nobody);
    }

    #[tokio::test]
    async fn the_owner_of_a_revoked_key_is_invalid() {
        let table = Arc::new(InMemoryKeys::default());
        let keys = Keys::default().with_table(table.clone(), table.clone());
        let record = |id: &str, expires| KeyRecord {
            id: id.parse().expect("an id"),
            name: "name".to_owned(),
            tenant: None,
            digest: KeyDigest::new([1; 32]),
            rights: KeyRights::default(),
            created: Timestamp(0),
            expires,
            revoked: None,
        };
        let (valid, expired) = (record("abcdefghijkl", None), record("ABCDEFGHIJKL", Some(Timestamp(1))));
        let [valid_id, expired_id] = [&valid, &expired].map(|key| stored_key_owner(&key.id));
        for key in [valid, expired] {
            assert_eq!(table.add(key).await, Ok(true));
        }
        assert!(matches!(owner(&keys, Some(&valid_id), &valid_id).await, WorkOwner::Known(_)));
        assert_eq!(owner(&keys, Some(&expired_id), &expired_id).await, WorkOwner::Invalid);
        assert_eq!(owner(&keys, Some("key_000000000000"), "key_000000000000").await, WorkOwner::Unknown);
    }

    #[cfg(feature = "oidc")]
    #[tokio::test]
    async fn the_owner_of_a_token_has_the_rights_of_the_token() {
        use futures::future::BoxFuture;

        use crate::tokens::{KeySetError, KeySetSource, TokenIssuer};

        struct NoKeys;

        impl KeySetSource for NoKeys {
            fn fetch(&self) -> BoxFuture<'_, Result<serde_json::Value, KeySetError>> {
                Box::pin(std::future::ready(Err(KeySetError { problem: "down".to_owned() })))
            }
        }

        let rights = KeyRights { deny: vec!["x".to_owned()], ..KeyRights::default() };
        let expires = Timestamp(5);
        let token = Identity::token("https://issuer", "subject", "name", Some("acme"), rights, expires);
        let token = Principal::new(Arc::new(token));
        let saved = token.saved_token().expect("a token");
        let (id, of) = (token.key_id().expect("an id"), token.owner_id().expect("an owner"));
        let issuer = |name: &str| Keys::default().with_issuer(TokenIssuer::new(name, "us"), Arc::new(NoKeys));
        let found = issuer("https://issuer").work_owner(Some(id), Some(&saved), &of).await;
        let WorkOwner::Known(found) = found else { panic!("{found:?}") };
        assert_eq!((found.key_id(), found.rights(), found.name()), (Some(id), token.rights(), Some("name")));
        assert!(found.is_token() && found.owner_id() == Some(of.clone()));
        let other = issuer("https://other").work_owner(Some(id), Some(&saved), &of).await;
        assert_eq!(other, WorkOwner::Unknown, "its issuer is not accepted any more");
    }
}
