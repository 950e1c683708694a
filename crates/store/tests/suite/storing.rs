//! Storing, loading and listing.

use toolwire_contract::conversations::{
    Conversation, ConversationId, Conversations, NewConversation, NewEntry, StoreError, Timestamp,
};
use toolwire_contract::model::Usage;
use toolwire_contract::{Block, Content, Message, Role};

use crate::backends::Backend;

/// Creates a conversation with these texts as user messages.
pub(crate) async fn begin_with(store: &dyn Conversations, title: &str, texts: &[&str]) -> ConversationId {
    let new = NewConversation { title: Some(title.to_owned()), model: None };
    let id = store.begin(new).await.unwrap().id;
    for text in texts {
        store.append(&id, vec![Message::user(*text).into()], None).await.unwrap();
    }
    id
}

/// Returns the texts of a conversation and checks their sequence numbers.
pub(crate) async fn texts(store: &dyn Conversations, id: &ConversationId) -> Vec<String> {
    let transcript = store.load(id, 0).await.unwrap();
    assert_eq!(transcript.conversation.messages, transcript.entries.len() as u64);
    let mut latest = Timestamp::default();
    for (sequence, entry) in (1..).zip(&transcript.entries) {
        assert_eq!(entry.sequence, sequence);
        assert!(entry.time >= latest, "the time decreases at {sequence}");
        latest = entry.time;
    }
    transcript.entries.iter().map(|entry| text_of(&entry.message)).collect()
}

