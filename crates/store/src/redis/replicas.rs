//! Writes that count as stored only when replicas have confirmed them.
//!
//! Redis confirms a write before its replicas have it, so a replica that takes over from a failed master may
//! lack the write. `WAIT` blocks the connection until replicas have confirmed everything that was written
//! over it.
//!
//! If the connection breaks between a write and its `WAIT`, the cluster client may send `WAIT` over a new
//! connection. Nothing was written over that one, so Redis responds at once. The write is then confirmed by
//! its master, but perhaps not by replicas.

use std::io;
use std::time::Duration;

use ::redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use ::redis::{Arg, Cmd, FromRedisValue as _, Pipeline, RedisFuture, RedisResult, Value, cmd};

/// The time that replicas have to confirm a write. Meanwhile, other requests over the same connection wait
/// too.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);

/// The connection of one attempt to send a request.
pub(super) enum Link {
    One(ConnectionManager),
    Cluster(ClusterConnection),
    /// The master that sentinels have named.
    Master(MultiplexedConnection),
}

/// A connection that waits for replicas after each command.
pub(super) struct ReplicatedConnection {
    pub(super) link: Link,
    /// The number of replicas; 0 does not wait.
    pub(super) replicas: u32,
}

impl ReplicatedConnection {
    /// Waits until replicas of the server that has executed a command have confirmed it.
    async fn wait_after(&mut self, command: &Cmd) -> RedisResult<()> {
        let mut wait = cmd("WAIT");
        wait.arg(self.replicas).arg(REPLICA_TIMEOUT.as_millis() as u64);
        let confirmed = match &mut self.link {
            Link::One(connection) => connection.req_packed_command(&wait).await?,
            Link::Master(connection) => connection.req_packed_command(&wait).await?,
            Link::Cluster(connection) => {
                // A command without a key changes no data: it loads a script.
                let Some(key) = key_of(command) else { return Ok(()) };
                let master = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                connection.route_command(wait, RoutingInfo::SingleNode(master)).await?
            }
        };
        let confirmed = u32::from_redis_value(confirmed)?;
        if confirmed < self.replicas {
            let problem = format!("{confirmed} of {} replicas have confirmed a write", self.replicas);
            // Reported like a broken connection: the write may have taken effect, and can be repeated.
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem).into());
        }
        Ok(())
    }
}

impl ConnectionLike for ReplicatedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let response = self.link.req_packed_command(command).await?;
            if self.replicas > 0 {
                self.wait_after(command).await?;
            }
            Ok(response)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.link.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.link.get_db()
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Link::One(connection) => connection.req_packed_command(command),
            Link::Cluster(connection) => connection.req_packed_command(command),
            Link::Master(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Link::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Link::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
            Link::Master(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Link::One(connection) => connection.get_db(),
            Link::Cluster(connection) => connection.get_db(),
            Link::Master(connection) => connection.get_db(),
        }
    }
}

/// Returns the first key of a command.
fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    match words.next()? {
        b"SCRIPT" => None,
        // The hash of the script and the number of keys come first.
        b"EVALSHA" => words.nth(2),
        _ => words.next(),
    }
}
