//! One server's token: decides how to get it, and refreshes it.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{
    Browser, GrantKind,
    authorization_server::{self, AuthorizationServer, ProtectedServer, RefreshError},
    challenge::Challenge,
    error::AuthProblem,
    login::{self, PendingLogin, StartedLogin},
    next_step::{NextStep, TokenNeed, Validity, next_step, validity},
    redirect,
    token_storage::TokenStore,
    token_store::{Grant, unix_now},
};
use crate::{Secret, sync::lock};

/// After a failed refresh, a token that is still valid is used for this time without another attempt.
const REFRESH_PAUSE: Duration = Duration::from_secs(10);
/// Longer than a refresh in another process can take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(70);

/// A token to send, or `None` to send the request without one.
pub(super) type TokenResult = Result<Option<Secret>, AuthProblem>;

/// Manages the token of one server. The caller runs [`TokenManager::obtain`] at most once at a time.
pub(super) struct TokenManager {
    pub(super) server: ProtectedServer,
    pub(super) store: TokenStore,
    pub(super) browser: Option<Arc<dyn Browser>>,
    pub(super) login_timeout: Duration,
    pub(super) login_in_progress: watch::Sender<bool>,
    state: Mutex<TokenState>,
    /// From the last discovery, for refreshes.
    authorization_server: Mutex<Option<AuthorizationServer>>,
}

#[derive(Default)]
pub(super) struct TokenState {
    /// Whether the stored tokens were read.
    pub(super) is_loaded: bool,
    pub(super) grant: Option<Grant>,
    /// Whether the grant is stored.
    pub(super) is_stored: bool,
    /// Whether the last attempt failed because the storage could not be reached.
    pub(super) storage_failed: bool,
    /// Increases with each new access token.
    pub(super) generation: u64,
    pub(super) login_failed: Option<(Instant, AuthProblem)>,
    refresh_failed: Option<Instant>,
    /// The reason why the last refresh token was refused.
    pub(super) refresh_refused: Option<String>,
    /// The last login for additional scopes: when, and the requested scopes.
    pub(super) scope_upgrade: Option<(Instant, Vec<String>)>,
}

