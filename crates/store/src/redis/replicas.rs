//! Writes that count as stored when replicas have them.
//!
//! Redis confirms a write before its replicas have it, so a replica that takes over from a failed master may not know
//! it. `WAIT` blocks the connection until replicas have confirmed everything that was written over it.
//!
//! If the connection breaks before `WAIT`, the client of a cluster may send it over a new one, over which nothing was
//! written. It is then confirmed at once; the write itself was, so its server has it in its log.

use std::io;
use std::time::Duration;

use ::redis::aio::ConnectionLike;
use ::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use ::redis::{Arg, Cmd, FromRedisValue as _, Pipeline, RedisFuture, RedisResult, Value, cmd};

use super::connection::Connection;

/// The time that replicas have to confirm a write. Other requests over the same connection wait as long.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that waits for replicas after each command.
pub(super) struct ReplicatedConnection {
    pub(super) connection: Connection,
    /// The number of replicas; 0 does not wait.
    pub(super) replicas: u32,
}

impl ReplicatedConnection {
    /// Waits until replicas of the server that has executed a command have confirmed it.
    async fn wait_after(&mut self, command: &Cmd) -> RedisResult<()> {
        let mut wait = cmd("WAIT");
        wait.arg(self.replicas).arg(REPLICA_TIMEOUT.as_millis() as u64);
        let confirmed = match &mut self.connection {
            Connection::One(connection) => connection.req_packed_command(&wait).await?,
            Connection::Cluster(connection) => {
                // Without a key, it changes no data: a script is loaded.
                let Some(key) = key_of(command) else { return Ok(()) };
                let master = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                connection.route_command(wait, RoutingInfo::SingleNode(master)).await?
            }
        };
        let confirmed = u32::from_redis_value(confirmed)?;
        if confirmed < self.replicas {
            let problem = format!("{confirmed} of {} replicas have confirmed a write", self.replicas);
            // Like a broken connection: the write may have an effect, and can be repeated.
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem).into());
        }
        Ok(())
    }
}

impl ConnectionLike for ReplicatedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let response = self.connection.req_packed_command(command).await?;
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
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
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
