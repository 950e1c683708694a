//! The entry point of a request: checks its origin and its key, calls its handler, and adds the common
//! headers.

mod reconfigured;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN};
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONNECTION};
use http::header::{HeaderValue, VARY};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Body;
use tokio::time::{Duration, Instant};
use toolwire_agent::{Agent, Unattended};
use toolwire_contract::keys::KeyRights;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::Dialect;
use toolwire_dialect::client::ErrorKind;
use tracing::Instrument as _;

use crate::access::screened;
use crate::admission::Admission;
use crate::body;
use crate::catalog::{ModelCatalog, ServedModel};
use crate::failed_keys::FailedKeys;
use crate::form::{self, Boundary};
use crate::forward::Body as RequestBody;
use crate::hidden_rounds::HiddenRounds;
use crate::ids::random_id;
use crate::items::Items;
use crate::keys::AuthenticationError;
use crate::large_bodies::{LargeBodies, is_large};
use crate::lifecycle::Lifecycle;
use crate::meter::{Estimate, Meter, Meters};
use crate::metrics::OTHER;
use crate::origin::OriginPolicy;
use crate::page::{Page, PageParts};
use crate::paused_runs::PausedRuns;
use crate::permitted_tools::PermittedToolboxes;
use crate::principal::Principal;
use crate::request_servers::{NoRequestServers, RequestServers};
use crate::response::{Failure, HttpResponse, ResponseBody};
use crate::routes::{self, Route, RouteInfo};
use crate::settings::GatewaySettings;
use crate::spans::OpenSpan;
use crate::tools::{CheckedTools, ToolSelection, select};
use crate::traffic::{RequestRecorder, Traffic};

/// The maximum number of cached agents, one per model and selection of tools. Above it, the cache is emptied.
const MAX_AGENTS: usize = 256;
const MAX_AGENT_BYTES: usize = 64 * 1024 * 1024;

/// The value of `retry-after` in the responses of a gateway that stops. After this time, a load balancer
/// should have selected another gateway.
const DRAIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Headers that SDKs in browsers send.
const CORS_HEADERS: &str = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, \
    anthropic-dangerous-direct-browser-access, x-toolwire-servers, x-toolwire-tools, x-toolwire-max-steps, \
    x-toolwire-show-calls, \
    x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, \
    x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, x-stainless-read-timeout, \
    x-stainless-helper-method";

/// Response headers that web pages may read, in addition to those that browsers always allow.
const EXPOSED_HEADERS: &str = "x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, x-toolwire-dropped, x-toolwire-unavailable, \
    x-toolwire-servers-omitted, \
    x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
    x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

