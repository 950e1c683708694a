//! The server: its tools depend on the client of each request.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::header::{HOST, HeaderValue, ORIGIN};
use http::{Request, Response};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use ring::hmac;
use serde_json::{Map, Value};
use toolwire_contract::offers::{
    Offer, OfferChange, OfferKind, OfferRequest, OfferRequestError, ServerFilter, ServerOffers,
};
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox};
use toolwire_contract::{Secret, Tool, ToolResult};
use toolwire_toolkit::Server;
use toolwire_toolkit::transport::{
    HttpOptions, HttpService, RequestTools, RestoredSession, ServeError, StreamServer, ToolChanges,
    http_service, serve_stdio,
};

use crate::owned_sessions::OwnedSessions;

/// The options of an [`McpServer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpServerOptions {
    /// The name that clients see.
    pub name: String,
    pub version: String,
    /// Instructions for models about all tools.
    pub instructions: Option<String>,
    /// The time that a list of tools waits for servers that are starting.
    pub start_timeout: Duration,
    /// The maximum number of sessions, and of clients that listen for changes.
    pub max_sessions: usize,
    /// The maximum number of sessions of one client, if it is one of several.
    pub max_sessions_per_client: usize,
    /// The maximum number of calls of one client that wait for its replies, if it is one of several.
    pub max_waiting_calls_per_client: usize,
    /// A session ends after this time without activity.
    pub session_idle: Duration,
    /// A secret that several processes share, of at least 32 bytes. Each of them can then continue the
    /// sessions of the others.
    pub session_key: Option<Secret>,
    /// The maximum number of concurrent requests.
    pub max_requests: usize,
    /// The maximum size of a message.
    pub max_body_bytes: usize,
}

impl McpServerOptions {
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> McpServerOptions {
        McpServerOptions {
            name: name.into(),
            version: version.into(),
            instructions: None,
            start_timeout: Duration::from_secs(5),
            max_sessions: 10_000,
            max_sessions_per_client: 2_500,
            max_waiting_calls_per_client: 128,
            session_idle: Duration::from_secs(30 * 60),
            session_key: None,
            max_requests: 4_096,
            max_body_bytes: 4 * 1024 * 1024,
        }
    }

    fn server(&self, tools: Arc<dyn Toolbox>, offers: Option<Arc<dyn ServerOffers>>) -> Server {
        let server = Server::builder(self.name.clone()).version(self.version.clone());
        // Names of toolboxes have no prefix. A set one means that no variable of the environment is read.
        let server = server.environment::<&str, &str>([]).start_timeout(self.start_timeout);
        let server = match offers {
            Some(offers) => server.toolbox(tools).offers(offers),
            None => server.toolbox(tools),
        };
        // Keys with different purposes are different.
        let server = match &self.session_key {
            Some(key) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes());
                server.foreign_key(hmac::sign(&key, b"other servers").as_ref())
            }
            None => server,
        };
        let server = match &self.instructions {
            Some(instructions) => server.instructions(instructions.clone()),
            None => server,
        };
        server.build().expect("a server without functions has no invalid tool")
    }
}

/// The client of a request.
#[derive(Clone)]
pub struct Client<'a> {
    /// Sessions of clients with other ids do not exist for it.
    pub id: &'a str,
    /// Whether there are other clients, so that this one may have only a part of all sessions.
    pub is_one_of_several: bool,
    /// The changes of tools that only this client has.
    pub changes: Option<ToolChanges>,
}

impl Client<'_> {
    /// Returns one of several clients, which has no tools of its own.
    pub fn new(id: &str) -> Client<'_> {
        Client { id, is_one_of_several: true, changes: None }
    }
}

impl fmt::Debug for Client<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An MCP server for streamable HTTP, whose tools depend on the client. Cheap to clone.
///
/// It does not authenticate, and checks neither `Host` nor `Origin`: the HTTP server does it before.
#[derive(Clone)]
pub struct McpServer(Arc<Inner>);

struct Inner {
    service: HttpService,
    sessions: OwnedSessions,
    max_sessions_per_client: usize,
    max_waiting_calls_per_client: usize,
}

