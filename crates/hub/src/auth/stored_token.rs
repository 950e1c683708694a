//! Reads the stored token of a server, which other processes renew and replace.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

use super::error::AuthProblem;
use super::next_step::TokenNeed;
use super::token_manager::{TokenManager, unexpired_token};
use super::token_store::Grant;
use crate::Secret;

/// The first and the longest pause between two checks whether another process has stored a token.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(10);

impl TokenManager {
    /// Loads the stored grant if it is newer than the current one.
    pub(super) async fn load(&self) -> Result<(), AuthProblem> {
        let stored = match self.store.load().await {
            Ok(stored) => stored,
            Err(error) => {
                // A server that requires no token must not wait for the storage again.
                self.state().is_loaded = true;
                return Err(self.storage_problem(&error));
            }
        };
        let mut state = self.state();
        state.is_loaded = true;
        if stored.is_none() && state.is_stored && self.store.is_shared() {
            // The user has logged out elsewhere.
            (state.grant, state.is_stored) = (None, false);
        }
        let stored = stored.and_then(|grant| self.usable(grant));
        let issued_at = |grant: &Option<Grant>| grant.as_ref().map(|grant| grant.issued_at);
        if stored.is_some() && issued_at(&stored) >= issued_at(&state.grant) {
            state.is_stored = true;
            if stored != state.grant {
                state.grant = stored;
                state.generation += 1;
            }
        }
        Ok(())
    }

    /// Returns the token that another process has stored since `generation`, if the refused request had no
    /// token, or an unknown one. It need not be refreshed.
    pub(super) fn loaded_since(&self, generation: u64, need: &TokenNeed) -> Option<Secret> {
        let state = self.state();
        let is_new = *need == TokenNeed::Unauthorized { refused: None } && state.generation > generation;
        unexpired_token(state.grant.as_ref()).filter(|_| is_new)
    }

    /// Returns the grant if it was issued to this client, and adds the configured secret, which is not
    /// stored.
    fn usable(&self, mut grant: Grant) -> Option<Grant> {
        let config = &self.server.config;
        let is_same_client = match &config.client_id {
            Some(id) => *id == grant.client.id,
            None => grant.client.registered || config.client_metadata_url.as_ref() == Some(&grant.client.id),
        };
        if !grant.client.registered {
            grant.client.secret = config.client_secret.clone();
        }
        is_same_client.then_some(grant)
    }

    pub(super) fn storage_problem(&self, error: &io::Error) -> AuthProblem {
        tracing::warn!(server = self.server.name, %error, "cannot read the stored token");
        self.state().storage_failed = true;
        AuthProblem::Storage
    }

    /// Waits until there is a token that was not there before, because another process has stored it, or
    /// until a storage that could not be reached works again.
    pub(super) async fn wait_for_stored_token(&self) {
        let known = self.generation();
        let mut pause = MIN_PAUSE;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            let had_failed = std::mem::take(&mut self.state().storage_failed);
            let is_readable = self.load().await.is_ok();
            if is_readable && self.has_token() && (had_failed || self.generation() > known) {
                return;
            }
        }
    }
}
