//! Finds a stored conversation by its id, a part of it, or words of its title or messages.

use std::fmt::Write as _;

use toolwire_contract::conversations::{Conversation, ConversationId, Conversations};

use crate::command_error::CommandError;
use crate::storage::command_error;
use crate::terminal_text::{sanitize, truncate};

/// The number of most recent conversations whose ids and titles are compared.
const MAX_COMPARED: usize = 1_000;
const MAX_HITS: usize = 100;
/// The number of conversations that an error lists.
const MAX_LISTED: usize = 5;
/// A part of an id has at least this many characters.
const MIN_ID_CHARS: usize = 4;

/// Returns the last changed conversation that has messages.
pub(crate) async fn last(store: &dyn Conversations) -> Result<Option<Conversation>, CommandError> {
    Ok(stored(store, MAX_COMPARED).await?.into_iter().next())
}

/// Returns the last changed conversations that have messages.
pub(crate) async fn stored(
    store: &dyn Conversations,
    limit: usize,
) -> Result<Vec<Conversation>, CommandError> {
    let page = store.list(limit, None).await.map_err(command_error)?;
    Ok(page.conversations.into_iter().filter(|conversation| conversation.messages > 0).collect())
}

/// Returns the conversations that match, the last changed first: by id, else by a part of the id, else by
/// words of the title, else by words of the messages.
pub(crate) async fn matching(
    store: &dyn Conversations,
    reference: &str,
) -> Result<Vec<Conversation>, CommandError> {
    let reference = reference.trim();
    if let Ok(id) = reference.parse::<ConversationId>() {
        return Ok(vec![store.get(&id).await.map_err(command_error)?]);
    }
    let stored = stored(store, MAX_COMPARED).await?;
    let has_id = |conversation: &&Conversation| {
        let id = conversation.id.as_str();
        reference.len() >= MIN_ID_CHARS && (id.starts_with(reference) || id.ends_with(reference))
    };
    let words: Vec<String> = reference.split_whitespace().map(str::to_lowercase).collect();
    let has_words = |conversation: &&Conversation| {
        let title = conversation.title.as_deref().unwrap_or_default().to_lowercase();
        !words.is_empty() && words.iter().all(|word| title.contains(word.as_str()))
    };
    let by_id: Vec<Conversation> = stored.iter().filter(has_id).cloned().collect();
    if !by_id.is_empty() {
        return Ok(by_id);
    }
    let by_title: Vec<Conversation> = stored.iter().filter(has_words).cloned().collect();
    if !by_title.is_empty() {
        return Ok(by_title);
    }
    let mut found: Vec<Conversation> = Vec::new();
    for hit in store.search(reference, MAX_HITS).await.map_err(command_error)?.hits {
        if found.iter().all(|conversation| conversation.id != hit.conversation) {
            found.push(store.get(&hit.conversation).await.map_err(command_error)?);
        }
    }
    Ok(found)
}

/// Returns the only conversation that matches.
pub(crate) async fn one(store: &dyn Conversations, reference: &str) -> Result<Conversation, CommandError> {
    let mut found = matching(store, reference).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(CommandError::usage(format!("no conversation matches `{}`", sanitize(reference)))
            .with_hint("`toolwire conversations list` lists them")),
        count => {
            let mut list = String::new();
            for conversation in found.iter().take(MAX_LISTED) {
                let title = conversation.title.as_deref().unwrap_or("(no title)");
                let _ = writeln!(list, "  {}  {}", conversation.id, truncate(&sanitize(title), 60));
            }
            if count > MAX_LISTED {
                let _ = writeln!(list, "  and {} more", count - MAX_LISTED);
            }
            let message = format!("{count} conversations match `{}`", sanitize(reference));
            Err(CommandError::usage(message).with_excerpt(Some(list)).with_hint("use the id, or more words"))
        }
    }
}
