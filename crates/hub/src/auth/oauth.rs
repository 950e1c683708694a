//! OAuth for one server, with at most one attempt to get a token at a time.

use std::{
    fmt,
    path::{Path, PathBuf},
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
    AuthConfig, AuthError, Browser, GrantKind, TokenProvider,
    authorization_server::ProtectedServer,
    challenge::Challenge,
    error::AuthProblem,
    login::PendingLogin,
    next_step::TokenNeed,
    token_manager::{TokenManager, TokenResult},
    token_storage::{TokenStorage, TokenStore},
    token_store::TokenFiles,
};
use crate::{
    Secret,
    config::{ServerConfig, Transport},
    sync::lock,
};

const DEFAULT_LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// OAuth 2.1 as MCP specifies it, for one server.
///
/// It does nothing until the server requires a token. A request waits for a login only if the server refused
/// the request, and for a refresh only if its token expires within a minute.
pub struct OAuth {
    manager: Arc<TokenManager>,
    attempt: Mutex<Option<TokenAttempt>>,
}

/// A login whose page the user has not opened yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct StartedLogin {
    /// The address of the login page: `https`, or `http` on this machine.
    pub url: String,
    /// The value of `state` in the redirect.
    pub state: String,
    /// What [`OAuth::complete_login`] needs. It contains secrets, and no other user may get it.
    pub pending: Secret,
}

/// A running attempt to get a token. It is a separate task, so it continues when its callers stop waiting.
struct TokenAttempt {
    outcome: Shared<BoxFuture<'static, TokenResult>>,
    task: AbortHandle,
}

impl OAuth {
    /// Checks the configuration. Tokens are stored in `folder`; without a `browser`, logins are not possible.
    pub fn new(
        server: &str,
        url: &str,
        config: AuthConfig,
        folder: impl Into<PathBuf>,
        browser: Option<Arc<dyn Browser>>,
    ) -> Result<OAuth, AuthError> {
        let folder = folder.into();
        OAuth::with_store(server, url, config, browser, |url| TokenStore::Files(TokenFiles::new(folder, url)))
    }

    /// Creates the OAuth of one user of a gateway, for a server of the configuration. The gateway stores the
    /// tokens, and logins are started with [`OAuth::start_login`]. Returns `None` if the server does not use
    /// OAuth.
    pub fn of_user(
        server: &ServerConfig,
        storage: Arc<dyn TokenStorage>,
    ) -> Option<Result<OAuth, AuthError>> {
        OAuth::with_storage(server, storage, None)
    }

    /// Like [`OAuth::of_server`], with tokens that the application stores, for example for several machines.
    pub fn with_storage(
        server: &ServerConfig,
        storage: Arc<dyn TokenStorage>,
        browser: Option<Arc<dyn Browser>>,
    ) -> Option<Result<OAuth, AuthError>> {
        let Transport::Http { url, oauth: Some(config), .. } = &server.transport else { return None };
        let (name, config) = (server.name.as_str(), (**config).clone());
        let store = |url: &Url| TokenStore::of_application(storage, url);
        Some(OAuth::with_store(name, url.as_str(), config, browser, store))
    }

    fn with_store(
        server: &str,
        url: &str,
        config: AuthConfig,
        browser: Option<Arc<dyn Browser>>,
        store: impl FnOnce(&Url) -> TokenStore,
    ) -> Result<OAuth, AuthError> {
        let error = |problem| AuthError { server: server.to_owned(), problem };
        check_config(&config).map_err(error)?;
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let not_http = || AuthProblem::Discovery { detail: "its URL is not http or https".to_owned() };
        let mut url = parsed.ok_or_else(|| error(not_http()))?;
        // A resource indicator has no fragment (RFC 8707), and a password is only for the server itself.
        url.set_fragment(None);
        if url.set_username("").and_then(|()| url.set_password(None)).is_err() {
            tracing::debug!(server, "the URL cannot contain a user name");
        }
        let store = store(&url);
        let server = ProtectedServer { name: server.to_owned(), url, config };
        let manager = TokenManager::new(server, store, browser, DEFAULT_LOGIN_TIMEOUT);
        Ok(OAuth { manager: Arc::new(manager), attempt: Mutex::default() })
    }

    /// Like [`OAuth::new`], for a server of the configuration and with the tokens in Toolwire's data folder.
    /// Returns `None` if the server does not use OAuth.
    pub fn of_server(
        server: &ServerConfig,
        data_folder: &Path,
        browser: Option<Arc<dyn Browser>>,
    ) -> Option<Result<OAuth, AuthError>> {
        let Transport::Http { url, oauth: Some(config), .. } = &server.transport else { return None };
        let tokens = data_folder.join("tokens");
        Some(OAuth::new(server.name.as_str(), url.as_str(), (**config).clone(), tokens, browser))
    }

