//! Conversations in Redis: for many processes on many machines.
//!
//! Conversations are changed by scripts, which Redis runs one at a time: sequence numbers have no gaps, and
//! concurrent writers never lose or reorder a message. An operation that is repeated after a broken
//! connection takes effect once.
//!
//! The durability of an **acknowledged** message depends on the server. With `appendonly yes` and
//! `appendfsync always`, it is on the server's disk. With `everysec`, a crash may lose the last second.
//! Without persistence, a restart loses everything, and a replica that takes over may lack the last messages.
//! Set `maxmemory-policy noeviction`: other policies delete conversations.
//!
//! The list of conversations is a separate key, in another slot of a cluster, and is written after the
//! conversation. If a process dies in between, the conversation may be too far down in the list until its
//! next message. The set of the forks of a conversation is written in the same way, so a fork may be missing
//! in it.
//!
//! A search reads conversations, the newest first, until it has enough hits or has read
//! [`RedisOptions::search_messages`];
//! [`SearchResults::is_complete`](toolwire_contract::conversations::SearchResults::is_complete) is false in
//! the second case.

mod connection;
mod format;
mod keys;
mod operations;
mod replicas;
mod sentinel;
mod sentinel_url;
mod state;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{Script, cmd};
use futures::future::try_join_all;
use toolwire_contract::conversations::{
    Conversation, ConversationId, Cursor, SearchHit, StoreError, Timestamp, Transcript,
};

use crate::clock::random;
use crate::search_text::{self, Query};
use connection::{Access, RedisConnection, Request};
use format::Keys;

static CREATE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/create.lua")));
static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/append.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/load.lua")));
static RENAME: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/rename.lua")));

/// The number of list entries, or messages of a search, that are read at a time.
const BATCH_SIZE: usize = 100;

/// Conversations in Redis.
pub struct Redis {
    connection: RedisConnection,
    options: RedisOptions,
    list: String,
}

/// Options of a Redis store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisOptions {
    /// The prefix of all keys. Braces are not allowed, because they select cluster slots.
    pub prefix: String,
    /// The time for which a conversation is stored after its last message; forever by default.
    pub time_to_live: Option<Duration>,
    /// The maximum wait for the server, including reconnects.
    pub timeout: Duration,
    /// The maximum number of messages that one search reads.
    pub search_messages: usize,
    /// The number of replicas that must confirm a write before it counts as stored; 0 by default.
    pub replicas: u32,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            prefix: "toolwire".to_owned(),
            time_to_live: None,
            timeout: Duration::from_secs(10),
            search_messages: 20_000,
            replicas: 0,
        }
    }
}

