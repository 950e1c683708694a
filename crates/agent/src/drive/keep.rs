//! Keeps each message before anything follows from it.

use toolwire_contract::{ConversationId, Conversations, NewConversation, NewEntry, Role, StoreError};

use super::Driver;
use crate::event::AgentEvent;
use crate::run::Unsaved;

impl Driver {
    /// Tells of what is known by now, and keeps the messages that are complete. When they cannot be kept, the run has
    /// failed.
    pub(super) async fn keep(&mut self) {
        for (id, name, result) in self.run.take_told() {
            self.tell(AgentEvent::CallFinished { id, name, result, elapsed: None }).await;
        }
        let unsaved = self.run.unsaved().to_vec();
        if unsaved.is_empty() {
            return;
        }
        if let Some(conversations) = self.world.conversations.clone()
            && let Err(error) = self.append(&*conversations, &unsaved).await
        {
            return self.run.fail(error);
        }
        self.run.saved(unsaved.len());
        for unsaved in unsaved {
            self.tell(AgentEvent::MessageAdded(unsaved.message)).await;
        }
        if let Some((conversation, position)) = self.run.kept() {
            let conversation = conversation.clone();
            self.tell(AgentEvent::Saved { conversation, position }).await;
        }
    }

    async fn append(
        &mut self,
        conversations: &dyn Conversations,
        unsaved: &[Unsaved],
    ) -> Result<(), StoreError> {
        let model = self.world.model.name();
        let (conversation, position) = match self.run.kept() {
            Some((conversation, position)) => (conversation.clone(), position),
            None => {
                let new = NewConversation { title: None, model: Some(model.to_owned()) };
                let conversation = conversations.begin(new).await?.id;
                self.run.keep_in(conversation.clone(), 0);
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
        match conversations.append(&conversation, entries, Some(position)).await {
            Ok(_) => Ok(()),
            Err(StoreError::OutcomeUnknown { place, problem }) => {
                let unknown = StoreError::OutcomeUnknown { place, problem };
                was_done(conversations, &conversation, position, unsaved).await?.then_some(()).ok_or(unknown)
            }
            Err(error) => Err(error),
        }
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
