//! The connection to a Redis server, to a cluster or to the master that sentinels name, with reconnects and
//! retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult, RetryMethod,
    ScriptInvocation,
};
use tokio::time::Instant;
use toolwire_contract::conversations::StoreError;

use super::replicas::{Link, ReplicatedConnection};
use super::sentinel::SentinelConnection;
use super::sentinel_url::{SentinelUrl, is_sentinel_url};

/// The time that a request waits for a server that did not respond to the previous one.
const TIMEOUT_WHILE_DOWN: Duration = Duration::from_millis(500);

/// The same with sentinels. It is longer, because the sentinels are asked before a server is connected to.
const SENTINEL_TIMEOUT_WHILE_DOWN: Duration = Duration::from_secs(2);

/// One multiplexed connection for all callers, or one per cluster node.
#[derive(Clone)]
enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
    Sentinel(Arc<SentinelConnection>),
}

/// The reason why one attempt to send a request failed.
pub(super) enum RequestFailure {
    Redis(RedisError),
    /// No server is the master at the moment.
    NoMaster(String),
    /// Another server has become the master before there was a response.
    Moved(String),
    /// The sentinels or the master reject the configuration, so a retry is useless.
    Refused(String),
}

pub(super) struct RedisConnection {
    connection: Connection,
    /// The address, without user and password.
    pub(super) place: String,
    timeout: Duration,
    /// The number of replicas that must have each write.
    replicas: u32,
    /// Whether the last request waited for the whole timeout. The next ones wait less, so that an operation
    /// of several requests costs the timeout only once.
    is_down: AtomicBool,
}

/// A request to the server.
pub(super) enum Request<'a> {
    Command(Cmd),
    Script(ScriptInvocation<'a>),
}

/// Whether a request changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