impl McpServer {
    /// Creates a server. Its clients are notified when the list of `all_tools` changes.
    ///
    /// # Errors
    ///
    /// If the system provides no random bytes.
    pub fn new(
        all_tools: Arc<dyn Toolbox>,
        all_offers: Option<Arc<dyn ServerOffers>>,
        options: &McpServerOptions,
    ) -> Result<McpServer, ServeError> {
        let sessions = match &options.session_key {
            Some(key) => OwnedSessions::new(key.expose().as_bytes(), true),
            None => {
                let mut secret = [0; 32];
                getrandom::fill(&mut secret).map_err(|error| ServeError::NoRandomness(error.to_string()))?;
                OwnedSessions::new(&secret, false)
            }
        };
        let mut http = HttpOptions::default();
        http.hosts = Vec::new();
        http.origins = Vec::new();
        http.max_body_bytes = options.max_body_bytes;
        http.max_requests = options.max_requests;
        http.max_sessions = options.max_sessions;
        http.session_idle = options.session_idle;
        // A request without tools of its own gets none.
        let no_offers =
            all_offers.map(|offers| -> Arc<dyn ServerOffers> { Arc::new(NoOffers { changes_of: offers }) });
        let nothing = options.server(Arc::new(NoTools { changes_of: all_tools }), no_offers);
        let service = http_service(nothing, http)?;
        Ok(McpServer(Arc::new(Inner {
            service,
            sessions,
            max_sessions_per_client: options.max_sessions_per_client,
            max_waiting_calls_per_client: options.max_waiting_calls_per_client,
        })))
    }

    /// Handles a request of a client, which has only these tools.
    pub async fn handle(
        &self,
        mut request: Request<Bytes>,
        client: Client<'_>,
        tools: Arc<dyn Toolbox>,
        offers: Option<Arc<dyn ServerOffers>>,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        let Inner { service, sessions, max_sessions_per_client, max_waiting_calls_per_client } = &*self.0;
        let headers = request.headers_mut();
        // The SDK requires a host, but it cannot check it.
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.remove(ORIGIN);
        let opening = sessions.open(headers, client.id);
        let mut of_request = RequestTools::new(tools);
        of_request.offers = offers;
        client.id.clone_into(&mut of_request.client);
        of_request.max_sessions = client.is_one_of_several.then_some(*max_sessions_per_client);
        of_request.max_waiting_calls = client.is_one_of_several.then_some(*max_waiting_calls_per_client);
        of_request.changes = client.changes;
        request.extensions_mut().insert(of_request);
        if let Some(opening) = opening {
            request.extensions_mut().insert(RestoredSession(opening));
        }
        let body = request.body().clone();
        let mut response = service.handle(request.map(Full::new)).await;
        sessions.seal(response.headers_mut(), client.id, &body);
        response
    }

    /// Rejects new requests, finishes running ones, and ends all sessions. Calls that run longer than
    /// `grace_period` are cancelled.
    pub async fn close(&self, grace_period: Duration) {
        self.0.service.shutdown(grace_period).await;
    }
}

/// Serves tools on standard input and output, for a program that starts this one. Nothing else may use them.
///
/// # Errors
///
/// If the system provides no random bytes.
pub fn serve_on_stdio(
    tools: Arc<dyn Toolbox>,
    offers: Option<Arc<dyn ServerOffers>>,
    options: &McpServerOptions,
) -> Result<StreamServer, ServeError> {
    serve_stdio(options.server(tools, offers))
}

/// No tools. It reports the changes of a toolbox.
struct NoTools {
    changes_of: Arc<dyn Toolbox>,
}

impl Toolbox for NoTools {
    fn tools(&self) -> Arc<[Tool]> {
        Arc::default()
    }

    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        self.changes_of.changes()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        _arguments: &'a Value,
        _options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let error =
            CallError::UnknownTool { tool: tool.to_owned(), nearest: Vec::new(), missing: Vec::new() };
        Box::pin(std::future::ready(Err(error)))
    }
}

/// No prompts and no resources. It reports the changes of others.
struct NoOffers {
    changes_of: Arc<dyn ServerOffers>,
}

impl ServerOffers for NoOffers {
    fn list<'a>(&'a self, _kind: OfferKind, _permits: &'a ServerFilter<'a>) -> BoxFuture<'a, Vec<Offer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn request<'a>(
        &'a self,
        _request: OfferRequest,
        _permits: &'a ServerFilter<'a>,
    ) -> BoxFuture<'a, Result<Map<String, Value>, OfferRequestError>> {
        let problem = "no server is permitted".to_owned();
        Box::pin(std::future::ready(Err(OfferRequestError::InvalidParameters { problem })))
    }

    fn changes(&self) -> BoxStream<'static, OfferChange> {
        self.changes_of.changes()
    }
}
