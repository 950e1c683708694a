//! Sessions of browsers, and tokens that start one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use toolwire_page::shell::Role;

use super::request::cookie;
use crate::ids::random_id;
use crate::principal::Principal;

const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The maximum number of sessions. Above it, the oldest session ends.
const MAX_SESSIONS: usize = 4_096;

/// A token is valid until it is used, or until this time has passed.
const TOKEN_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The sessions and the unused tokens. Both are found by a hash, so that the duration of a lookup
/// reveals nothing about the secret.
#[derive(Default)]
pub(super) struct Sessions(Mutex<SessionTable>);

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<Hash, Session>,
    admin_tokens: HashMap<Hash, Instant>,
}

type Hash = [u8; 32];

/// The session of a browser.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) principal: Principal,
    pub(super) role: Role,
    start: Instant,
}

impl Sessions {
    /// Creates a token that starts one session of an administrator.
    pub(super) fn new_admin_token(&self) -> Option<String> {
        let token = random_id("admin_").ok()?;
        let mut state = self.lock();
        state.admin_tokens.retain(|_, created| created.elapsed() < TOKEN_LIFETIME);
        state.admin_tokens.insert(hash(&token), Instant::now());
        Some(token)
    }

    /// Uses a token. It is invalid afterwards.
    pub(super) fn take_admin_token(&self, token: &str) -> bool {
        let created = self.lock().admin_tokens.remove(&hash(token));
        created.is_some_and(|created| created.elapsed() < TOKEN_LIFETIME)
    }

    /// Starts a session. Returns the value of its cookie.
    pub(super) fn start(&self, principal: Principal, role: Role) -> Option<String> {
        let secret = random_id("").ok()?;
        let mut state = self.lock();
        state.sessions.retain(|_, session| session.start.elapsed() < LIFETIME);
        if state.sessions.len() >= MAX_SESSIONS
            && let Some(oldest) =
                state.sessions.iter().min_by_key(|(_, session)| session.start).map(|(hash, _)| *hash)
        {
            state.sessions.remove(&oldest);
        }
        state.sessions.insert(hash(&secret), Session { principal, role, start: Instant::now() });
        Some(secret)
    }

    pub(super) fn find(&self, headers: &HeaderMap, cookie_name: &str) -> Option<Session> {
        let secret = cookie(headers, cookie_name)?;
        let session = self.lock().sessions.get(&hash(secret)).cloned()?;
        (session.start.elapsed() < LIFETIME).then_some(session)
    }

    pub(super) fn end(&self, headers: &HeaderMap, cookie_name: &str) {
        if let Some(secret) = cookie(headers, cookie_name) {
            self.lock().sessions.remove(&hash(secret));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of the cookie. Ports share cookies, so the name contains the port.
pub(super) fn cookie_name(port: u16) -> String {
    format!("toolwire-{port}")
}

/// Returns the header that sets the cookie of a session. An empty value removes it.
pub(super) fn set_cookie(name: &str, value: &str) -> String {
    let age = if value.is_empty() { 0 } else { LIFETIME.as_secs() };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}")
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use http::header::{COOKIE, HeaderValue};

    use super::*;

    fn with_cookie(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(text).expect("a header"))])
    }

    #[test]
    fn a_token_is_valid_once() {
        let sessions = Sessions::default();
        let token = sessions.new_admin_token().expect("random bytes");
        assert!(!sessions.take_admin_token("admin_other"));
        assert!(sessions.take_admin_token(&token));
        assert!(!sessions.take_admin_token(&token));
    }

    #[test]
    fn a_session_is_found_by_its_cookie_until_it_ends() {
        let sessions = Sessions::default();
        let secret = sessions.start(Principal::without_key(), Role::Admin).expect("random bytes");
        let headers = with_cookie(&format!("other=1; toolwire-1={secret}"));
        assert_eq!(sessions.find(&headers, "toolwire-1").expect("a session").role, Role::Admin);
        assert!(sessions.find(&headers, "toolwire-2").is_none());
        assert!(sessions.find(&with_cookie("toolwire-1="), "toolwire-1").is_none());
        sessions.end(&headers, "toolwire-1");
        assert!(sessions.find(&headers, "toolwire-1").is_none());
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        for _ in 0..=MAX_SESSIONS {
            sessions.start(Principal::without_key(), Role::User);
        }
        assert_eq!(sessions.lock().sessions.len(), MAX_SESSIONS);
    }
}