/// A server with the APIs of OpenAI and Anthropic, which adds tools to any model. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) models: Arc<dyn ModelCatalog>,
    /// The listed names of models, which metrics may contain.
    model_names: BTreeSet<String>,
    /// The tools of all servers, as they are given to the gateway.
    given_tools: Arc<dyn Toolbox>,
    /// The tools of all servers. Requests get those that their key permits, from [`Inner::tools_for`].
    pub(crate) all_tools: Arc<dyn Toolbox>,
    pub(crate) permitted: PermittedToolboxes,
    pub(crate) request_servers: Arc<dyn RequestServers>,
    pub(crate) settings: GatewaySettings,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) hidden: Arc<HiddenRounds>,
    pub(crate) paused: Arc<PausedRuns>,
    pub(crate) items: Arc<Items>,
    pub(crate) checked_tools: Arc<CheckedTools>,
    pub(crate) origins: OriginPolicy,
    pub(crate) large_bodies: Arc<LargeBodies>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) failed_keys: Arc<FailedKeys>,
    pub(crate) meters: Arc<Meters>,
    /// The web page, if the gateway has one.
    pub(crate) page: OnceLock<Arc<Page>>,
    /// Agents by model and selection of tools, so that their catalogs are computed once.
    agents: Mutex<BTreeMap<AgentKey, (Agent, usize)>>,
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
            lifecycle: Arc::default(),
            traffic: Arc::new(Traffic::new(settings.metrics.clone())),
            hidden: Arc::new(HiddenRounds::new(limits, has_several_keys)),
            paused: Arc::new(PausedRuns::new(limits, has_several_keys)),
            items: Arc::new(Items::new(limits, has_several_keys)),
            checked_tools: Arc::default(),
            origins: OriginPolicy::new(&settings.hosts, &settings.origins, settings.tls.is_some()),
            large_bodies: Arc::default(),
            admission: Arc::new(Admission::new(limits, has_several_keys)),
            failed_keys: Arc::default(),
            meters: Arc::default(),
            page: OnceLock::new(),
            agents: Mutex::default(),
            settings,
        }))
    }

    /// Adds the web page. Only the first call has an effect.
    #[must_use]
    pub fn with_page(self, parts: PageParts) -> Gateway {
        self.0.page.get_or_init(|| Arc::new(Page::new(parts, self.0.traffic.clone())));
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
        let mut response = response.unwrap_or_else(|failure| failure.respond(family, &request_id));
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
    async fn respond<B>(
        self: &Arc<Inner>,
        request: Request<B>,
        request_id: &str,
        (local, client): (SocketAddr, IpAddr),
        has_unread_body: &mut bool,
    ) -> Result<HttpResponse, Failure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (parts, body) = request.into_parts();
        body::check_headers(&parts.uri, &parts.headers)?;
        let (route, is_public) = match routes::find(&parts.method, parts.uri.path()) {
            Ok(found) => found,
            // Clients without a key get the same error for unknown paths, so they cannot find out which paths
            // exist.
            Err(failure) => {
                self.authenticate(&parts.headers, client).await?;
                return Err(failure);
            }
        };
        if is_public {
            return self.status(&route, &parts.headers, local, client).await;
        }
        let principal = self.authenticate(&parts.headers, client).await?;
        if let Some(response) = self.model_list(&principal, &route, &parts)? {
            return Ok(response);
        }
        let boundary = match route {
            Route::PassFormThrough(_) => {
                body::check_type(&parts.headers, form::MEDIA_TYPE)?;
                Some(Boundary::of(&parts.headers)?)
            }
            _ => {
                body::check_type(&parts.headers, "application/json")?;
                None
            }
        };
        let limits = &self.settings.limits;
        let mut room = self.admission.body_room(&principal, client);
        let start = Instant::now();
        let body = body::read(&parts.headers, body, limits, &mut room).await?;
        *has_unread_body = false;
        let admitted = self.admission.enter(&principal)?;
        let is_recorded =
            matches!(route, Route::Complete(_) | Route::PassThrough(_) | Route::PassFormThrough(_));
        let recorder = is_recorded.then(|| self.traffic.begin(request_id, parts.uri.path(), &principal));
        let family = routes::family_of(parts.uri.path(), &parts.headers);
        let guard = recorder.as_ref().map(RequestRecorder::guard);
        let keys = &self.settings.keys;
        let estimate = || estimate(&route, &body);
        let meter = self.meters.begin(keys, &principal, request_id, limits.run_timeout, estimate).await;
        let meter = match meter {
            Ok(meter) => meter,
            Err(failure) => {
                if let Some(recorder) = &recorder {
                    let status = failure.status(family);
                    recorder.respond(&Err(failure.clone()), status);
                }
                return Err(failure);
            }
        };
        let mut invalidation = self.settings.keys.invalidation(&principal);
        let caller = Caller {
            principal,
            request_id: request_id.to_owned(),
            meter: meter.clone(),
            recorder: recorder.clone(),
            span: parts.extensions.get::<OpenSpan>().cloned(),
            deadline: Instant::now() + limits.run_timeout,
            client_deadline: client_timeout(&parts.headers).and_then(|timeout| start.checked_add(timeout)),
        };
        let respond = async {
            if let (Route::PassFormThrough(path), Some(boundary)) = (&route, boundary) {
                return self.pass_form_through(path, &caller, body, boundary).await;
            }
            let body = match is_large(body.len()) {
                true => self.large_bodies.run(|| RequestBody::read(body)).await??,
                false => RequestBody::read(body)?,
            };
            room.grow_to(body.estimated_bytes().min(limits.body_bytes))?;
            self.respond_to_json(route, caller, parts.headers, body).await
        };
        let response = match &mut invalidation {
            None => respond.await,
            // If the key is revoked, its running requests end.
            Some(invalidation) => tokio::select! {
                biased;
                response = respond => response,
                () = invalidation => Err(unauthenticated(&AuthenticationError::Unauthenticated)),
            },
        };
        if let Some(recorder) = &recorder {
            let status =
                response.as_ref().map_or_else(|failure| failure.status(family), HttpResponse::status);
            recorder.respond(&response, status);
        }
        let response = match guard {
            Some(guard) => response.map(|response| response.map(|body| body.recorded(guard))),
            None => response,
        };
        let response = match meter {
            Some(meter) => meter.measure(response),
            None => response,
        };
        let response = match invalidation {
            Some(end) => response.map(|response| response.map(|body| body.until(end))),
            None => response,
        };
        // A stream counts against the limits until its end.
        response.map(|response| response.map(|body| body.holding((admitted, room))))
    }

    async fn respond_to_json(
        self: &Arc<Inner>,
        route: Route,
        caller: Caller,
        headers: HeaderMap,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        if let Some(recorder) = &caller.recorder {
            let model = body.model();
            let label = model.as_deref().map_or_else(|| OTHER.to_owned(), |name| self.model_label(name));
            recorder.set_model(model, label);
        }
        match route {
            Route::Complete(family) => self.complete(family, caller, &headers, body).await,
            Route::CountTokens(family) => self.count_tokens(family, caller.principal, headers, body).await,
            Route::PassThrough(path) => self.pass_through(path, &caller, body).await,
            Route::Models
            | Route::Model(_)
            | Route::PassFormThrough(_)
            | Route::Health
            | Route::Ready
            | Route::Metrics => Err(Failure::new(ErrorKind::NotFound, "unknown path")),
        }
    }

    /// Finds the caller of a request. Wrong keys are counted.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<Principal, Failure> {
        let principal = self.settings.keys.authenticate(headers).await;
        principal.map_err(|error| {
            if error == AuthenticationError::Unavailable {
                return unauthenticated(&error);
            }
            let has_key = ["authorization", "x-api-key"].iter().any(|name| headers.contains_key(*name));
            let is_limited = has_key.then(|| self.failed_keys.record(client, std::time::Instant::now()));
            match is_limited.flatten() {
                Some(failure) => failure,
                None => unauthenticated(&error),
            }
        })
    }

    /// Returns the name of a model in metrics: a listed one, or `other`.
    pub(crate) fn model_label(&self, name: &str) -> String {
        if self.model_names.contains(name) {
            return name.to_owned();
        }
        let resolved = self.models.find(name).ok().map(|served| served.model.name().to_owned());
        resolved.filter(|name| self.model_names.contains(name)).unwrap_or_else(|| OTHER.to_owned())
    }

    /// Returns an agent with a model and the selected tools.
    pub(crate) fn agent(
        &self,
        principal: &Principal,
        served: &ServedModel,
        selection: ToolSelection,
    ) -> Result<Agent, Failure> {
        let rights = principal.tool_rights().cloned();
        let key = (served.model.name().to_owned(), served.dialect, selection, rights);
        if let Some((agent, _)) = self.agents.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(agent.clone());
        }
        let agent = self.new_agent(served, &key.2, &self.tools_for(principal))?;
        let bytes = key.2.bytes(&**agent.tools());
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = agents.values().map(|(_, bytes)| bytes).sum();
        if agents.len() >= MAX_AGENTS || total + bytes > MAX_AGENT_BYTES {
            agents.clear();
        }
        // A selection that exceeds the limit alone is not cached.
        if bytes <= MAX_AGENT_BYTES {
            agents.insert(key, (agent.clone(), bytes));
        }
        Ok(agent)
    }

    /// Creates an agent with a model and the selected part of these tools.
    pub(crate) fn new_agent(
        &self,
        served: &ServedModel,
        selection: &ToolSelection,
        tools: &Arc<dyn Toolbox>,
    ) -> Result<Agent, Failure> {
        let tools = select(tools, selection.clone());
        let unattended = if selection.can_approve { Unattended::Pause } else { Unattended::Refuse };
        let agent = Agent::builder().settings(self.settings.agent.clone()).model(served.model.clone());
        let agent = agent.unattended(unattended).tools(tools);
        agent.build().map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))
    }
}

