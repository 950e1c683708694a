//! The entry point of a request: checks its origin, calls its handler, and adds the common headers.

mod agents;
mod caller;
mod hold;
mod reconfigured;
mod respond;
mod response_headers;
mod status;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body::Body;
use tokio::time::Duration;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::ErrorKind;
use tracing::Instrument as _;

use crate::access::screened;
use crate::admission::Admission;
use crate::catalog::ModelCatalog;
use crate::failed_keys::FailedKeys;
use crate::hidden_rounds::HiddenRounds;
use crate::idempotency::Idempotency;
use crate::ids::random_id;
use crate::items::Items;
use crate::large_bodies::LargeBodies;
use crate::lifecycle::Lifecycle;
use crate::mcp::{self, Mcp};
use crate::meter::Meters;
use crate::metrics::OTHER;
use crate::origin::OriginPolicy;
use crate::page::{Page, PageParts, paths};
use crate::paused_runs::PausedRuns;
use crate::permitted_tools::PermittedToolboxes;
use crate::request_servers::{NoRequestServers, RequestServers};
use crate::response::{Failure, HttpResponse, ResponseBody};
use crate::routes::{self, RouteInfo};
use crate::settings::GatewaySettings;
use crate::state::Backgrounds;
use crate::tools::CheckedTools;
use crate::traffic::Traffic;
use crate::user_servers::UserServers;
use crate::user_tools::UserToolboxes;
pub(crate) use agents::Agents;
pub(crate) use caller::Caller;
pub(crate) use hold::Hold;
use response_headers::{add_headers, preflight};

/// The value of `retry-after` in the responses of a gateway that stops. After this time, a load balancer
/// should have selected another gateway.
const DRAIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A server with the APIs of OpenAI and Anthropic, which adds tools to any model. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) models: Arc<dyn ModelCatalog>,
    /// The listed names of models, which metrics may contain.
    model_names: BTreeSet<String>,
    /// The tools of all servers, as they are given to the gateway.
    pub(crate) given_tools: Arc<dyn Toolbox>,
    /// The tools of all servers. Requests get those that their key permits, from [`Inner::tools_for`].
    pub(crate) all_tools: Arc<dyn Toolbox>,
    pub(crate) permitted: PermittedToolboxes,
    pub(crate) request_servers: Arc<dyn RequestServers>,
    /// The servers for which each user has credentials of its own.
    pub(crate) user_servers: Arc<OnceLock<Arc<dyn UserServers>>>,
    pub(crate) users: UserToolboxes,
    pub(crate) settings: GatewaySettings,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) hidden: Arc<HiddenRounds>,
    pub(crate) paused: Arc<PausedRuns>,
    pub(crate) items: Arc<Items>,
    pub(crate) backgrounds: Arc<Backgrounds>,
    pub(crate) idempotency: Arc<Idempotency>,
    pub(crate) checked_tools: Arc<CheckedTools>,
    pub(crate) origins: OriginPolicy,
    pub(crate) large_bodies: Arc<LargeBodies>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) failed_keys: Arc<FailedKeys>,
    pub(crate) meters: Arc<Meters>,
    /// The web page, if the gateway has one.
    pub(crate) page: OnceLock<Arc<Page>>,
    pub(crate) mcp: Mcp,
    agents: Agents,
}

impl Gateway {
    /// Creates a gateway that connects only to configured servers.
    pub fn new(models: Arc<dyn ModelCatalog>, tools: Arc<dyn Toolbox>, settings: GatewaySettings) -> Gateway {
        Gateway::with_request_servers(models, tools, Arc::new(NoRequestServers), settings)
    }

    /// Creates a gateway that also connects to servers that requests name by URL.
    pub fn with_request_servers(
        models: Arc<dyn ModelCatalog>,
        tools: Arc<dyn Toolbox>,
        request_servers: Arc<dyn RequestServers>,
        settings: GatewaySettings,
    ) -> Gateway {
        let (limits, has_several_keys) = (&settings.limits, settings.keys.may_be_several());
        Gateway(Arc::new(Inner {
            model_names: models.names().into_iter().collect(),
            models,
            all_tools: screened(tools.clone(), &settings),
            given_tools: tools,
            permitted: PermittedToolboxes::default(),
            request_servers,
            user_servers: Arc::default(),
            users: UserToolboxes::default(),
            lifecycle: Arc::default(),
            traffic: Arc::new(Traffic::new(settings.metrics.clone())),
            hidden: Arc::new(HiddenRounds::new(limits, has_several_keys)),
            paused: Arc::new(PausedRuns::new(limits, has_several_keys)),
            items: Arc::new(Items::new(limits, has_several_keys)),
            backgrounds: Arc::default(),
            idempotency: Arc::new(Idempotency::new(limits, has_several_keys)),
            checked_tools: Arc::default(),
            origins: OriginPolicy::new(&settings.hosts, &settings.origins, settings.tls.is_some()),
            large_bodies: Arc::default(),
            admission: Arc::new(Admission::new(limits, has_several_keys)),
            failed_keys: Arc::default(),
            meters: Arc::default(),
            page: OnceLock::new(),
            mcp: Mcp::default(),
            agents: Agents::default(),
            settings,
        }))
    }

