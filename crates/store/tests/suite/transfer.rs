//! Export and import between stores.

use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversations, NewEntry, StoreError};
use toolwire_contract::model::Usage;

use crate::backends::Backend;
use crate::storing::{begin_with, texts};

/// Creates a fork with everything that an export can contain.
async fn create_full_conversation(
    store: &dyn Conversations,
) -> toolwire_contract::conversations::ConversationId {
    let parent = begin_with(store, "Tides 🌊", &["東京", "b"]).await;
    let id = store.fork(&parent, 1).await.unwrap().id;
    let message: Message = serde_json::from_str(
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"n":1.0}},{"type":"later","x":1e400}],"_meta":{"a":null}}"#,
    )
    .unwrap();
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cached_tokens: 3,
        cache_write_tokens: 6,
        reasoning_tokens: 4,
        cost_nanodollars: Some(5),
    };
    let entry = NewEntry { message: message.into(), model: Some("demo".to_owned()), usage: Some(usage) };
    store.append(&id, vec![entry, Message::user("c").into()], None).await.unwrap();
    id
}

pub(crate) async fn an_export_round_trips(backend: &Backend) {
    let store = backend.open().await;
    let id = create_full_conversation(&*store).await;
    let text = store.export(&id).await.unwrap();
    let complete = store.load(&id, 0).await.unwrap();
    // The export is imported into each backend and back.
    for backend in [Backend::sqlite(), Backend::redis()] {
        let other_store = backend.open().await;
        assert_eq!(other_store.import(&text).await.unwrap(), complete.conversation);
        assert_eq!(other_store.load(&id, 0).await.unwrap(), complete);
        assert_eq!(other_store.export(&id).await.unwrap(), text);
        let listed = other_store.list(10, None).await.unwrap().conversations;
        assert_eq!(listed, vec![complete.conversation.clone()]);
        assert_eq!(other_store.search("東京", 10).await.unwrap().hits.len(), 1);

        store.remove(&id).await.unwrap();
        store.import(&other_store.export(&id).await.unwrap()).await.unwrap();
        assert_eq!(store.load(&id, 0).await.unwrap(), complete);
        // The conversation continues at its position.
        assert_eq!(other_store.append(&id, vec![Message::user("d").into()], Some(3)).await, Ok(4));
    }
}

pub(crate) async fn an_import_with_a_used_id_is_rejected(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &["a"]).await;
    let text = store.export(&id).await.unwrap();
    store.append(&id, vec![Message::user("b").into()], None).await.unwrap();
    assert_eq!(store.import(&text).await, Err(StoreError::Exists { conversation: id.clone() }));
    assert_eq!(texts(&*store, &id).await, ["a", "b"]);
}

pub(crate) async fn a_damaged_import_stores_nothing(backend: &Backend) {
    let store = backend.open().await;
    let id = create_full_conversation(&*store).await;
    let text = store.export(&id).await.unwrap();
    store.remove(&id).await.unwrap();
    let before = store.list(10, None).await.unwrap();
    // A truncated file is never accepted.
    let cuts = (0..text.len()).step_by(7).filter(|cut| text.is_char_boundary(*cut));
    let invalid_texts = cuts.map(|cut| text[..cut].to_owned()).chain([
        "{}".to_owned(),
        r#"{"conversations":[],"model":"other"}"#.to_owned(),
        text.replace("\"version\":1", "\"version\":2"),
        text.replace("\"sequence\":3", "\"sequence\":4"),
        text.replace("\"role\":\"user\"", "\"role\":\"wizard\""),
    ]);
    for text in invalid_texts {
        let error = store.import(&text).await.unwrap_err();
        assert_eq!(error.code(), "invalid_transcript", "{error}");
        assert!(error.hint().is_some());
    }
    assert_eq!(store.list(10, None).await.unwrap(), before);
    assert_eq!(store.import(&text).await.unwrap().id, id);
}
