//! Limits the number of concurrent requests and the size of their bodies, for all clients together and for
//! each.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolwire_dialect::client::ErrorKind;

use crate::principal::Principal;
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
    /// By the id of the key.
    by_key: Arc<Counts<String>>,
    /// Responses in the background are counted separately from requests, so that a client that has one can
    /// read it. Their maximum is that of requests.
    backgrounds: Arc<Semaphore>,
    backgrounds_by_key: Arc<Counts<String>>,
    /// Limits the responses that other gateways have begun, so that some places remain for new ones.
    takeovers: Arc<Semaphore>,
    /// The maximum number of streams of one key that only wait for changes.
    listeners_per_key: usize,
    listeners_by_key: Arc<Counts<String>>,
    has_several_keys: bool,
    /// The maximum size of the bodies of one client, in units.
    units_per_client: usize,
    units_by_client: Arc<Counts<BodyOwner>>,
}

/// The client that a body belongs to. Clients that share one key, or have none, are distinguished by their
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum BodyOwner {
    Key(Principal),
    Address(IpAddr),
}

/// One in this many places for responses in the background may be used by those of other gateways.
const TAKEOVER_SHARE: usize = 4;

/// Counts a request against the limits until it is dropped.
pub(crate) struct Admitted {
    _request: OwnedSemaphorePermit,
    _key: Option<Counted<String>>,
}

/// The part of the memory for bodies that one body uses. Dropping it releases the memory.
pub(crate) struct BodyRoom {
    bodies: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
    /// The part that counts for the client, and the client's maximum; `None` if the client has no limit.
    of_client: Option<(Counted<BodyOwner>, usize)>,
}

impl Admission {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> Admission {
        // With a single key, all clients share it, so a limit per key would restrict all of them together.
        let per_key = if has_several_keys { GatewayLimits::REQUESTS_PER_KEY } else { usize::MAX };
        Admission {
            requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            bodies: Arc::new(Semaphore::new(limits.all_bodies_bytes.div_ceil(UNIT_BYTES))),
            per_key: limits.requests_per_key.unwrap_or(per_key),
            by_key: Arc::default(),
            backgrounds: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            backgrounds_by_key: Arc::default(),
            takeovers: Arc::new(Semaphore::new(
                limits.requests.min(Semaphore::MAX_PERMITS).div_ceil(TAKEOVER_SHARE),
            )),
            listeners_per_key: if has_several_keys { GatewayLimits::LISTENERS_PER_KEY } else { usize::MAX },
            listeners_by_key: Arc::default(),
            has_several_keys,
            units_per_client: limits.bodies_bytes_of_client().div_ceil(UNIT_BYTES),
            units_by_client: Arc::default(),
        }
    }

    /// Whether there may be several keys, so that none may take all places.
    pub(crate) fn has_several_keys(&self) -> bool {
        self.has_several_keys
    }

    /// Admits this many requests that begin together. It is called after the body was read, so that slow
    /// uploads do not count as requests.
    pub(crate) fn enter(&self, principal: &Principal, requests: usize) -> Result<Admitted, Failure> {
        let max = self.per_key;
        let key = match principal.key_id() {
            None => None,
            Some(_) if requests > max => {
                let message = format!(
                    "this key may have {max} concurrent requests, and a batch of {requests} is one request for each \
                     of its messages: send smaller batches"
                );
                let failure = Failure::new(ErrorKind::RateLimited, message);
                return Err(Failure { should_retry: Some(false), ..failure });
            }
            Some(id) => Some(self.by_key.enter(id.to_owned(), requests, max).ok_or_else(|| {
                let message = format!("this key has {max} concurrent requests, which is the maximum");
                later(ErrorKind::RateLimited, message)
            })?),
        };
        let permits = u32::try_from(requests).ok();
        let request = permits.and_then(|permits| self.requests.clone().try_acquire_many_owned(permits).ok());
        let request = request.ok_or_else(|| {
            later(ErrorKind::Overloaded, "the gateway is handling too many requests".to_owned())
        })?;
        Ok(Admitted { _request: request, _key: key })
    }

    /// Admits a response in the background.
    pub(crate) fn enter_background(&self, principal: &Principal) -> Result<Admitted, Failure> {
        let max = self.per_key;
        let key = match principal.key_id() {
            None => None,
            Some(id) => Some(self.backgrounds_by_key.enter(id.to_owned(), 1, max).ok_or_else(|| {
                let message = format!("this key has {max} responses in the background, which is the maximum");
                later(ErrorKind::RateLimited, message)
            })?),
        };
        let place = self.backgrounds.clone().try_acquire_owned().map_err(|_| {
            later(
                ErrorKind::Overloaded,
                "the gateway is writing too many responses in the background".to_owned(),
            )
        })?;
        Ok(Admitted { _request: place, _key: key })
    }

