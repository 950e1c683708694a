//! The branches of a conversation: conversations that share its start and differ from some message on.
//!
//! The store is append-only, so editing or retrying a message makes a fork. A fork of a message that is a
//! copy of the parent's becomes a fork of the parent: all versions of a message have the same parent.

use std::collections::BTreeMap;

use toolwire_contract::conversations::{Conversation, ConversationId, Conversations, Parent, StoreError};
use toolwire_page::chat::Branches;

/// The maximum number of parents that are followed.
const MAX_DEPTH: usize = 32;

/// Creates a fork with the first `at` messages.
pub(super) async fn fork(
    store: &dyn Conversations,
    conversation: &Conversation,
    at: u64,
) -> Result<Conversation, StoreError> {
    let mut origin = conversation.clone();
    for _ in 0..MAX_DEPTH {
        let Some(parent) = origin.parent.clone().filter(|parent| parent.at >= at) else { break };
        match store.get(&parent.conversation).await {
            Ok(found) => origin = found,
            Err(StoreError::UnknownConversation { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    store.fork(&origin.id, at).await
}

/// Returns the branches of each message that has some, by its position.
pub(super) async fn find(
    store: &dyn Conversations,
    conversation: &Conversation,
) -> Result<BTreeMap<u64, Branches>, StoreError> {
    let mut found: BTreeMap<u64, Versions> = BTreeMap::new();
    let mut origin = conversation.id.clone();
    let mut parent = conversation.parent.clone();
    // The fork of `origin` that leads to the conversation, and the number of messages that they share.
    let mut child: Option<(ConversationId, u64)> = None;
    let mut limit = u64::MAX;
    for _ in 0..MAX_DEPTH {
        for fork in store.forks(&origin).await? {
            let Some(Parent { at, .. }) = fork.parent else { continue };
            let is_sibling = child.as_ref().is_some_and(|(_, shared)| at == *shared && at == limit);
            let first = match is_sibling {
                true => &origin,
                false if at < limit => &conversation.id,
                // The conversation does not contain the message that the fork has another version of.
                false => continue,
            };
            let versions = found.entry(at + 1).or_insert_with(|| Versions::starting_with(first));
            let is_on_path = child.as_ref().is_some_and(|(child, _)| *child == fork.id);
            versions.add(fork.id, is_sibling && is_on_path);
        }
        let Some(next) = parent.take() else { break };
        child = Some((origin, next.at));
        limit = limit.min(next.at);
        origin = next.conversation;
        parent = match store.get(&origin).await {
            Ok(found) => found.parent,
            Err(StoreError::UnknownConversation { .. }) => None,
            Err(error) => return Err(error),
        };
    }
    Ok(found.into_iter().map(|(position, versions)| (position, versions.branches())).collect())
}

/// The conversations with different versions of a message.
struct Versions {
    ids: Vec<ConversationId>,
    /// The position of the displayed one.
    current: usize,
}

impl Versions {
    fn starting_with(first: &ConversationId) -> Versions {
        Versions { ids: vec![first.clone()], current: 0 }
    }

    fn add(&mut self, id: ConversationId, is_current: bool) {
        if self.ids.contains(&id) {
            return;
        }
        if is_current {
            self.current = self.ids.len();
        }
        self.ids.push(id);
    }

    fn branches(&self) -> Branches {
        let at = |index: Option<usize>| index.and_then(|index| self.ids.get(index)).map(ToString::to_string);
        Branches {
            number: self.current + 1,
            count: self.ids.len(),
            previous: at(self.current.checked_sub(1)),
            next: at(Some(self.current + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolwire_contract::Message;
    use toolwire_contract::conversations::NewConversation;

    use super::*;

    async fn describe(store: &dyn Conversations, id: &ConversationId) -> Vec<(u64, usize, usize)> {
        let conversation = store.get(id).await.expect("a conversation");
        let found = find(store, &conversation).await.expect("branches");
        found.into_iter().map(|(position, branches)| (position, branches.number, branches.count)).collect()
    }

    #[tokio::test]
    async fn each_version_of_a_message_is_a_branch() {
        let store = crate::page::chat::tests::store();
        let store = &*store;
        let root = store.begin(NewConversation::default()).await.expect("a conversation");
        for text in ["one", "two", "three", "four"] {
            store.append(&root.id, vec![Message::user(text).into()], None).await.expect("stored");
        }
        let root = store.get(&root.id).await.expect("the root");
        assert_eq!(describe(store, &root.id).await, []);
        let edited = fork(store, &root, 2).await.expect("a fork");
        assert_eq!(describe(store, &root.id).await, [(3, 1, 2)]);
        assert_eq!(describe(store, &edited.id).await, [(3, 2, 2)]);
        // Editing the same message of the fork makes a third version of it.
        let again = fork(store, &edited, 2).await.expect("a fork");
        assert_eq!(again.parent.as_ref().map(|parent| &parent.conversation), Some(&root.id));
        assert_eq!(describe(store, &again.id).await, [(3, 3, 3)]);
        // An earlier message of the fork is the root's.
        let first = fork(store, &edited, 0).await.expect("a fork");
        assert_eq!(describe(store, &first.id).await, [(1, 2, 2)]);
        assert_eq!(describe(store, &edited.id).await, [(1, 1, 2), (3, 2, 3)]);
        // A later message of the fork is its own.
        store.append(&edited.id, vec![Message::user("x").into()], None).await.expect("stored");
        let edited = store.get(&edited.id).await.expect("the fork");
        let later = fork(store, &edited, 3).await.expect("a fork");
        assert_eq!(later.parent.as_ref().map(|parent| &parent.conversation), Some(&edited.id));
        assert_eq!(describe(store, &edited.id).await, [(1, 1, 2), (3, 2, 3), (4, 1, 2)]);
        assert_eq!(describe(store, &later.id).await, [(1, 1, 2), (3, 2, 3), (4, 2, 2)]);
    }
}
