//! The `Embedder` trait: a model that turns texts into vectors.

use futures_core::future::BoxFuture;

use crate::model::ModelError;

/// A model that turns texts into vectors. Texts with a similar meaning have vectors in a similar direction.
pub trait Embedder: Send + Sync {
    /// Returns the model's name as users write it, such as `openai/text-embedding-3-small`.
    fn name(&self) -> &str;

    /// Identifies the vectors: embedders with the same id return the same vectors for the same texts.
    fn id(&self) -> String {
        self.name().to_owned()
    }

    /// Returns the vector of each text, in the same order. All vectors have the same length.
    fn embed(
        &self,
        texts: Vec<String>,
        purpose: TextPurpose,
    ) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>>;
}

/// The purpose of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPurpose {
    /// The text is to be found. It is embedded once, so its vector may be cached.
    Document,
    /// The text is used to find documents.
    Query,
}
