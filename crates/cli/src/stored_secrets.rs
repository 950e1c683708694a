//! OAuth tokens, and logins that are not complete, encrypted in the store of the gateway's state. All
//! gateways with the same store and the same key have the same ones.

mod seal;
pub(crate) mod server_tokens;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use toolwire_contract::Secret;
use toolwire_contract::state::{Claim, StateKey, StateStore};
use toolwire_hub::auth::{TokenLock, TokenStorage};

use seal::Place;
pub(crate) use seal::Seal;

/// Tokens that were neither used nor renewed for this time are removed.
const LIFETIME: Duration = Duration::from_secs(180 * 24 * 60 * 60);

/// The time for a login.
const LOGIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Longer than a refresh of a token can take.
const LOCK_LIFETIME: Duration = Duration::from_secs(90);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The owner of logins that are not complete.
const LOGINS: &str = "logins";

/// The prefix of the owners of users' tokens. No owner of responses begins with it.
const USER_PREFIX: &str = "user_";

/// The stored secrets of all users and servers.
pub(crate) struct StoredSecrets {
    store: Arc<dyn StateStore>,
    seal: Seal,
}

/// A login that is not complete.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredLogin {
    pub(crate) user: String,
    pub(crate) server: String,
    /// The hash of the secret of the user's browser.
    browser: String,
    /// The secrets of the login itself.
    pending: String,
}

impl StoredLogin {
    pub(crate) fn new(user: String, server: String, browser: &Secret, pending: &Secret) -> StoredLogin {
        StoredLogin { user, server, browser: hash(browser.expose()), pending: pending.expose().to_owned() }
    }

    pub(crate) fn pending(&self) -> Secret {
        Secret::new(self.pending.as_str())
    }
}

impl StoredSecrets {
    pub(crate) fn new(store: Arc<dyn StateStore>, secret: &Secret) -> StoredSecrets {
        StoredSecrets { store, seal: Seal::new(secret) }
    }

    /// Stores a login, to be found by the `state` of its redirect.
    pub(crate) async fn add_login(&self, state: &str, login: &StoredLogin) -> io::Result<()> {
        let key = login_key(state)?;
        let text = Secret::new(serde_json::to_string(login)?);
        let sealed = self.seal.seal(&place("login", &key), &text)?;
        self.store.put(&key, sealed, LOGIN_LIFETIME).await.map_err(io::Error::other)
    }

    /// Removes and returns a login, if it was started in this browser. A login is returned once.
    pub(crate) async fn take_login(&self, state: &str, browser: &Secret) -> io::Result<Option<StoredLogin>> {
        let key = login_key(state)?;
        let Some(sealed) = self.store.get(&key).await.map_err(io::Error::other)? else { return Ok(None) };
        let Some(text) = self.seal.open(&place("login", &key), &sealed) else { return Ok(None) };
        let login: StoredLogin = serde_json::from_str(text.expose())?;
        // Both are hashes of random texts, so the duration of the comparison reveals nothing useful.
        if login.browser != hash(browser.expose()) {
            return Ok(None);
        }
        let is_first = self.store.remove(&key).await.map_err(io::Error::other)?;
        Ok(is_first.then_some(login))
    }
}

/// The tokens of one user, or those that all users share.
pub(crate) struct StoredTokens {
    pub(crate) secrets: Arc<StoredSecrets>,
    pub(crate) owner: String,
}

impl StoredTokens {
    /// Returns the tokens of one user. They have another owner than the user's responses: clients choose the
    /// ids in requests for responses, and none of these ids may lead to a token.
    pub(crate) fn of_user(secrets: Arc<StoredSecrets>, user: &str) -> StoredTokens {
        StoredTokens { secrets, owner: format!("{USER_PREFIX}{user}") }
    }
}

impl StoredTokens {
    fn key(&self, resource: &str) -> io::Result<StateKey> {
        StateKey::new(self.owner.as_str(), format!("oauth_{}", hash(resource))).map_err(io::Error::other)
    }
}

impl TokenStorage for StoredTokens {
    fn load<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<Option<Secret>>> {
        Box::pin(async move {
            let key = self.key(resource)?;
            let sealed = self.secrets.store.get(&key).await.map_err(io::Error::other)?;
            let Some(sealed) = sealed else { return Ok(None) };
            let opened = self.secrets.seal.open(&place("tokens", &key), &sealed);
            if opened.is_none() {
                tracing::warn!(
                    owner = self.owner,
                    "stored tokens cannot be decrypted; a new login is required"
                );
            }
            Ok(opened)
        })
    }

    fn save<'a>(&'a self, resource: &'a str, tokens: Secret) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let key = self.key(resource)?;
            let sealed = self.secrets.seal.seal(&place("tokens", &key), &tokens)?;
            self.secrets.store.put(&key, sealed, LIFETIME).await.map_err(io::Error::other)
        })
    }

    fn delete<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        Box::pin(
            async move { self.secrets.store.remove(&self.key(resource)?).await.map_err(io::Error::other) },
        )
    }

    fn lock<'a>(
        &'a self,
        resource: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, io::Result<Option<TokenLock>>> {
        Box::pin(async move {
            let holder = self.secrets.seal.random_text()?;
            let claim = Claim { key: self.key(resource)?, holder, lifetime: LOCK_LIFETIME };
            let deadline = Instant::now() + timeout;
            loop {
                if self.secrets.store.claim(&claim).await.map_err(io::Error::other)? {
                    let lock: TokenLock = Box::new(HeldLock { secrets: self.secrets.clone(), claim });
                    return Ok(Some(lock));
                }
                if Instant::now() >= deadline {
                    return Ok(None);
                }
                // The store cannot notify.
                tokio::time::sleep(LOCK_PAUSE).await;
            }
        })
    }
}

