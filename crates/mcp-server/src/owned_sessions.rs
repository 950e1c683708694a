//! The ids of sessions, as clients see them: each is bound to the client that has opened the session.
//!
//! An id is that of the session below, the time when it was opened, optionally what the client sent with
//! `initialize`, and a MAC of them and of the owner. So an id proves who owns it, and another process with
//! the same secret can continue the session: no table of sessions is needed. It does not authenticate: the
//! owner is known before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use serde_json::{Value, json};

const HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// An id that no session has.
const UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");

/// What the client sent is part of the id only if it is not longer, because proxies limit the size of
/// headers.
const MAX_OPENING_BYTES: usize = 1_500;

/// An id is valid for this time, however often the session is used.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates and checks the ids.
pub(crate) struct OwnedSessions {
    key: hmac::Key,
    /// Whether other processes have the same secret.
    is_shared: bool,
}

impl OwnedSessions {
    pub(crate) fn new(secret: &[u8], is_shared: bool) -> OwnedSessions {
        OwnedSessions { key: hmac::Key::new(hmac::HMAC_SHA256, secret), is_shared }
    }

    /// Replaces the id in the headers of a request by that of the session below, or by an unknown one if the
    /// client does not own the session or if it is too old: then it does not exist. Returns what the client
    /// sent with `initialize`, if it is known.
    pub(crate) fn open(&self, headers: &mut HeaderMap, owner: &str) -> Option<Value> {
        self.open_at(now(), headers, owner)
    }

    fn open_at(&self, now: Duration, headers: &mut HeaderMap, owner: &str) -> Option<Value> {
        if !headers.contains_key(HEADER) {
            return None;
        }
        let mut ids = headers.get_all(HEADER).iter();
        let found = ids.next().and_then(|id| self.parse(now, id.to_str().ok()?, owner));
        let (inner, opening) = found.filter(|_| ids.next().is_none()).unwrap_or((UNKNOWN, None));
        headers.insert(HEADER, inner);
        opening
    }

    fn parse(&self, now: Duration, id: &str, owner: &str) -> Option<(HeaderValue, Option<Value>)> {
        let (content, mac) = id.rsplit_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        hmac::verify(&self.key, &message(content, owner), &mac).ok()?;
        let mut parts = content.split('.');
        let (inner, opened) = (parts.next()?, Duration::from_secs(parts.next()?.parse().ok()?));
        if now.saturating_sub(opened) > MAX_AGE {
            return None;
        }
        let opening = match parts.next() {
            Some(opening) => serde_json::from_slice(&URL_SAFE_NO_PAD.decode(opening).ok()?).ok(),
            None => None,
        };
        Some((HeaderValue::from_str(inner).ok()?, opening))
    }

    /// Replaces the id in the headers of a response by the one for its client, whose request had this body.
    pub(crate) fn seal(&self, headers: &mut HeaderMap, owner: &str, request: &[u8]) {
        let Some(inner) = headers.get(HEADER).and_then(|id| id.to_str().ok()) else { return };
        let opening = if self.is_shared { opening(request) } else { None };
        let opened = now().as_secs();
        let content = match opening {
            Some(opening) => format!("{inner}.{opened}.{}", URL_SAFE_NO_PAD.encode(opening)),
            None => format!("{inner}.{opened}"),
        };
        let mac = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, &message(&content, owner)));
        let sealed = HeaderValue::from_str(&format!("{content}.{mac}"));
        headers.insert(HEADER, sealed.unwrap_or(UNKNOWN));
    }
}

/// Returns the part of the parameters of `initialize` that a session needs.
fn opening(request: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(request).ok()?;
    let params = message.get("params")?;
    let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let opening = json!({
        "protocolVersion": params.get("protocolVersion")?,
        "capabilities": params.get("capabilities").cloned().unwrap_or_else(|| json!({})),
        "clientInfo": {"name": text("/clientInfo/name"), "version": text("/clientInfo/version")},
    });
    Some(opening.to_string()).filter(|opening| opening.len() <= MAX_OPENING_BYTES)
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The length of the owner is part of the message, so that no two pairs have the same one.
fn message(content: &str, owner: &str) -> Vec<u8> {
    format!("session\n{}\n{owner}\n{content}", owner.len()).into_bytes()
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
        for is_shared in [false, true] {
            let sessions = OwnedSessions::new(&[7; 32], is_shared);
            let mut response = headers("0f8e");
            sessions.seal(&mut response, "key_a", br#"{"params": {"protocolVersion": "2025-11-25"}}"#);
            let sealed = id(&response);
            let open = |sealed: &str, owner: &str| {
                let mut request = headers(sealed);
                sessions.open(&mut request, owner);
                id(&request)
            };
            assert_eq!(open(&sealed, "key_a"), "0f8e");
            assert_eq!(open(&sealed, "key_b"), "unknown");
            assert_eq!(open("0f8e", "key_a"), "unknown", "without a MAC");
            let other = OwnedSessions::new(&[8; 32], is_shared);
            let mut request = headers(&sealed);
            assert_eq!(other.open(&mut request, "key_a"), None);
            assert_eq!(id(&request), "unknown", "with another secret");
            // Each changed byte makes it invalid.
            for at in 0..sealed.len() {
                let mut changed = sealed.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).expect("text");
                assert_eq!(open(&changed, "key_a"), "unknown", "{changed}");
            }
        }
    }

    #[test]
    fn a_shared_id_says_how_the_session_was_opened() {
        let request = json!({"params": {
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "_meta": {"other": 1},
            "clientInfo": {"name": "a", "version": "1", "icons": ["x"]},
        }});
        let opening = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "a", "version": "1"},
        });
        let found = |is_shared: bool, request: &Value| {
            let sessions = OwnedSessions::new(&[7; 32], is_shared);
            let mut headers = headers("0f8e");
            sessions.seal(&mut headers, "", request.to_string().as_bytes());
            sessions.open(&mut headers, "")
        };
        assert_eq!(found(true, &request), Some(opening));
        assert_eq!(found(false, &request), None);
        let huge = json!({"params": {"protocolVersion": "x", "clientInfo": {"name": "x".repeat(2_000)}}});
        assert_eq!(found(true, &huge), None);
    }

    #[test]
    fn a_session_ends_after_a_day() {
        for is_shared in [false, true] {
            let sessions = OwnedSessions::new(&[7; 32], is_shared);
            let mut response = headers("0f8e");
            let before = now();
            sessions.seal(&mut response, "", br#"{"params": {"protocolVersion": "2025-11-25"}}"#);
            let open_after = |age: Duration| {
                let mut request = response.clone();
                let opening = sessions.open_at(before + age, &mut request, "");
                (id(&request), opening.is_some())
            };
            assert_eq!(open_after(MAX_AGE - Duration::from_secs(1)), ("0f8e".to_owned(), is_shared));
            // Sealing may have taken some time.
            assert_eq!(open_after(MAX_AGE * 2), ("unknown".to_owned(), false));
        }
    }

    #[test]
    fn two_ids_are_no_id() {
        let sessions = OwnedSessions::new(&[7; 32], false);
        let mut response = headers("0f8e");
        sessions.seal(&mut response, "", b"");
        let mut request = response.clone();
        request.append(HEADER, response[HEADER].clone());
        sessions.open(&mut request, "");
        assert_eq!(id(&request), "unknown");
        let mut without = HeaderMap::new();
        sessions.open(&mut without, "");
        assert!(without.is_empty());
    }
}