impl Redis {
    /// Connects to one server: `redis://`, `rediss://` or `redis+unix://`; or to the master that Redis
    /// Sentinel names: `redis+sentinel://HOST:PORT,HOST:PORT/MASTER` or `rediss+sentinel://`.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Redis, StoreError> {
        let connection = RedisConnection::to_one(url, options.timeout).await?;
        Redis::new(connection.with_replicas(options.replicas), options)
    }

    /// Connects to a cluster by some of its nodes.
    pub async fn connect_cluster(urls: &[&str], options: RedisOptions) -> Result<Redis, StoreError> {
        let connection = RedisConnection::to_cluster(urls, options.timeout).await?;
        Redis::new(connection.with_replicas(options.replicas), options)
    }

    fn new(connection: RedisConnection, options: RedisOptions) -> Result<Redis, StoreError> {
        if options.prefix.contains(['{', '}']) {
            let problem = format!("the prefix `{}` contains a brace", options.prefix);
            return Err(StoreError::Refused { place: connection.place, problem });
        }
        let list = format!("{}:list", options.prefix);
        Ok(Redis { connection, options, list })
    }

    fn keys(&self, id: &ConversationId) -> Keys {
        Keys::new(&self.options.prefix, id)
    }

    /// Returns a random token that identifies one operation, so that a repetition is recognized.
    fn token(&self) -> Result<String, StoreError> {
        Ok(random::<10>(&self.connection.place)?.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn time_to_live(&self) -> u64 {
        // 0 means no expiry, so a shorter time is rounded up to a millisecond.
        let milliseconds = self.options.time_to_live.map(|time| time.as_millis().clamp(1, 1 << 50));
        milliseconds.map_or(0, |milliseconds| milliseconds as u64)
    }

    /// Creates a conversation, by default with the server's time.
    async fn create(
        &self,
        transcript: Transcript,
        times: Option<(Timestamp, Timestamp)>,
    ) -> Result<Conversation, StoreError> {
        let Transcript { mut conversation, entries } = transcript;
        let keys = self.keys(&conversation.id);
        let text = |time: Option<Timestamp>| time.map_or_else(String::new, |time| time.0.to_string());
        let fields = format::write_head(&conversation);
        let mut script = CREATE.key(keys.head);
        script.key(keys.entries).arg(self.token()?).arg(self.time_to_live());
        script.arg(text(times.map(|times| times.0))).arg(text(times.map(|times| times.1)));
        // Never earlier than its last entry, even if the server's clock was set back.
        script.arg(entries.last().map_or(0, |entry| entry.time.0)).arg(fields.len());
        for (name, value) in fields {
            script.arg(name).arg(value);
        }
        for entry in entries {
            script.arg(format::write_entry(entry, &self.connection.place)?);
        }
        let response: Vec<String> = self.connection.send(Access::Writes, Request::Script(script)).await?;
        match response.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["done", created, changed] => {
                conversation.created = Timestamp(self.number(created)?);
                conversation.changed = Timestamp(self.number(changed)?);
            }
            _ => return Err(StoreError::Exists { conversation: conversation.id }),
        }
        self.update_list(&conversation.id, conversation.changed).await.map_err(after_writing)?;
        self.add_to_forks(&conversation).await.map_err(after_writing)?;
        if self.options.time_to_live.is_some() {
            // The conversation exists, so an error here is ignored.
            let _ = self.remove_expired_from_list().await;
        }
        Ok(conversation)
    }

    async fn update_list(&self, id: &ConversationId, changed: Timestamp) -> Result<(), StoreError> {
        // `GT`, because another writer may already have stored a later message.
        let mut command = cmd("ZADD");
        command.arg(&self.list).arg("GT").arg(changed.0).arg(id.as_str());
        self.connection.send(Access::Writes, Request::Command(command)).await
    }

    async fn head(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let mut command = cmd("HGETALL");
        command.arg(self.keys(id).head);
        let fields: HashMap<String, String> =
            self.connection.send(Access::Reads, Request::Command(command)).await?;
        format::read_head(id.clone(), fields, &self.connection.place)
    }

    /// Reads the head and a range of entries atomically.
    async fn range(
        &self,
        id: &ConversationId,
        first: u64,
        last: i64,
    ) -> Result<(Conversation, Vec<String>), StoreError> {
        let keys = self.keys(id);
        let mut script = LOAD.key(keys.head);
        // Redis uses signed indexes.
        script.key(keys.entries).arg(first.min(i64::MAX as u64)).arg(last);
        let (fields, texts): (HashMap<String, String>, Vec<String>) =
            self.connection.send(Access::Reads, Request::Script(script)).await?;
        match format::read_head(id.clone(), fields, &self.connection.place)? {
            Some(conversation) => Ok((conversation, texts)),
            None => Err(unknown(id)),
        }
    }

    async fn load_after(&self, id: &ConversationId, after: u64) -> Result<Transcript, StoreError> {
        let (conversation, texts) = self.range(id, after, -1).await?;
        format::read_transcript(conversation, &texts, after, u64::MAX, &self.connection.place)
    }

    async fn load_at_most(
        &self,
        id: &ConversationId,
        after: u64,
        limit: u64,
    ) -> Result<Transcript, StoreError> {
        if limit == 0 {
            let conversation = self.head(id).await?.ok_or_else(|| unknown(id))?;
            return Ok(Transcript { conversation, entries: Vec::new() });
        }
        let last = i64::try_from(after.saturating_add(limit - 1)).unwrap_or(i64::MAX);
        let (conversation, texts) = self.range(id, after, last).await?;
        format::read_transcript(conversation, &texts, after, limit, &self.connection.place)
    }

    /// Adds a conversation to the forks of its parent. With a time to live, the set expires this long after
    /// the last fork was made.
    async fn add_to_forks(&self, fork: &Conversation) -> Result<(), StoreError> {
        let Some(parent) = &fork.parent else { return Ok(()) };
        let forks = self.keys(&parent.conversation).forks;
        let mut command = cmd("SADD");
        command.arg(&forks).arg(fork.id.as_str());
        let _: () = self.connection.send(Access::Writes, Request::Command(command)).await?;
        if self.options.time_to_live.is_some() {
            let mut command = cmd("PEXPIRE");
            command.arg(&forks).arg(self.time_to_live());
            let _: () = self.connection.send(Access::Writes, Request::Command(command)).await?;
        }
        Ok(())
    }

    async fn remove_from_forks(
        &self,
        parent: &ConversationId,
        fork: &ConversationId,
    ) -> Result<(), StoreError> {
        let mut command = cmd("SREM");
        command.arg(self.keys(parent).forks).arg(fork.as_str());
        self.connection.send(Access::Writes, Request::Command(command)).await
    }

    async fn forks_of(&self, id: &ConversationId) -> Result<Vec<Conversation>, StoreError> {
        let mut command = cmd("SMEMBERS");
        command.arg(self.keys(id).forks);
        let ids: Vec<String> = self.connection.send(Access::Reads, Request::Command(command)).await?;
        let ids = ids.into_iter().map(|id| self.id(id)).collect::<Result<Vec<_>, StoreError>>()?;
        let heads = try_join_all(ids.iter().map(|id| self.head(id))).await?;
        let mut forks = Vec::new();
        for (fork, head) in ids.iter().zip(heads) {
            match head {
                Some(head) if head.is_fork_of(id) => forks.push(head),
                // Removed or expired.
                _ => self.remove_from_forks(id, fork).await?,
            }
        }
        forks.sort_by(Conversation::by_creation);
        Ok(forks)
    }

    /// Reads the next batch of the list: conversations with the time in the list, and the cursor for the next
    /// batch; `None` at the end. Conversations that no longer exist are removed from the list.
    async fn read_list_batch(
        &self,
        after: Option<&Cursor>,
    ) -> Result<Option<(Vec<(Timestamp, Conversation)>, Cursor)>, StoreError> {
        let from = after.map_or_else(|| "+inf".to_owned(), |cursor| cursor.changed.0.to_string());
        let mut skipped = 0;
        let ids = loop {
            let mut command = cmd("ZREVRANGEBYSCORE");
            command
                .arg(&self.list)
                .arg(&from)
                .arg("-inf")
                .arg("WITHSCORES")
                .arg("LIMIT")
                .arg(skipped)
                .arg(BATCH_SIZE);
            let rows: Vec<(String, f64)> =
                self.connection.send(Access::Reads, Request::Command(command)).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            skipped += rows.len();
            let mut ids = Vec::new();
            for (id, score) in rows {
                let changed = Timestamp(score as u64);
                let id = self.id(id)?;
                // Entries of the same millisecond are sorted by id, in descending order.
                if after.is_none_or(|cursor| (changed, &id) < (cursor.changed, &cursor.id)) {
                    ids.push((changed, id));
                }
            }
            if !ids.is_empty() {
                break ids;
            }
        };
        let heads = try_join_all(ids.iter().map(|(_, id)| self.head(id))).await?;
        let mut batch = Vec::new();
        let mut next = None;
        for ((changed, id), head) in ids.into_iter().zip(heads) {
            match head {
                Some(conversation) => batch.push((changed, conversation)),
                None => self.remove_from_list(&id).await?,
            }
            next = Some(Cursor { changed, id });
        }
        Ok(next.map(|next| (batch, next)))
    }

    /// Checks the oldest entries of the list, so that it does not grow forever when conversations expire and
    /// the list is never read.
    async fn remove_expired_from_list(&self) -> Result<(), StoreError> {
        let mut command = cmd("ZRANGE");
        command.arg(&self.list).arg(0).arg(3);
        let ids: Vec<String> = self.connection.send(Access::Reads, Request::Command(command)).await?;
        for id in ids {
            let id = self.id(id)?;
            if self.head(&id).await?.is_none() {
                self.remove_from_list(&id).await?;
            }
        }
        Ok(())
    }

    async fn remove_from_list(&self, id: &ConversationId) -> Result<(), StoreError> {
        let mut command = cmd("ZREM");
        command.arg(&self.list).arg(id.as_str());
        let _: () = self.connection.send(Access::Writes, Request::Command(command)).await?;
        // It may have been imported again in the meantime.
        if let Some(conversation) = self.head(id).await? {
            self.update_list(id, conversation.changed).await?;
        }
        Ok(())
    }

    /// Searches one conversation from its end. Returns the hits and the number of messages read.
    async fn search_one(
        &self,
        conversation: &Conversation,
        query: &Query,
        max_hits: usize,
        max_messages: usize,
    ) -> Result<(Vec<SearchHit>, usize), StoreError> {
        let mut hits = Vec::new();
        let mut seen = 0;
        let mut end = conversation.messages;
        while end > 0 && hits.len() < max_hits && seen < max_messages {
            let size = BATCH_SIZE.min(max_messages - seen) as u64;
            let start = end.saturating_sub(size);
            let texts = match self.range(&conversation.id, start, end as i64 - 1).await {
                Ok((_, texts)) => texts,
                // Removed in the meantime.
                Err(StoreError::UnknownConversation { .. }) => return Ok((Vec::new(), seen)),
                Err(error) => return Err(error),
            };
            for (index, text) in texts.iter().enumerate().rev() {
                seen += 1;
                let sequence = start + 1 + index as u64;
                let entry = format::read_entry(text, sequence, &self.connection.place)?;
                if let Some(snippet) = query.find(&search_text::searchable_text(&entry.message)) {
                    hits.push(SearchHit {
                        conversation: conversation.id.clone(),
                        title: conversation.title.clone(),
                        sequence,
                        time: entry.time,
                        role: entry.message.role,
                        snippet,
                    });
                }
            }
            end = start;
        }
        hits.truncate(max_hits);
        Ok((hits, seen))
    }

    fn id(&self, text: String) -> Result<ConversationId, StoreError> {
        ConversationId::try_from(text).map_err(|error| StoreError::Damaged {
            place: self.connection.place.clone(),
            problem: error.to_string(),
        })
    }

    fn number(&self, text: &str) -> Result<u64, StoreError> {
        text.parse().map_err(|_| StoreError::Damaged {
            place: self.connection.place.clone(),
            problem: format!("expected a number, found `{text}`"),
        })
    }
}

/// Converts an error after a partial write: the first part may already be visible to others.
fn after_writing(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { place, problem } => StoreError::OutcomeUnknown { place, problem },
        other => other,
    }
}

fn unknown(id: &ConversationId) -> StoreError {
    StoreError::UnknownConversation { conversation: id.clone() }
}
