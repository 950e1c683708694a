//! Conversations in Redis: for many processes on many machines.
//!
//! Each conversation is changed by scripts, which Redis runs one at a time: sequence numbers have no gaps, and two
//! writers never lose or reorder a message. A call that is sent again after a broken connection is recognised and not
//! done twice.
//!
//! **Acknowledged** means what the server makes of it. With `appendonly yes` and `appendfsync always` a message is on
//! its disk; with `everysec` the last second may be lost when that machine crashes; without persistence a restart loses
//! everything, and a replica that takes over may lack the last messages. Set `maxmemory-policy noeviction`: other
//! policies throw conversations away.
//!
//! The list is a key of its own, in another slot of a cluster, and is written after the conversation. When a process
//! dies between the two, a conversation may stand too far down in the list until its next message.
//!
//! A search reads conversations, the newest first, until it has found enough or has looked at
//! [`RedisOptions::search_messages`]; [`SearchResults::is_complete`](toolwire_contract::SearchResults::is_complete) says which.

mod link;
mod operations;
mod stored;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{Script, cmd};
use futures::future::try_join_all;
use toolwire_contract::{Conversation, ConversationId, Cursor, SearchHit, StoreError, Timestamp, Transcript};

use crate::clock::random;
use crate::words::{self, Query};
use link::{Access, Link, Request};
use stored::Keys;

static CREATE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/create.lua")));
static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/append.lua")));
static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/load.lua")));
static RENAME: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/rename.lua")));

/// How many conversations of the list, and how many messages of a search, are read at a time.
const BATCH: usize = 100;

/// Conversations in Redis.
pub struct Redis {
    link: Link,
    options: RedisOptions,
    list: String,
}

/// How Redis is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// What all keys begin with; without braces, which have a meaning in a cluster.
    pub prefix: String,
    /// How long a conversation is kept after its last message; for good without it.
    pub time_to_live: Option<Duration>,
    /// How long to wait for the server, also while it is away.
    pub patience: Duration,
    /// How many messages one search looks at.
    pub search_messages: usize,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            prefix: "toolwire".to_owned(),
            time_to_live: None,
            patience: Duration::from_secs(10),
            search_messages: 20_000,
        }
    }
}

