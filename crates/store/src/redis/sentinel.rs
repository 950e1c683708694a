//! A connection to the master that Redis Sentinel names, also after a failover.
//!
//! The sentinels are asked when there is no connection, and when a request has failed or gets no response.
//! Nothing subscribes to their events: a client that misses an event would keep the old master.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, ConnectionInfo, FromRedisValue, RedisError, RedisResult, cmd};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Request, RequestFailure, is_temporary};
use super::replicas::{Link, ReplicatedConnection};
use super::sentinel_url::{Address, SentinelUrl};

/// The maximum time to connect to one server. A machine that is off does not refuse connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum wait for the other sentinels after the first one has named a master.
const OTHER_SENTINELS_TIMEOUT: Duration = Duration::from_millis(300);

/// While a request has no response, the sentinels are asked at this interval: a master whose machine has
/// failed closes no connection.
const MASTER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct SentinelConnection {
    url: SentinelUrl,
    config: AsyncConnectionConfig,
    timeout: Duration,
    /// The lock is held while the master is looked for, so that concurrent requests do this once.
    current: Mutex<Option<Master>>,
    next_serial: AtomicU64,
}

/// A connection to a master.
#[derive(Clone)]
struct Master {
    connection: MultiplexedConnection,
    address: Address,
    /// Identifies the connection.
    serial: u64,
}

impl SentinelConnection {
    /// Connects to the current master.
    pub(super) async fn connect(
        url: SentinelUrl,
        timeout: Duration,
    ) -> Result<SentinelConnection, RequestFailure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout.min(CONNECT_TIMEOUT)))
            .set_response_timeout(Some(timeout));
        let (current, next_serial) = (Mutex::default(), AtomicU64::default());
        let connection = SentinelConnection { url, config, timeout, current, next_serial };
        connection.master().await?;
        Ok(connection)
    }

    /// Sends a request to the master, and waits until this number of replicas have its effect.
    pub(super) async fn send<T: FromRedisValue>(
        &self,
        request: &Request<'_>,
        replicas: u32,
    ) -> Result<T, RequestFailure> {
        let master = self.master().await?;
        let link = Link::Master(master.connection.clone());
        let mut connection = ReplicatedConnection { link, replicas };
        let mut response = std::pin::pin!(request.send_to(&mut connection));
        let result = loop {
            tokio::select! {
                result = &mut response => break result,
                () = sleep(MASTER_CHECK_INTERVAL) => {}
            }
            // The response may arrive in the meantime.
            tokio::select! {
                result = &mut response => break result,
                has_moved = self.has_moved(&master) => if has_moved {
                    let problem = format!("redis at {} is no longer the master", master.address);
                    return Err(RequestFailure::Moved(problem));
                }
            }
        };
        if let Err(error) = &result
            && is_temporary(error)
        {
            let mut current = self.current.lock().await;
            let _ = current.take_if(|current| current.serial == master.serial);
        }
        result.map_err(RequestFailure::Redis)
    }

    async fn master(&self) -> Result<Master, RequestFailure> {
        let mut current = self.current.lock().await;
        if let Some(master) = &*current {
            return Ok(master.clone());
        }
        let found = self.find().await?;
        Ok(current.insert(found).clone())
    }

    /// Returns whether another server is the master now. If it is the same one, later requests get a new
    /// connection to it, because this one may be broken.
    async fn has_moved(&self, silent: &Master) -> bool {
        let mut current = self.current.lock().await;
        if let Some(master) = current.as_ref().filter(|master| master.serial != silent.serial) {
            return master.address != silent.address;
        }
        match self.find().await {
            Ok(found) => current.insert(found).address != silent.address,
            Err(_) => false,
        }
    }

    /// Connects to the server that the sentinels name and that is a master.
    async fn find(&self) -> Result<Master, RequestFailure> {
        let mut problem = String::new();
        for address in self.ask_sentinels().await? {
            problem = match self.connect_to(&address).await {
                Ok(Some(connection)) => {
                    let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
                    return Ok(Master { connection, address, serial });
                }
                Ok(None) => format!("redis at {address} is not the master"),
                Err(error) if is_temporary(&error) => format!("the master at {address}: {error}"),
                Err(error) => {
                    return Err(RequestFailure::Refused(format!("the master at {address}: {error}")));
                }
            };
        }
        Err(RequestFailure::NoMaster(problem))
    }

    /// Returns a connection, if the server is a master.
    async fn connect_to(&self, address: &Address) -> RedisResult<Option<MultiplexedConnection>> {
        let info = address.connection_info(&self.url.settings, self.url.uses_tls)?;
        let client = Client::open(info)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&self.config).await?;
        // Not `ROLE`, which would be one more command that the user must be permitted to run.
        let info: String = cmd("INFO").arg("replication").query_async(&mut connection).await?;
        let is_master = info.lines().any(|line| line.trim_end() == "role:master");
        Ok(is_master.then_some(connection))
    }

    /// Returns the addresses that sentinels name, beginning with the one that most of them name. There is at
    /// least one.
    async fn ask_sentinels(&self) -> Result<Vec<Address>, RequestFailure> {
        let majority = self.url.sentinels.len() / 2 + 1;
        let mut replies: FuturesUnordered<_> =
            self.url.sentinels.iter().map(|sentinel| self.ask(sentinel)).collect();
        let mut votes = Votes::default();
        let mut deadline = Instant::now() + self.timeout;
        loop {
            let reply = tokio::select! {
                reply = replies.next() => reply,
                () = sleep_until(deadline) => None,
            };
            match reply {
                None => break,
                Some((_, Ok(Some(address)))) => {
                    deadline = deadline.min(Instant::now() + OTHER_SENTINELS_TIMEOUT);
                    if votes.add(address) >= majority {
                        break;
                    }
                }
                Some((_, Ok(None))) => votes.unknown += 1,
                Some((sentinel, Err(error))) => votes.add_failure(sentinel, &error),
            }
        }
        votes.result(&self.url.master)
    }

    async fn ask<'s>(
        &self,
        sentinel: &'s ConnectionInfo,
    ) -> (&'s ConnectionInfo, RedisResult<Option<Address>>) {
        let asked = async {
            let client = Client::open(sentinel.clone())?;
            let mut connection = client.get_multiplexed_async_connection_with_config(&self.config).await?;
            let mut command = cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(&self.url.master);
            let named: Option<(String, u16)> = command.query_async(&mut connection).await?;
            Ok(named.map(|(host, port)| Address { host, port }))
        };
        (sentinel, asked.await)
    }
}

