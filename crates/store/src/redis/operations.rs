//! Implements `Conversations` for `Redis`.

use ::redis::cmd;
use futures_core::future::BoxFuture;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Conversations, Cursor, NewConversation, NewEntry, Parent,
    SearchResults, StoreError, Timestamp, Transcript,
};
use toolwire_contract::model::Usage;

use super::connection::{Access, Request};
use super::{APPEND, RENAME, Redis, after_writing, format, unknown};
use crate::clock::new_id;
use crate::search_text::Query;

impl Conversations for Redis {
    fn begin(&self, new: NewConversation) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let conversation = Conversation {
                id: new_id(&self.connection.place)?,
                title: new.title,
                model: new.model,
                created: Timestamp::default(),
                changed: Timestamp::default(),
                messages: 0,
                usage: Usage::default(),
                parent: None,
            };
            self.create(Transcript { conversation, entries: Vec::new() }, None).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        entries: Vec<NewEntry>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let keys = self.keys(conversation);
            let mut model = String::new();
            let mut sum = Usage::default();
            let mut bodies = Vec::new();
            for NewEntry { message, model: writer, usage } in entries {
                let usage = usage.map(|usage| Usage::default().plus(&usage));
                sum = sum.plus(&usage.unwrap_or_default());
                if let Some(writer) = &writer {
                    model = format!("+{writer}");
                }
                bodies.push(format::write_body(message, writer, usage, &self.connection.place)?);
            }
            let expected_text = expected.map_or_else(String::new, |position| position.to_string());
            let mut script = APPEND.key(keys.head);
            script
                .key(keys.entries)
                .arg(self.token()?)
                .arg(expected_text)
                .arg(self.time_to_live())
                .arg(model);
            for part in format::write_usage(&sum) {
                script.arg(part);
            }
            script.arg(&bodies);
            let response: Vec<String> = self.connection.send(Access::Writes, Request::Script(script)).await?;
            match response.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["done", position, changed] => {
                    if !bodies.is_empty() {
                        // The message is stored. If updating the list fails, the next message corrects it.
                        let _ = self.update_list(conversation, Timestamp(self.number(changed)?)).await;
                    }
                    self.number(position)
                }
                ["conflict", found] => Err(StoreError::Conflict {
                    conversation: conversation.clone(),
                    expected: expected.unwrap_or_default(),
                    found: self.number(found)?,
                }),
                ["newer", found] => Err(StoreError::Newer {
                    place: self.connection.place.clone(),
                    found: self.number(found)?,
                    known: format::FORMAT,
                }),
                ["damaged"] => Err(StoreError::Damaged {
                    place: self.connection.place.clone(),
                    problem: format!("messages of conversation `{conversation}` are missing"),
                }),
                _ => Err(unknown(conversation)),
            }
        })
    }

    fn get<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move { self.head(conversation).await?.ok_or_else(|| unknown(conversation)) })
    }

    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(self.load_after(conversation, after))
    }

    fn load_range<'a>(
        &'a self,
        conversation: &'a ConversationId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Transcript, StoreError>> {
        Box::pin(self.load_at_most(conversation, after, limit as u64))
    }

    fn list(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<ConversationPage, StoreError>> {
        Box::pin(async move {
            let limit = limit.max(1);
            let mut page = ConversationPage { conversations: Vec::new(), next: None };
            let mut last = None;
            let mut after = after;
            while let Some((batch, next)) = self.read_list_batch(after.as_ref()).await? {
                after = Some(next);
                for (listed, conversation) in batch {
                    if page.conversations.len() == limit {
                        page.next = last;
                        return Ok(page);
                    }
                    if listed < conversation.changed {
                        self.update_list(&conversation.id, conversation.changed).await?;
                    }
                    // The next page starts after its position in the list.
                    last = Some(Cursor { changed: listed, id: conversation.id.clone() });
                    page.conversations.push(conversation);
                }
            }
            Ok(page)
        })
    }

    fn rename<'a>(
        &'a self,
        conversation: &'a ConversationId,
        title: Option<String>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut script = RENAME.key(self.keys(conversation).head);
            script.arg(title.map_or_else(String::new, |title| format!("+{title}")));
            let renamed: u64 = self.connection.send(Access::Writes, Request::Script(script)).await?;
            if renamed == 0 { Err(unknown(conversation)) } else { Ok(()) }
        })
    }

    fn fork<'a>(
        &'a self,
        conversation: &'a ConversationId,
        at: u64,
    ) -> BoxFuture<'a, Result<Conversation, StoreError>> {
        Box::pin(async move {
            // Stored entries never change, so no lock is needed.
            let Transcript { conversation: parent, mut entries } = self.load_after(conversation, 0).await?;
            if at > parent.messages {
                return Err(StoreError::UnknownPosition {
                    conversation: parent.id,
                    position: at,
                    messages: parent.messages,
                });
            }
            entries.truncate(usize::try_from(at).unwrap_or(usize::MAX));
            let fork = Conversation {
                id: new_id(&self.connection.place)?,
                parent: Some(Parent { conversation: parent.id, at }),
                ..parent
            };
            self.create(Transcript::checked(fork, entries)?, None).await
        })
    }

    fn forks<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> BoxFuture<'a, Result<Vec<Conversation>, StoreError>> {
        Box::pin(self.forks_of(conversation))
    }

    fn search_in<'a>(
        &'a self,
        conversation: &'a ConversationId,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        let query = Query::new(query);
        Box::pin(async move {
            let mut found = SearchResults { hits: Vec::new(), is_complete: true };
            if query.is_empty() {
                return Ok(found);
            }
            let conversation = match self.get(conversation).await {
                Ok(conversation) => conversation,
                Err(StoreError::UnknownConversation { .. }) => return Ok(found),
                Err(error) => return Err(error),
            };
            // A single conversation has a limited size, so all of it is searched.
            (found.hits, _) = self.search_one(&conversation, &query, limit, usize::MAX).await?;
            Ok(found)
        })
    }

    fn search<'a>(
        &'a self,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<SearchResults, StoreError>> {
        let query = Query::new(query);
        Box::pin(async move {
            let mut found = SearchResults { hits: Vec::new(), is_complete: true };
            if query.is_empty() || limit == 0 {
                return Ok(found);
            }
            let mut left = self.options.search_messages;
            let mut after = None;
            while let Some((batch, next)) = self.read_list_batch(after.as_ref()).await? {
                after = Some(next);
                for (_, conversation) in batch {
                    let wanted = limit - found.hits.len();
                    let (hits, seen) = self.search_one(&conversation, &query, wanted, left).await?;
                    left -= seen.min(left);
                    found.hits.extend(hits);
                    if found.hits.len() >= limit {
                        return Ok(found);
                    }
                    if left == 0 {
                        // The limit may have been reached exactly at the end, which cannot be distinguished.
                        found.is_complete = false;
                        return Ok(found);
                    }
                }
            }
            Ok(found)
        })
    }

    fn remove<'a>(&'a self, conversation: &'a ConversationId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if let Some(Parent { conversation: parent, .. }) =
                self.head(conversation).await?.and_then(|head| head.parent)
            {
                self.remove_from_forks(&parent, conversation).await?;
            }
            let keys = self.keys(conversation);
            let mut command = cmd("DEL");
            command.arg(keys.head).arg(keys.entries);
            let removed: u64 = self.connection.send(Access::Writes, Request::Command(command)).await?;
            self.remove_from_list(conversation).await.map_err(after_writing)?;
            if removed == 0 { Err(unknown(conversation)) } else { Ok(()) }
        })
    }

    fn restore(&self, transcript: Transcript) -> BoxFuture<'_, Result<Conversation, StoreError>> {
        Box::pin(async move {
            let transcript = Transcript::checked(transcript.conversation, transcript.entries)?;
            let times = (transcript.conversation.created, transcript.conversation.changed);
            self.create(transcript, Some(times)).await
        })
    }
}
