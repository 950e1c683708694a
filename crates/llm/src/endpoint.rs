//! A provider's endpoint, as a model.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use toolwire_contract::{Model, ModelError, ModelEvent, ModelLimits, ModelRequest};
use toolwire_dialect::Dialect;

use crate::client::Clients;
use crate::settings::{EndpointError, Settings};
use crate::stream::Asking;
use crate::toolsets::Toolsets;
use crate::{Clock, EndpointConfig, Pacing};

/// A provider's endpoint, as a model. Clones share its connections and its tools.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) client: reqwest::Client,
    pub(crate) toolsets: Arc<Toolsets>,
    pub(crate) pacing: Arc<dyn Pacing>,
}

impl Endpoint {
    /// The endpoint of a model as people write it. `lookup` stands for the environment, which is not read here.
    ///
    /// [`Models`](crate::Models) makes endpoints that share their connections.
    pub fn new(
        name: &str,
        config: &EndpointConfig,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, EndpointError> {
        let clients = Clients::new(&lookup)?;
        Endpoint::with_clients(Settings::new(name, config, &lookup)?, &clients)
    }

    pub(crate) fn with_clients(settings: Settings, clients: &Clients) -> Result<Endpoint, EndpointError> {
        let client = clients.client(settings.connect)?;
        Ok(Endpoint {
            settings: Arc::new(settings),
            client,
            toolsets: Arc::default(),
            pacing: Arc::new(Clock),
        })
    }

    /// The same endpoint with another clock between its attempts.
    #[must_use]
    pub fn with_pacing(self, pacing: Arc<dyn Pacing>) -> Endpoint {
        Endpoint { pacing, ..self }
    }

    /// In whose words it is asked.
    pub fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    /// Where it is asked.
    pub fn address(&self) -> &str {
        self.settings.url.as_str()
    }
}

impl Model for Endpoint {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn limits(&self) -> ModelLimits {
        self.settings.limits
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let asking = Asking::new(self, request);
        stream::unfold(asking, |mut asking| async move {
            let event = asking.next().await?;
            Some((event, asking))
        })
        .boxed()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}