/// The responses of the sentinels.
#[derive(Default)]
struct Votes {
    /// The addresses, each with the number of sentinels that have named it.
    named: Vec<(Address, usize)>,
    /// The number of sentinels that do not know the master.
    unknown: usize,
    /// The problems of sentinels that could not be asked, and whether a retry may help.
    failures: HashMap<String, bool>,
}

impl Votes {
    /// Returns the number of sentinels that have named this address.
    fn add(&mut self, address: Address) -> usize {
        if let Some((_, count)) = self.named.iter_mut().find(|(named, _)| *named == address) {
            *count += 1;
            return *count;
        }
        self.named.push((address, 1));
        1
    }

    fn add_failure(&mut self, sentinel: &ConnectionInfo, error: &RedisError) {
        self.failures.insert(format!("sentinel at {}: {error}", sentinel.addr()), is_temporary(error));
    }

    fn result(mut self, master: &str) -> Result<Vec<Address>, RequestFailure> {
        if !self.named.is_empty() {
            self.named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            return Ok(self.named.into_iter().map(|(address, _)| address).collect());
        }
        let may_recover = self.failures.values().any(|is_temporary| *is_temporary);
        let mut problems: Vec<String> = self.failures.into_keys().collect();
        problems.sort();
        if self.unknown > 0 {
            problems.insert(0, format!("no sentinel knows a master with the name `{master}`"));
        }
        if problems.is_empty() {
            return Err(RequestFailure::NoMaster("no sentinel responded".to_owned()));
        }
        let problem = problems.join("; ");
        Err(if may_recover { RequestFailure::NoMaster(problem) } else { RequestFailure::Refused(problem) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    #[test]
    fn the_address_with_the_most_votes_is_tried_first() {
        let mut votes = Votes::default();
        assert_eq!([1, 2, 3, 2].map(|port| votes.add(address(port))), [1, 1, 1, 2]);
        let Ok(addresses) = votes.result("main") else { panic!("there are addresses") };
        assert_eq!(addresses, [address(2), address(1), address(3)]);
    }

    #[test]
    fn a_retry_is_useless_if_all_sentinels_know_no_master() {
        let votes = |failure: Option<bool>| Votes {
            unknown: 1,
            failures: failure
                .map(|is_temporary| ("sentinel at b: x".to_owned(), is_temporary))
                .into_iter()
                .collect(),
            ..Votes::default()
        };
        let text = "no sentinel knows a master with the name `main`";
        assert!(
            matches!(votes(None).result("main"), Err(RequestFailure::Refused(problem)) if problem == text)
        );
        assert!(matches!(votes(Some(false)).result("main"), Err(RequestFailure::Refused(_))));
        assert!(matches!(
            votes(Some(true)).result("main"),
            Err(RequestFailure::NoMaster(problem)) if problem == format!("{text}; sentinel at b: x")
        ));
    }
}