    /// Sets how long the user has to log in; the default is five minutes.
    pub fn with_login_timeout(mut self, timeout: Duration) -> OAuth {
        if let Some(manager) = Arc::get_mut(&mut self.manager) {
            manager.login_timeout = timeout;
        }
        self
    }

    /// Allows a login immediately after a failed one, instead of after ten minutes.
    pub fn allow_login(&self) {
        self.manager.allow_login();
    }

    /// Whether there is a token, which may have expired.
    pub async fn is_logged_in(&self) -> bool {
        // If the stored token cannot be read, the login reports the problem.
        let _ = self.manager.load().await;
        self.manager.has_token()
    }

    /// Logs in, or refreshes the token, although the server has not refused a request. Returns `false` if the
    /// server has no authorization server.
    pub async fn log_in(&self) -> Result<bool, AuthError> {
        match self.after_refusal(None, "").await {
            Ok(token) => Ok(token.is_some()),
            Err(AuthProblem::NoAuthorizationServer) => Ok(false),
            Err(problem) => Err(self.error(problem)),
        }
    }

    /// Starts a login of a user whose browser is elsewhere: it is redirected to `redirect_uri`, where the
    /// application receives it.
    pub async fn start_login(&self, redirect_uri: &str) -> Result<StartedLogin, AuthError> {
        let started = self.manager.start_login(redirect_uri).await.map_err(|problem| self.error(problem))?;
        let pending = serde_json::to_string(&started.pending)
            .map_err(|error| self.error(AuthProblem::Discovery { detail: error.to_string() }))?;
        let (url, state) = (started.url, started.pending.state);
        Ok(StartedLogin { url, state, pending: Secret::new(pending) })
    }

    /// Completes a login with the query of the redirect, and stores the tokens. `pending` is that of the
    /// started login, which may be one of another process. The caller ensures that it is used once, by the
    /// user who started it.
    pub async fn complete_login(&self, pending: &Secret, query: &str) -> Result<(), AuthError> {
        let pending: PendingLogin =
            serde_json::from_str(pending.expose()).map_err(|_| self.error(AuthProblem::WrongRedirect))?;
        self.manager.complete_login(&pending, query).await.map_err(|problem| self.error(problem))
    }

    /// Logs out: deletes the server's tokens in memory and on disk. Returns whether there were any on disk.
    pub async fn forget(&self) -> Result<bool, AuthError> {
        self.manager.forget();
        self.manager.store.delete().await.map_err(|error| {
            let path = self.manager.store.folder().map(Path::to_owned);
            self.error(AuthProblem::Delete { path, source: Arc::new(error) })
        })
    }

    /// Returns the token to send as `Authorization: Bearer …`; `Ok(None)` means to send the request without
    /// one.
    pub async fn token(&self) -> Result<Option<Secret>, AuthError> {
        self.before_request().await.map_err(|problem| self.error(problem))
    }

    /// Returns the token for a request that the server refused with a 401, or with a 403 and the challenge
    /// `insufficient_scope`. `refused` is the token of that request: if it has been replaced in the meantime,
    /// the new token is returned without another refresh. `challenge` is the value of `WWW-Authenticate`:
    /// multiple values joined with `, `, or an empty string if the header is missing.
    ///
    /// Dropping the future only stops waiting: a refresh or a login that has started continues, and the next
    /// caller joins it.
    pub async fn replace(
        &self,
        refused: Option<&Secret>,
        challenge: &str,
    ) -> Result<Option<Secret>, AuthError> {
        self.after_refusal(refused.cloned(), challenge).await.map_err(|problem| self.error(problem))
    }

    /// Waits for a running refresh, so that its token is not lost, and cancels a login.
    pub async fn close(&self) {
        let Some(attempt) = lock(&self.attempt).take() else { return };
        if !self.manager.is_logging_in() && timeout(CLOSE_TIMEOUT, attempt.outcome).await.is_ok() {
            return;
        }
        attempt.task.abort();
    }

    fn error(&self, problem: AuthProblem) -> AuthError {
        AuthError { server: self.manager.server.name.clone(), problem }
    }

    async fn before_request(&self) -> TokenResult {
        if let Some(ready) = self.manager.ready() {
            return Ok(ready);
        }
        self.attempt(TokenNeed::Request, None).await
    }

    async fn after_refusal(&self, refused: Option<Secret>, header: &str) -> TokenResult {
        let challenge = Challenge::parse(header, &self.manager.server.url);
        let need = match challenge.missing_scopes.clone() {
            Some(scopes) => TokenNeed::MoreScopes { refused, scopes },
            None => TokenNeed::Unauthorized { refused },
        };
        self.attempt(need, Some(challenge)).await
    }