pub(crate) fn text_of(message: &Message) -> String {
    let value = serde_json::to_value(message).unwrap();
    value["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) async fn a_new_conversation_is_empty(backend: &Backend) {
    let store = backend.open().await;
    let new = NewConversation { title: Some("Tides".to_owned()), model: Some("demo".to_owned()) };
    let created = store.begin(new).await.unwrap();
    let expected = Conversation {
        id: created.id.clone(),
        title: Some("Tides".to_owned()),
        model: Some("demo".to_owned()),
        created: created.changed,
        changed: created.changed,
        messages: 0,
        usage: Usage::default(),
        parent: None,
    };
    assert_eq!(created, expected);
    assert!(created.created > Timestamp(1_700_000_000_000), "{:?}", created.created);
    let transcript = store.load(&created.id, 0).await.unwrap();
    assert_eq!((transcript.conversation, transcript.entries), (expected, Vec::new()));
}

pub(crate) async fn messages_round_trip(backend: &Backend) {
    let written = [
        r#"{"role":"user","content":[{"type":"text","text":"hi \u0000 \"'\\ 🦀\r\n"}],"_meta":{"n":1.0}}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"n":12345678901234567890,"e":1e+2}},{"type":"later","x":[null]}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":null,"isError":true}]}"#,
        r#"{"role":"assistant","content":[]}"#,
    ];
    let store = backend.open().await;
    let id = begin_with(&*store, "", &[]).await;
    for (position, text) in (1..).zip(written) {
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(store.append(&id, vec![message.into()], None).await.unwrap(), position);
    }
    drop(store);
    let transcript = backend.open().await.load(&id, 0).await.unwrap();
    let read: Vec<String> =
        transcript.entries.iter().map(|entry| serde_json::to_string(&entry.message).unwrap()).collect();
    assert_eq!(read, written);
    assert_eq!(transcript.entries.last().unwrap().time, transcript.conversation.changed);
}

pub(crate) async fn load_returns_the_entries_after_a_position(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a", "b", "c"]).await;
    for (after, expected) in [(0, vec![1, 2, 3]), (2, vec![3]), (3, vec![]), (9, vec![]), (u64::MAX, vec![])]
    {
        let transcript = store.load(&id, after).await.unwrap();
        let sequences: Vec<u64> = transcript.entries.iter().map(|entry| entry.sequence).collect();
        assert_eq!((sequences, transcript.conversation.messages), (expected, 3));
    }
}

pub(crate) async fn a_range_has_at_most_as_many_entries_as_requested(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a", "b", "c", "d"]).await;
    let complete = store.load(&id, 0).await.unwrap();
    let ranges = [
        (0, 2, 0..2),
        (1, 2, 1..3),
        (2, 9, 2..4),
        (4, 1, 4..4),
        (9, 1, 4..4),
        (u64::MAX, usize::MAX, 4..4),
        (0, 0, 0..0),
        (0, usize::MAX, 0..4),
    ];
    for (after, limit, expected) in ranges {
        let transcript = store.load_range(&id, after, limit).await.unwrap();
        assert_eq!(transcript.conversation, complete.conversation);
        assert_eq!(transcript.entries, complete.entries[expected], "{limit} after {after}");
    }
    store.remove(&id).await.unwrap();
    for limit in [0, 2] {
        assert_eq!(store.load_range(&id, 0, limit).await.unwrap_err().code(), "unknown_conversation");
    }
}

pub(crate) async fn several_messages_are_appended_together(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a"]).await;
    let both = vec![Message::assistant("b").into(), Message::user("c").into()];
    assert_eq!(store.append(&id, both, Some(1)).await, Ok(3));
    assert_eq!(store.append(&id, Vec::new(), None).await, Ok(3));
    assert_eq!(texts(&*store, &id).await, ["a", "b", "c"]);
}

pub(crate) async fn a_message_of_a_hundred_thousand_characters_is_stored(backend: &Backend) {
    let store = backend.open().await;
    let long = format!("{} needle", "Ünïcödé 東京 ".repeat(10_000));
    assert!(long.chars().count() > 100_000);
    let id = begin_with(&*store, "", &[&long, "short"]).await;
    assert_eq!(texts(&*store, &id).await, [long.as_str(), "short"]);
    let found = store.search("needle", 10).await.unwrap();
    assert_eq!(found.hits.iter().map(|hit| hit.sequence).collect::<Vec<_>>(), [1]);
    assert!(found.hits[0].snippet.chars().count() < 200);
}

pub(crate) async fn a_message_that_is_nested_too_deeply_is_rejected(backend: &Backend) {
    let nested = |levels: usize| {
        let value = (0..levels).fold(serde_json::json!(1), |value, _| serde_json::json!([value]));
        let block = Content::Other(serde_json::json!({"type": "later", "x": value}));
        Message::new(Role::User, vec![Block::Content(block)])
    };
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a"]).await;
    store.append(&id, vec![nested(110).into()], None).await.unwrap();
    let error =
        store.append(&id, vec![Message::user("b").into(), nested(200).into()], None).await.unwrap_err();
    assert_eq!(error.code(), "refused", "{error}");
    let complete = store.load(&id, 0).await.unwrap();
    assert_eq!(complete.entries.len(), 2);
    assert_eq!(complete.entries[1].message, nested(110));
    let text = store.export(&id).await.unwrap();
    store.remove(&id).await.unwrap();
    store.import(&text).await.unwrap();
    assert_eq!(store.load(&id, 0).await.unwrap(), complete);
}

pub(crate) async fn usage_and_model_come_from_the_messages(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a"]).await;
    let usage = |input, cost| Usage {
        input_tokens: input,
        output_tokens: 2,
        cost_nanodollars: cost,
        ..Usage::default()
    };
    let entry = |model: &str, usage| NewEntry {
        message: Message::assistant("b").into(),
        model: Some(model.to_owned()),
        usage: Some(usage),
    };
    store
        .append(&id, vec![entry("one", usage(5, None)), entry("two", usage(7, Some(9)))], None)
        .await
        .unwrap();
    store.append(&id, vec![entry("three", usage(u64::MAX, None))], None).await.unwrap();
    store.append(&id, vec![Message::user("c").into()], None).await.unwrap();
    let transcript = store.load(&id, 0).await.unwrap();
    let expected = Usage {
        input_tokens: Usage::MAX_COUNT,
        output_tokens: 6,
        cached_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        cost_nanodollars: Some(9),
    };
    assert_eq!(transcript.conversation.usage, expected);
    assert_eq!(transcript.conversation.model.as_deref(), Some("three"));
    let stored: Vec<_> = transcript.entries.into_iter().map(|entry| (entry.model, entry.usage)).collect();
    let some = |model: &str| Some(model.to_owned());
    assert_eq!(
        stored,
        [
            (None, None),
            (some("one"), Some(usage(5, None))),
            (some("two"), Some(usage(7, Some(9)))),
            (some("three"), Some(usage(Usage::MAX_COUNT, None))),
            (None, None),
        ]
    );
}

pub(crate) async fn the_list_starts_with_the_latest_change(backend: &Backend) {
    let store = backend.open().await;
    assert_eq!(store.list(10, None).await.unwrap().conversations, []);
    let first = begin_with(&*store, "first", &["a"]).await;
    let second = begin_with(&*store, "second", &["b"]).await;
    next_millisecond(&*store, &second).await;
    store.append(&first, vec![Message::user("c").into()], None).await.unwrap();
    let page = store.list(10, None).await.unwrap();
    let listed: Vec<_> = page.conversations.iter().map(|conversation| conversation.id.clone()).collect();
    assert_eq!((listed, page.next), (vec![first.clone(), second], None));
    assert_eq!(page.conversations[0], store.get(&first).await.unwrap());
}

/// Waits until the clock of the store is past the last change of a conversation, so that the next change has
/// a later time.
async fn next_millisecond(store: &dyn Conversations, id: &ConversationId) {
    let before = store.get(id).await.unwrap().changed;
    let other = begin_with(store, "clock", &[]).await;
    while store.get(&other).await.unwrap().changed <= before {
        store.append(&other, vec![Message::user("tick").into()], None).await.unwrap();
    }
    store.remove(&other).await.unwrap();
}

pub(crate) async fn the_list_has_pages(backend: &Backend) {
    let store = backend.open().await;
    let mut ids = Vec::new();
    // More than one batch, and many in the same millisecond.
    for number in 0..230 {
        ids.push(begin_with(&*store, &number.to_string(), &[]).await);
    }
    let complete = store.list(1000, None).await.unwrap();
    assert_eq!((complete.conversations.len(), complete.next), (230, None));
    for size in [1, 7, 115, 230] {
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = store.list(size, after).await.unwrap();
            assert!(page.conversations.len() <= size);
            paged.extend(page.conversations);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, complete.conversations, "pages of {size}");
    }
    let mut listed: Vec<ConversationId> =
        complete.conversations.into_iter().map(|conversation| conversation.id).collect();
    listed.sort();
    ids.sort();
    assert_eq!(listed, ids);
}