    /// Adds the web page. Only the first call has an effect.
    #[must_use]
    pub fn with_page(self, parts: PageParts) -> Gateway {
        self.0.page.get_or_init(|| Arc::new(Page::new(parts, self.0.traffic.clone())));
        self
    }

    /// Adds servers for which each user has credentials of its own. Only the first call has an effect.
    #[must_use]
    pub fn with_user_servers(self, servers: Arc<dyn UserServers>) -> Gateway {
        self.0.user_servers.get_or_init(|| servers);
        self
    }

    /// Returns a token that makes its first user an administrator of the page. It is valid for one hour.
    pub fn new_admin_token(&self) -> Option<String> {
        self.0.page.get()?.new_admin_token()
    }

    /// Returns all paths that the gateway serves.
    pub fn routes() -> impl Iterator<Item = RouteInfo> {
        routes::all()
    }

    /// Returns the patterns of all paths of the web page.
    pub fn page_paths() -> impl Iterator<Item = &'static str> {
        paths::all()
    }

    /// Handles one request of a client that arrived at a local address.
    pub(crate) async fn handle<B>(
        &self,
        request: Request<B>,
        local: SocketAddr,
        client: IpAddr,
    ) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let request_id = random_id("req_").unwrap_or_default();
        // Events of all crates during the request have its id in the log.
        let log = tracing::error_span!("request", id = request_id);
        let response = self.respond_and_measure(request, request_id, local, client);
        let response = response.instrument(log.clone()).await;
        response.map(|body| body.logged(log))
    }

    async fn respond_and_measure<B>(
        &self,
        mut request: Request<B>,
        request_id: String,
        local: SocketAddr,
        client: IpAddr,
    ) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let pattern = routes::pattern(request.uri().path());
        let mut measured = self.0.settings.metrics.begin(request.method(), pattern, &request_id);
        if routes::is_traced(pattern)
            && let Some(span) = self.0.settings.spans.begin(request.headers())
        {
            request.extensions_mut().insert(span.clone());
            measured.set_span(Some(span));
        }
        let path = request.uri().path();
        let refuses = self.0.lifecycle.refuses() && !routes::is_status(path);
        let family = routes::family_of(request.uri().path(), request.headers());
        let is_head = request.method() == Method::HEAD;
        let origin = self.0.origins.check(request.method(), request.uri(), request.headers(), local);
        let mut has_unread_body = !request.body().is_end_stream();
        let (response, origin) = match origin {
            Err(refused) => (Err(Failure::new(ErrorKind::Forbidden, refused.to_string())), None),
            Ok(_) if refuses => {
                let mut failure =
                    Failure::new(ErrorKind::Overloaded, "this gateway is stopping; send the request again");
                failure.error.retry_after = Some(DRAIN_RETRY_AFTER);
                (Err(failure.with_status(StatusCode::SERVICE_UNAVAILABLE)), None)
            }
            Ok(Some(origin)) if request.method() == Method::OPTIONS => (Ok(preflight()), Some(origin)),
            Ok(origin) => match self.0.page.get().filter(|_| Page::has_path(request.uri().path())) {
                // Other web pages may use the APIs if the settings allow it, but not this page.
                Some(_) if origin.is_some() => {
                    let message = "web pages of other sites may not use the page of this gateway";
                    (Err(Failure::new(ErrorKind::Forbidden, message)), None)
                }
                Some(page) => {
                    (Ok(page.handle(&self.0, request, local, client, &mut has_unread_body).await), None)
                }
                None => {
                    let place = (local, client);
                    (self.0.respond(request, &request_id, place, &mut has_unread_body).await, origin)
                }
            },
        };
        let mut response = response.unwrap_or_else(|failure| match pattern {
            mcp::PATH => mcp::refusal(&failure, &self.0.settings.keys),
            _ => failure.respond(family, &request_id),
        });
        add_headers(&mut response, &request_id, origin);
        if has_unread_body || refuses {
            // The connection cannot be used again. Without this header, a proxy could send the next request
            // on it.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_head {
            *response.body_mut() = ResponseBody::Whole(Bytes::new());
        }
        measured.respond(response.status(), response.body().is_stream());
        response.map(|body| body.holding(measured))
    }
}

impl Inner {
    /// Returns the name of a model in metrics: a listed one, or `other`.
    pub(crate) fn model_label(&self, name: &str) -> String {
        if self.model_names.contains(name) {
            return name.to_owned();
        }
        let resolved = self.models.find(name).ok().map(|served| served.model.name().to_owned());
        resolved.filter(|name| self.model_names.contains(name)).unwrap_or_else(|| OTHER.to_owned())
    }
}
