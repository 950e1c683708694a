//! The way to the server: one connection or a cluster's, made again when it breaks.

use std::time::{Duration, Instant};

use ::redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, RedisFuture,
    RedisResult, RetryMethod, ScriptInvocation, Value,
};
use toolwire_contract::StoreError;

/// One multiplexed connection for all callers, or one for each node.
#[derive(Clone)]
enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

pub(super) struct Link {
    connection: Connection,
    /// Without user and password.
    pub(super) place: String,
    patience: Duration,
}

/// What is asked of the server.
pub(super) enum Request<'a> {
    Command(Cmd),
    Script(ScriptInvocation<'a>),
}

/// Whether what is asked changes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Reads,
    Writes,
}

impl Link {
    pub(super) async fn to_one(url: &str, patience: Duration) -> Result<Link, StoreError> {
        let place = place(&[url])?;
        // The manager makes the connection anew, once for each of our attempts.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(patience))
            .set_response_timeout(Some(patience));
        let connect = async { ConnectionManager::new_with_config(Client::open(url)?, config).await };
        let connection = connect.await.map_err(|error| not_there(&place, error))?;
        Ok(Link { connection: Connection::One(connection), place, patience })
    }

    pub(super) async fn to_cluster(urls: &[&str], patience: Duration) -> Result<Link, StoreError> {
        let place = place(urls)?;
        let connect = async {
            let client = ClusterClient::builder(urls.iter().copied())
                .connection_timeout(patience)
                .response_timeout(patience)
                .build()?;
            client.get_async_connection().await
        };
        let connection = connect.await.map_err(|error| not_there(&place, error))?;
        Ok(Link { connection: Connection::Cluster(connection), place, patience })
    }

    /// Asks, and asks again while the server is away, until the patience is at its end. What writes must therefore bear
    /// to be asked twice.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        access: Access,
        request: Request<'_>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(20);
        let mut may_be_done = false;
        loop {
            let mut connection = self.connection.clone();
            let left = self.patience.saturating_sub(began.elapsed());
            let problem = match tokio::time::timeout(left, request.send(&mut connection)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) if may_pass(&error) => {
                    may_be_done |= error.is_io_error() && !error.is_connection_refusal();
                    error.to_string()
                }
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => {
                    may_be_done = true;
                    format!("no answer within {:?}", self.patience)
                }
            };
            if began.elapsed() + pause >= self.patience {
                let place = self.place.clone();
                return Err(if may_be_done && access == Access::Writes {
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
            // What came back is not what our scripts give.
            None if error.kind() == ErrorKind::UnexpectedReturnType => StoreError::Damaged { place, problem },
            _ => StoreError::Refused { place, problem },
        }
    }
}

impl Request<'_> {
    async fn send<T: FromRedisValue>(&self, connection: &mut Connection) -> RedisResult<T> {
        match self {
            Request::Command(command) => command.query_async(connection).await,
            Request::Script(script) => script.invoke_async(connection).await,
        }
    }
}

/// Whether the same may go well in a moment: the connection broke, or the server is starting or changing its master.
fn may_pass(error: &RedisError) -> bool {
    !matches!(error.retry_method(), RetryMethod::NoRetry)
        && !matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::UnexpectedReturnType)
}

fn not_there(place: &str, error: RedisError) -> StoreError {
    let (place, problem) = (place.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => StoreError::Unavailable { place, problem },
        _ => StoreError::Refused { place, problem },
    }
}

/// Where the servers are, without what the addresses hold of user and password.
fn place(urls: &[&str]) -> Result<String, StoreError> {
    let addresses: Result<Vec<String>, StoreError> = urls
        .iter()
        .map(|url| match url.into_connection_info() {
            Ok(info) => Ok(format!("redis at {}", info.addr())),
            // The address itself stays out: it may hold a password.
            Err(error) => Err(StoreError::Refused {
                place: "redis".to_owned(),
                problem: format!("its address cannot be read: {error}"),
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
