//! A cache of embeddings in one SQLite file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_core::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::OnceCell;
use toolwire_contract::model::{Embedder, ModelError, TextPurpose};

use super::error::SqliteFailure;
use super::open::open_cache;
use super::worker::Worker;

/// Texts are embedded in groups of this size, and each group is stored: a process that ends in between loses
/// little.
const GROUP_SIZE: usize = 256;
/// Older vectors are removed, so that the file does not grow forever.
const MAX_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// An embedder that stores the vectors of documents, so that each is computed once. Queries are not stored.
/// If the file cannot be used, vectors are computed each time.
pub struct CachedEmbedder {
    inner: Arc<dyn Embedder>,
    path: PathBuf,
    /// Opened with the first documents; `None` if that failed.
    worker: OnceCell<Option<Worker>>,
}

impl CachedEmbedder {
    /// Uses this file, which is created with access only for its owner.
    pub fn new(inner: Arc<dyn Embedder>, path: impl Into<PathBuf>) -> CachedEmbedder {
        CachedEmbedder { inner, path: path.into(), worker: OnceCell::new() }
    }

    async fn embed_documents(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let path = self.path.clone();
        let open = || async { Worker::start("embeddings", move || open(&path), |_| ()).await.ok() };
        let Some(worker) = self.worker.get_or_init(open).await else {
            return self.inner.embed(texts, TextPurpose::Document).await;
        };
        let (id, wanted) = (self.inner.id(), texts.clone());
        let mut known = worker.run(move |connection| find(connection, &id, wanted)).await.unwrap_or_default();
        let missing: Vec<String> = texts.iter().filter(|text| !known.contains_key(*text)).cloned().collect();
        for group in missing.chunks(GROUP_SIZE) {
            let vectors = self.inner.embed(group.to_vec(), TextPurpose::Document).await?;
            let new: Vec<(String, Vec<f32>)> = group.iter().cloned().zip(vectors).collect();
            known.extend(new.iter().cloned());
            let id = self.inner.id();
            // The cache only saves time, so errors such as a full disk are ignored.
            let _ = worker.run(move |connection| insert(connection, &id, &new)).await;
        }
        Ok(texts.iter().filter_map(|text| known.get(text).cloned()).collect())
    }
}

impl Embedder for CachedEmbedder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn id(&self) -> String {
        self.inner.id()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: TextPurpose,
    ) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        match purpose {
            TextPurpose::Document => Box::pin(self.embed_documents(texts)),
            TextPurpose::Query => self.inner.embed(texts, purpose),
        }
    }
}

fn open(path: &Path) -> Result<Connection, SqliteFailure> {
    let connection = open_cache(path)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS embeddings (
             embedder TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL, created INTEGER NOT NULL,
             PRIMARY KEY (embedder, text)
         ) WITHOUT ROWID",
    )?;
    let oldest = now() - MAX_AGE.as_secs() as i64;
    connection.execute("DELETE FROM embeddings WHERE created < ?1", [oldest])?;
    Ok(connection)
}

fn find(
    connection: &Connection,
    id: &str,
    texts: Vec<String>,
) -> Result<HashMap<String, Vec<f32>>, SqliteFailure> {
    let mut select = connection.prepare("SELECT vector FROM embeddings WHERE embedder = ?1 AND text = ?2")?;
    let mut found = HashMap::new();
    for text in texts {
        let bytes: Option<Vec<u8>> = select.query_row(params![id, text], |row| row.get(0)).optional()?;
        if let Some(bytes) = bytes {
            let (numbers, _) = bytes.as_chunks::<4>();
            found.insert(text, numbers.iter().map(|number| f32::from_le_bytes(*number)).collect());
        }
    }
    Ok(found)
}

fn insert(
    connection: &mut Connection,
    id: &str,
    vectors: &[(String, Vec<f32>)],
) -> Result<(), SqliteFailure> {
    let transaction = connection.transaction()?;
    for (text, vector) in vectors {
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        let insert = "INSERT OR REPLACE INTO embeddings VALUES (?1, ?2, ?3, ?4)";
        transaction.prepare_cached(insert)?.execute(params![id, text, bytes, now()])?;
    }
    Ok(transaction.commit()?)
}

/// Returns the time in seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Records its texts. The vector of a text is its length.
    #[derive(Default)]
    struct Recorder {
        id: &'static str,
        texts: Mutex<Vec<String>>,
    }

    impl Embedder for Recorder {
        fn name(&self) -> &str {
            "test/recorder"
        }

        fn id(&self) -> String {
            self.id.to_owned()
        }

        fn embed(
            &self,
            texts: Vec<String>,
            _: TextPurpose,
        ) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
            let vectors = texts.iter().map(|text| vec![text.len() as f32, -0.5]).collect();
            self.texts.lock().expect("no panic").extend(texts);
            Box::pin(async move { Ok(vectors) })
        }
    }

    /// Embeds texts with a new instance of the cache. Returns the texts that were really embedded.
    async fn embed(path: &Path, id: &'static str, texts: &[&str], purpose: TextPurpose) -> Vec<String> {
        let recorder = Arc::new(Recorder { id, ..Recorder::default() });
        let cached = CachedEmbedder::new(recorder.clone(), path);
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let expected: Vec<Vec<f32>> = texts.iter().map(|text| vec![text.len() as f32, -0.5]).collect();
        assert_eq!(cached.embed(texts, purpose).await, Ok(expected));
        recorder.texts.lock().expect("no panic").clone()
    }

    #[tokio::test]
    async fn a_document_is_embedded_once_by_each_embedder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("private/embeddings.db");
        use TextPurpose::{Document, Query};
        assert_eq!(embed(&path, "one", &["a", "bb"], Document).await, ["a", "bb"]);
        assert_eq!(embed(&path, "one", &["bb", "ccc", "a"], Document).await, ["ccc"]);
        assert_eq!(embed(&path, "one", &["a", "bb", "ccc"], Document).await, [""; 0]);
        assert_eq!(embed(&path, "two", &["a"], Document).await, ["a"]);
        assert_eq!(embed(&path, "one", &["a"], Query).await, ["a"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn vectors_are_computed_if_the_file_cannot_be_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let damaged = folder.path().join("embeddings.db");
        std::fs::write(&damaged, "not a database").expect("a file");
        for path in [damaged.as_path(), folder.path()] {
            for _ in 0..2 {
                assert_eq!(embed(path, "one", &["a"], TextPurpose::Document).await, ["a"]);
            }
        }
    }
}
