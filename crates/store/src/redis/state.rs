//! The state of a gateway's clients in Redis.
//!
//! | key | type | contents |
//! |---|---|---|
//! | `PREFIX:{OWNER:ID}:state` | string | a document; expires with it |
//! | `PREFIX:{OWNER:ID}:claim` | string | the holder of a claim; expires with it |
//! | `PREFIX:{OWNER:ID}:log` | list | the entries of a log; expires with it |
//! | `PREFIX:unfinished` | sorted set | the list of unfinished work: `OWNER:ID`, and when it is due |
//!
//! In a cluster, the list and the documents are in different slots, so they are not written together.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{Cmd, Script, cmd};
use futures_core::future::BoxFuture;
use toolwire_contract::conversations::StoreError;
use toolwire_contract::state::{Claim, HeldWrite, StateKey, StateStore};

use super::Redis;
use super::connection::{Access, Request};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("claim.lua")));
static WRITE_HELD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("write_held.lua")));
static SCHEDULE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("schedule.lua")));
static DUE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("due.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("release.lua")));

fn milliseconds(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 50)
}

impl Redis {
    fn state_key(&self, key: &StateKey, part: &str) -> String {
        format!("{}:{{{key}}}:{part}", self.options.prefix)
    }

    fn state_command(&self, name: &str, key: &StateKey) -> Cmd {
        let mut command = cmd(name);
        command.arg(self.state_key(key, "state"));
        command
    }

    fn unfinished(&self) -> String {
        format!("{}:unfinished", self.options.prefix)
    }
}

impl StateStore for Redis {
    fn put<'a>(
        &'a self,
        key: &'a StateKey,
        content: String,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut command = self.state_command("SET", key);
        command.arg(content).arg("PX").arg(milliseconds(lifetime));
        Box::pin(self.connection.send(Access::Writes, Request::Command(command)))
    }

    fn get<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let command = self.state_command("GET", key);
        Box::pin(self.connection.send(Access::Reads, Request::Command(command)))
    }

    fn remove<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let mut log = cmd("DEL");
            log.arg(self.state_key(key, "log"));
            let _: u64 = self.connection.send(Access::Writes, Request::Command(log)).await?;
            let command = self.state_command("DEL", key);
            self.connection.send(Access::Writes, Request::Command(command)).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let mut script = CLAIM.key(self.state_key(&claim.key, "claim"));
            script.arg(&claim.holder).arg(milliseconds(claim.lifetime));
            self.connection.send(Access::Writes, Request::Script(script)).await
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut script = RELEASE.key(self.state_key(&claim.key, "claim"));
            script.arg(&claim.holder);
            let _: u64 = self.connection.send(Access::Writes, Request::Script(script)).await?;
            Ok(())
        })
    }

    fn seize<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut command = cmd("SET");
        command.arg(self.state_key(&claim.key, "claim")).arg(&claim.holder);
        command.arg("PX").arg(milliseconds(claim.lifetime));
        Box::pin(self.connection.send(Access::Writes, Request::Command(command)))
    }

    fn write_held<'a>(
        &'a self,
        claim: &'a Claim,
        write: HeldWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let key = |part: &str| self.state_key(&claim.key, part);
            let mut script = WRITE_HELD.key(key("claim"));
            script.key(key("state")).key(key("log"));
            script.arg(&claim.holder).arg(milliseconds(claim.lifetime));
            // An empty text leaves the document as it is: a document is JSON.
            script.arg(write.document.unwrap_or_default()).arg(milliseconds(write.lifetime));
            script.arg(write.position).arg(milliseconds(write.log_lifetime)).arg(write.entries);
            self.connection.send(Access::Writes, Request::Script(script)).await
        })
    }

    fn log<'a>(
        &'a self,
        key: &'a StateKey,
        position: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            if limit == 0 {
                return Ok(Vec::new());
            }
            let mut command = cmd("LRANGE");
            command.arg(self.state_key(key, "log")).arg(position).arg(position.saturating_add(limit - 1));
            self.connection.send(Access::Reads, Request::Command(command)).await
        })
    }

    fn schedule<'a>(&'a self, key: &'a StateKey, after: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut script = SCHEDULE.key(self.unfinished());
            script.arg(key.to_string()).arg(milliseconds(after));
            let _: u64 = self.connection.send(Access::Writes, Request::Script(script)).await?;
            Ok(())
        })
    }

    fn unschedule<'a>(&'a self, key: &'a StateKey) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut command = cmd("ZREM");
            command.arg(self.unfinished()).arg(key.to_string());
            let _: u64 = self.connection.send(Access::Writes, Request::Command(command)).await?;
            Ok(())
        })
    }

    fn due(&self, limit: u64) -> BoxFuture<'_, Result<Vec<StateKey>, StoreError>> {
        Box::pin(async move {
            let mut script = DUE.key(self.unfinished());
            script.arg(limit);
            let members: Vec<String> = self.connection.send(Access::Reads, Request::Script(script)).await?;
            // An entry that is not a key must not keep the others from being continued.
            let key = |member: String| {
                let (owner, id) = member.split_once(':')?;
                StateKey::new(owner, id).ok()
            };
            Ok(members.into_iter().filter_map(key).collect())
        })
    }
}
