//! Prompts, resources and other offers of a server, and their builder methods.

use std::sync::Arc;
use std::time::Duration;

use toolwire_contract::offers::ServerOffers;
use toolwire_contract::{ResourceBody, ResourceContents, ResourceLink};

use crate::changes::Changes;
use crate::prompts::{Prompt, PromptHandler};
use crate::resources::{FixedResource, Resources};
use crate::server::ServerBuilder;
use crate::tasks::TaskOptions;

/// Everything that a server offers in addition to tools.
#[derive(Clone)]
pub(crate) struct Offers {
    pub(crate) resources: Vec<Arc<dyn Resources>>,
    pub(crate) prompts: Vec<(Prompt, Arc<dyn PromptHandler>)>,
    /// The prompts and resources of other servers.
    pub(crate) foreign: Option<Arc<dyn ServerOffers>>,
    /// Set if the lists of this server can change.
    pub(crate) changes: Option<Changes>,
    pub(crate) caching: Caching,
    pub(crate) reply_timeout: Duration,
    pub(crate) request_state_key: Option<Vec<u8>>,
    pub(crate) foreign_key: Option<Vec<u8>>,
    pub(crate) tasks: TaskOptions,
}

impl Default for Offers {
    fn default() -> Offers {
        Offers {
            resources: Vec::new(),
            prompts: Vec::new(),
            foreign: None,
            changes: None,
            caching: Caching::default(),
            reply_timeout: Duration::from_secs(600),
            request_state_key: None,
            foreign_key: None,
            tasks: TaskOptions::default(),
        }
    }
}

/// The rules by which clients of MCP 2026-07-28 may cache lists and resources. By default nothing is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    pub max_age: Duration,
    /// Whether a cached response may be shared between clients.
    pub shared: bool,
}

/// A resource that could not be read, or a prompt that could not be filled in. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// The server failed.
    #[error("{0}")]
    Failed(String),
}

impl From<crate::client::ClientError> for OfferError {
    fn from(error: crate::client::ClientError) -> OfferError {
        OfferError::Failed(error.to_string())
    }
}

impl ServerBuilder {
    /// Adds resources that are computed on request. The first provider that has a URI is used.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> ServerBuilder {
        self.server.offers.resources.push(resources);
        self
    }

    /// Adds a resource with fixed contents.
    #[must_use]
    pub fn resource(self, link: ResourceLink, body: ResourceBody) -> ServerBuilder {
        let contents = vec![ResourceContents {
            uri: link.uri.clone(),
            mime_type: link.mime_type.clone(),
            body,
            extra: serde_json::Map::new(),
        }];
        self.resources(Arc::new(FixedResource { link, contents }))
    }

    #[must_use]
    pub fn prompt(mut self, prompt: Prompt, handler: impl PromptHandler + 'static) -> ServerBuilder {
        self.server.offers.prompts.push((prompt, Arc::new(handler)));
        self
    }

    /// Adds the prompts and resources of other servers, which are passed on as they are. The server's own
    /// ones have precedence.
    #[must_use]
    pub fn offers(mut self, offers: Arc<dyn ServerOffers>) -> ServerBuilder {
        self.server.offers.foreign = Some(offers);
        self
    }

    /// Notifies clients of these changes. Without this, they are notified only of changes in toolboxes.
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

    /// Sets how long a tool waits for a reply from the client; ten minutes by default.
    #[must_use]
    pub fn reply_timeout(mut self, limit: Duration) -> ServerBuilder {
        self.server.offers.reply_timeout = limit;
        self
    }

    /// Sets the key that signs what belongs to other servers and returns with the client: the ids of their
    /// tasks, and the states of questions of their prompts and resources. Servers behind a load balancer need
    /// the same key of at least 32 bytes. By default each process generates its own.
    ///
    /// # Panics
    ///
    /// If the key is shorter than 32 bytes.
    #[must_use]
    pub fn foreign_key(mut self, key: impl Into<Vec<u8>>) -> ServerBuilder {
        self.server.offers.foreign_key = Some(checked_key(key.into()));
        self
    }

    /// Sets the key that signs the `requestState` which clients of MCP 2026-07-28 send back with their
    /// replies. Servers behind a load balancer need the same key of at least 32 bytes. By default each
    /// process generates its own.
    ///
    /// # Panics
    ///
    /// If the key is shorter than 32 bytes.
    #[must_use]
    pub fn request_state_key(mut self, key: impl Into<Vec<u8>>) -> ServerBuilder {
        self.server.offers.request_state_key = Some(checked_key(key.into()));
        self
    }
}

fn checked_key(key: Vec<u8>) -> Vec<u8> {
    assert!(key.len() >= 32, "the key has {} bytes; at least 32 are required", key.len());
    key
}