/// The right to refresh tokens. It is released when it is dropped.
struct HeldLock {
    secrets: Arc<StoredSecrets>,
    claim: Claim,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (secrets, claim) = (self.secrets.clone(), self.claim.clone());
        runtime.spawn(async move {
            if let Err(error) = secrets.store.release(&claim).await {
                tracing::warn!(%error, "other gateways have to wait before they can refresh a token");
            }
        });
    }
}

fn login_key(state: &str) -> io::Result<StateKey> {
    StateKey::new(LOGINS, hash(state)).map_err(io::Error::other)
}

fn place<'a>(kind: &'a str, key: &'a StateKey) -> Place<'a> {
    Place { kind, owner: key.owner(), id: key.id() }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use toolwire_store::InMemoryState;

    use super::*;

    const RESOURCE: &str = "https://notes.example/mcp";

    fn secrets(store: &Arc<dyn StateStore>) -> Arc<StoredSecrets> {
        let secret = Secret::new("a secret of at least thirty-two bytes");
        Arc::new(StoredSecrets::new(store.clone(), &secret))
    }

    fn tokens(secrets: &Arc<StoredSecrets>, owner: &str) -> StoredTokens {
        StoredTokens { secrets: secrets.clone(), owner: owner.to_owned() }
    }

    #[tokio::test]
    async fn tokens_belong_to_one_user() {
        let store: Arc<dyn StateStore> = Arc::new(InMemoryState::new());
        let secrets = secrets(&store);
        let (alice, bob) = (tokens(&secrets, "key_a"), tokens(&secrets, "key_b"));
        let secret = Some(Secret::new("token of alice"));
        alice.save(RESOURCE, Secret::new("token of alice")).await.expect("saved");
        assert_eq!(alice.load(RESOURCE).await.expect("read"), secret);
        assert_eq!(tokens(&self::secrets(&store), "key_a").load(RESOURCE).await.expect("read"), secret);
        assert_eq!(bob.load(RESOURCE).await.expect("read"), None);
        assert_eq!(alice.load("https://other.example/mcp").await.expect("read"), None);
        // Whoever can write to the store cannot give the tokens to another user.
        let of_alice = alice.key(RESOURCE).expect("a key");
        let row = store.get(&of_alice).await.expect("read").expect("a row");
        assert!(!row.contains("token of alice"), "{row}");
        store.put(&bob.key(RESOURCE).expect("a key"), row, LIFETIME).await.expect("written");
        assert_eq!(bob.load(RESOURCE).await.expect("read"), None);
        assert!(!bob.delete("https://other.example/mcp").await.expect("removed"));
        assert!(alice.delete(RESOURCE).await.expect("removed"));
        assert_eq!(alice.load(RESOURCE).await.expect("read"), None);
    }

    #[tokio::test]
    async fn one_gateway_refreshes_a_token_at_a_time() {
        let store: Arc<dyn StateStore> = Arc::new(InMemoryState::new());
        let (one, two) = (tokens(&secrets(&store), "key_a"), tokens(&secrets(&store), "key_a"));
        let held = one.lock(RESOURCE, Duration::ZERO).await.expect("locked").expect("it is free");
        assert!(two.lock(RESOURCE, Duration::ZERO).await.expect("asked").is_none());
        assert!(
            tokens(&secrets(&store), "key_b").lock(RESOURCE, Duration::ZERO).await.expect("asked").is_some()
        );
        let waiting = two.lock(RESOURCE, Duration::from_secs(60));
        let (waited, ()) = futures::join!(waiting, async { drop(held) });
        assert!(waited.expect("asked").is_some());
    }

    #[tokio::test]
    async fn a_login_is_completed_once_and_in_its_browser() {
        let store: Arc<dyn StateStore> = Arc::new(InMemoryState::new());
        let secrets = secrets(&store);
        let browser = Secret::new("browser of alice");
        let login =
            StoredLogin::new("key_a".to_owned(), "notes".to_owned(), &browser, &Secret::new("verifier"));
        secrets.add_login("state", &login).await.expect("stored");
        let other = Secret::new("browser of bob");
        assert!(secrets.take_login("state", &other).await.expect("asked").is_none());
        assert!(secrets.take_login("guess", &browser).await.expect("asked").is_none());
        let taken = secrets.take_login("state", &browser).await.expect("asked").expect("the login");
        assert_eq!(
            (&*taken.user, &*taken.server, taken.pending()),
            ("key_a", "notes", Secret::new("verifier"))
        );
        assert!(secrets.take_login("state", &browser).await.expect("asked").is_none());
    }
}
