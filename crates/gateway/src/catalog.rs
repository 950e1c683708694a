//! The models that a gateway serves.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::time::Instant;
use toolwire_contract::model::{Model, ModelError};
use toolwire_dialect::request::ApiSupport;
use toolwire_dialect::{Dialect, Family};

/// Finds models by the names that clients use.
pub trait ModelCatalog: Send + Sync {
    /// Returns the names to list for clients. Other names may work too.
    fn names(&self) -> Vec<String>;

    /// Finds a model.
    fn find(&self, name: &str) -> Result<ServedModel, UnknownModel>;
}

/// A model that a gateway serves.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServedModel {
    pub model: Arc<dyn Model>,
    /// The dialect of the requests to the provider; `None` if there is no provider, or if several have
    /// different ones.
    pub dialect: Option<Dialect>,
    /// How much of the dialect's API the provider supports.
    pub api_support: ApiSupport,
    /// The APIs of several providers, if they differ: any of them may get a request.
    pub different_apis: Vec<(Dialect, ApiSupport)>,
    /// Sends requests that are already in the provider's format.
    pub upstream: Option<Arc<dyn Upstream>>,
    /// The same model through other APIs of its provider. A client that has one of these APIs uses it.
    pub variants: Vec<ServedModel>,
}

impl ServedModel {
    /// Creates a model that has no provider.
    pub fn new(model: Arc<dyn Model>) -> ServedModel {
        let api_support = ApiSupport::default();
        let (different_apis, variants) = (Vec::new(), Vec::new());
        ServedModel { model, dialect: None, api_support, different_apis, upstream: None, variants }
    }

    /// Sets the provider.
    #[must_use]
    pub fn with_upstream(self, dialect: Dialect, upstream: Arc<dyn Upstream>) -> ServedModel {
        ServedModel { dialect: Some(dialect), upstream: Some(upstream), ..self }
    }
}

/// The API of a provider, for requests that need nothing from the gateway.
pub trait Upstream: Send + Sync {
    /// Returns the name that the provider uses for the model.
    fn model_id(&self) -> &str;

    /// Sends a request and returns the response, whatever its status is.
    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>>;

    /// Removes the provider's keys from an error that a response contains.
    fn redact(&self, error: Value) -> Value;
}

/// A request in the format of the provider.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ForwardedRequest {
    /// A path of OpenAI's API below `/v1`, such as `embeddings`; `None` for the path of the model's own API.
    pub path: Option<&'static str>,
    pub body: Bytes,
    /// Headers of the client that the provider understands.
    pub headers: Vec<(&'static str, String)>,
    /// The time after which no retry starts, because the client would no longer wait for its response.
    pub retry_until: Option<Instant>,
}

/// A response of a provider.
#[non_exhaustive]
pub struct ForwardedResponse {
    pub status: u16,
    /// The headers that clients may see.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: ForwardedBody,
}

/// The body of a response of a provider.
pub enum ForwardedBody {
    /// JSON, or an error, which must not contain secrets.
    Complete(Bytes),
    /// Events or other data, as they arrive.
    Parts(BoxStream<'static, Result<Bytes, ModelError>>),
}

impl ForwardedResponse {
    pub fn new(status: u16, headers: Vec<(String, Vec<u8>)>, body: ForwardedBody) -> ForwardedResponse {
        ForwardedResponse { status, headers, body }
    }
}

/// The error for a name that is not the name of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown model `{name}`: {problem}")]
pub struct UnknownModel {
    pub name: String,
    pub problem: String,
}

impl ServedModel {
    /// Returns the variant of the model with the API of a client, if there is one.
    pub(crate) fn for_client(mut self, family: Family) -> ServedModel {
        let variant = self.variants.iter().position(|variant| variant.has_format_of(family));
        match variant.filter(|_| !self.has_format_of(family)) {
            Some(position) => self.variants.swap_remove(position),
            None => self,
        }
    }

    pub(crate) fn family(&self) -> Option<Family> {
        self.dialect.map(Dialect::family)
    }

    /// Returns the APIs that may get a request.
    pub(crate) fn apis(&self) -> Vec<(Dialect, ApiSupport)> {
        match self.dialect {
            Some(dialect) => vec![(dialect, self.api_support)],
            None => self.different_apis.clone(),
        }
    }

    /// Whether the provider supports the complete API of a family.
    pub(crate) fn has_api_of(&self, family: Family) -> bool {
        self.has_format_of(family) && self.api_support == ApiSupport::Complete
    }

    /// Whether the provider supports the API of a family, or a part of it.
    pub(crate) fn has_format_of(&self, family: Family) -> bool {
        self.dialect.is_some_and(|dialect| dialect.has_api_of(family))
    }
}
