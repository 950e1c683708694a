//! One server's token: kept, renewed in time, and asked for by one attempt at a time.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use reqwest::Url;
use tokio::{sync::watch, task::AbortHandle, time::timeout};

use super::{
    AuthConfig, AuthError, Bearer, Browser, GrantKind,
    challenge::Challenge,
    decide::Need,
    flow::Target,
    keeper::{Keeper, Landing, locked},
    store::Store,
};
use crate::Secret;

/// How long a person has to log in, unless the application says otherwise.
const LOGIN_TIME: Duration = Duration::from_secs(300);
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// OAuth 2.1 as MCP specifies it, for one server.
///
/// It does nothing before the server asks for a token. Requests never wait for a person unless the server refused
/// them, and never for a refresh while their token has more than a minute to live.
pub struct OAuth {
    keeper: Arc<Keeper>,
    flight: Mutex<Option<Flight>>,
}

/// An attempt under way. It is a task of its own, so that whoever waits for it may leave.
struct Flight {
    landing: Shared<BoxFuture<'static, Landing>>,
    task: AbortHandle,
}

impl OAuth {
    /// `folder` is where tokens are kept; without a `browser` nobody can log in. Checks the configuration.
    pub fn new(
        server: &str,
        url: &str,
        config: AuthConfig,
        folder: impl Into<PathBuf>,
        browser: Option<Arc<dyn Browser>>,
    ) -> Result<OAuth, AuthError> {
        check(server, &config)?;
        let mut url =
            Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
                AuthError::Discovery { server: server.to_owned(), detail: "its URL is not http".to_owned() }
            })?;
        // A resource has neither (RFC 8707), and a password in the URL is no business of the authorization server.
        url.set_fragment(None);
        if url.set_username("").and_then(|()| url.set_password(None)).is_err() {
            tracing::debug!(server, "the URL has no place for a user name");
        }
        let store = Store::new(folder.into(), &url);
        let target = Target { server: server.to_owned(), url, config };
        let keeper = Keeper::new(target, store, browser, LOGIN_TIME);
        Ok(OAuth { keeper: Arc::new(keeper), flight: Mutex::default() })
    }

    /// How long a person has to log in: five minutes otherwise.
    pub fn with_login_timeout(mut self, timeout: Duration) -> OAuth {
        if let Some(keeper) = Arc::get_mut(&mut self.keeper) {
            keeper.login_time = timeout;
        }
        self
    }

    /// After a login failed, none is tried for ten minutes. This allows the next one at once.
    pub fn allow_login(&self) {
        self.keeper.allow_login();
    }

    /// Logs out: forgets the server's tokens, here and on disk.
    pub async fn forget(&self) -> Result<(), AuthError> {
        self.keeper.forget();
        self.keeper.store.forget().await.map_err(|error| AuthError::Store {
            server: self.keeper.target.server.clone(),
            path: self.keeper.store.folder().to_owned(),
            source: Arc::new(error),
        })
    }

    /// Lets a refresh under way finish, so that its token is not lost, and ends the wait for a person.
    pub async fn close(&self) {
        let Some(flight) = locked(&self.flight).take() else { return };
        if !self.keeper.is_asking() && timeout(CLOSE_TIME, flight.landing).await.is_ok() {
            return;
        }
        flight.task.abort();
    }

    async fn before_request(&self) -> Landing {
        if let Some(ready) = self.keeper.ready() {
            return Ok(ready);
        }
        self.fly(Need::Request, None).await
    }

    async fn after_refusal(&self, refused: Option<Secret>, header: &str) -> Landing {
        let challenge = Challenge::read(header, &self.keeper.target.url);
        let need = match challenge.wants_scopes.clone() {
            Some(scopes) => Need::MoreScopes { refused, scopes },
            None => Need::Unauthorized { refused },
        };
        self.fly(need, Some(challenge)).await
    }

    /// Joins the attempt under way; if that did not give what is needed, or there is none, makes one.
    async fn fly(&self, need: Need, challenge: Option<Challenge>) -> Landing {
        let entered = self.keeper.generation();
        loop {
            let (landing, joined) = {
                let mut flight = locked(&self.flight);
                match flight.as_ref().filter(|flight| !flight.task.is_finished()) {
                    Some(flight) => (flight.landing.clone(), true),
                    None => {
                        if let Some(token) = self.keeper.already(entered, &need) {
                            return Ok(Some(token));
                        }
                        let started = start(&self.keeper, need.clone(), challenge.clone());
                        let landing = started.landing.clone();
                        *flight = Some(started);
                        (landing, false)
                    }
                }
            };
            let landed = tokio::select! {
                landed = landing => landed,
                // It turned out to need a person, whom a request does not wait for unless it was refused.
                () = self.keeper.until_asking(), if need == Need::Request => {
                    return Ok(self.keeper.ready().flatten());
                }
            };
            if !joined || landed.is_err() || need == Need::Request {
                return landed;
            }
        }
    }
}

