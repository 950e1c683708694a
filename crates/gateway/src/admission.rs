//! Limits the number of concurrent requests, the total size of their bodies, and the number of requests per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolwire_dialect::ErrorKind;

use crate::keys::Principal;
use crate::response::Failure;
use crate::settings::GatewayLimits;

/// Bodies are counted in units of this size.
const UNIT_BYTES: usize = 1_024;

/// The value of `retry-after` in the response to a rejected request.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decides whether a request is handled now.
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    per_key: usize,
    by_key: Arc<Counts<Principal>>,
}

/// Counts a request against the limits until it is dropped.
pub(crate) struct Admitted {
    _request: OwnedSemaphorePermit,
    _key: Option<Counted<Principal>>,
}

/// The part of the memory for bodies that one body uses. Dropping it releases the memory.
pub(crate) struct BodyRoom {
    bodies: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Admission {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> Admission {
        // With a single key, all clients share it, so a limit per key would restrict all of them together.
        let per_key = if has_several_keys { GatewayLimits::REQUESTS_PER_KEY } else { usize::MAX };
        Admission {
            requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            bodies: Arc::new(Semaphore::new(limits.all_bodies_bytes / UNIT_BYTES)),
            per_key: limits.requests_per_key.unwrap_or(per_key),
            by_key: Arc::default(),
        }
    }

    /// Admits a request. It is called after the body was read, so that slow uploads do not count as requests.
    pub(crate) fn enter(&self, principal: &Principal) -> Result<Admitted, Failure> {
        let key = match principal.has_key() {
            false => None,
            true => Some(self.by_key.enter(principal.clone(), self.per_key).ok_or_else(|| {
                let message =
                    format!("this key has {} requests at the moment, which is its maximum", self.per_key);
                later(ErrorKind::RateLimited, message)
            })?),
        };
        let request = self.requests.clone().try_acquire_owned().map_err(|_| {
            later(ErrorKind::Overloaded, "the gateway handles too many requests at the moment".to_owned())
        })?;
        Ok(Admitted { _request: request, _key: key })
    }

    pub(crate) fn body_room(&self) -> BodyRoom {
        BodyRoom { bodies: self.bodies.clone(), taken: None }
    }
}

impl BodyRoom {
    /// Reserves memory for a body that has this size so far.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Failure> {
        let taken = self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(taken);
        if missing == 0 {
            return Ok(());
        }
        let more = u32::try_from(missing).ok();
        let more = more.and_then(|missing| self.bodies.clone().try_acquire_many_owned(missing).ok());
        let more = more.ok_or_else(|| {
            later(ErrorKind::Overloaded, "the gateway reads too many large requests at the moment".to_owned())
        })?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        Ok(())
    }
}

fn later(kind: ErrorKind, message: String) -> Failure {
    let mut failure = Failure::new(kind, message);
    failure.error.retry_after = Some(RETRY_AFTER);
    failure
}

/// Counts the current requests or connections of each key. A key with a count of zero is removed.
pub(crate) struct Counts<K>(Mutex<HashMap<K, usize>>);

/// One counted request or connection. Dropping it decreases the count.
pub(crate) struct Counted<K: Eq + Hash> {
    counts: Arc<Counts<K>>,
    key: K,
}

impl<K> Default for Counts<K> {
    fn default() -> Counts<K> {
        Counts(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// Increases the count of a key; returns `None` if it is at the maximum.
    pub(crate) fn enter(self: &Arc<Self>, key: K, max: usize) -> Option<Counted<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&key).copied().unwrap_or(0);
        if count >= max {
            return None;
        }
        counts.insert(key.clone(), count + 1);
        Some(Counted { counts: self.clone(), key })
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.key)),
        }
    }
}

/// Returns the network of an address: IPv4 addresses are counted one by one, IPv6 addresses by their /64 network,
/// because one client usually has all addresses of such a network.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::from((u128::from(address) & (u128::MAX << 64)).to_be_bytes()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_at_most_its_share() {
        let counts: Arc<Counts<&str>> = Arc::default();
        let (one, two) = (counts.enter("a", 2), counts.enter("a", 2));
        assert!(one.is_some() && two.is_some() && counts.enter("a", 2).is_none());
        assert!(counts.enter("b", 2).is_some(), "another key has its own share");
        drop(one);
        assert!(counts.enter("a", 2).is_some());
        drop(two);
        assert_eq!(counts.0.lock().expect("the counts").len(), 0);
    }

    #[test]
    fn a_client_cannot_use_many_addresses_of_its_network() {
        let network = |text: &str| client_network(text.parse().expect("an address")).to_string();
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8::1"));
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn bodies_share_their_room() {
        let limits = GatewayLimits { all_bodies_bytes: 10 * UNIT_BYTES, ..GatewayLimits::default() };
        let admission = Admission::new(&limits, false);
        let (mut one, mut two) = (admission.body_room(), admission.body_room());
        assert!(one.grow_to(1).is_ok() && one.grow_to(6 * UNIT_BYTES).is_ok());
        assert!(two.grow_to(4 * UNIT_BYTES).is_ok());
        assert!(two.grow_to(5 * UNIT_BYTES).is_err());
        drop(one);
        assert!(two.grow_to(5 * UNIT_BYTES).is_ok());
    }
}
