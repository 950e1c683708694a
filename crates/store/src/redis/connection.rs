//! The connection to a Redis server or cluster, with reconnects and retries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, RedisFuture,
    RedisResult, RetryMethod, ScriptInvocation, Value,
};
use tokio::time::Instant;
use toolwire_contract::conversations::StoreError;

use super::replicas::ReplicatedConnection;

/// The time that a request waits for a server that did not respond to the previous one.
const TIMEOUT_WHILE_DOWN: Duration = Duration::from_millis(500);

/// One multiplexed connection for all callers, or one per cluster node.
#[derive(Clone)]
pub(super) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
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

    pub(super) async fn to_cluster(urls: &[&str], timeout: Duration) -> Result<RedisConnection, StoreError> {
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

    /// Has each write wait until this number of replicas have it.
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
        let timeout = if is_down { self.timeout.min(TIMEOUT_WHILE_DOWN) } else { self.timeout };
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        let mut may_have_run = false;
        let replicas = if access == Access::Writes { self.replicas } else { 0 };
        loop {
            let mut connection = ReplicatedConnection { connection: self.connection.clone(), replicas };
            let left = timeout.saturating_sub(start.elapsed());
            let problem = match tokio::time::timeout(left, request.send_to(&mut connection)).await {
                Ok(Ok(value)) => {
                    self.is_down.store(false, Ordering::Relaxed);
                    return Ok(value);
                }
                Ok(Err(error)) if is_temporary(&error) => {
                    may_have_run |= error.is_io_error() && !error.is_connection_refusal();
                    error.to_string()
                }
                Ok(Err(error)) => return Err(self.explain(&error)),
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
    async fn send_to<T: FromRedisValue>(&self, connection: &mut ReplicatedConnection) -> RedisResult<T> {
        match self {
            Request::Command(command) => command.query_async(connection).await,
            Request::Script(script) => script.invoke_async(connection).await,
        }
    }
}

/// Whether a retry may succeed: the connection broke, or the server is starting or failing over.
fn is_temporary(error: &RedisError) -> bool {
    !matches!(error.retry_method(), RetryMethod::NoRetry)
        && !matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::UnexpectedReturnType)
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
            // The URL itself is left out, because it may contain a password.
            Err(error) => Err(StoreError::Refused {
                place: "redis".to_owned(),
                problem: format!("invalid URL: {error}"),
            }),
        })
        .collect();
    Ok(addresses?.join(", "))
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Connection::One(connection) => connection.req_packed_command(command),
            Connection::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Connection::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Connection::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Connection::One(connection) => connection.get_db(),
            Connection::Cluster(connection) => connection.get_db(),
        }
    }
}
