//! The keys of a gateway's clients in Redis, and their usage.
//!
//! | key | type | contents |
//! |---|---|---|
//! | `PREFIX:{keys}:records` | hash | the JSON of each key, by id |
//! | `PREFIX:{keys}:revoked` | hash | the times of revocations, by id |
//! | `PREFIX:{OWNER}:minute` | hash | `start`, `requests` and `tokens` of the current minute; expires with it |
//! | `PREFIX:{OWNER}:reserved` | sorted set | `ID:MONTH:TOKENS` of running requests by the time when they expire |
//! | `PREFIX:{OWNER}:used` | hash | the tokens of each month |
//! | `PREFIX:{OWNER}:settled:ID` | string | a request whose usage was stored in the last ten minutes |

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{Script, cmd};
use futures_core::future::BoxFuture;
use toolwire_contract::conversations::{StoreError, Timestamp};
use toolwire_contract::keys::{KeyId, KeyRecord, KeyTable, LimitReached, Minute, Reservation, UsageCounter};

use super::Redis;
use super::connection::{Access, Request};
use crate::key_json::{from_json, to_json};

static FIND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("find_keys.lua")));
static REVOKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("revoke_key.lua")));
static RESERVE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("reserve.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("settle.lua")));

impl Redis {
    fn records(&self) -> String {
        format!("{}:{{keys}}:records", self.options.prefix)
    }

    fn revoked(&self) -> String {
        format!("{}:{{keys}}:revoked", self.options.prefix)
    }

    /// Returns the Redis key for the usage of a client's key.
    fn usage_key(&self, owner: &str, part: &str) -> Result<String, StoreError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if owner.is_empty() || owner.len() > 128 || !owner.bytes().all(is_plain) {
            let problem = "the owner of a reservation has other characters than letters, digits, `_` and `-`";
            let place = self.connection.place.clone();
            return Err(StoreError::Refused { place, problem: problem.to_owned() });
        }
        Ok(format!("{}:{{{owner}}}:{part}", self.options.prefix))
    }

    /// Reads one key, or all of them.
    async fn find_keys(&self, id: Option<&KeyId>) -> Result<Vec<KeyRecord>, StoreError> {
        let mut script = FIND.key(self.records());
        script.key(self.revoked()).arg(id.map_or("", KeyId::as_str));
        let rows: Vec<(String, String)> =
            self.connection.send(Access::Reads, Request::Script(script)).await?;
        rows.into_iter().map(|(record, revoked)| self.read_key(&record, &revoked)).collect()
    }

    fn read_key(&self, record: &str, revoked: &str) -> Result<KeyRecord, StoreError> {
        let damaged = |problem| StoreError::Damaged { place: self.connection.place.clone(), problem };
        let key = from_json(record).map_err(damaged)?;
        let revoked = match revoked {
            "" => None,
            time => Some(Timestamp(self.number(time)?)),
        };
        Ok(KeyRecord { revoked, ..key })
    }

    fn damaged_response(&self) -> StoreError {
        let problem = "unexpected response of a script".to_owned();
        StoreError::Damaged { place: self.connection.place.clone(), problem }
    }
}

impl KeyTable for Redis {
    fn add(&self, key: KeyRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let record = to_json(&key);
            let mut command = cmd("HSETNX");
            command.arg(self.records()).arg(key.id.as_str()).arg(&record);
            let is_new: bool = self.connection.send(Access::Writes, Request::Command(command)).await?;
            // The command may have been repeated after a broken connection.
            let found = match is_new {
                true => return Ok(true),
                false => self.find_keys(Some(&key.id)).await?.pop(),
            };
            Ok(found.is_some_and(|found| to_json(&found) == record))
        })
    }

    fn find<'a>(&'a self, id: &'a KeyId) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        Box::pin(async move { Ok(self.find_keys(Some(id)).await?.pop()) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        Box::pin(async move {
            let mut keys = self.find_keys(None).await?;
            keys.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
            Ok(keys)
        })
    }

    fn revoke<'a>(
        &'a self,
        id: &'a KeyId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeyRecord>, StoreError>> {
        Box::pin(async move {
            let mut script = REVOKE.key(self.records());
            script.key(self.revoked()).arg(id.as_str()).arg(at.0);
            let rows: Vec<(String, String)> =
                self.connection.send(Access::Writes, Request::Script(script)).await?;
            rows.first().map(|(record, revoked)| self.read_key(record, revoked)).transpose()
        })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let mut command = cmd("HLEN");
            command.arg(self.records());
            self.connection.send(Access::Reads, Request::Command(command)).await
        })
    }
}

/// Formats a limit as an argument of a script; empty means no limit.
fn limit_argument(limit: Option<u64>) -> String {
    limit.map_or_else(String::new, |limit| limit.to_string())
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 50)
}

impl UsageCounter for Redis {
    fn reserve<'a>(
        &'a self,
        reservation: &'a Reservation,
    ) -> BoxFuture<'a, Result<Result<Minute, LimitReached>, StoreError>> {
        Box::pin(async move {
            let Reservation { owner, id, tokens, limit, month, lifetime } = reservation;
            if limit.tokens_per_minute.is_some_and(|maximum| *tokens > maximum) {
                return Ok(Err(LimitReached::TooLarge));
            }
            let mut script = RESERVE.key(self.usage_key(owner, "minute")?);
            script.key(self.usage_key(owner, "reserved")?).key(self.usage_key(owner, "used")?);
            script.arg(id).arg(month).arg(*tokens).arg(milliseconds(*lifetime));
            script.arg(limit_argument(limit.requests_per_minute));
            script.arg(limit_argument(limit.tokens_per_minute));
            script.arg(limit_argument(limit.tokens_per_month));
            let response: (String, u64) =
                self.connection.send(Access::Writes, Request::Script(script)).await?;
            Ok(match (response.0.as_str(), Duration::from_millis(response.1)) {
                ("done", _) => Ok(Minute(response.1)),
                ("requests", left) => Err(LimitReached::Requests(left)),
                ("tokens", left) => Err(LimitReached::Tokens(left)),
                ("budget", _) => Err(LimitReached::Budget),
                _ => return Err(self.damaged_response()),
            })
        })
    }

    fn settle<'a>(
        &'a self,
        reservation: &'a Reservation,
        minute: Minute,
        used: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let Reservation { owner, id, tokens, limit, month, .. } = reservation;
            let mut script = SETTLE.key(self.usage_key(owner, "minute")?);
            script.key(self.usage_key(owner, "reserved")?).key(self.usage_key(owner, "used")?);
            script.key(self.usage_key(owner, &format!("settled:{id}"))?);
            script.arg(id).arg(month).arg(*tokens).arg(minute.0).arg(used);
            script.arg(u8::from(limit.tokens_per_month.is_some()));
            self.connection.send(Access::Writes, Request::Script(script)).await
        })
    }

    fn used<'a>(&'a self, owner: &'a str, month: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let mut command = cmd("HGET");
            command.arg(self.usage_key(owner, "used")?).arg(month);
            let used: Option<u64> = self.connection.send(Access::Reads, Request::Command(command)).await?;
            Ok(used.unwrap_or(0))
        })
    }
}