fn start(keeper: &Arc<Keeper>, need: Need, challenge: Option<Challenge>) -> Flight {
    let handle = tokio::spawn(keeper.clone().work(need, challenge));
    let task = handle.abort_handle();
    let server = keeper.target.server.clone();
    let landing = async move {
        // It was stopped, or it panicked: in both cases there is no token.
        handle.await.unwrap_or(Err(AuthError::Stopped { server }))
    };
    Flight { landing: landing.boxed().shared(), task }
}

impl Bearer for OAuth {
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Landing> {
        Box::pin(async move {
            match challenge {
                None => self.before_request().await,
                Some(header) => self.after_refusal(None, header).await,
            }
        })
    }

    fn replace<'a>(&'a self, refused: Option<&'a Secret>, challenge: &'a str) -> BoxFuture<'a, Landing> {
        Box::pin(self.after_refusal(refused.cloned(), challenge))
    }

    fn asking(&self) -> Option<watch::Receiver<bool>> {
        Some(self.keeper.asking())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(OAuth::close(self))
    }
}

impl Drop for OAuth {
    fn drop(&mut self) {
        if let Some(flight) = locked(&self.flight).take() {
            flight.task.abort();
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.keeper.target.server;
        formatter.debug_struct("OAuth").field("server", server).finish_non_exhaustive()
    }
}

fn check(server: &str, config: &AuthConfig) -> Result<(), AuthError> {
    let wrong =
        |key, why: &str| Err(AuthError::Config { server: server.to_owned(), key, why: why.to_owned() });
    let itself = config.grant == GrantKind::ClientCredentials;
    if config.client_id.is_none() && (itself || config.client_secret.is_some()) {
        return wrong("clientId", "is missing");
    }
    if itself && config.client_secret.is_none() && config.private_key.is_none() {
        return wrong("clientSecret", "is missing, and so is `oauth.privateKey`");
    }
    if !itself && config.private_key.is_some() {
        return wrong("privateKey", "needs `oauth.grant` to be `client_credentials`");
    }
    let published = config.client_metadata_url.as_deref().map(Url::parse);
    if let Some(url) = published
        && !url.is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
    {
        return wrong("clientMetadataUrl", "is not an https URL with a path");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{
        answer::now,
        store::{Client, Grant},
    };

    #[tokio::test]
    async fn an_attempt_that_everybody_left_is_not_taken_for_a_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = "https://example.com/mcp";
        let oauth =
            OAuth::new("notes", url, AuthConfig::default(), folder.path(), None).expect("it is valid");
        // Begun, and left at once: it finds nothing.
        assert!(oauth.fly(Need::Request, None).now_or_never().is_none());
        let over = async {
            while !locked(&oauth.flight).as_ref().is_some_and(|flight| flight.task.is_finished()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), over).await.expect("it goes on by itself");
        let client = Client { id: "client".to_owned(), secret: None, registered: true };
        let token = Some(Secret::new("new"));
        let grant = Grant {
            access_token: token.clone(),
            issued_at: now(),
            ..Grant::new(url.to_owned(), "https://issuer.example".to_owned(), client)
        };
        oauth.keeper.store.save(grant).await.expect("saved");
        assert_eq!(oauth.fly(Need::Request, None).await.expect("found"), token);
    }
}