pub(crate) async fn a_title_can_be_set_and_removed(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "old", &["a"]).await;
    let before = store.get(&id).await.unwrap();
    for title in [Some("new 🦀"), Some(""), None] {
        let title = title.map(str::to_owned);
        store.rename(&id, title.clone()).await.unwrap();
        assert_eq!(store.get(&id).await.unwrap(), Conversation { title, ..before.clone() });
    }
}

pub(crate) async fn a_removed_conversation_does_not_exist(backend: &Backend) {
    let store = backend.open().await;
    let removed = begin_with(&*store, "removed", &["a"]).await;
    let other = begin_with(&*store, "other", &["b"]).await;
    store.remove(&removed).await.unwrap();
    let unknown = || StoreError::UnknownConversation { conversation: removed.clone() };
    assert_eq!(store.get(&removed).await, Err(unknown()));
    assert_eq!(store.remove(&removed).await, Err(unknown()));
    let page = store.list(10, None).await.unwrap();
    assert_eq!(page.conversations, [store.get(&other).await.unwrap()]);
    assert_eq!(texts(&*store, &other).await, ["b"]);
}

pub(crate) async fn an_unknown_conversation_is_reported(backend: &Backend) {
    let store = backend.open().await;
    let id: ConversationId = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse().unwrap();
    let unknown = StoreError::UnknownConversation { conversation: id.clone() };
    assert_eq!(unknown.code(), "unknown_conversation");
    assert_eq!(unknown.to_string(), format!("conversation `{id}` does not exist"));
    let message = || vec![Message::user("a").into()];
    assert_eq!(store.append(&id, message(), None).await, Err(unknown.clone()));
    assert_eq!(store.append(&id, message(), Some(0)).await, Err(unknown.clone()));
    assert_eq!(store.load(&id, 0).await, Err(unknown.clone()));
    assert_eq!(store.rename(&id, None).await, Err(unknown.clone()));
    assert_eq!(store.fork(&id, 0).await, Err(unknown.clone()));
    assert_eq!(store.export(&id).await, Err(unknown.clone()));
    assert_eq!(store.list(10, None).await.unwrap().conversations, []);
}