impl Redis {
    /// Connects to one server: `redis://`, `rediss://` or `redis+unix://`.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Redis, StoreError> {
        Redis::new(Link::to_one(url, options.patience).await?, options)
    }

    /// Connects to a cluster by some of its nodes.
    pub async fn connect_cluster(urls: &[&str], options: RedisOptions) -> Result<Redis, StoreError> {
        Redis::new(Link::to_cluster(urls, options.patience).await?, options)
    }

    fn new(link: Link, options: RedisOptions) -> Result<Redis, StoreError> {
        if options.prefix.contains(['{', '}']) {
            let problem = format!("the prefix `{}` has a brace in it", options.prefix);
            return Err(StoreError::Refused { place: link.place, problem });
        }
        let list = format!("{}:list", options.prefix);
        Ok(Redis { link, options, list })
    }

    fn keys(&self, id: &ConversationId) -> Keys {
        Keys::new(&self.options.prefix, id)
    }

    /// Names one call, so that it is recognised when it comes twice.
    fn token(&self) -> Result<String, StoreError> {
        Ok(random::<10>(&self.link.place)?.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn time_to_live(&self) -> u64 {
        // 0 stands for none, and less than a millisecond is still some.
        let milliseconds = self.options.time_to_live.map(|time| time.as_millis().clamp(1, 1 << 50));
        milliseconds.map_or(0, |milliseconds| milliseconds as u64)
    }

    /// Makes a conversation. Without times of its own, it gets the server's.
    async fn create(
        &self,
        transcript: Transcript,
        times: Option<(Timestamp, Timestamp)>,
    ) -> Result<Conversation, StoreError> {
        let Transcript { mut conversation, entries } = transcript;
        let keys = self.keys(&conversation.id);
        let text = |time: Option<Timestamp>| time.map_or_else(String::new, |time| time.0.to_string());
        let fields = stored::write_head(&conversation);
        let mut script = CREATE.key(keys.head);
        script.key(keys.entries).arg(self.token()?).arg(self.time_to_live());
        script.arg(text(times.map(|times| times.0))).arg(text(times.map(|times| times.1)));
        // Not younger than what it holds, even if the server's clock was set back.
        script.arg(entries.last().map_or(0, |entry| entry.time.0)).arg(fields.len());
        for (name, value) in fields {
            script.arg(name).arg(value);
        }
        for entry in entries {
            script.arg(stored::write_entry(entry, &self.link.place)?);
        }
        let answer: Vec<String> = self.link.ask(Access::Writes, Request::Script(script)).await?;
        match answer.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["done", created, changed] => {
                conversation.created = Timestamp(self.number(created)?);
                conversation.changed = Timestamp(self.number(changed)?);
            }
            _ => return Err(StoreError::Exists { conversation: conversation.id }),
        }
        self.place_in_list(&conversation.id, conversation.changed).await.map_err(after_writing)?;
        if self.options.time_to_live.is_some() {
            // The conversation is made, whatever becomes of this.
            let _ = self.tidy_list().await;
        }
        Ok(conversation)
    }

    async fn place_in_list(&self, id: &ConversationId, changed: Timestamp) -> Result<(), StoreError> {
        // Never back: another writer may have been here with a later message.
        let mut command = cmd("ZADD");
        command.arg(&self.list).arg("GT").arg(changed.0).arg(id.as_str());
        self.link.ask(Access::Writes, Request::Command(command)).await
    }

    async fn head(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let mut command = cmd("HGETALL");
        command.arg(self.keys(id).head);
        let fields: HashMap<String, String> = self.link.ask(Access::Reads, Request::Command(command)).await?;
        stored::read_head(id.clone(), fields, &self.link.place)
    }

    /// The head, and the entries from one index to another, of one moment.
    async fn range(
        &self,
        id: &ConversationId,
        first: u64,
        last: i64,
    ) -> Result<(Conversation, Vec<String>), StoreError> {
        let keys = self.keys(id);
        let mut script = LOAD.key(keys.head);
        // An index is a signed number in Redis.
        script.key(keys.entries).arg(first.min(i64::MAX as u64)).arg(last);
        let (fields, texts): (HashMap<String, String>, Vec<String>) =
            self.link.ask(Access::Reads, Request::Script(script)).await?;
        match stored::read_head(id.clone(), fields, &self.link.place)? {
            Some(conversation) => Ok((conversation, texts)),
            None => Err(unknown(id)),
        }
    }

    async fn load_after(&self, id: &ConversationId, after: u64) -> Result<Transcript, StoreError> {
        let (conversation, texts) = self.range(id, after, -1).await?;
        stored::read_transcript(conversation, &texts, after, &self.link.place)
    }

    /// The part of the list after a place, with what the list itself says of the time, and the place to go on from;
    /// `None` at the end. What is no longer there is taken out of the list.
    async fn part_of_list(
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
                .arg(BATCH);
            let rows: Vec<(String, f64)> = self.link.ask(Access::Reads, Request::Command(command)).await?;
            if rows.is_empty() {
                return Ok(None);
            }
            skipped += rows.len();
            let mut ids = Vec::new();
            for (id, score) in rows {
                let changed = Timestamp(score as u64);
                let id = self.id(id)?;
                // Those of the same millisecond are in the order of their ids, backwards.
                if after.is_none_or(|cursor| (changed, &id) < (cursor.changed, &cursor.id)) {
                    ids.push((changed, id));
                }
            }
            if !ids.is_empty() {
                break ids;
            }
        };
        let heads = try_join_all(ids.iter().map(|(_, id)| self.head(id))).await?;
        let mut part = Vec::new();
        let mut next = None;
        for ((changed, id), head) in ids.into_iter().zip(heads) {
            match head {
                Some(conversation) => part.push((changed, conversation)),
                None => self.take_out_of_list(&id).await?,
            }
            next = Some(Cursor { changed, id });
        }
        Ok(next.map(|next| (part, next)))
    }

    /// Looks at the oldest of the list, so that it does not grow for ever where conversations expire and nobody reads it.
    async fn tidy_list(&self) -> Result<(), StoreError> {
        let mut command = cmd("ZRANGE");
        command.arg(&self.list).arg(0).arg(3);
        let ids: Vec<String> = self.link.ask(Access::Reads, Request::Command(command)).await?;
        for id in ids {
            let id = self.id(id)?;
            if self.head(&id).await?.is_none() {
                self.take_out_of_list(&id).await?;
            }
        }
        Ok(())
    }

    async fn take_out_of_list(&self, id: &ConversationId) -> Result<(), StoreError> {
        let mut command = cmd("ZREM");
        command.arg(&self.list).arg(id.as_str());
        let _: () = self.link.ask(Access::Writes, Request::Command(command)).await?;
        // It may have been imported again in this moment.
        if let Some(conversation) = self.head(id).await? {
            self.place_in_list(id, conversation.changed).await?;
        }
        Ok(())
    }

    /// Looks through one conversation from its end. Gives the hits, and how many messages were looked at.
    async fn search_one(
        &self,
        conversation: &Conversation,
        query: &Query,
        most_hits: usize,
        most_messages: usize,
    ) -> Result<(Vec<SearchHit>, usize), StoreError> {
        let mut hits = Vec::new();
        let mut seen = 0;
        let mut end = conversation.messages;
        while end > 0 && hits.len() < most_hits && seen < most_messages {
            let size = BATCH.min(most_messages - seen) as u64;
            let start = end.saturating_sub(size);
            let texts = match self.range(&conversation.id, start, end as i64 - 1).await {
                Ok((_, texts)) => texts,
                // Removed meanwhile.
                Err(StoreError::UnknownConversation { .. }) => return Ok((Vec::new(), seen)),
                Err(error) => return Err(error),
            };
            for (index, text) in texts.iter().enumerate().rev() {
                seen += 1;
                let sequence = start + 1 + index as u64;
                let entry = stored::read_entry(text, sequence, &self.link.place)?;
                if let Some(snippet) = query.find(&words::text_of(&entry.message)) {
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
        hits.truncate(most_hits);
        Ok((hits, seen))
    }

    fn id(&self, text: String) -> Result<ConversationId, StoreError> {
        ConversationId::try_from(text).map_err(|error| StoreError::Damaged {
            place: self.link.place.clone(),
            problem: error.to_string(),
        })
    }

    fn number(&self, text: &str) -> Result<u64, StoreError> {
        text.parse().map_err(|_| StoreError::Damaged {
            place: self.link.place.clone(),
            problem: format!("`{text}` stands where a number is due"),
        })
    }
}

/// A server that went away when a part of the work was done: others may see that part.
fn after_writing(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { place, problem } => StoreError::OutcomeUnknown { place, problem },
        other => other,
    }
}

fn unknown(id: &ConversationId) -> StoreError {
    StoreError::UnknownConversation { conversation: id.clone() }
}
