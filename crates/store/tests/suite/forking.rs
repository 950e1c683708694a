//! Forks start with the messages of their parent and are independent of it.

use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversation, ConversationId, NewEntry, Parent, StoreError};
use toolwire_contract::model::Usage;

use crate::backends::Backend;
use crate::storing::{begin_with, texts};

pub(crate) async fn a_fork_has_the_first_messages_and_is_independent(backend: &Backend) {
    let store = backend.open().await;
    let parent = begin_with(&*store, "Tides", &["a", "b"]).await;
    let usage = Usage { input_tokens: 3, ..Usage::default() };
    let response = NewEntry {
        message: Message::assistant("c").into(),
        model: Some("demo".to_owned()),
        usage: Some(usage),
    };
    store.append(&parent, vec![response], None).await.unwrap();
    let complete = store.load(&parent, 0).await.unwrap();

    let fork = store.fork(&parent, 2).await.unwrap();
    assert_eq!(fork.parent, Some(Parent { conversation: parent.clone(), at: 2 }));
    assert_eq!((fork.title.as_deref(), fork.model.as_deref()), (Some("Tides"), Some("demo")));
    assert_eq!((fork.messages, fork.usage), (2, Usage::default()));
    assert!(fork.id > parent && fork.created >= complete.conversation.changed);
    assert_eq!(store.get(&fork.id).await.unwrap(), fork);
    assert_eq!(store.load(&fork.id, 0).await.unwrap().entries, complete.entries[..2]);

    store.append(&fork.id, vec![Message::user("other").into()], Some(2)).await.unwrap();
    store.append(&parent, vec![Message::user("d").into()], Some(3)).await.unwrap();
    assert_eq!(texts(&*store, &fork.id).await, ["a", "b", "other"]);
    assert_eq!(texts(&*store, &parent).await, ["a", "b", "c", "d"]);

    let all = store.fork(&parent, 4).await.unwrap();
    assert_eq!((all.messages, all.usage), (4, usage));
    let none = store.fork(&parent, 0).await.unwrap();
    assert_eq!((none.messages, texts(&*store, &none.id).await), (0, Vec::new()));
}

pub(crate) async fn a_fork_outlives_its_parent(backend: &Backend) {
    let store = backend.open().await;
    let parent = begin_with(&*store, "", &["needle", "b"]).await;
    let fork = store.fork(&parent, 1).await.unwrap();
    store.remove(&parent).await.unwrap();
    assert_eq!(texts(&*store, &fork.id).await, ["needle"]);
    assert_eq!(store.get(&fork.id).await.unwrap(), fork);
    let hits = store.search("needle", 10).await.unwrap().hits;
    assert_eq!(hits.into_iter().map(|hit| hit.conversation).collect::<Vec<_>>(), [fork.id]);
}

pub(crate) async fn a_fork_past_the_end_is_rejected(backend: &Backend) {
    let store = backend.open().await;
    let parent = begin_with(&*store, "", &["a"]).await;
    let error = store.fork(&parent, 2).await.unwrap_err();
    assert_eq!(error, StoreError::UnknownPosition { conversation: parent, position: 2, messages: 1 });
    assert_eq!(store.list(10, None).await.unwrap().conversations.len(), 1);
}

pub(crate) async fn the_forks_of_a_conversation_are_listed(backend: &Backend) {
    let store = backend.open().await;
    let parent = begin_with(&*store, "Tides", &["a", "b"]).await;
    let other = begin_with(&*store, "Other", &["a"]).await;
    assert_eq!(store.forks(&parent).await.unwrap(), []);
    let first = store.fork(&parent, 1).await.unwrap();
    let second = store.fork(&parent, 2).await.unwrap();
    let of_other = store.fork(&other, 1).await.unwrap();
    let of_first = store.fork(&first.id, 1).await.unwrap();
    store.rename(&second.id, Some("Second".to_owned())).await.unwrap();
    store.append(&first.id, vec![Message::user("c").into()], None).await.unwrap();
    let current = async |id: &ConversationId| backend.open().await.get(id).await.unwrap();
    // Forks of the same millisecond are sorted by their random ids.
    let mut expected = [current(&first.id).await, current(&second.id).await];
    expected.sort_by(Conversation::by_creation);
    assert_eq!(store.forks(&parent).await.unwrap(), expected);
    assert_eq!(store.forks(&other).await.unwrap(), [of_other]);
    assert_eq!(store.forks(&first.id).await.unwrap(), [of_first]);

    // Also those that are restored from an export, and those whose parent does not exist any more.
    let text = store.export(&second.id).await.unwrap();
    store.remove(&second.id).await.unwrap();
    assert_eq!(store.forks(&parent).await.unwrap(), [current(&first.id).await]);
    store.import(&text).await.unwrap();
    store.remove(&parent).await.unwrap();
    assert_eq!(store.forks(&parent).await.unwrap(), expected);
}
