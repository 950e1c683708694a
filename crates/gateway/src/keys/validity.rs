//! Whether the key of an earlier or a running request is still valid.

use std::time::Duration;

use futures::future::BoxFuture;

use super::AuthenticationError::{self, Unauthenticated, Unavailable};
use super::{Key, Keys};
#[cfg(feature = "oidc")]
use crate::principal::now;
use crate::principal::{Principal, Source};

/// The interval at which the key of a running request is checked again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(3);

impl Keys {
    /// Checks that the key of an earlier request is still valid.
    pub(crate) async fn check_again(&self, principal: &Principal) -> Result<(), AuthenticationError> {
        let Some(identity) = principal.identity() else { return Ok(()) };
        match (&identity.source, &self.stored) {
            // The configuration may have been read again.
            (Source::Configuration(fingerprint), _) => {
                let is_same = |key: &Key| {
                    key.identity.is_same_key(identity)
                        && key.identity.source == Source::Configuration(*fingerprint)
                };
                self.configured.iter().any(is_same).then_some(()).ok_or(Unauthenticated)
            }
            #[cfg(feature = "oidc")]
            (Source::Token(_, expires), _) if now() < *expires => Ok(()),
            #[cfg(feature = "oidc")]
            (Source::Token(..), _) => Err(Unauthenticated),
            (Source::Table(id), Some(stored)) => match stored.is_valid(id).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Unauthenticated),
                Err(_) => Err(Unavailable),
            },
            (Source::Table(_), None) => Err(Unauthenticated),
        }
    }

    /// Returns a future that ends when the key of a running request is not valid any more; `None` if it
    /// cannot become invalid.
    pub(crate) fn invalidation(&self, principal: &Principal) -> Option<BoxFuture<'static, ()>> {
        let id = match principal.identity()?.source.clone() {
            Source::Configuration(_) => return None,
            #[cfg(feature = "oidc")]
            Source::Token(_, expires) => {
                let left = Duration::from_millis(expires.0.saturating_sub(now().0));
                return Some(Box::pin(tokio::time::sleep(left)));
            }
            Source::Table(id) => id,
        };
        let stored = self.stored.clone()?;
        Some(Box::pin(async move {
            loop {
                tokio::time::sleep(RECHECK_INTERVAL).await;
                // If the table cannot be read for a moment, running requests continue.
                if matches!(stored.is_valid(&id).await, Ok(false)) {
                    return;
                }
            }
        }))
    }
}
