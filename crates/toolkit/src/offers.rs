//! What a server offers beside tools, and how its builder is told.

use std::sync::Arc;
use std::time::Duration;

use toolwire_contract::{ResourceBody, ResourceContents, ResourceLink};

use crate::changes::Changes;
use crate::prompts::{Prompt, PromptHandler};
use crate::resources::{Fixed, Resources};
use crate::server::ServerBuilder;
use crate::tasks::TaskOptions;

/// What a server offers beside tools.
#[derive(Clone)]
pub(crate) struct Offers {
    pub(crate) resources: Vec<Arc<dyn Resources>>,
    pub(crate) prompts: Vec<(Prompt, Arc<dyn PromptHandler>)>,
    /// Given by the builder: then the lists of this server may change.
    pub(crate) changes: Option<Changes>,
    pub(crate) caching: Caching,
    pub(crate) reply_timeout: Duration,
    pub(crate) request_state_key: Option<Vec<u8>>,
    pub(crate) tasks: TaskOptions,
}

impl Default for Offers {
    fn default() -> Offers {
        Offers {
            resources: Vec::new(),
            prompts: Vec::new(),
            changes: None,
            caching: Caching::default(),
            reply_timeout: Duration::from_secs(600),
            request_state_key: None,
            tasks: TaskOptions::default(),
        }
    }
}

/// How long clients of MCP 2026-07-28 may keep lists and resources, and for whom. Nothing is kept unless it is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    pub max_age: Duration,
    /// Whether what one client got may be handed to others.
    pub shared: bool,
}

/// Why a resource could not be read, or a prompt not be filled in. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The client must ask differently.
    #[error("{0}")]
    Refused(String),
    /// It is not the client's fault.
    #[error("{0}")]
    Failed(String),
}

impl From<crate::ClientError> for OfferError {
    fn from(error: crate::ClientError) -> OfferError {
        OfferError::Failed(error.to_string())
    }
}

impl ServerBuilder {
    /// Resources that are worked out when they are asked for. Of several, the first that knows an address answers.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> ServerBuilder {
        self.server.offers.resources.push(resources);
        self
    }

    /// One resource that stays as it is.
    #[must_use]
    pub fn resource(self, link: ResourceLink, body: ResourceBody) -> ServerBuilder {
        let contents = vec![ResourceContents {
            uri: link.uri.clone(),
            mime_type: link.mime_type.clone(),
            body,
            extra: serde_json::Map::new(),
        }];
        self.resources(Arc::new(Fixed { link, contents }))
    }

    #[must_use]
    pub fn prompt(mut self, prompt: Prompt, handler: impl PromptHandler + 'static) -> ServerBuilder {
        self.server.offers.prompts.push((prompt, Arc::new(handler)));
        self
    }

    /// Clients are told what these changes say. Without them, only the tools of toolboxes can change.
    #[must_use]
    pub fn changes(mut self, changes: &Changes) -> ServerBuilder {
        self.server.offers.changes = Some(changes.clone());
        self
    }

    #[must_use]
    pub fn caching(mut self, caching: Caching) -> ServerBuilder {
        self.server.offers.caching = caching;
        self
    }

    /// How long a question to the client may stay unanswered; ten minutes unless it is said.
    #[must_use]
    pub fn reply_timeout(mut self, limit: Duration) -> ServerBuilder {
        self.server.offers.reply_timeout = limit;
        self
    }

    /// Signs what clients of MCP 2026-07-28 carry from one round of questions to the next. Servers that stand in for each
    /// other need the same key, of 32 bytes or more; without one, each process makes its own.
    ///
    /// # Panics
    ///
    /// When the key is shorter.
    #[must_use]
    pub fn request_state_key(mut self, key: impl Into<Vec<u8>>) -> ServerBuilder {
        let key = key.into();
        assert!(key.len() >= 32, "the key has {} bytes; at least 32 are required", key.len());
        self.server.offers.request_state_key = Some(key);
        self
    }
}
