//! Cases for files: other versions, other programs, damage, a full disk, locks, permissions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversations, NewConversation, StoreError};
use toolwire_store::{Sqlite, SqliteOptions};

use crate::storing::{begin_with, texts};

async fn open(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, SqliteOptions::default()).await
}

async fn open_error(path: &Path) -> StoreError {
    open(path).await.err().expect("an error")
}

#[tokio::test]
async fn a_file_of_version_1_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("../fixtures/version-1.sql")).unwrap();
    drop(connection);

    let store = open(&path).await.unwrap();
    let page = store.list(10, None).await.unwrap().conversations;
    let expected = serde_json::json!([
        {"id": "0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e84", "title": null, "model": null, "created": 1767225700000_u64,
         "changed": 1767225700000_u64, "messages": 1, "usage": {"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0,
         "reasoningTokens": 0}, "parent": {"conversation": "0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83", "at": 1}},
        {"id": "0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83", "title": "Tides", "model": "demo", "created": 1767225600000_u64,
         "changed": 1767225602000_u64, "messages": 2, "usage": {"inputTokens": 12, "outputTokens": 5, "cachedTokens": 0,
         "reasoningTokens": 0, "costNanodollars": 150}, "parent": null},
    ]);
    assert_eq!(serde_json::to_value(&page).unwrap(), expected);
    let tides = &page[1].id;
    assert_eq!(
        texts(&store, tides).await,
        ["When is high tide in Bergen?", "At nine, and again at half past nine."]
    );
    // Version 1 had no search index.
    let hits = store.search("bergen", 10).await.unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.sequence).collect::<Vec<_>>(), [1, 1]);
    store.append(tides, vec![Message::user("And at Bergen's castle?").into()], Some(2)).await.unwrap();
    assert_eq!(store.search("bergen", 10).await.unwrap().hits.len(), 3);
    drop(store);
    assert_eq!(texts(&open(&path).await.unwrap(), tides).await.len(), 3);
}

#[tokio::test]
async fn a_file_of_version_2_stays_searchable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let store = open(&path).await.unwrap();
    let id = store.begin(NewConversation::default()).await.unwrap().id;
    store.append(&id, vec![Message::user("Bergen by sea").into()], None).await.unwrap();
    assert_eq!(store.search("bergen", 10).await.unwrap().hits.len(), 1);
    drop(store);
    // Version 3 adds the progress of the index.
    let downgrade = "DROP TABLE indexed; PRAGMA user_version = 2;";
    Connection::open(&path).unwrap().execute_batch(downgrade).unwrap();

    let store = open(&path).await.unwrap();
    store.append(&id, vec![Message::user("Bergen by rail").into()], None).await.unwrap();
    assert_eq!(store.search("bergen", 10).await.unwrap().hits.len(), 2);
    assert_eq!(store.search("sea", 10).await.unwrap().hits.len(), 1);
}

/// SQLite reuses the numbers of removed messages, and messages with reused numbers must be indexed too.
#[tokio::test]
async fn messages_stored_after_a_removal_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("conversations.db")).await.unwrap();
    for round in 0..3 {
        let id = store.begin(NewConversation::default()).await.unwrap().id;
        let text = format!("Bergen in round {round}");
        store
            .append(&id, vec![Message::user(text).into(), Message::assistant("Yes.").into()], None)
            .await
            .unwrap();
        let hits = store.search(&format!("round {round}"), 10).await.unwrap().hits;
        assert_eq!(hits.len(), 1, "{hits:?}");
        store.remove(&id).await.unwrap();
        assert_eq!(store.search("bergen", 10).await.unwrap().hits.len(), 0);
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_rejected_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    drop(open(&path).await.unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = open_error(&path).await;
    let place = path.display().to_string();
    assert_eq!(error, StoreError::Newer { place, found: 99, known: 4 });
    assert_eq!(error.code(), "newer");
}

#[tokio::test]
async fn the_database_of_another_program_is_rejected_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE places (name TEXT)").unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    assert_eq!(open_error(&path).await.code(), "foreign");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_file_is_rejected_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let garbage = "not a database at all ".repeat(1000);
    fs::write(&path, &garbage).unwrap();
    let error = open_error(&path).await;
    assert_eq!(error.code(), "damaged");
    assert_eq!(error.to_string(), format!("`{}` is damaged: file is not a database", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), garbage);
}

#[tokio::test]
async fn damage_inside_a_file_is_reported_on_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let store = open(&path).await.unwrap();
    let long = "text ".repeat(2000);
    let id = begin_with(&store, "", &[&*long; 50]).await;
    drop(store);
    // Overwrites everything except the first page, which identifies the file.
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let error = match open(&path).await {
        Ok(store) => store.load(&id, 0).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.code(), "damaged", "{error}");
}

#[tokio::test]
async fn a_full_disk_rejects_only_the_new_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let mut options = SqliteOptions::default();
    options.max_bytes = Some(200_000);
    let store = Sqlite::open(&path, options).await.unwrap();
    let id = begin_with(&store, "", &[]).await;
    let text = "text ".repeat(1000);
    let mut stored = 0;
    let error = loop {
        match store.append(&id, vec![Message::user(&*text).into()], None).await {
            Ok(position) => stored = position,
            Err(error) => break error,
        }
    };
    assert_eq!(error, StoreError::Full { place: path.display().to_string() });
    assert!(stored > 5, "{stored}");
    assert_eq!(texts(&store, &id).await.len() as u64, stored);
    drop(store);
    // With more space, the conversation continues.
    let store = open(&path).await.unwrap();
    assert_eq!(store.append(&id, vec![Message::user(text).into()], Some(stored)).await, Ok(stored + 1));
}

#[tokio::test]
async fn a_locked_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let timeout = Duration::from_millis(50);
    let mut options = SqliteOptions::default();
    options.timeout = timeout;
    let store = Sqlite::open(&path, options).await.unwrap();
    let id = begin_with(&store, "", &["a"]).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.append(&id, vec![Message::user("b").into()], None).await.unwrap_err();
    assert_eq!(error, StoreError::Busy { place: path.display().to_string(), after: timeout });
    // Reading still works.
    assert_eq!(texts(&store, &id).await, ["a"]);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.append(&id, vec![Message::user("b").into()], None).await, Ok(2));
}

#[tokio::test]
async fn an_impossible_path_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(open_error(&folder.path().join("file/conversations.db")).await.code(), "unavailable");
    assert_eq!(open_error(folder.path()).await.code(), "foreign");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("new/folder");
    let store = open(&inner.join("conversations.db")).await.unwrap();
    begin_with(&store, "", &["a"]).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    let mut files = Vec::new();
    for entry in fs::read_dir(&inner).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    files.sort();
    assert_eq!(files, ["conversations.db", "conversations.db-shm", "conversations.db-wal"]);
}

#[tokio::test]
async fn a_closed_store_is_one_file_in_wal_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let store = open(&path).await.unwrap();
    store.begin(NewConversation::default()).await.unwrap();
    drop(store);
    let files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["conversations.db"]);
    let mode: String =
        Connection::open(&path).unwrap().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}
