//! A provider's endpoint as a [`Model`].

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use toolwire_contract::Content;
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, UnsupportedContent,
};
use toolwire_dialect::Dialect;
use toolwire_dialect::request::{ApiSupport, check_content, verbatim_request};

use crate::clock::SystemClock;
use crate::discovery::{discover, discover_during};
use crate::http_clients::HttpClients;
use crate::limits::LearnedLimits;
use crate::settings::EndpointSettings;
use crate::stream::EventStream;
use crate::toolset_cache::ToolsetCache;
use crate::{Clock, EndpointConfig, EndpointError};

/// A provider's endpoint as a [`Model`]. Clones share connections and converted tools.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) settings: Arc<EndpointSettings>,
    pub(crate) client: reqwest::Client,
    pub(crate) toolset_cache: Arc<ToolsetCache>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) learned: Arc<LearnedLimits>,
}

impl Endpoint {
    /// Creates the endpoint of a model such as `openai/gpt-5.2`. `lookup` reads environment variables; the
    /// crate itself does not access the environment.
    ///
    /// Use [`Models`](crate::Models) to create several endpoints that share their connections.
    pub fn new(
        name: &str,
        config: &EndpointConfig,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, EndpointError> {
        let clients = HttpClients::new(&lookup)?;
        Endpoint::with_clients(EndpointSettings::new(name, config, &lookup)?, &clients)
    }

    pub(crate) fn with_clients(
        settings: EndpointSettings,
        clients: &HttpClients,
    ) -> Result<Endpoint, EndpointError> {
        let client = clients.client(settings.connect_timeout)?;
        Ok(Endpoint {
            settings: Arc::new(settings),
            client,
            toolset_cache: Arc::default(),
            clock: Arc::new(SystemClock),
            learned: Arc::default(),
        })
    }

    /// Replaces the clock that is used for retries.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Endpoint {
        Endpoint { clock, ..self }
    }

    /// The API dialect of its requests.
    pub fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    /// How much of the dialect's API its server supports.
    pub fn api_support(&self) -> ApiSupport {
        self.settings.options.api_support
    }

    /// The URL that requests are sent to.
    pub fn url(&self) -> &str {
        self.settings.url.as_str()
    }
}

impl Model for Endpoint {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn limits(&self) -> ModelLimits {
        self.learned.limits(&self.settings)
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.settings.limits.context_tokens.is_none() {
                self.learned.asked.get_or_init(|| discover(self)).await;
            }
        })
    }

    fn keeps_verbatim(&self, request: &ModelRequest) -> bool {
        verbatim_request(self.settings.dialect, request, &self.settings.options).is_some()
    }

    fn check_content(&self, content: &Content) -> Result<(), UnsupportedContent> {
        check_content(self.settings.dialect, content, &self.settings.options)
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let events = EventStream::new(self, request);
        let events = stream::unfold(events, |mut events| async move {
            let event = events.next().await?;
            Some((event, events))
        });
        discover_during(self, events.boxed())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}
