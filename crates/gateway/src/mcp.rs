//! `/mcp`: the tools of all servers as one MCP server.
//!
//! The gateway authenticates the client, applies the limits and selects the tools. A [`McpEndpoint`] speaks
//! MCP.

pub(crate) mod authorization;
mod messages;
mod offers;
mod running;
mod search;
pub(crate) mod tools;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use serde_json::json;
use toolwire_contract::offers::ServerOffers;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::Family;
use toolwire_dialect::client::ErrorKind;

use crate::access::unauthenticated;
use crate::admission::{Admitted, Counted};
use crate::body;
use crate::caller_tools::CallerTools;
use crate::gateway::{Gateway, Inner};
use crate::keys::{AuthenticationError, Keys};
use crate::meter::{Estimate, Meter};
use crate::principal::Principal;
use crate::response::{Failure, HttpResponse, ResponseBody};
use crate::settings::{GatewayLimits, GatewaySettings};
use crate::spans::{OpenSpan, TracedToolbox};
use authorization::ProtectedResource;
use messages::Messages;
use offers::PermittedOffers;
use running::{Lifetime, Place, RunningTools};
use search::SearchedTools;
use tools::{McpToolboxes, McpTools};

pub(crate) const PATH: &str = "/mcp";

/// The maximum size of a message. Messages have no files, so they are much smaller than requests to models.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Headers that only the gateway needs.
const REMOVED_HEADERS: [HeaderName; 4] = [AUTHORIZATION, COOKIE, CONTENT_LENGTH, TRANSFER_ENCODING];

pub type McpRequest = Request<Bytes>;

pub type McpResponse = Response<BoxBody<Bytes, Infallible>>;

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpClient {
    /// Identifies the client: sessions of other clients do not exist for it.
    pub owner: String,
    /// Whether there may be other clients, so that this one may have only a part of all sessions.
    pub is_one_of_several: bool,
}

/// Speaks MCP with the clients of [`Gateway`] at `/mcp`.
pub trait McpEndpoint: Send + Sync {
    /// Handles a request of a client with the tools, prompts and resources that it may use.
    fn handle(
        &self,
        request: McpRequest,
        client: McpClient,
        tools: Arc<dyn Toolbox>,
        offers: Arc<dyn ServerOffers>,
    ) -> BoxFuture<'_, McpResponse>;

    /// Ends all sessions and streams. Running calls have some time to finish.
    fn close(&self, grace_period: Duration) -> BoxFuture<'_, ()>;
}

/// What a gateway needs for `/mcp`.
#[derive(Default)]
pub(crate) struct Mcp {
    endpoint: Arc<OnceLock<McpParts>>,
    toolboxes: McpToolboxes,
}

/// How a request counts against the limits until its response ends.
#[derive(Default)]
struct Begun {
    admitted: Option<Arc<Admitted>>,
    /// Whether the response is a stream that only waits for changes.
    listens: bool,
    _listener: Option<Counted<String>>,
    _meters: Vec<Meter>,
}

struct McpParts {
    endpoint: Arc<dyn McpEndpoint>,
    offers: Arc<dyn ServerOffers>,
}

impl Mcp {
    /// Returns the same for a gateway with other settings. Sessions are kept.
    pub(crate) fn reconfigured(&self) -> Mcp {
        Mcp { endpoint: self.endpoint.clone(), toolboxes: McpToolboxes::default() }
    }

    pub(crate) async fn close(&self, grace_period: Duration) {
        if let Some(parts) = self.endpoint.get() {
            parts.endpoint.close(grace_period).await;
        }
    }
}

impl Gateway {
    /// Adds `/mcp`, with the prompts and resources of all servers. Only the first call has an effect.
    #[must_use]
    pub fn with_mcp(self, endpoint: Arc<dyn McpEndpoint>, offers: Arc<dyn ServerOffers>) -> Gateway {
        self.0.mcp.endpoint.get_or_init(|| McpParts { endpoint, offers });
        self
    }
}

/// Returns the tools that the user of this machine may use without a gateway: by the settings' rules, with
/// screened results and an audit log.
pub fn local_tools(tools: Arc<dyn Toolbox>, settings: &GatewaySettings) -> Arc<dyn Toolbox> {
    let tools = crate::access::screened(tools, settings);
    let policy = settings.agent.approvals.clone();
    let permitted = Arc::new(McpTools::new(tools, policy, None, settings.metrics.clone()));
    let tools: Arc<dyn Toolbox> = match settings.audit.clone() {
        Some(log) => {
            let (tools, principal, request) =
                (permitted.clone(), Principal::without_key(), "stdio".to_owned());
            Arc::new(CallerTools { tools, log: Some(log), owner: None, principal, request })
        }
        None => permitted.clone(),
    };
    with_search(permitted, tools, settings)
}

