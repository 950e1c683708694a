//! Conversations in memory, for tests and for processes without a persistent store.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, Entry, NewConversation, NewEntry,
    Parent, SearchHit, SearchResults, StoreError, Timestamp, Transcript,
};
use toolwire_contract::model::Usage;

use crate::clock::{now, random};
use crate::nesting;
use crate::search_text::{Query, searchable_text};

const PLACE: &str = "memory";

/// Conversations in the memory of one process. They are lost when the value is dropped.
#[derive(Debug, Default)]
pub struct InMemory {
    transcripts: Mutex<HashMap<ConversationId, Transcript>>,
    /// The time of the last write.
    last_write: Mutex<Timestamp>,
}

impl InMemory {
    pub fn new() -> InMemory {
        InMemory::default()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ConversationId, Transcript>> {
        // No change can panic halfway, so a poisoned lock is still consistent.
        self.transcripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current time, but always later than before: many writes within one millisecond still need
    /// an order.
    fn now(&self) -> Timestamp {
        let mut last_write = self.last_write.lock().unwrap_or_else(PoisonError::into_inner);
        *last_write = now().max(Timestamp(last_write.0 + 1));
        *last_write
    }

    fn new_id(&self, time: Timestamp) -> Result<ConversationId, StoreError> {
        Ok(ConversationId::new(time, random(PLACE)?))
    }

    fn add(&self, id: &ConversationId, new: Vec<NewEntry>, expected: Option<u64>) -> Result<u64, StoreError> {
        for entry in &new {
            let text = serde_json::to_string(&entry.message).expect("a message is always JSON");
            nesting::check(&text, PLACE)?;
        }
        let mut all = self.all();
        let Transcript { conversation, entries } = all.get_mut(id).ok_or_else(|| unknown(id))?;
        let found = conversation.messages;
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(StoreError::Conflict { conversation: id.clone(), expected, found });
        }
        if new.is_empty() {
            return Ok(found);
        }
        conversation.changed = self.now().max(conversation.changed);
        for NewEntry { message, model, usage } in new {
            let usage = usage.map(|usage| Usage::default().plus(&usage));
            conversation.messages += 1;
            conversation.usage = conversation.usage.plus(&usage.unwrap_or_default());
            conversation.model = model.clone().or(conversation.model.take());
            let (sequence, time) = (conversation.messages, conversation.changed);
            entries.push(Entry { sequence, time, model, usage, message });
        }
        Ok(conversation.messages)
    }

    fn put(&self, transcript: Transcript) -> Result<Conversation, StoreError> {
        let Transcript { conversation, entries } = transcript;
        let transcript = Transcript::checked(conversation, entries)?;
        let conversation = transcript.conversation.clone();
        let mut all = self.all();
        if all.contains_key(&conversation.id) {
            return Err(StoreError::Exists { conversation: conversation.id });
        }
        all.insert(conversation.id.clone(), transcript);
        Ok(conversation)
    }

    fn get_all(&self, id: &ConversationId) -> Result<Transcript, StoreError> {
        self.all().get(id).cloned().ok_or_else(|| unknown(id))
    }

    /// Returns all conversations, the most recently changed first.
    fn by_last_change(&self) -> Vec<Transcript> {
        let mut transcripts: Vec<Transcript> = self.all().values().cloned().collect();
        transcripts.sort_by_key(|transcript| Reverse(list_key(&transcript.conversation)));
        transcripts
    }

    fn page(&self, limit: usize, after: Option<Cursor>) -> ConversationPage {
        let after = after.map(|cursor| (cursor.changed, cursor.id));
        let conversations = self.by_last_change().into_iter().map(|transcript| transcript.conversation);
        let mut rest =
            conversations.filter(|one| after.as_ref().is_none_or(|after| list_key(one) < *after)).peekable();
        let conversations: Vec<Conversation> = rest.by_ref().take(limit.max(1)).collect();
        let last = conversations.last().filter(|_| rest.peek().is_some());
        let next = last.map(|last| Cursor { changed: last.changed, id: last.id.clone() });
        ConversationPage { conversations, next }
    }

    fn find(&self, query: &Query, limit: usize) -> Vec<SearchHit> {
        let mut hits = Vec::new();
        if query.is_empty() {
            return hits;
        }
        for Transcript { conversation, entries } in self.by_last_change() {
            for entry in entries.iter().rev() {
                if hits.len() == limit {
                    return hits;
                }
                hits.extend(query.find(&searchable_text(&entry.message)).map(|snippet| SearchHit {
                    conversation: conversation.id.clone(),
                    title: conversation.title.clone(),
                    sequence: entry.sequence,
                    time: entry.time,
                    role: entry.message.role,
                    snippet,
                }));
            }
        }
        hits
    }
}

fn unknown(id: &ConversationId) -> StoreError {
    StoreError::UnknownConversation { conversation: id.clone() }
}

fn list_key(conversation: &Conversation) -> (Timestamp, ConversationId) {
    (conversation.changed, conversation.id.clone())
}

impl Conversations for InMemory {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let (NewConversation { title, model }, time) = (new, self.now());
            let conversation = Conversation {
                id: self.new_id(time)?,
                title,
                model,
                created: time,
                changed: time,
                messages: 0,
                usage: Usage::default(),
                parent: None,
            };
            self.put(Transcript { conversation, entries: Vec::new() })
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { self.add(conversation, entries, expected) })
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move { Ok(self.get_all(conversation)?.conversation) })
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(async move {
            let mut transcript = self.get_all(conversation)?;
            transcript.entries.retain(|entry| entry.sequence > after);
            Ok(transcript)
        })
    }

    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(async move {
            let all = self.all();
            let Transcript { conversation, entries } =
                all.get(conversation).ok_or_else(|| unknown(conversation))?;
            let after = usize::try_from(after).unwrap_or(usize::MAX);
            let entries = entries.iter().skip(after).take(limit).cloned().collect();
            Ok(Transcript { conversation: conversation.clone(), entries })
        })
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        Box::pin(async move { Ok(self.page(limit, after)) })
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut all = self.all();
            let transcript = all.get_mut(conversation).ok_or_else(|| unknown(conversation))?;
            transcript.conversation.title = title;
            Ok(())
        })
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let Transcript { conversation: parent, mut entries } = self.get_all(conversation)?;
            if at > parent.messages {
                let (conversation, messages) = (conversation.clone(), parent.messages);
                return Err(StoreError::UnknownPosition { conversation, position: at, messages });
            }
            entries.retain(|entry| entry.sequence <= at);
            let time = self.now().max(parent.changed);
            let forked = Conversation {
                id: self.new_id(time)?,
                created: time,
                changed: time,
                parent: Some(Parent { conversation: parent.id.clone(), at }),
                ..parent
            };
            self.put(Transcript { conversation: forked, entries })
        })
    }

    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        Box::pin(async move {
            let all = self.all();
            let conversations = all.values().map(|transcript| &transcript.conversation);
            let mut forks: Vec<Conversation> =
                conversations.filter(|listed| listed.is_fork_of(conversation)).cloned().collect();
            forks.sort_by(Conversation::by_creation);
            Ok(forks)
        })
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        Box::pin(async move {
            Ok(SearchResults { hits: self.find(&Query::new(query), limit), is_complete: true })
        })
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(
            async move { self.all().remove(conversation).map(drop).ok_or_else(|| unknown(conversation)) },
        )
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move { self.put(transcript) })
    }
}
