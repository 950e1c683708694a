//! The place of a server's tokens: files, or a storage of the application.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::Url;

use super::token_store::{Grant, TokenFiles};
use crate::Secret;

/// Held while a token is refreshed. Dropping it releases the lock.
pub type TokenLock = Box<dyn Any + Send + Sync>;

/// Stores tokens for several processes: those of one user, or those that all users share. A gateway encrypts
/// what it stores.
///
/// `resource` is the URL of the server that the tokens are for.
pub trait TokenStorage: Send + Sync {
    /// Returns what was saved last.
    fn load<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<Option<Secret>>>;

    /// Replaces what was saved before. The text contains tokens.
    fn save<'a>(&'a self, resource: &'a str, tokens: Secret) -> BoxFuture<'a, io::Result<()>>;

    /// Deletes the tokens, and returns whether there were any.
    fn delete<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<bool>>;

    /// Waits until no other process refreshes these tokens; returns `None` after `timeout`.
    fn lock<'a>(
        &'a self,
        resource: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, io::Result<Option<TokenLock>>>;
}

/// The stored tokens of one server.
#[derive(Clone)]
pub(super) enum TokenStore {
    Files(TokenFiles),
    OfApplication { storage: Arc<dyn TokenStorage>, resource: Arc<str> },
}

impl TokenStore {
    pub(super) fn of_application(storage: Arc<dyn TokenStorage>, resource: &Url) -> TokenStore {
        TokenStore::OfApplication { storage, resource: resource.as_str().into() }
    }

    /// Returns the folder of the files.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            TokenStore::Files(files) => Some(files.folder()),
            TokenStore::OfApplication { .. } => None,
        }
    }

    /// Returns the newest grant. A stored grant that cannot be parsed is ignored: the worst consequence is
    /// another login. Fails if a storage of the application cannot be reached.
    pub(super) async fn load(&self) -> io::Result<Option<Grant>> {
        let (storage, resource) = match self {
            TokenStore::Files(files) => return Ok(files.load().await),
            TokenStore::OfApplication { storage, resource } => (storage, resource),
        };
        let Some(tokens) = storage.load(resource).await? else { return Ok(None) };
        match Grant::from_json(tokens.expose().as_bytes()) {
            Ok(grant) => Ok(Some(grant).filter(|grant| *grant.resource == **resource)),
            Err(error) => {
                tracing::warn!(%resource, kind = ?error.kind(), "ignoring stored tokens that cannot be read");
                Ok(None)
            }
        }
    }

    /// Whether other machines may use the same tokens.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, TokenStore::OfApplication { .. })
    }

    pub(super) async fn save(&self, grant: Grant) -> io::Result<()> {
        match self {
            TokenStore::Files(files) => files.save(grant).await,
            TokenStore::OfApplication { storage, resource } => {
                let tokens = serde_json::to_string(&grant)?;
                storage.save(resource, Secret::new(tokens)).await
            }
        }
    }

    /// Deletes all grants of the server, and returns whether there were any.
    pub(super) async fn delete(&self) -> io::Result<bool> {
        match self {
            TokenStore::Files(files) => files.delete().await,
            TokenStore::OfApplication { storage, resource } => storage.delete(resource).await,
        }
    }

    /// Waits until no other process refreshes this server's token; returns `None` after `timeout`.
    pub(super) async fn lock(&self, timeout: Duration) -> io::Result<Option<TokenLock>> {
        match self {
            TokenStore::Files(files) => files.lock(timeout).await,
            TokenStore::OfApplication { storage, resource } => storage.lock(resource, timeout).await,
        }
    }
}
