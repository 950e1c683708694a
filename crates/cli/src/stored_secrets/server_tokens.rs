//! The tokens of servers that all users share, for all gateways with the same Redis.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use toolwire_contract::Secret;
use toolwire_hub::auth::{TokenLock, TokenStorage};

use super::{Seal, StoredSecrets, StoredTokens};
use crate::command_error::CommandError;
use crate::storage::{self, StoreSettings};

/// The owner of the tokens. The owners of users' tokens begin with `USER_PREFIX`, so none of them is the
/// same.
const OWNER: &str = "servers";

/// Where the tokens of shared servers are stored.
#[derive(Clone, Default)]
pub(crate) enum TokenPlace {
    /// Files in the data folder, because the store is a file too.
    #[default]
    Files,
    /// Files. Other machines use the same store, but no secret is configured to encrypt tokens in it.
    FilesWithoutSecret,
    Shared(Arc<ServerTokens>),
}

/// The tokens of servers in Redis. It is connected to when the first token is needed: most commands and
/// servers need none.
pub(crate) struct ServerTokens {
    store: StoreSettings,
    secret: Secret,
    opened: OnceCell<StoredTokens>,
}

impl TokenPlace {
    /// Checks the secret, if it is used.
    pub(crate) fn new(store: &StoreSettings, secret: Option<&Secret>) -> Result<TokenPlace, CommandError> {
        if !storage::is_shared(store) {
            return Ok(TokenPlace::Files);
        }
        let Some(secret) = secret else { return Ok(TokenPlace::FilesWithoutSecret) };
        Seal::check(secret)?;
        let (store, secret) = (store.clone(), secret.clone());
        Ok(TokenPlace::Shared(Arc::new(ServerTokens { store, secret, opened: OnceCell::new() })))
    }

    /// Returns the storage that replaces the files.
    pub(crate) fn storage(&self) -> Option<Arc<dyn TokenStorage>> {
        match self {
            TokenPlace::Shared(tokens) => Some(tokens.clone()),
            TokenPlace::Files | TokenPlace::FilesWithoutSecret => None,
        }
    }
}

impl ServerTokens {
    async fn tokens(&self) -> io::Result<&StoredTokens> {
        self.opened.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> io::Result<StoredTokens> {
        let store = storage::open_state(&self.store).await;
        let store = store.map_err(|error| io::Error::other(error.into_parts().0))?;
        let secrets = Arc::new(StoredSecrets::new(store, &self.secret));
        Ok(StoredTokens { secrets, owner: OWNER.to_owned() })
    }
}

impl TokenStorage for ServerTokens {
    fn load<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<Option<Secret>>> {
        Box::pin(async move { self.tokens().await?.load(resource).await })
    }

    fn save<'a>(&'a self, resource: &'a str, tokens: Secret) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.tokens().await?.save(resource, tokens).await })
    }

    fn delete<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(async move { self.tokens().await?.delete(resource).await })
    }

    fn lock<'a>(
        &'a self,
        resource: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, io::Result<Option<TokenLock>>> {
        Box::pin(async move { self.tokens().await?.lock(resource, timeout).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shared_only_with_a_secret_and_a_shared_store() {
        let redis = StoreSettings::PathOrUrl("redis+sentinel://127.0.0.1/mymaster".to_owned());
        let file = StoreSettings::PathOrUrl("conversations.db".to_owned());
        let secret = Secret::new("a secret of at least thirty-two bytes");
        let place = |store, secret| TokenPlace::new(store, secret);
        assert!(matches!(place(&redis, Some(&secret)), Ok(TokenPlace::Shared(_))));
        assert!(matches!(place(&redis, None), Ok(TokenPlace::FilesWithoutSecret)));
        assert!(matches!(place(&file, Some(&secret)), Ok(TokenPlace::Files)));
        assert!(place(&redis, Some(&Secret::new("short"))).is_err());
    }
}
