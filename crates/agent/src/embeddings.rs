//! The vectors of the tools, for a search by meaning. They are computed in the background.

use std::collections::{HashMap, HashSet};
use std::mem::{self, Discriminant};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use toolwire_contract::model::{Embedder, ModelError, TextPurpose, WaitPhase};
use toolwire_contract::text::truncate;

use crate::event::EmbeddingFailure;
use crate::run::Catalog;
use crate::search::{Similarities, VectorIndex, dot};

/// The maximum wait of a search for vectors. After that, it compares only words.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after a failure in which searches compare only words and do not wait.
const RETRY_AFTER: Duration = Duration::from_secs(60);
const MAX_QUERY_CHARS: usize = 1_000;

/// The vectors of the tools of an agent, shared by its runs.
pub(crate) struct ToolEmbeddings {
    embedder: Arc<dyn Embedder>,
    /// Locked while the vectors are computed.
    vectors: Arc<AsyncMutex<ToolVectors>>,
    background: Mutex<JoinSet<()>>,
    reported: Mutex<HashSet<Discriminant<EmbeddingFailure>>>,
}

#[derive(Default)]
struct ToolVectors {
    catalog: Option<Catalog>,
    /// The vectors of the tools of this catalog, in the same order, and of their words.
    of_tools: Arc<VectorIndex>,
    /// The same vectors by text, so that only new and changed tools are embedded.
    by_text: HashMap<String, Arc<[f32]>>,
    failure: Option<(Instant, ModelError)>,
}

impl ToolEmbeddings {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> ToolEmbeddings {
        ToolEmbeddings {
            embedder,
            vectors: Arc::default(),
            background: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Starts to compute the vectors of the tools, unless they are known or being computed, or an attempt has
    /// just failed.
    pub(crate) fn start(&self, catalog: Catalog) {
        let Ok(mut vectors) = self.vectors.clone().try_lock_owned() else { return };
        if vectors.is_for(&catalog) || vectors.recent_failure().is_some() {
            return;
        }
        let embedder = self.embedder.clone();
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        while background.try_join_next().is_some() {}
        background.spawn(async move { vectors.update(&*embedder, catalog).await });
    }

    /// Returns the similarities of the tools to each query.
    pub(crate) async fn similarities(
        &self,
        catalog: &Catalog,
        queries: &[String],
    ) -> Result<Vec<Similarities>, EmbeddingFailure> {
        let model = || self.embedder.name().to_owned();
        let deadline = Instant::now() + SEARCH_TIMEOUT;
        let of_tools = match timeout_at(deadline, self.vectors.lock()).await {
            Ok(vectors) => match vectors.recent_failure() {
                Some(error) => return Err(EmbeddingFailure::Failed(error)),
                None if !vectors.is_for(catalog) => return Err(EmbeddingFailure::Pending { model: model() }),
                None => vectors.of_tools.clone(),
            },
            Err(_) => return Err(EmbeddingFailure::Pending { model: model() }),
        };
        // Each query, followed by its unknown words.
        let mut texts = Vec::new();
        let mut compared = Vec::new();
        for query in queries {
            let query = truncate(query.trim(), MAX_QUERY_CHARS).into_owned();
            let words = of_tools.unknown_words(&query);
            texts.push(query.clone());
            texts.extend(words.iter().cloned());
            compared.push((query, words));
        }
        let count = texts.len();
        let embedded = timeout_at(deadline, self.embedder.embed(texts, TextPurpose::Query)).await;
        let length = of_tools.dimensions();
        let is_complete = |vectors: &Vec<Vec<f32>>| {
            vectors.len() == count && vectors.iter().all(|vector| vector.len() == length)
        };
        let error = match embedded {
            Ok(Ok(vectors)) if is_complete(&vectors) => {
                let mut vectors = vectors.into_iter().map(normalized);
                let similarities = |(query, words): (String, Vec<String>)| {
                    let vector = vectors.next().unwrap_or_default();
                    let words: Vec<_> = words.into_iter().zip(vectors.by_ref()).collect();
                    of_tools.similarities(&query, &vector, &words)
                };
                return Ok(compared.into_iter().map(similarities).collect());
            }
            Ok(Ok(_)) => malformed(model()),
            Ok(Err(error)) => error,
            Err(_) => {
                let waiting_for = WaitPhase::FirstToken;
                ModelError::TimedOut { model: model(), waiting_for, after: SEARCH_TIMEOUT }
            }
        };
        self.vectors.lock().await.failure = Some((Instant::now(), error.clone()));
        Err(EmbeddingFailure::Failed(error))
    }

    /// Whether this is the first failure of its kind. Marks the kind as reported.
    pub(crate) fn is_new(&self, failure: &EmbeddingFailure) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.insert(mem::discriminant(failure))
    }
}

impl ToolVectors {
    fn is_for(&self, catalog: &Catalog) -> bool {
        self.catalog.as_ref().is_some_and(|known| known.is_same(catalog))
    }

    fn recent_failure(&self) -> Option<ModelError> {
        let (time, error) = self.failure.as_ref()?;
        (time.elapsed() < RETRY_AFTER).then(|| error.clone())
    }

    /// Embeds the tools that are new or changed, and their words.
    async fn update(&mut self, embedder: &dyn Embedder, catalog: Catalog) {
        let texts = catalog.texts();
        // Building the index would block other tasks.
        let indexed = catalog.clone();
        let Ok(words) = spawn_blocking(move || indexed.index().words().to_vec()).await else { return };
        let is_unknown = |text: &&String| !self.by_text.contains_key(*text);
        let mut missing: Vec<String> = texts.iter().chain(&words).filter(is_unknown).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        let embedded = match missing.is_empty() {
            true => Ok(Vec::new()),
            false => embedder.embed(missing.clone(), TextPurpose::Document).await,
        };
        let embedded = match embedded {
            Ok(embedded) if embedded.len() == missing.len() => embedded,
            Ok(_) => return self.failure = Some((Instant::now(), malformed(embedder.name().to_owned()))),
            Err(error) => return self.failure = Some((Instant::now(), error)),
        };
        self.by_text.extend(missing.into_iter().zip(embedded.into_iter().map(normalized)));
        let vector = |text: &String| (text.clone(), self.by_text[text].clone());
        let by_text = texts.iter().chain(&words).map(vector).collect();
        let words = words.iter().map(vector).collect();
        let texts = texts.iter().map(|text| self.by_text[text].clone()).collect();
        self.by_text = by_text;
        // Creating the index compares all vectors with each other, which would block other tasks.
        let Ok(of_tools) = spawn_blocking(|| VectorIndex::new(texts, words)).await else { return };
        self.of_tools = Arc::new(of_tools);
        self.catalog = Some(catalog);
        self.failure = None;
    }
}

fn malformed(model: String) -> ModelError {
    ModelError::Malformed { model, problem: "a vector is missing or has another length".to_owned() }
}

/// Returns the vector with the length 1, so that the similarity of two is their product.
fn normalized(vector: Vec<f32>) -> Arc<[f32]> {
    let length = dot(&vector, &vector).sqrt().max(f32::MIN_POSITIVE);
    vector.into_iter().map(|number| number / length).collect()
}