/// Returns the prompts, resources and tasks that the user of this machine may use without a gateway.
pub fn local_offers(offers: Arc<dyn ServerOffers>, settings: &GatewaySettings) -> Arc<dyn ServerOffers> {
    let (lifetime, screens_tasks) = (Lifetime::default(), settings.screen_results);
    // The rules cannot change, because the settings are read only once.
    Arc::new(PermittedOffers { offers, rights: None, lifetime, screens_tasks, tools: None })
}

impl Inner {
    /// Handles a request of an authenticated client.
    pub(crate) async fn mcp<B>(
        &self,
        mut parts: Parts,
        body: B,
        principal: Principal,
        (request_id, client): (&str, IpAddr),
        has_unread_body: &mut bool,
    ) -> Result<HttpResponse, Failure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        if parts.method == Method::HEAD {
            let failure = Failure::new(ErrorKind::InvalidRequest, format!("`{PATH}` does not support HEAD"));
            let status = Some(StatusCode::METHOD_NOT_ALLOWED);
            return Err(Failure { status, allow: Some("GET, POST, DELETE".into()), ..failure });
        }
        let is_post = parts.method == Method::POST;
        if is_post {
            body::check_type(&parts.headers, "application/json")?;
        }
        let Some(McpParts { endpoint, offers }) = self.mcp.endpoint.get() else {
            return Err(Failure::new(ErrorKind::NotFound, "this gateway does not serve MCP"));
        };
        let limits = &self.settings.limits;
        let mut room = self.admission.body_room(&principal, client);
        let mut begun = Begun::default();
        let mut bytes = Bytes::new();
        // The other methods open a stream that only waits, or end a session. The number of connections limits
        // them.
        if is_post {
            let limits =
                GatewayLimits { body_bytes: limits.body_bytes.min(MAX_BODY_BYTES), ..limits.clone() };
            bytes = body::read(&parts.headers, body, &limits, &mut room).await?;
            *has_unread_body = false;
            begun = self.begin_messages(Messages::of(&bytes), &principal, request_id).await?;
        }
        let invalidation = self.settings.keys.invalidation(&principal).map(|end| end.shared());
        let place = begun.admitted.as_ref().filter(|_| parts.headers.contains_key("mcp-session-id"));
        let place = place.map(|admitted| Place {
            admitted: Arc::downgrade(admitted),
            admission: self.admission.clone(),
            principal: principal.clone(),
        });
        let lifetime = Lifetime { place, invalidation: invalidation.clone() };
        let (permitted, tools) = self.mcp_tools(&principal, request_id, parts.extensions.get::<OpenSpan>());
        let tools = Arc::new(RunningTools { tools, lifetime: lifetime.clone() });
        let client = McpClient {
            owner: principal.key_id().unwrap_or_default().to_owned(),
            is_one_of_several: self.admission.has_several_keys(),
        };
        let rights = principal.rights().cloned();
        let offers = Arc::new(PermittedOffers {
            offers: offers.clone(),
            rights,
            lifetime,
            screens_tasks: self.settings.screen_results,
            tools: Some(permitted),
        });
        for name in self.user_servers.get().map_or_else(Vec::new, |servers| servers.headers()) {
            // The credentials are in the principal, and concern nothing else.
            parts.headers.remove(name.as_str());
        }
        let handling = endpoint.handle(inner_request(parts, bytes), client, tools, offers);
        let response = match invalidation.clone() {
            None => handling.await,
            Some(invalidation) => tokio::select! {
                biased;
                response = handling => response,
                () = invalidation => return Err(unauthenticated(&AuthenticationError::Unauthenticated)),
            },
        };
        let response = outer_response(response);
        let response = match invalidation {
            Some(end) => response.map(|body| body.until(end.boxed())),
            None => response,
        };
        if begun.listens {
            begun.admitted = None;
        }
        Ok(response.map(|body| body.holding((begun, room))))
    }

    /// Counts messages against the limits.
    async fn begin_messages(
        &self,
        messages: Messages,
        principal: &Principal,
        request_id: &str,
    ) -> Result<Begun, Failure> {
        let admitted = Some(Arc::new(self.admission.enter(principal, messages.requests)?));
        let listener = match messages.listens {
            true => self.admission.listen(principal)?,
            false => None,
        };
        let max = principal.rights().and_then(|rights| rights.limit().requests_per_minute);
        if let Some(max) = max.filter(|max| messages.count as u64 > *max) {
            let message = format!(
                "this key may make {max} requests per minute, and each of the {} messages is one: send smaller batches",
                messages.count
            );
            let failure = Failure::new(ErrorKind::RateLimited, message);
            return Err(Failure { should_retry: Some(false), ..failure });
        }
        let mut meters = Vec::new();
        // Without such a limit, it makes no difference whether the others are counted.
        let counted = if max.is_some() { messages.count } else { 1 };
        for number in 0..counted {
            let id = match number {
                0 => request_id.to_owned(),
                _ => format!("{request_id}-{number}"),
            };
            let (keys, timeout) = (&self.settings.keys, self.settings.limits.run_timeout);
            meters.extend(self.meters.begin(keys, principal, &id, timeout, Estimate::default).await?);
        }
        Ok(Begun { admitted, listens: messages.listens, _listener: listener, _meters: meters })
    }

    /// Returns the tools that a client may use, and the same tools for one request: traced, attributed to the
    /// caller, and with the search if it is enabled.
    fn mcp_tools(
        &self,
        principal: &Principal,
        request_id: &str,
        span: Option<&OpenSpan>,
    ) -> (Arc<McpTools>, Arc<dyn Toolbox>) {
        let rights = principal.tool_rights();
        let new = || {
            let policy = self.settings.agent.approvals.clone();
            let metrics = self.settings.metrics.clone();
            McpTools::new(self.tools_for(principal), policy, rights.cloned(), metrics)
        };
        let of_user = self.user_tools(principal);
        let toolboxes = of_user.as_ref().map_or(&self.mcp.toolboxes, |tools| &tools.mcp);
        let permitted = toolboxes.of(rights, new);
        let mut tools: Arc<dyn Toolbox> = permitted.clone();
        if let Some(span) = span {
            tools = Arc::new(TracedToolbox::new(tools, span.clone()));
        }
        let tools = self.attributed(&tools, principal, request_id).unwrap_or(tools);
        (permitted.clone(), with_search(permitted, tools, &self.settings))
    }
}

