//! The ids of sessions, as clients see them: each is bound to the client that has opened the session.
//!
//! An id is that of the session below and a MAC of the id and its owner. So an id proves who owns it, and no table
//! of owners is needed. It does not authenticate: the owner is known before.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

const HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// An id that no session has.
const UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");

/// Creates and checks the ids.
pub(crate) struct OwnedSessions(hmac::Key);

impl OwnedSessions {
    pub(crate) fn new(secret: &[u8]) -> OwnedSessions {
        OwnedSessions(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Replaces the id in the headers of a request by that of the session below, or by an unknown one if the
    /// client does not own the session: for others, a session does not exist.
    pub(crate) fn open(&self, headers: &mut HeaderMap, owner: &str) {
        if !headers.contains_key(HEADER) {
            return;
        }
        let mut ids = headers.get_all(HEADER).iter();
        let found = ids.next().and_then(|id| self.inner(id.to_str().ok()?, owner));
        let inner = found.filter(|_| ids.next().is_none());
        headers.insert(HEADER, inner.unwrap_or(UNKNOWN));
    }

    fn inner(&self, id: &str, owner: &str) -> Option<HeaderValue> {
        let (inner, mac) = id.rsplit_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        hmac::verify(&self.0, &message(inner, owner), &mac).ok()?;
        HeaderValue::from_str(inner).ok()
    }

    /// Replaces the id in the headers of a response by the one for its client.
    pub(crate) fn seal(&self, headers: &mut HeaderMap, owner: &str) {
        let Some(inner) = headers.get(HEADER).and_then(|id| id.to_str().ok()) else { return };
        let mac = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &message(inner, owner)));
        let sealed = HeaderValue::from_str(&format!("{inner}.{mac}"));
        headers.insert(HEADER, sealed.unwrap_or(UNKNOWN));
    }
}

/// The length of the owner is part of the message, so that no two pairs have the same one.
fn message(inner: &str, owner: &str) -> Vec<u8> {
    format!("session\n{}\n{owner}\n{inner}", owner.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(id: &str) -> HeaderMap {
        HeaderMap::from_iter([(HEADER, HeaderValue::from_str(id).expect("a valid header"))])
    }

    fn id(headers: &HeaderMap) -> String {
        headers[HEADER].to_str().expect("an id").to_owned()
    }

    #[test]
    fn only_its_owner_can_use_a_session() {
        let sessions = OwnedSessions::new(&[7; 32]);
        let mut response = headers("0f8e");
        sessions.seal(&mut response, "key_a");
        let sealed = id(&response);
        let open = |sealed: &str, owner: &str| {
            let mut request = headers(sealed);
            sessions.open(&mut request, owner);
            id(&request)
        };
        assert_eq!(open(&sealed, "key_a"), "0f8e");
        assert_eq!(open(&sealed, "key_b"), "unknown");
        assert_eq!(open("0f8e", "key_a"), "unknown", "without a MAC");
        let other = OwnedSessions::new(&[8; 32]);
        let mut request = headers(&sealed);
        other.open(&mut request, "key_a");
        assert_eq!(id(&request), "unknown", "with another secret");
        // Each changed byte makes it invalid.
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            assert_eq!(open(&changed, "key_a"), "unknown", "{changed}");
        }
    }

    #[test]
    fn two_ids_are_no_id() {
        let sessions = OwnedSessions::new(&[7; 32]);
        let mut response = headers("0f8e");
        sessions.seal(&mut response, "");
        let mut request = response.clone();
        request.append(HEADER, response[HEADER].clone());
        sessions.open(&mut request, "");
        assert_eq!(id(&request), "unknown");
        let mut without = HeaderMap::new();
        sessions.open(&mut without, "");
        assert!(without.is_empty());
    }
}