    /// Admits a response in the background that another gateway has begun; `None` if there is no place now.
    pub(crate) fn continue_background(
        &self,
        principal: &Principal,
    ) -> Option<(Admitted, OwnedSemaphorePermit)> {
        let place = self.takeovers.clone().try_acquire_owned().ok()?;
        Some((self.enter_background(principal).ok()?, place))
    }

    /// Admits a stream that only waits for changes. It is not a request, because it would take a place for
    /// hours.
    pub(crate) fn listen(&self, principal: &Principal) -> Result<Option<Counted<String>>, Failure> {
        let Some(id) = principal.key_id() else { return Ok(None) };
        let max = self.listeners_per_key;
        let counted = self.listeners_by_key.enter(id.to_owned(), 1, max).ok_or_else(|| {
            let message = format!("this key has {max} streams that wait for changes, which is the maximum");
            later(ErrorKind::RateLimited, message)
        })?;
        Ok(Some(counted))
    }

    /// Returns memory for the body of a client.
    pub(crate) fn body_room(&self, principal: &Principal, address: IpAddr) -> BodyRoom {
        let owner = match self.has_several_keys {
            true => Some(BodyOwner::Key(principal.clone())),
            // Many clients may be behind a proxy on this machine.
            false if address.to_canonical().is_loopback() => None,
            false => Some(BodyOwner::Address(client_network(address))),
        };
        let of_client = owner.map(|owner| (self.units_by_client.begin(owner), self.units_per_client));
        BodyRoom { bodies: self.bodies.clone(), taken: None, of_client }
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
        if let Some((counted, max)) = &mut self.of_client
            && !counted.grow(missing, *max)
        {
            let message = "this client is sending too many large requests".to_owned();
            return Err(later(ErrorKind::RateLimited, message));
        }
        let more = u32::try_from(missing).ok();
        let more = more.and_then(|missing| self.bodies.clone().try_acquire_many_owned(missing).ok());
        let more = more.ok_or_else(|| {
            later(ErrorKind::Overloaded, "the gateway is reading too many large requests".to_owned())
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

/// Counts the current requests, connections or bytes of each key. A key with a count of zero is removed.
pub(crate) struct Counts<K>(Mutex<HashMap<K, usize>>);

/// A part of a count: one request or connection, or some bytes. Dropping it decreases the count.
pub(crate) struct Counted<K: Eq + Hash> {
    counts: Arc<Counts<K>>,
    key: K,
    amount: usize,
}

impl<K> Default for Counts<K> {
    fn default() -> Counts<K> {
        Counts(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// Increases the count of a key; returns `None` if the maximum would be exceeded.
    pub(crate) fn enter(self: &Arc<Self>, key: K, more: usize, max: usize) -> Option<Counted<K>> {
        let mut counted = self.begin(key);
        counted.grow(more, max).then_some(counted)
    }

    /// Returns a part of the count of a key, which is zero so far.
    fn begin(self: &Arc<Self>, key: K) -> Counted<K> {
        Counted { counts: self.clone(), key, amount: 0 }
    }
}

impl<K: Eq + Hash + Clone> Counted<K> {
    /// Increases the count, unless the maximum of the key would be exceeded.
    fn grow(&mut self, more: usize, max: usize) -> bool {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&self.key).copied().unwrap_or(0);
        let is_possible = more <= max.saturating_sub(count);
        if is_possible {
            counts.insert(self.key.clone(), count + more);
            self.amount += more;
        }
        is_possible
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.key) {
            Some(count) if *count > self.amount => *count -= self.amount,
            Some(_) => drop(counts.remove(&self.key)),
            None => {}
        }
    }
}

/// Returns the network of an address: IPv4 addresses are counted one by one, IPv6 addresses by their /64
/// network, because one client usually has all addresses of such a network.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::from((u128::from(address) & (u128::MAX << 64)).to_be_bytes()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::tests::principals;

    #[test]
    fn a_key_has_at_most_its_share() {
        let counts: Arc<Counts<&str>> = Arc::default();
        let (one, two) = (counts.enter("a", 1, 2), counts.enter("a", 1, 2));
        assert!(one.is_some() && two.is_some() && counts.enter("a", 1, 2).is_none());
        assert!(counts.enter("b", 1, 2).is_some(), "another key has its own share");
        drop(one);
        assert!(counts.enter("a", 1, 2).is_some());
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
    fn streams_that_wait_are_not_requests() {
        let admission = Admission::new(&GatewayLimits { requests: 1, ..GatewayLimits::default() }, true);
        let [one, other, _] = principals();
        let streams: Vec<_> = (0..GatewayLimits::LISTENERS_PER_KEY).map(|_| admission.listen(&one)).collect();
        assert!(streams.iter().all(Result::is_ok) && admission.listen(&one).is_err());
        assert!(admission.listen(&other).is_ok() && admission.enter(&one, 1).is_ok());
        drop(streams);
        assert!(admission.listen(&one).is_ok());
    }

    #[test]
    fn responses_in_the_background_have_places_of_their_own() {
        let limits = GatewayLimits { requests: 8, requests_per_key: Some(1), ..GatewayLimits::default() };
        let admission = Admission::new(&limits, true);
        let [one, other, third] = principals();
        let (request, begun) = (admission.enter(&one, 1), admission.enter_background(&one));
        assert!(request.is_ok() && begun.is_ok() && admission.enter(&one, 1).is_err());
        let Err(refused) = admission.enter_background(&one) else { panic!("there is only one place") };
        assert_eq!(refused.error.kind, ErrorKind::RateLimited);
        assert!(admission.continue_background(&one).is_none(), "it counts too");
        drop(begun);
        let continued = [&one, &other].map(|principal| admission.continue_background(principal));
        assert!(continued.iter().all(Option::is_some) && admission.enter_background(&one).is_err());
        assert!(admission.continue_background(&third).is_none(), "some places are left for new responses");
        assert!(admission.enter_background(&third).is_ok());
        drop(continued);
        assert!(admission.continue_background(&third).is_some());
    }

    #[test]
    fn a_batch_has_a_place_for_each_request() {
        let limits = GatewayLimits { requests_per_key: Some(3), ..GatewayLimits::default() };
        let admission = Admission::new(&limits, true);
        let [one, other, _] = principals();
        let Err(refused) = admission.enter(&one, 4) else { panic!("there are only three places") };
        assert_eq!((refused.error.retry_after, refused.should_retry), (None, Some(false)));
        let two = admission.enter(&one, 2);
        assert!(two.is_ok() && admission.enter(&one, 2).is_err() && admission.enter(&other, 3).is_ok());
        assert!(admission.enter(&one, 1).is_ok() && admission.enter(&one, 0).is_ok());
        drop(two);
        assert!(admission.enter(&one, 3).is_ok());
    }

    #[test]
    fn bodies_share_their_room() {
        let limits =
            GatewayLimits { body_bytes: 1, all_bodies_bytes: 10 * UNIT_BYTES, ..GatewayLimits::default() };
        let admission = Admission::new(&limits, false);
        let [principal, ..] = principals();
        let room = || admission.body_room(&principal, [127, 0, 0, 1].into());
        let (mut one, mut two) = (room(), room());
        assert!(one.grow_to(1).is_ok() && one.grow_to(6 * UNIT_BYTES).is_ok());
        assert!(two.grow_to(4 * UNIT_BYTES).is_ok());
        assert!(two.grow_to(5 * UNIT_BYTES).is_err());
        drop(one);
        assert!(two.grow_to(5 * UNIT_BYTES).is_ok());
    }

    #[test]
    fn the_bodies_of_one_client_leave_room_for_others() {
        let limits =
            GatewayLimits { body_bytes: 1, all_bodies_bytes: 8 * UNIT_BYTES, ..GatewayLimits::default() };
        let [one, two, _] = principals();
        let addresses: [IpAddr; 2] = [[192, 0, 2, 7].into(), [192, 0, 2, 8].into()];
        for has_several_keys in [true, false] {
            let admission = Admission::new(&limits, has_several_keys);
            let clients = match has_several_keys {
                true => [(&one, addresses[0]), (&two, addresses[0])],
                false => [(&one, addresses[0]), (&one, addresses[1])],
            };
            let room = |client: usize| admission.body_room(clients[client].0, clients[client].1);
            let (mut first, mut second) = (room(0), room(0));
            assert!(first.grow_to(UNIT_BYTES).is_ok() && second.grow_to(UNIT_BYTES).is_ok());
            let refused = second.grow_to(2 * UNIT_BYTES).expect_err("the share of the client is used");
            assert_eq!(refused.error.kind, ErrorKind::RateLimited);
            assert!(room(1).grow_to(2 * UNIT_BYTES).is_ok(), "another client has its own share");
            drop(first);
            assert!(second.grow_to(2 * UNIT_BYTES).is_ok());
            drop(second);
            assert_eq!(admission.units_by_client.0.lock().expect("the counts").len(), 0);
        }
    }
}
