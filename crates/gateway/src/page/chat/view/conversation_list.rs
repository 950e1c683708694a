//! The list of conversations, and of the messages that a search finds.

use std::sync::Arc;

use toolwire_contract::conversations::{
    Conversation, ConversationId, Conversations, Cursor, SearchResults, Timestamp,
};
use toolwire_page::Markup;
use toolwire_page::chat::{self, Activity, Found, Hit, Item};

use super::super::active::store_failure;
use super::time;
use crate::page::Context;
use crate::page::failure::PageFailure;

/// The number of conversations in the list.
const MAX_ITEMS: usize = 60;

/// The number of messages that a search finds: in all conversations, and in the open one.
const MAX_HITS: usize = 50;
const MAX_HITS_HERE: usize = 500;

/// Returns the list of conversations, or of the messages that a search found.
pub(in crate::page::chat) async fn list(
    context: &Context<'_>,
    current: Option<&ConversationId>,
    query: &str,
    after: Option<&str>,
) -> Result<Markup, PageFailure> {
    let store: &Arc<dyn Conversations> = &context.page.parts.conversations;
    if !query.trim().is_empty() {
        let everywhere = store.search(query, MAX_HITS).await.map_err(store_failure)?;
        let mut here = match current {
            Some(id) => Some(store.search_in(id, query, MAX_HITS_HERE + 1).await.map_err(store_failure)?),
            None => None,
        };
        if let Some(here) = &mut here {
            here.is_complete &= here.hits.len() <= MAX_HITS_HERE;
            here.hits.truncate(MAX_HITS_HERE);
        }
        return Ok(chat::list_hits(here.as_ref().map(found).as_ref(), &found(&everywhere)));
    }
    let after = after.and_then(|text| {
        let (changed, id) = text.split_once('-')?;
        Some(Cursor { changed: Timestamp(changed.parse().ok()?), id: id.parse().ok()? })
    });
    let page = store.list(MAX_ITEMS, after).await.map_err(store_failure)?;
    let next = page.next.map(|next| format!("{}-{}", next.changed.0, next.id));
    let sorted = with_forks(&page.conversations);
    let items: Vec<Item<'_>> = sorted
        .into_iter()
        .map(|(conversation, is_fork)| Item {
            id: conversation.id.as_str(),
            title: conversation.title.as_deref(),
            messages: conversation.messages,
            changed: time(conversation.changed),
            activity: activity(context, &conversation.id),
            is_fork,
        })
        .collect();
    Ok(chat::list_entries(&items, current.map(ConversationId::as_str), next.as_deref()))
}

fn found(results: &SearchResults) -> Found<'_> {
    let hits = results.hits.iter().map(|hit| Hit {
        conversation: hit.conversation.as_str(),
        title: hit.title.as_deref(),
        position: hit.sequence,
        snippet: &hit.snippet,
        time: time(hit.time),
    });
    Found { hits: hits.collect(), is_complete: results.is_complete }
}

fn activity(context: &Context<'_>, id: &ConversationId) -> Activity {
    match context.page.chats.find(id).map(|active| active.lock().activity()) {
        Some(activity) if activity != Activity::None => activity,
        _ if context.page.chats.is_saved(id) => Activity::Waiting,
        _ => Activity::None,
    }
}

/// Sorts forks behind their parents, if these are in the list too.
fn with_forks(conversations: &[Conversation]) -> Vec<(&Conversation, bool)> {
    let is_listed = |id: &ConversationId| conversations.iter().any(|listed| listed.id == *id);
    let parent = |listed: &Conversation| {
        listed.parent.as_ref().map(|parent| parent.conversation.clone()).filter(is_listed)
    };
    let mut sorted = Vec::new();
    let mut waiting: Vec<(&Conversation, bool)> = conversations
        .iter()
        .filter(|listed| parent(listed).is_none())
        .map(|root| (root, false))
        .rev()
        .collect();
    while let Some((next, is_fork)) = waiting.pop() {
        sorted.push((next, is_fork));
        let forks = conversations.iter().filter(|listed| parent(listed).as_ref() == Some(&next.id));
        waiting.extend(forks.map(|fork| (fork, true)).rev());
    }
    sorted
}