/// The properties that determine an agent: the model, the API through which it is used, the selected tools, and the rights of
/// the key.
type AgentKey = (String, Option<Dialect>, ToolSelection, Option<Arc<KeyRights>>);

/// Creates the error for a caller that is not known.
pub(crate) fn unauthenticated(error: &AuthenticationError) -> Failure {
    let kind = match error {
        AuthenticationError::Unauthenticated => ErrorKind::Unauthenticated,
        AuthenticationError::Unavailable => ErrorKind::Overloaded,
    };
    Failure::new(kind, error.to_string())
}

/// The client of a request, and the deadlines of the request.
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) request_id: String,
    /// The end of the gateway's `runTimeout` for the request.
    pub(crate) deadline: Instant,
    /// The end of the client's timeout, if the request states one.
    pub(crate) client_deadline: Option<Instant>,
    /// Counts the request, if its key has limits.
    pub(crate) meter: Option<Meter>,
    /// The record of the request, if it is for a model.
    pub(crate) recorder: Option<RequestRecorder>,
    /// The span of the request in a distributed trace.
    pub(crate) span: Option<OpenSpan>,
}

impl Caller {
    /// Returns the time after which the response is no longer needed.
    pub(crate) fn end(&self) -> Instant {
        self.client_deadline.map_or(self.deadline, |end| end.min(self.deadline))
    }
}

/// Estimates the tokens of a request.
fn estimate(route: &Route, body: &Bytes) -> Estimate {
    match route {
        Route::Complete(_) => {
            // An invalid body is refused later, and then counts nothing.
            let body = RequestBody::read(body.clone());
            body.map_or_else(
                |_| Estimate::default(),
                |body| Estimate::of(body.text().as_bytes(), body.output_limit()),
            )
        }
        Route::PassThrough(_) => Estimate::without_output(body),
        _ => Estimate::default(),
    }
}

/// Returns the client's timeout. The SDKs of OpenAI and Anthropic send it, in seconds.
fn client_timeout(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let seconds = seconds("x-stainless-timeout").or_else(|| seconds("x-stainless-read-timeout"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Responds to the CORS preflight of a browser for a configured web page.
fn preflight() -> HttpResponse {
    let mut response = http::Response::new(ResponseBody::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(CORS_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn add_headers(response: &mut HttpResponse, request_id: &str, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(request_id) {
        // OpenAI's SDKs read the first one, Anthropic's the second one.
        headers.insert("x-request-id", id.clone());
        headers.insert("request-id", id);
    }
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(VARY).or_insert(HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    }
}
