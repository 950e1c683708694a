//! Requests a new grant: a user logs in, or the client sends its credentials.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use super::{
    GrantKind,
    authorization_server::{AuthorizationServer, request_with_client_credentials},
    challenge::Challenge,
    error::AuthProblem,
    login::log_in,
    next_step::TokenNeed,
    token_manager::{TokenManager, TokenResult},
};

/// After a failed login, no login page is opened for this time, even if the server is connected to again.
const LOGIN_PAUSE: Duration = Duration::from_secs(600);

impl TokenManager {
    /// Requests a new grant: the user logs in, or the client sends its credentials.
    pub(super) async fn authorize(
        &self,
        need: TokenNeed,
        challenge: Option<Challenge>,
        known: Option<AuthorizationServer>,
    ) -> TokenResult {
        let needs_login = self.server.config.grant == GrantKind::AuthorizationCode;
        if needs_login {
            let can_open = self.browser.as_ref().is_some_and(|browser| browser.can_open(&self.server.name));
            if !can_open {
                return Err(AuthProblem::LoginRequired { refused: self.state().refresh_refused.clone() });
            }
            if let Some((failed, error)) = &self.state().login_failed
                && failed.elapsed() < LOGIN_PAUSE
            {
                return Err(error.clone());
            }
        }
        let authorization_server = match self.discover(known, challenge.as_ref()).await {
            Ok(authorization_server) => authorization_server,
            Err(error) => return self.use_unexpired(&need, error),
        };
        let scopes = self.requested_scopes(&need, &authorization_server)?;
        let requested = scopes.clone();
        let granted = match &self.browser {
            Some(browser) if needs_login => {
                let _login = LoginInProgress::start(&self.login_in_progress);
                let new_token = async {
                    match need {
                        // A token of another process may lack the scopes too.
                        TokenNeed::MoreScopes { .. } => std::future::pending().await,
                        _ => self.wait_for_stored_token().await,
                    }
                };
                let timeout = self.login_timeout;
                tokio::select! {
                    granted = log_in(&self.server, authorization_server, scopes, &**browser, timeout) => granted,
                    // The user has logged in with another process.
                    () = new_token => return Ok(self.access_token()),
                }
            }
            _ => request_with_client_credentials(&self.server, authorization_server, scopes).await,
        };
        match granted {
            Ok(grant) => {
                let token = grant.access_token.clone();
                // A token that could not be stored can still be used.
                let _ = self.save(grant).await;
                let mut state = self.state();
                state.login_failed = None;
                if matches!(need, TokenNeed::MoreScopes { .. }) {
                    state.scope_upgrade = Some((Instant::now(), requested.unwrap_or_default()));
                }
                Ok(token)
            }
            Err(error) => {
                if needs_login && opened_a_page(&error) {
                    self.state().login_failed = Some((Instant::now(), error.clone()));
                }
                self.use_unexpired(&need, error)
            }
        }
    }

    /// Returns the scopes to request: those granted so far and the missing ones (SEP-2350), or `None` for the
    /// defaults. Fails if a recent login already requested the missing scopes.
    fn requested_scopes(
        &self,
        need: &TokenNeed,
        authorization_server: &AuthorizationServer,
    ) -> Result<Option<Vec<String>>, AuthProblem> {
        let TokenNeed::MoreScopes { scopes: missing, .. } = need else { return Ok(None) };
        let state = self.state();
        let granted = state.grant.as_ref().filter(|grant| grant.issuer == authorization_server.issuer);
        let mut scopes = granted.map(|grant| grant.scopes.clone()).unwrap_or_default();
        scopes.extend(missing.iter().filter(|scope| !scopes.contains(scope)).cloned().collect::<Vec<_>>());
        if let Some((when, requested)) = &state.scope_upgrade
            && when.elapsed() < LOGIN_PAUSE
            && missing.iter().all(|scope| requested.contains(scope))
        {
            return Err(AuthProblem::InsufficientScope { scopes: missing.join(" ") });
        }
        Ok((!scopes.is_empty()).then_some(scopes))
    }
}

/// Reports a login in progress until it is dropped, also if the login is cancelled.
struct LoginInProgress<'a>(&'a watch::Sender<bool>);

impl<'a> LoginInProgress<'a> {
    fn start(sender: &'a watch::Sender<bool>) -> LoginInProgress<'a> {
        sender.send_replace(true);
        LoginInProgress(sender)
    }
}

impl Drop for LoginInProgress<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Whether a login failed after its page was opened.
fn opened_a_page(error: &AuthProblem) -> bool {
    matches!(
        error,
        AuthProblem::Browser { .. }
            | AuthProblem::LoginTimedOut { .. }
            | AuthProblem::LoginRefused { .. }
            | AuthProblem::WrongIssuer { .. }
            | AuthProblem::NoIssuer
            | AuthProblem::NoToken { .. }
    )
}
