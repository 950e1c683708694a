//! One server's token: where it comes from, how long it holds, and what replaces it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{
    AuthError, Browser, GrantKind,
    answer::now,
    challenge::Challenge,
    decide::{Age, Need, Next, age, decide},
    flow::{self, Issuer, NotRefreshed, Target},
    login::log_in,
    store::{Grant, Store},
};
use crate::Secret;

/// After a login failed, a server that is connected to again and again does not open page after page.
const LOGIN_PAUSE: Duration = Duration::from_secs(600);
/// A token that still works is used while its authorization server does not answer.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// Longer than another process can take over a refresh.
const LOCK_TIME: Duration = Duration::from_secs(70);

/// A token, or none to send, or why there is none.
pub(super) type Landing = Result<Option<Secret>, AuthError>;

/// One server's token, and what there is to replace it. [`Keeper::work`] runs once at a time.
pub(super) struct Keeper {
    pub(super) target: Target,
    pub(super) store: Store,
    pub(super) browser: Option<Arc<dyn Browser>>,
    pub(super) login_time: Duration,
    /// Whether it is waiting for a person.
    asking: watch::Sender<bool>,
    held: Mutex<Held>,
    /// From the last discovery, for refreshes.
    issuer: Mutex<Option<Issuer>>,
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
    /// The rights last asked for, and the login done, because the server wanted more.
    stepped_up: Option<(Instant, Vec<String>)>,
}

impl Keeper {
    pub(super) fn new(
        target: Target,
        store: Store,
        browser: Option<Arc<dyn Browser>>,
        login_time: Duration,
    ) -> Keeper {
        Keeper {
            target,
            store,
            browser,
            login_time,
            asking: watch::Sender::new(false),
            held: Mutex::default(),
            issuer: Mutex::default(),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.held().generation
    }

    pub(super) fn is_asking(&self) -> bool {
        *self.asking.borrow()
    }

    pub(super) fn asking(&self) -> watch::Receiver<bool> {
        self.asking.subscribe()
    }

    /// Returns once a person is asked.
    pub(super) async fn until_asking(&self) {
        // The sender is a field of what is borrowed here, so it cannot be gone.
        let _ = self.asking.subscribe().wait_for(|asking| *asking).await;
    }

    pub(super) fn allow_login(&self) {
        self.held().login_failed = None;
    }

    pub(super) fn forget(&self) {
        let mut held = self.held();
        *held = Held { looked: true, generation: held.generation, ..Held::default() };
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        locked(&self.held)
    }

    /// What a request can be sent with, without any wait.
    pub(super) fn ready(&self) -> Option<Option<Secret>> {
        let held = self.held();
        if self.is_asking() {
            return Some(still_good(held.grant.as_ref()));
        }
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
    pub(super) fn already(&self, entered: u64, need: &Need) -> Option<Secret> {
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

    pub(super) async fn work(self: Arc<Keeper>, need: Need, challenge: Option<Challenge>) -> Landing {
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
        let known = locked(&self.issuer).take().filter(|_| challenge.is_none());
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
                *locked(&self.issuer) = Some(issuer);
                Ok(token)
            }
            Err(NotRefreshed::Failed(detail)) => {
                *locked(&self.issuer) = Some(issuer);
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
        let stepped_up = scopes.clone();
        let asked = match &self.browser {
            Some(browser) if by_person => {
                let _asking = Asking::begin(&self.asking);
                log_in(&self.target, issuer, scopes, &**browser, self.login_time).await
            }
            _ => flow::show_credentials(&self.target, issuer, scopes).await,
        };
        match asked {
            Ok(grant) => {
                let token = grant.access_token.clone();
                self.keep(grant).await;
                let mut held = self.held();
                held.login_failed = None;
                if matches!(need, Need::MoreScopes { .. }) {
                    held.stepped_up = Some((Instant::now(), stepped_up.unwrap_or_default()));
                }
                Ok(token)
            }
            Err(error) => {
                if by_person && is_tiresome(&error) {
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
        let held = self.held();
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
        Ok((!scopes.is_empty()).then_some(scopes))
    }
}

/// Ends with the wait for a person, also when that is cut short.
struct Asking<'a>(&'a watch::Sender<bool>);

impl<'a> Asking<'a> {
    fn begin(sender: &'a watch::Sender<bool>) -> Asking<'a> {
        sender.send_replace(true);
        Asking(sender)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// A page was opened for nothing.
fn is_tiresome(error: &AuthError) -> bool {
    matches!(
        error,
        AuthError::Browser { .. }
            | AuthError::LoginTimedOut { .. }
            | AuthError::LoginRefused { .. }
            | AuthError::WrongIssuer { .. }
            | AuthError::NoToken { .. }
    )
}

/// Used while it lasts, whatever became of its renewal.
fn still_good(grant: Option<&Grant>) -> Option<Secret> {
    grant.filter(|grant| age(grant, now()) != Age::Spent)?.access_token.clone()
}

/// A panic elsewhere leaves the values whole: each is set in one step.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
