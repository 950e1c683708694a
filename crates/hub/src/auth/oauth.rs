//! One server's token: kept, renewed in time, and asked for by one attempt at a time.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use reqwest::Url;
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{
    AuthConfig, AuthError, Bearer, Browser, GrantKind,
    answer::now,
    challenge::Challenge,
    decide::{Age, Need, Next, age, decide},
    flow::{self, Issuer, NotRefreshed, Target},
    store::{Grant, Store},
};
use crate::Secret;

/// How long a person has to log in, unless the application says otherwise.
const LOGIN_TIME: Duration = Duration::from_secs(300);
/// After a login failed, a server that is connected to again and again does not open page after page.
const LOGIN_PAUSE: Duration = Duration::from_secs(600);
/// A token that still works is used while its authorization server does not answer.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// Longer than another process can take over a refresh.
const LOCK_TIME: Duration = Duration::from_secs(70);
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// OAuth 2.1 as MCP specifies it, for one server.
///
/// It does nothing before the server asks for a token. Requests never wait for a person unless the server refused
/// them, and never for a refresh while their token has more than a minute to live.
pub struct OAuth {
    inner: Arc<Inner>,
    flight: Mutex<Option<Flight>>,
}

/// An attempt under way. It is a task of its own, so that whoever waits for it may leave.
struct Flight {
    landing: Shared<BoxFuture<'static, Landing>>,
    task: AbortHandle,
}

type Landing = Result<Option<Secret>, AuthError>;

struct Inner {
    target: Target,
    store: Store,
    browser: Option<Arc<dyn Browser>>,
    login_time: Duration,
    /// Waiting for a person.
    asking: AtomicBool,
    held: Mutex<Held>,
    /// From the last discovery, for refreshes.
    issuer: tokio::sync::Mutex<Option<Issuer>>,
}

#[derive(Default)]
struct Held {
    /// The files were looked at.
    looked: bool,
    grant: Option<Grant>,
    /// Grows with each new access token.
    generation: u64,
    login_failed: Option<(Instant, AuthError)>,
    refresh_failed: Option<Instant>,
    /// The rights last asked for because the server wanted more.
    stepped_up: Option<(Instant, Vec<String>)>,
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
        let inner = Inner {
            target: Target { server: server.to_owned(), url, config },
            store,
            browser,
            login_time: LOGIN_TIME,
            asking: AtomicBool::new(false),
            held: Mutex::default(),
            issuer: tokio::sync::Mutex::new(None),
        };
        Ok(OAuth { inner: Arc::new(inner), flight: Mutex::default() })
    }

    /// How long a person has to log in: five minutes otherwise.
    pub fn with_login_timeout(mut self, timeout: Duration) -> OAuth {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.login_time = timeout;
        }
        self
    }

    /// After a login failed, none is tried for ten minutes. This allows the next one at once.
    pub fn allow_login(&self) {
        self.inner.held().login_failed = None;
    }

    /// Logs out: forgets the server's tokens, here and on disk.
    pub async fn forget(&self) -> Result<(), AuthError> {
        let generation = self.inner.held().generation;
        *self.inner.held() = Held { looked: true, generation, ..Held::default() };
        self.inner.store.forget().await.map_err(|error| AuthError::Store {
            server: self.inner.target.server.clone(),
            path: self.inner.store.folder().to_owned(),
            source: Arc::new(error),
        })
    }

    /// Lets a refresh under way finish, so that its token is not lost, and ends the wait for a person.
    pub async fn close(&self) {
        let Some(flight) = locked(&self.flight).take() else { return };
        if !self.inner.asking.load(Ordering::Relaxed) && timeout(CLOSE_TIME, flight.landing).await.is_ok() {
            return;
        }
        flight.task.abort();
    }

    async fn before_request(&self) -> Landing {
        if let Some(ready) = self.inner.ready() {
            return Ok(ready);
        }
        self.fly(Need::Request, None).await
    }

    async fn after_refusal(&self, refused: Option<Secret>, header: &str) -> Landing {
        let challenge = Challenge::read(header, &self.inner.target.url);
        let need = match challenge.wants_scopes.clone() {
            Some(scopes) => Need::MoreScopes { refused, scopes },
            None => Need::Unauthorized { refused },
        };
        self.fly(need, Some(challenge)).await
    }

    /// Joins the attempt under way; if that did not give what is needed, or there is none, makes one.
    async fn fly(&self, need: Need, challenge: Option<Challenge>) -> Landing {
        let entered = self.inner.held().generation;
        loop {
            let (landing, joined) = {
                let mut flight = locked(&self.flight);
                match flight.as_ref().filter(|flight| flight.landing.peek().is_none()) {
                    Some(flight) => (flight.landing.clone(), true),
                    None => {
                        if let Some(token) = self.inner.already(entered, &need) {
                            return Ok(Some(token));
                        }
                        let started = self.inner.start(need.clone(), challenge.clone());
                        let landing = started.landing.clone();
                        *flight = Some(started);
                        (landing, false)
                    }
                }
            };
            let landed = landing.await;
            if !joined || landed.is_err() || need == Need::Request {
                return landed;
            }
        }
    }
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
        let server = &self.inner.target.server;
        formatter.debug_struct("OAuth").field("server", server).finish_non_exhaustive()
    }
}

