//! The tokens of the users of a gateway, which stores them and receives the redirects of their logins.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use toolwire_hub::auth::{OAuth, TokenLock, TokenStorage};

use super::*;

const REDIRECT_URI: &str = "http://127.0.0.1:8787/-/login/callback";

/// The tokens of one user.
#[derive(Default)]
struct Memory {
    tokens: Mutex<HashMap<String, Secret>>,
    is_down: AtomicBool,
}

impl Memory {
    fn tokens(&self) -> io::Result<MutexGuard<'_, HashMap<String, Secret>>> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the storage is down")),
            false => Ok(self.tokens.lock().expect("not poisoned")),
        }
    }

    fn saved(&self) -> Vec<(String, Secret)> {
        let saved = self.tokens().expect("not down");
        saved.iter().map(|(resource, tokens)| (resource.clone(), tokens.clone())).collect()
    }
}

impl TokenStorage for Memory {
    fn load<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<Option<Secret>>> {
        ready(self.tokens().map(|tokens| tokens.get(resource).cloned())).boxed()
    }

    fn save<'a>(&'a self, resource: &'a str, saved: Secret) -> BoxFuture<'a, io::Result<()>> {
        ready(self.tokens().map(|mut tokens| drop(tokens.insert(resource.to_owned(), saved)))).boxed()
    }

    fn delete<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        ready(self.tokens().map(|mut tokens| tokens.remove(resource).is_some())).boxed()
    }

    fn lock<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, io::Result<Option<TokenLock>>> {
        let lock = || -> TokenLock { Box::new(()) };
        ready(self.tokens().map(|_| Some(lock()))).boxed()
    }
}

/// A storage that is full.
struct Full;

impl TokenStorage for Full {
    fn load<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Option<Secret>>> {
        ready(Ok(None)).boxed()
    }

    fn save<'a>(&'a self, _: &'a str, _: Secret) -> BoxFuture<'a, io::Result<()>> {
        ready(Err(io::ErrorKind::StorageFull.into())).boxed()
    }

    fn delete<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        ready(Ok(false)).boxed()
    }

    fn lock<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, io::Result<Option<TokenLock>>> {
        ready(Ok(None)).boxed()
    }
}

impl Setup {
    /// Returns the client of a user, as each gateway creates it.
    fn client_of<S: TokenStorage + 'static>(&self, user: &Arc<S>) -> OAuth {
        let server = self.hub_config().servers.remove(0);
        OAuth::of_user(&server, user.clone()).expect("OAuth").expect("a valid configuration")
    }
}

/// Opens a login page, and returns the query of the redirect.
async fn visit(page: &str) -> String {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let response = client.build().expect("a client").get(page).send().await.expect("a response");
    let location = response.headers()["location"].to_str().expect("a URL").to_owned();
    let (uri, query) = location.split_once('?').expect("a query");
    assert_eq!(uri, REDIRECT_URI);
    query.to_owned()
}

#[tokio::test]
async fn a_login_is_completed_by_another_gateway() {
    let setup = Setup::with(Rules::default()).await;
    let (alice, bob) = (Arc::<Memory>::default(), Arc::<Memory>::default());
    let client = setup.client_of(&alice);
    assert_error(setup.call(&client, None).await, "there is no browser to log in with");
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    let query = visit(&started.url).await;
    let other_gateway = setup.client_of(&alice);
    assert_error(
        other_gateway.complete_login(&started.pending, "code=x&state=guess").await,
        "does not belong to this login",
    );
    other_gateway.complete_login(&started.pending, &query).await.expect("logged in");
    assert_eq!(setup.call(&other_gateway, None).await.expect("logged in"), StatusCode::OK);
    assert_eq!(setup.call(&client, None).await.expect("logged in"), StatusCode::OK);
    assert_error(setup.call(&setup.client_of(&bob), None).await, "there is no browser to log in with");
    assert_eq!(bob.saved(), []);
    let [(resource, tokens)] = &alice.saved()[..] else { panic!("one server") };
    assert_eq!(*resource, setup.issuer.mcp_url());
    assert!(tokens.expose().contains("SECRET-access-"), "the storage encrypts the tokens");
    setup.issuer.assert_no_violation();
    // A code is valid once.
    assert!(other_gateway.complete_login(&started.pending, &query).await.is_err());
    assert!(client.forget().await.expect("forgotten") && alice.saved().is_empty());
}