    /// Joins the running attempt, or starts one if there is none or its result does not satisfy `need`.
    async fn attempt(&self, need: TokenNeed, challenge: Option<Challenge>) -> TokenResult {
        let generation = self.manager.generation();
        loop {
            let (outcome, has_joined) = {
                let mut attempt = lock(&self.attempt);
                match attempt.as_ref().filter(|attempt| !attempt.task.is_finished()) {
                    Some(attempt) => (attempt.outcome.clone(), true),
                    None => {
                        if let Some(token) = self.manager.replacement(generation, &need) {
                            return Ok(Some(token));
                        }
                        let started = start(&self.manager, need.clone(), challenge.clone());
                        let outcome = started.outcome.clone();
                        *attempt = Some(started);
                        (outcome, false)
                    }
                }
            };
            let result = tokio::select! {
                result = outcome => result,
                // Only a request that the server refused waits for a login.
                () = self.manager.login_started(), if need == TokenNeed::Request => {
                    return Ok(self.manager.ready().flatten());
                }
            };
            if !has_joined || result.is_err() || need == TokenNeed::Request {
                return result;
            }
        }
    }
}

fn start(manager: &Arc<TokenManager>, need: TokenNeed, challenge: Option<Challenge>) -> TokenAttempt {
    let handle = tokio::spawn(manager.clone().obtain(need, challenge));
    let task = handle.abort_handle();
    // The task fails if it was aborted or panicked.
    let outcome = handle.map(|finished| finished.unwrap_or(Err(AuthProblem::Cancelled)));
    TokenAttempt { outcome: outcome.boxed().shared(), task }
}

impl TokenProvider for OAuth {
    fn token<'a>(&'a self, challenge: Option<&'a str>) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        match challenge {
            None => OAuth::token(self).boxed(),
            Some(challenge) => OAuth::replace(self, None, challenge).boxed(),
        }
    }

    fn replace<'a>(
        &'a self,
        refused: Option<&'a Secret>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        OAuth::replace(self, refused, challenge).boxed()
    }

    fn login_in_progress(&self) -> Option<watch::Receiver<bool>> {
        Some(self.manager.watch_login())
    }

    fn stored_token(&self) -> BoxFuture<'_, ()> {
        self.manager.wait_for_stored_token().boxed()
    }

    fn allow_login(&self) {
        OAuth::allow_login(self);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(OAuth::close(self))
    }
}

impl Drop for OAuth {
    fn drop(&mut self) {
        if let Some(attempt) = lock(&self.attempt).take() {
            attempt.task.abort();
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.manager.server.name;
        formatter.debug_struct("OAuth").field("server", server).finish_non_exhaustive()
    }
}

fn check_config(config: &AuthConfig) -> Result<(), AuthProblem> {
    let invalid = |key, problem: &str| Err(AuthProblem::Config { key, problem: problem.to_owned() });
    if let Some(key) = config.missing_key() {
        return invalid(key, "is missing");
    }
    if config.client_id.is_none() && config.client_secret.is_some() {
        return invalid("clientId", "is missing");
    }
    if config.grant == GrantKind::AuthorizationCode && config.private_key.is_some() {
        return invalid("privateKey", "requires `oauth.grant` to be `client_credentials`");
    }
    let metadata_url = config.client_metadata_url.as_deref().map(Url::parse);
    if let Some(url) = metadata_url
        && !url.is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
    {
        return invalid("clientMetadataUrl", "is not an https URL with a path");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token_store::{Grant, OAuthClient, unix_now};

    #[tokio::test]
    async fn a_finished_attempt_without_callers_is_not_reused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = "https://example.com/mcp";
        let oauth = OAuth::new("notes", url, AuthConfig::default(), folder.path(), None)
            .expect("a valid configuration");
        // The only caller stops waiting immediately; the attempt finds no token.
        assert!(oauth.attempt(TokenNeed::Request, None).now_or_never().is_none());
        let finished = async {
            while !lock(&oauth.attempt).as_ref().is_some_and(|attempt| attempt.task.is_finished()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), finished).await.expect("the attempt ends without callers");
        let client = OAuthClient { id: "client".to_owned(), secret: None, registered: true };
        let token = Some(Secret::new("new"));
        let grant = Grant {
            access_token: token.clone(),
            issued_at: unix_now(),
            ..Grant::new(url.to_owned(), "https://issuer.example".to_owned(), client)
        };
        oauth.manager.store.save(grant).await.expect("saved");
        assert_eq!(oauth.attempt(TokenNeed::Request, None).await.expect("a stored token"), token);
    }
}