impl Inner {
    fn held(&self) -> MutexGuard<'_, Held> {
        locked(&self.held)
    }

    /// What a request can be sent with, without any wait.
    fn ready(&self) -> Option<Option<Secret>> {
        let held = self.held();
        let paused = held.refresh_failed.is_some_and(|failed| failed.elapsed() < REFRESH_PAUSE);
        match decide(held.grant.as_ref(), &Need::Request, self.target.config.grant, now()) {
            _ if !held.looked => None,
            Next::Use(token) => Some(Some(token)),
            Next::Nothing => Some(None),
            Next::Refresh | Next::Ask if paused => still_good(held.grant.as_ref()).map(Some),
            Next::Refresh | Next::Ask => None,
        }
    }

    /// A token that came after the caller had entered, or is another than the one refused.
    fn already(&self, entered: u64, need: &Need) -> Option<Secret> {
        let held = self.held();
        let grant = held.grant.as_ref()?;
        let is_new = held.generation > entered;
        match need {
            Need::Unauthorized { refused: None } if is_new => grant.access_token.clone(),
            Need::MoreScopes { refused: None, scopes }
                if is_new && scopes.iter().all(|scope| grant.scopes.contains(scope)) =>
            {
                grant.access_token.clone()
            }
            Need::Request => None,
            need => match decide(Some(grant), need, self.target.config.grant, now()) {
                Next::Use(token) => Some(token),
                _ => None,
            },
        }
    }

    fn start(self: &Arc<Inner>, need: Need, challenge: Option<Challenge>) -> Flight {
        let handle = tokio::spawn(self.clone().work(need, challenge));
        let task = handle.abort_handle();
        let server = self.target.server.clone();
        let landing = async move {
            // It was stopped, or it panicked: in both cases there is no token.
            handle.await.unwrap_or(Err(AuthError::Stopped { server }))
        };
        Flight { landing: landing.boxed().shared(), task }
    }

    async fn work(self: Arc<Inner>, need: Need, challenge: Option<Challenge>) -> Landing {
        self.look().await;
        let grant = self.held().grant.clone();
        match decide(grant.as_ref(), &need, self.target.config.grant, now()) {
            Next::Use(token) => Ok(Some(token)),
            Next::Nothing => Ok(None),
            Next::Refresh => self.refresh(need, challenge).await,
            Next::Ask => self.ask(need, challenge, None).await,
        }
    }

    /// Takes what is on disk if it is newer than what is held.
    async fn look(&self) {
        let found = self.store.load().await.and_then(|grant| self.recognise(grant));
        let mut held = self.held();
        held.looked = true;
        let age = |grant: &Option<Grant>| grant.as_ref().map(|grant| grant.issued_at);
        if found.is_some() && age(&found) >= age(&held.grant) && found != held.grant {
            held.grant = found;
            held.generation += 1;
        }
    }

    /// A grant is of use to the client it was made to. A configured secret comes from the configuration alone.
    fn recognise(&self, mut grant: Grant) -> Option<Grant> {
        let config = &self.target.config;
        let ours = match &config.client_id {
            Some(id) => *id == grant.client.id,
            None => grant.client.registered || config.client_metadata_url.as_ref() == Some(&grant.client.id),
        };
        if !grant.client.registered {
            grant.client.secret = config.client_secret.clone();
        }
        ours.then_some(grant)
    }

    async fn keep(&self, grant: Grant) {
        let mut written = grant.clone();
        if !written.client.registered {
            written.client.secret = None;
        }
        let path = self.store.folder().display();
        if let Err(error) = self.store.save(written).await {
            // The token works all the same, until this process ends.
            tracing::warn!(server = self.target.server, %path, %error, "cannot keep a token");
        }
        let mut held = self.held();
        held.generation += 1;
        held.looked = true;
        held.refresh_failed = None;
        held.grant = Some(grant);
    }

    async fn refresh(&self, need: Need, challenge: Option<Challenge>) -> Landing {
        let server = || self.target.server.clone();
        let lock = match self.store.lock(LOCK_TIME).await {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return self.make_do(&need, AuthError::Busy { server: server(), after: LOCK_TIME }),
            Err(error) => {
                tracing::warn!(server = self.target.server, %error, "cannot lock the token's file");
                None
            }
        };
        // Another process may have refreshed it while this one waited.
        self.look().await;
        let grant = self.held().grant.clone();
        let grant = match (decide(grant.as_ref(), &need, self.target.config.grant, now()), grant) {
            (Next::Refresh, Some(grant)) => grant,
            (Next::Use(token), _) => return Ok(Some(token)),
            (Next::Nothing, _) => return Ok(None),
            _ => {
                drop(lock);
                return self.ask(need, challenge, None).await;
            }
        };
        let known = self.issuer.lock().await.take().filter(|_| challenge.is_none());
        let found = match known {
            Some(issuer) => Ok(issuer),
            None => {
                flow::discover(&self.target, challenge.as_ref().map(|challenge| &*challenge.header)).await
            }
        };
        let mut issuer = match found {
            Ok(issuer) => issuer,
            Err(error) => return self.make_do(&need, error),
        };
        // Another authorization server must not see this one's tokens (SEP-2352).
        let refreshed = if issuer.name == grant.issuer {
            flow::refresh(&self.target, &mut issuer, &grant).await
        } else {
            Err(NotRefreshed::Refused("the server has another authorization server now".to_owned()))
        };
        match refreshed {
            Ok(renewed) => {
                let token = renewed.access_token.clone();
                self.keep(renewed).await;
                *self.issuer.lock().await = Some(issuer);
                Ok(token)
            }
            Err(NotRefreshed::Failed(detail)) => {
                *self.issuer.lock().await = Some(issuer);
                self.make_do(&need, AuthError::Refresh { server: server(), detail })
            }
            Err(NotRefreshed::Refused(detail)) => {
                tracing::warn!(server = self.target.server, detail, "a login is needed again");
                let spent = Grant { access_token: None, refresh_token: None, ..grant };
                self.keep(spent).await;
                drop(lock);
                match need {
                    // The server will say whether it wants a token.
                    Need::Request => Ok(None),
                    need => self.ask(need, challenge, Some(issuer)).await,
                }
            }
        }
    }

    /// A request goes with the token it has while that still works; what the server refused is an error.
    fn make_do(&self, need: &Need, error: AuthError) -> Landing {
        let mut held = self.held();
        match still_good(held.grant.as_ref()) {
            Some(token) if *need == Need::Request => {
                held.refresh_failed = Some(Instant::now());
                tracing::warn!(server = self.target.server, %error, "a token could not be renewed in time");
                Ok(Some(token))
            }
            _ => Err(error),
        }
    }

    async fn ask(&self, need: Need, challenge: Option<Challenge>, issuer: Option<Issuer>) -> Landing {
        let server = || self.target.server.clone();
        let by_person = self.target.config.grant == GrantKind::AuthorizationCode;
        if by_person {
            if self.browser.is_none() {
                return Err(AuthError::LoginNeeded { server: server() });
            }
            if let Some((failed, error)) = &self.held().login_failed
                && failed.elapsed() < LOGIN_PAUSE
            {
                return Err(error.clone());
            }
        }
        let found = match issuer {
            Some(issuer) => Ok(issuer),
            None => {
                flow::discover(&self.target, challenge.as_ref().map(|challenge| &*challenge.header)).await
            }
        };
        let issuer = match found {
            Ok(issuer) => issuer,
            Err(error) => return self.make_do(&need, error),
        };
        let scopes = self.step_up(&need, &issuer)?;
        let asked = match &self.browser {
            Some(browser) if by_person => {
                self.asking.store(true, Ordering::Relaxed);
                let asked = flow::log_in(&self.target, issuer, scopes, &**browser, self.login_time).await;
                self.asking.store(false, Ordering::Relaxed);
                asked
            }
            _ => flow::show_credentials(&self.target, issuer, scopes).await,
        };
        match asked {
            Ok(grant) => {
                let token = grant.access_token.clone();
                self.keep(grant).await;
                self.held().login_failed = None;
                Ok(token)
            }
            Err(error) => {
                if by_person && error.is_permanent() {
                    self.held().login_failed = Some((Instant::now(), error.clone()));
                }
                self.make_do(&need, error)
            }
        }
    }

    /// All rights granted so far and those wanted now (SEP-2350). To be asked for the same again means that asking
    /// does not help.
    fn step_up(&self, need: &Need, issuer: &Issuer) -> Result<Option<Vec<String>>, AuthError> {
        let Need::MoreScopes { scopes: wanted, .. } = need else { return Ok(None) };
        let mut held = self.held();
        let granted = held.grant.as_ref().filter(|grant| grant.issuer == issuer.name);
        let mut scopes = granted.map(|grant| grant.scopes.clone()).unwrap_or_default();
        scopes.extend(wanted.iter().filter(|scope| !scopes.contains(scope)).cloned().collect::<Vec<_>>());
        if let Some((when, before)) = &held.stepped_up
            && when.elapsed() < LOGIN_PAUSE
            && wanted.iter().all(|scope| before.contains(scope))
        {
            let (server, scopes) = (self.target.server.clone(), wanted.join(" "));
            return Err(AuthError::InsufficientScope { server, scopes });
        }
        held.stepped_up = Some((Instant::now(), scopes.clone()));
        Ok((!scopes.is_empty()).then_some(scopes))
    }
}

fn still_good(grant: Option<&Grant>) -> Option<Secret> {
    grant.filter(|grant| age(grant, now()) != Age::Spent)?.access_token.clone()
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

/// A panic elsewhere leaves the values whole: each is set in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
