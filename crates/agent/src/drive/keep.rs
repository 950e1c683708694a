//! Keeps each message before anything follows from it.

use std::time::Duration;

use toolwire_contract::{ConversationId, Conversations, NewConversation, NewEntry, Role, StoreError};

use super::Driver;
use crate::agent::World;
use crate::event::AgentEvent;
use crate::run::{Run, Unsaved};

/// How long a store is still waited for once somebody stops the run.
const GRACE: Duration = Duration::from_secs(1);

impl Driver {
    /// Tells of what is known by now, and keeps the messages that are complete. When they cannot be kept, the run has
    /// failed.
    pub(super) async fn keep(&mut self) {
        for (id, name, result) in self.run.take_told() {
            self.tell(AgentEvent::CallFinished { id, name, result, elapsed: None }).await;
        }
        if self.run.unsaved().is_empty() {
            return;
        }
        let stopped = async {
            self.cancelled.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let kept = tokio::select! {
            biased;
            kept = keep(&self.world, &mut self.run) => kept,
            () = stopped => Err(StoreError::OutcomeUnknown {
                place: "the store".to_owned(),
                problem: "the run was stopped while it was waited for".to_owned(),
            }),
        };
        match kept {
            Err(error) => return self.run.fail(error),
            Ok(kept) => {
                for kept in kept {
                    self.tell(AgentEvent::MessageAdded(kept.message)).await;
                }
            }
        }
        if let Some((conversation, position)) = self.run.kept() {
            let conversation = conversation.clone();
            self.tell(AgentEvent::Saved { conversation, position }).await;
        }
    }
}

/// Keeps the messages of a run that are complete and not yet kept, and gives them.
pub(crate) async fn keep(world: &World, run: &mut Run) -> Result<Vec<Unsaved>, StoreError> {
    let unsaved = run.unsaved().to_vec();
    if let (Some(conversations), false) = (world.conversations.clone(), unsaved.is_empty()) {
        append(&*conversations, world.model.name(), run, &unsaved).await?;
    }
    run.saved(unsaved.len());
    Ok(unsaved)
}

async fn append(
    conversations: &dyn Conversations,
    model: &str,
    run: &mut Run,
    unsaved: &[Unsaved],
) -> Result<(), StoreError> {
    let (conversation, position) = match run.kept() {
        Some((conversation, position)) => (conversation.clone(), position),
        None => {
            let new = NewConversation { title: run.title(), model: Some(model.to_owned()) };
            let conversation = conversations.begin(new).await?.id;
            run.keep_in(conversation.clone(), 0);
            (conversation, 0)
        }
    };
    let entry = |unsaved: &Unsaved| {
        let is_models = unsaved.message.role == Role::Assistant;
        NewEntry {
            message: unsaved.message.clone(),
            model: is_models.then(|| model.to_owned()),
            usage: unsaved.usage,
        }
    };
    let entries: Vec<NewEntry> = unsaved.iter().map(entry).collect();
    let end = position + unsaved.len() as u64;
    match conversations.append(&conversation, entries, Some(position)).await {
        Ok(_) => Ok(()),
        // They may have arrived, now or when it was tried before.
        Err(error) if may_be_done(&error, end) => {
            was_done(conversations, &conversation, position, unsaved).await?.then_some(()).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

fn may_be_done(error: &StoreError, end: u64) -> bool {
    match error {
        StoreError::OutcomeUnknown { .. } => true,
        StoreError::Conflict { found, .. } => *found == end,
        _ => false,
    }
}

/// Whether messages that were sent to the store are in it.
async fn was_done(
    conversations: &dyn Conversations,
    conversation: &ConversationId,
    position: u64,
    unsaved: &[Unsaved],
) -> Result<bool, StoreError> {
    let kept = conversations.load(conversation, position).await?.entries;
    Ok(kept.iter().map(|entry| &entry.message).eq(unsaved.iter().map(|unsaved| &unsaved.message)))
}
