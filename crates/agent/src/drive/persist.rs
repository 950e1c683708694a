//! Saves each message before the next step.

use std::time::Duration;

use toolwire_contract::Role;
use toolwire_contract::conversations::{
    ConversationId, Conversations, NewConversation, NewEntry, StoreError,
};

use super::Driver;
use crate::agent::AgentInner;
use crate::event::AgentEvent;
use crate::run::{Run, UnsavedMessage};

/// The maximum wait for the store after the run was cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

impl Driver {
    /// Emits the results of calls that were not made, and saves the unsaved messages. If that fails, the run
    /// fails.
    pub(super) async fn emit_and_persist(&mut self) {
        for (id, name, result) in self.run.take_unreported_results() {
            self.emit(AgentEvent::CallFinished { id, name, result, elapsed: None }).await;
        }
        if self.run.unsaved_messages().is_empty() {
            return;
        }
        let stopped = async {
            self.cancellation.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        let saved = tokio::select! {
            biased;
            saved = persist(&self.agent, &mut self.run) => saved,
            () = stopped => Err(StoreError::OutcomeUnknown {
                place: "the store".to_owned(),
                problem: "the run was cancelled before the store responded".to_owned(),
            }),
        };
        match saved {
            Err(error) => return self.run.fail(error),
            Ok(saved) => {
                for saved in saved {
                    self.emit(AgentEvent::MessageAdded(saved.message)).await;
                }
            }
        }
        if let Some((conversation, position)) = self.run.stored_in() {
            let conversation = conversation.clone();
            self.emit(AgentEvent::Saved { conversation, position }).await;
        }
    }
}

/// Saves the unsaved messages of a run and returns them.
pub(crate) async fn persist(agent: &AgentInner, run: &mut Run) -> Result<Vec<UnsavedMessage>, StoreError> {
    let unsaved = run.unsaved_messages().to_vec();
    if let (Some(conversations), false) = (agent.conversations.clone(), unsaved.is_empty()) {
        append(&*conversations, agent.model.name(), run, &unsaved).await?;
    }
    run.mark_saved(unsaved.len());
    Ok(unsaved)
}

async fn append(
    conversations: &dyn Conversations,
    model: &str,
    run: &mut Run,
    unsaved: &[UnsavedMessage],
) -> Result<(), StoreError> {
    let (conversation, position) = match run.stored_in() {
        Some((conversation, position)) => (conversation.clone(), position),
        None => {
            let new = NewConversation { title: run.title(), model: Some(model.to_owned()) };
            let conversation = conversations.begin(new).await?.id;
            run.store_in(conversation.clone(), 0);
            (conversation, 0)
        }
    };
    let entry = |unsaved: &UnsavedMessage| {
        let is_response = unsaved.message.role == Role::Assistant;
        NewEntry {
            message: unsaved.message.clone(),
            model: is_response.then(|| model.to_owned()),
            usage: unsaved.usage,
        }
    };
    let entries: Vec<NewEntry> = unsaved.iter().map(entry).collect();
    let end = position + unsaved.len() as u64;
    match conversations.append(&conversation, entries, Some(position)).await {
        Ok(_) => Ok(()),
        // This attempt, or an earlier one, may have stored them.
        Err(error) if may_be_stored(&error, end) => {
            is_stored(conversations, &conversation, position, unsaved).await?.then_some(()).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

fn may_be_stored(error: &StoreError, end: u64) -> bool {
    match error {
        StoreError::OutcomeUnknown { .. } => true,
        StoreError::Conflict { found, .. } => *found == end,
        _ => false,
    }
}

/// Whether the store has exactly these messages from `position` on.
async fn is_stored(
    conversations: &dyn Conversations,
    conversation: &ConversationId,
    position: u64,
    unsaved: &[UnsavedMessage],
) -> Result<bool, StoreError> {
    let stored = conversations.load(conversation, position).await?.entries;
    Ok(stored.iter().map(|entry| &entry.message).eq(unsaved.iter().map(|unsaved| &unsaved.message)))
}