impl TokenManager {
    pub(super) fn new(
        server: ProtectedServer,
        store: TokenStore,
        browser: Option<Arc<dyn Browser>>,
        login_timeout: Duration,
    ) -> TokenManager {
        TokenManager {
            server,
            store,
            browser,
            login_timeout,
            login_in_progress: watch::Sender::new(false),
            state: Mutex::default(),
            authorization_server: Mutex::default(),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    pub(super) fn is_logging_in(&self) -> bool {
        *self.login_in_progress.borrow()
    }

    pub(super) fn watch_login(&self) -> watch::Receiver<bool> {
        self.login_in_progress.subscribe()
    }

    pub(super) async fn login_started(&self) {
        // Cannot fail, because `self` owns the sender.
        let _ = self.login_in_progress.subscribe().wait_for(|in_progress| *in_progress).await;
    }

    pub(super) fn allow_login(&self) {
        self.state().login_failed = None;
    }

    pub(super) fn has_token(&self) -> bool {
        self.access_token().is_some()
    }

    pub(super) fn access_token(&self) -> Option<Secret> {
        self.state().grant.as_ref()?.access_token.clone()
    }

    pub(super) fn forget(&self) {
        let mut state = self.state();
        *state = TokenState { is_loaded: true, generation: state.generation, ..TokenState::default() };
    }

    pub(super) fn state(&self) -> MutexGuard<'_, TokenState> {
        lock(&self.state)
    }

    fn next_step(&self, grant: Option<&Grant>, need: &TokenNeed) -> NextStep {
        next_step(grant, need, self.server.config.grant, unix_now())
    }

    /// Returns what a request can be sent with immediately; `None` if that needs an attempt.
    pub(super) fn ready(&self) -> Option<Option<Secret>> {
        let state = self.state();
        if self.is_logging_in() {
            return Some(unexpired_token(state.grant.as_ref()));
        }
        let is_paused = state.refresh_failed.is_some_and(|failed| failed.elapsed() < REFRESH_PAUSE);
        match self.next_step(state.grant.as_ref(), &TokenNeed::Request) {
            _ if !state.is_loaded => None,
            NextStep::Use(token) => Some(Some(token)),
            NextStep::SendWithout => Some(None),
            NextStep::Refresh | NextStep::Authorize if is_paused => {
                unexpired_token(state.grant.as_ref()).map(Some)
            }
            NextStep::Refresh | NextStep::Authorize => None,
        }
    }

    /// Returns a token that is newer than `generation`, or differs from the refused one.
    pub(super) fn replacement(&self, generation: u64, need: &TokenNeed) -> Option<Secret> {
        let state = self.state();
        let grant = state.grant.as_ref()?;
        let is_new = state.generation > generation;
        match need {
            TokenNeed::Unauthorized { refused: None } if is_new => grant.access_token.clone(),
            TokenNeed::MoreScopes { refused: None, scopes }
                if is_new && scopes.iter().all(|scope| grant.scopes.contains(scope)) =>
            {
                grant.access_token.clone()
            }
            TokenNeed::Request => None,
            need => match self.next_step(Some(grant), need) {
                NextStep::Use(token) => Some(token),
                _ => None,
            },
        }
    }

    pub(super) async fn obtain(
        self: Arc<TokenManager>,
        need: TokenNeed,
        challenge: Option<Challenge>,
    ) -> TokenResult {
        let generation = self.generation();
        let loaded = self.load().await;
        if let Some(token) = self.loaded_since(generation, &need) {
            return Ok(Some(token));
        }
        let grant = self.state().grant.clone();
        match self.next_step(grant.as_ref(), &need) {
            NextStep::Use(token) => Ok(Some(token)),
            NextStep::SendWithout => Ok(None),
            NextStep::Refresh => self.refresh(need, challenge).await,
            NextStep::Authorize => match loaded {
                // The storage may contain a token, so no login is requested.
                Err(error) if self.server.config.grant == GrantKind::AuthorizationCode => {
                    self.use_unexpired(&need, error)
                }
                _ => self.authorize(need, challenge, None).await,
            },
        }
    }

    /// Uses a grant from now on, and stores it. If it cannot be stored, the token can still be used until
    /// this process ends.
    pub(super) async fn save(&self, grant: Grant) -> Result<(), AuthProblem> {
        let mut stored = grant.clone();
        if !stored.client.registered {
            stored.client.secret = None;
        }
        let saved = self.store.save(stored).await.map_err(|error| {
            let path = self.store.folder();
            tracing::warn!(server = self.server.name, ?path, %error, "cannot store a token");
            AuthProblem::Store { source: Arc::new(error) }
        });
        let mut state = self.state();
        state.generation += 1;
        state.is_loaded = true;
        state.is_stored = saved.is_ok();
        state.refresh_failed = None;
        state.refresh_refused = None;
        state.grant = Some(grant);
        saved
    }

    async fn refresh(&self, need: TokenNeed, challenge: Option<Challenge>) -> TokenResult {
        let generation = self.generation();
        let refresh_lock = match self.store.lock(LOCK_TIMEOUT).await {
            Ok(Some(refresh_lock)) => Some(refresh_lock),
            Ok(None) => {
                return self.use_unexpired(&need, AuthProblem::Locked { after: LOCK_TIMEOUT });
            }
            // Without the lock, another machine could use the same refresh token, which may be valid only
            // once.
            Err(error) if self.store.is_shared() => {
                return self.use_unexpired(&need, self.storage_problem(&error));
            }
            Err(error) => {
                tracing::warn!(server = self.server.name, %error, "cannot lock the token file");
                None
            }
        };
        // Another process may have refreshed the token while this one waited.
        if let Err(error) = self.load().await {
            return self.use_unexpired(&need, error);
        }
        if let Some(token) = self.loaded_since(generation, &need) {
            return Ok(Some(token));
        }
        let grant = self.state().grant.clone();
        let grant = match (self.next_step(grant.as_ref(), &need), grant) {
            (NextStep::Refresh, Some(grant)) => grant,
            (NextStep::Use(token), _) => return Ok(Some(token)),
            (NextStep::SendWithout, _) => return Ok(None),
            _ => {
                drop(refresh_lock);
                return self.authorize(need, challenge, None).await;
            }
        };
        let known = lock(&self.authorization_server).take().filter(|_| challenge.is_none());
        let mut authorization_server = match self.discover(known, challenge.as_ref()).await {
            Ok(authorization_server) => authorization_server,
            Err(error) => return self.use_unexpired(&need, error),
        };
        // A different authorization server must not see the tokens of the first one (SEP-2352).
        let refreshed = if authorization_server.issuer == grant.issuer {
            authorization_server::refresh(&self.server, &mut authorization_server, &grant).await
        } else {
            let detail = "the server now uses a different authorization server";
            Err(RefreshError::Rejected(detail.to_owned()))
        };
        match refreshed {
            Ok(renewed) => {
                let token = renewed.access_token.clone();
                let _ = self.save(renewed).await;
                *lock(&self.authorization_server) = Some(authorization_server);
                Ok(token)
            }
            Err(RefreshError::Temporary(detail)) => {
                *lock(&self.authorization_server) = Some(authorization_server);
                self.use_unexpired(&need, AuthProblem::Refresh { detail })
            }
            Err(RefreshError::Rejected(detail)) => {
                tracing::warn!(server = self.server.name, detail, "a new login is required");
                let without_tokens = Grant { access_token: None, refresh_token: None, ..grant };
                let _ = self.save(without_tokens).await;
                self.state().refresh_refused = Some(detail);
                drop(refresh_lock);
                match need {
                    // The server responds with a challenge if it requires a token.
                    TokenNeed::Request => Ok(None),
                    need => self.authorize(need, challenge, Some(authorization_server)).await,
                }
            }
        }
    }

    pub(super) async fn discover(
        &self,
        known: Option<AuthorizationServer>,
        challenge: Option<&Challenge>,
    ) -> Result<AuthorizationServer, AuthProblem> {
        match known {
            Some(authorization_server) => Ok(authorization_server),
            None => {
                let header = challenge.map(|challenge| &*challenge.header);
                authorization_server::discover(&self.server, header).await
            }
        }
    }

    /// After a failure, returns the current token if it is still valid and the server has not refused it.
    pub(super) fn use_unexpired(&self, need: &TokenNeed, error: AuthProblem) -> TokenResult {
        let mut state = self.state();
        match unexpired_token(state.grant.as_ref()) {
            Some(token) if *need == TokenNeed::Request => {
                state.refresh_failed = Some(Instant::now());
                tracing::warn!(server = self.server.name, %error, "using a token that could not be renewed");
                Ok(Some(token))
            }
            _ => Err(error),
        }
    }

    /// Starts a login whose redirect the application receives at `redirect_uri`.
    pub(super) async fn start_login(&self, redirect_uri: &str) -> Result<StartedLogin, AuthProblem> {
        let mut authorization_server = authorization_server::discover(&self.server, None).await?;
        login::start(&self.server, &mut authorization_server, None, redirect_uri).await
    }

    /// Completes a login with the query of its redirect. Another process may have started it, and other
    /// processes need the token, so this fails if the token cannot be stored.
    pub(super) async fn complete_login(&self, login: &PendingLogin, query: &str) -> Result<(), AuthProblem> {
        let callback = redirect::parse_query(query, &login.state).ok_or(AuthProblem::WrongRedirect)?;
        let authorization_server = authorization_server::discover(&self.server, None).await?;
        let grant = login::complete(&self.server, &authorization_server, login, &callback).await?;
        self.load().await?;
        self.save(grant).await
    }
}

pub(super) fn unexpired_token(grant: Option<&Grant>) -> Option<Secret> {
    grant.filter(|grant| validity(grant, unix_now()) != Validity::Expired)?.access_token.clone()
}