/// Returns a search of the tools instead of the tools, if the settings say so.
fn with_search(
    permitted: Arc<McpTools>,
    tools: Arc<dyn Toolbox>,
    settings: &GatewaySettings,
) -> Arc<dyn Toolbox> {
    match settings.mcp_search {
        true => Arc::new(SearchedTools::new(permitted, tools)),
        false => tools,
    }
}

/// Returns a request without what concerns only the gateway: the client's key must not reach any server.
fn inner_request(mut parts: Parts, body: Bytes) -> McpRequest {
    for name in REMOVED_HEADERS {
        parts.headers.remove(name);
    }
    parts.headers.remove("x-api-key");
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = http::Uri::from_static(PATH);
    *request.headers_mut() = parts.headers;
    request
}

fn outer_response(response: McpResponse) -> HttpResponse {
    let (mut parts, body) = response.into_parts();
    if parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        // Proxies must not buffer events.
        parts.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        let events = body.into_data_stream().map(|event| event.map_err(Into::into));
        return Response::from_parts(parts, ResponseBody::stream(events));
    }
    // The body is complete, so this does not wait. If it did, the response would be a stream.
    let mut collecting = Box::pin(body.collect());
    let body = match collecting.as_mut().now_or_never() {
        Some(Ok(collected)) => ResponseBody::Whole(collected.to_bytes()),
        None => ResponseBody::stream(futures::stream::once(async move {
            let Ok(collected) = collecting.await;
            Ok(collected.to_bytes())
        })),
    };
    Response::from_parts(parts, body)
}

/// Creates the response for a request that the gateway refuses, as an error of JSON-RPC.
pub(crate) fn refusal(failure: &Failure, keys: &Keys) -> HttpResponse {
    let response = failure.respond(Family::OpenAiChat, "");
    let status = response.status();
    let is_malformed = [400, 405, 408, 413, 415, 431].contains(&status.as_u16());
    let code = if is_malformed { -32600 } else { -32000 };
    let error = json!({"code": code, "message": failure.error.message});
    let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
    let mut response = response.map(|_| ResponseBody::Whole(body.into()));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = ProtectedResource::of(keys).map(|resource| resource.challenge());
        let challenge = challenge.and_then(|challenge| HeaderValue::try_from(challenge).ok());
        let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer"));
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
