//! Several writers of one conversation, each with its own connection. `processes` does the same with
//! processes.

use toolwire_contract::Message;
use toolwire_contract::conversations::StoreError;

use crate::backends::Backend;
use crate::storing::{begin_with, texts};

const WRITERS: usize = 4;
const MESSAGES_PER_WRITER: usize = 25;

pub(crate) async fn a_taken_position_is_a_conflict(backend: &Backend) {
    let (one, other) = (backend.open().await, backend.open().await);
    let id = begin_with(&*one, "", &["a"]).await;
    assert_eq!(one.append(&id, vec![Message::user("b").into()], Some(1)).await, Ok(2));
    let late = other.append(&id, vec![Message::user("c").into(), Message::user("d").into()], Some(1)).await;
    let conflict = StoreError::Conflict { conversation: id.clone(), expected: 1, found: 2 };
    assert_eq!(late, Err(conflict.clone()));
    assert_eq!(conflict.code(), "conflict");
    let early = other.append(&id, vec![Message::user("c").into()], Some(9)).await;
    assert_eq!(early, Err(StoreError::Conflict { conversation: id.clone(), expected: 9, found: 2 }));
    assert_eq!(texts(&*other, &id).await, ["a", "b"]);
}

pub(crate) async fn concurrent_writers_lose_and_reorder_no_message(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &[]).await;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (store, id) = (backend.open().await, id.clone());
        writers.push(tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0..MESSAGES_PER_WRITER {
                let text = format!("{writer}:{number}");
                let position = store.append(&id, vec![Message::user(&*text).into()], None).await.unwrap();
                acknowledged.push((position, text));
            }
            acknowledged
        }));
    }
    let mut acknowledged = Vec::new();
    for writer in writers {
        let written_by_one = writer.await.unwrap();
        assert!(written_by_one.is_sorted(), "the messages of a writer are out of order");
        acknowledged.extend(written_by_one);
    }
    acknowledged.sort();
    // Each message is exactly at the position that its writer received.
    let expected: Vec<(u64, String)> = (1..).zip(texts(&*store, &id).await).collect();
    assert_eq!(acknowledged, expected);
    assert_eq!(expected.len(), WRITERS * MESSAGES_PER_WRITER);
}

pub(crate) async fn writers_with_expected_positions_take_turns(backend: &Backend) {
    let store = backend.open().await;
    let id = begin_with(&*store, "", &[]).await;
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let (store, id) = (backend.open().await, id.clone());
        writers.push(tokio::spawn(async move {
            let mut position = 0;
            let mut written = 0;
            while written < MESSAGES_PER_WRITER {
                // Each message contains the position that its writer expected.
                let message = Message::user(position.to_string());
                match store.append(&id, vec![message.into()], Some(position)).await {
                    Ok(next) => {
                        assert_eq!(next, position + 1);
                        position = next;
                        written += 1;
                    }
                    Err(StoreError::Conflict { found, .. }) => position = found,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let expected: Vec<String> =
        (0..WRITERS * MESSAGES_PER_WRITER).map(|position| position.to_string()).collect();
    assert_eq!(texts(&*store, &id).await, expected);
}