#[tokio::test]
async fn a_login_with_another_authorization_server_is_refused() {
    let setup = Setup::with(Rules::default()).await;
    let alice = Arc::<Memory>::default();
    let client = setup.client_of(&alice);
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    let query = visit(&started.url).await;
    let other = Issuer::start(Rules::default()).await;
    setup.issuer.rules().other_issuer = Some(other.url.clone());
    assert_error(
        client.complete_login(&started.pending, &query).await,
        "the login response came from a different authorization server",
    );
    assert_eq!(other.record().token_requests.len(), 0, "it does not get the code");
    assert_eq!(alice.saved(), []);
}

/// A login whose tokens are not stored has failed: no other gateway, and no later process, has them.
#[tokio::test]
async fn a_login_whose_tokens_are_not_stored_fails() {
    let setup = Setup::with(Rules::default()).await;
    let client = setup.client_of(&Arc::new(Full));
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    let completed = client.complete_login(&started.pending, &visit(&started.url).await).await;
    assert_error(completed, "cannot store its token");
}

/// Only one of several requests at the same time renews the token, and the new one is stored.
#[tokio::test]
async fn a_token_of_a_user_is_renewed() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let alice = Arc::<Memory>::default();
    let client = setup.client_of(&alice);
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    client.complete_login(&started.pending, &visit(&started.url).await).await.expect("logged in");
    let before = alice.saved();
    setup.issuer.rules().expires_in = Some(3600);
    let calls = join_all((0..8).map(|_| setup.call(&client, None))).await;
    assert!(calls.into_iter().all(|status| status.expect("renewed") == StatusCode::OK));
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    assert_ne!(alice.saved(), before);
    setup.issuer.assert_no_violation();
}

/// Without its lock, a token is not refreshed: another gateway could use the same refresh token. Nobody has
/// to log in because of that.
#[tokio::test]
async fn nothing_is_refreshed_while_the_storage_is_down() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let alice = Arc::<Memory>::default();
    let client = setup.client_of(&alice);
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    client.complete_login(&started.pending, &visit(&started.url).await).await.expect("logged in");
    alice.is_down.store(true, Ordering::SeqCst);
    let without_token = setup.client_of(&alice);
    for client in [&client, &without_token] {
        assert_error(setup.call(client, None).await, "its stored token cannot be read");
    }
    assert_eq!(setup.issuer.record().grants("refresh_token"), 0);
    alice.is_down.store(false, Ordering::SeqCst);
    setup.issuer.rules().expires_in = Some(3600);
    for client in [&client, &without_token] {
        assert_eq!(setup.call(client, None).await.expect("renewed"), StatusCode::OK);
    }
    assert_eq!(setup.issuer.record().grants("refresh_token"), 1);
    setup.issuer.assert_no_violation();
}

#[tokio::test]
async fn a_logout_at_another_gateway_ends_the_login() {
    let setup = Setup::with(Rules { expires_in: Some(0), ..Rules::default() }).await;
    let alice = Arc::<Memory>::default();
    let client = setup.client_of(&alice);
    let started = client.start_login(REDIRECT_URI).await.expect("a login page");
    client.complete_login(&started.pending, &visit(&started.url).await).await.expect("logged in");
    assert!(setup.client_of(&alice).forget().await.expect("forgotten"));
    assert_error(setup.call(&client, None).await, "there is no browser to log in with");
    assert_eq!(setup.issuer.record().grants("refresh_token"), 0);
    assert_eq!(alice.saved(), []);
}