/// Installs a TLS provider for the Redis client, unless the application has already installed one.
fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl RedisConnection {
    pub(super) async fn to_one(url: &str, timeout: Duration) -> Result<RedisConnection, StoreError> {
        if is_sentinel_url(url) {
            return RedisConnection::to_sentinels(url, timeout).await;
        }
        let place = place(&[url])?;
        install_tls_provider();
        // The manager reconnects once per attempt; `send` does the retries.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let connect = async { ConnectionManager::new_with_config(Client::open(url)?, config).await };
        let connection = connect.await.map_err(|error| connection_error(&place, error))?;
        Ok(RedisConnection {
            connection: Connection::One(connection),
            place,
            timeout,
            replicas: 0,
            is_down: AtomicBool::new(false),
        })
    }

    async fn to_sentinels(url: &str, timeout: Duration) -> Result<RedisConnection, StoreError> {
        let url = SentinelUrl::parse(url).map_err(|problem| invalid_url(&problem))?;
        let sentinels: Vec<String> =
            url.sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect();
        let place = format!("redis master `{}` of the sentinels at {}", url.master, sentinels.join(", "));
        install_tls_provider();
        let connecting = SentinelConnection::connect(url, timeout);
        let connection = match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(RequestFailure::Redis(error))) => return Err(connection_error(&place, error)),
            Ok(Err(RequestFailure::Refused(problem))) => return Err(StoreError::Refused { place, problem }),
            Ok(Err(RequestFailure::NoMaster(problem) | RequestFailure::Moved(problem))) => {
                return Err(StoreError::Unavailable { place, problem });
            }
            Err(_) => {
                let problem = format!("no response within {timeout:?}");
                return Err(StoreError::Unavailable { place, problem });
            }
        };
        Ok(RedisConnection {
            connection: Connection::Sentinel(Arc::new(connection)),
            place,
            timeout,
            replicas: 0,
            is_down: AtomicBool::new(false),
        })
    }

    pub(super) async fn to_cluster(urls: &[&str], timeout: Duration) -> Result<RedisConnection, StoreError> {
        if urls.iter().any(|url| is_sentinel_url(url)) {
            let problem =
                "a URL of sentinels cannot be in an array; write one URL with the addresses of all sentinels";
            return Err(invalid_url(problem));
        }
        let place = place(urls)?;
        install_tls_provider();
        let connect = async {
            let client = ClusterClient::builder(urls.iter().copied())
                .connection_timeout(timeout)
                .response_timeout(timeout)
                .build()?;
            client.get_async_connection().await
        };
        let connection = connect.await.map_err(|error| connection_error(&place, error))?;
        Ok(RedisConnection {
            connection: Connection::Cluster(connection),
            place,
            timeout,
            replicas: 0,
            is_down: AtomicBool::new(false),
        })
    }

    /// Makes each write wait until this number of replicas has confirmed it.
    pub(super) fn with_replicas(self, replicas: u32) -> RedisConnection {
        RedisConnection { replicas, ..self }
    }

    /// Sends a request, and retries while the server is unavailable, until the timeout. Writes must therefore
    /// be safe to repeat.
    pub(super) async fn send<T: FromRedisValue>(
        &self,
        access: Access,
        request: Request<'_>,
    ) -> Result<T, StoreError> {
        let is_down = self.is_down.load(Ordering::Relaxed);
        let while_down = match &self.connection {
            Connection::Sentinel(_) => SENTINEL_TIMEOUT_WHILE_DOWN,
            _ => TIMEOUT_WHILE_DOWN,
        };
        let timeout = if is_down { self.timeout.min(while_down) } else { self.timeout };
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        let mut may_have_run = false;
        let replicas = if access == Access::Writes { self.replicas } else { 0 };
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let problem = match tokio::time::timeout(left, self.attempt(&request, replicas)).await {
                Ok(Ok(value)) => {
                    self.is_down.store(false, Ordering::Relaxed);
                    return Ok(value);
                }
                Ok(Err(RequestFailure::Redis(error))) if is_temporary(&error) => {
                    may_have_run |= error.is_io_error() && !error.is_connection_refusal();
                    may_have_run |= error.code() == Some("UNBLOCKED");
                    error.to_string()
                }
                Ok(Err(RequestFailure::Redis(error))) => return Err(self.explain(&error)),
                Ok(Err(RequestFailure::Refused(problem))) => {
                    return Err(StoreError::Refused { place: self.place.clone(), problem });
                }
                Ok(Err(RequestFailure::NoMaster(problem))) => problem,
                Ok(Err(RequestFailure::Moved(problem))) => {
                    may_have_run = true;
                    problem
                }
                Err(_) => {
                    may_have_run = true;
                    format!("no response within {timeout:?}")
                }
            };
            if start.elapsed() + pause >= timeout {
                self.is_down.store(true, Ordering::Relaxed);
                let place = self.place.clone();
                return Err(if may_have_run && access == Access::Writes {
                    StoreError::OutcomeUnknown { place, problem }
                } else {
                    StoreError::Unavailable { place, problem }
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn attempt<T: FromRedisValue>(
        &self,
        request: &Request<'_>,
        replicas: u32,
    ) -> Result<T, RequestFailure> {
        let link = match &self.connection {
            Connection::One(connection) => Link::One(connection.clone()),
            Connection::Cluster(connection) => Link::Cluster(connection.clone()),
            Connection::Sentinel(connection) => return connection.send(request, replicas).await,
        };
        request.send_to(&mut ReplicatedConnection { link, replicas }).await.map_err(RequestFailure::Redis)
    }

    fn explain(&self, error: &RedisError) -> StoreError {
        let place = self.place.clone();
        let problem = error.to_string();
        match error.code() {
            Some("OOM") => StoreError::Full { place },
            Some("WRONGTYPE") => StoreError::Foreign { place, problem },
            // The response does not have the format that our scripts return.
            None if error.kind() == ErrorKind::UnexpectedReturnType => StoreError::Damaged { place, problem },
            _ => StoreError::Refused { place, problem },
        }
    }
}

impl Request<'_> {
    pub(super) async fn send_to<T: FromRedisValue>(
        &self,
        connection: &mut ReplicatedConnection,
    ) -> RedisResult<T> {
        match self {
            Request::Command(command) => command.query_async(connection).await,
            Request::Script(script) => script.invoke_async(connection).await,
        }
    }
}

/// Whether a retry may succeed: the connection broke, or the server is starting or failing over.
pub(super) fn is_temporary(error: &RedisError) -> bool {
    // After a failover, the new master may refuse writes until it has replicas (`min-replicas-to-write`).
    // A master that becomes a replica ends a waiting `WAIT` with `UNBLOCKED`.
    matches!(error.code(), Some("NOREPLICAS" | "UNBLOCKED"))
        || !matches!(error.retry_method(), RetryMethod::NoRetry)
            && !matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::UnexpectedReturnType)
}

/// Returns the error for an invalid URL. The URL itself is left out, because it may contain a password.
fn invalid_url(problem: &str) -> StoreError {
    StoreError::Refused { place: "redis".to_owned(), problem: format!("invalid URL: {problem}") }
}

fn connection_error(place: &str, error: RedisError) -> StoreError {
    let (place, problem) = (place.to_owned(), error.to_string());
    match error.kind() {
        // The parser's message is not used, because it quotes the bytes of the response.
        ErrorKind::Parse => {
            StoreError::Foreign { place, problem: "it does not respond like a Redis server".to_owned() }
        }
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => StoreError::Unavailable { place, problem },
        _ => StoreError::Refused { place, problem },
    }
}

/// Returns the addresses of the servers, without user and password.
fn place(urls: &[&str]) -> Result<String, StoreError> {
    let addresses: Result<Vec<String>, StoreError> = urls
        .iter()
        .map(|url| match url.into_connection_info() {
            Ok(info) => Ok(format!("redis at {}", info.addr())),
            Err(error) => Err(invalid_url(&error.to_string())),
        })
        .collect();
    Ok(addresses?.join(", "))
}
