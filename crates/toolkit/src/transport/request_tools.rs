//! Tools that replace those of the server for one HTTP request.

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::BoxStream;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use toolwire_contract::offers::ServerOffers;
use toolwire_contract::toolbox::Toolbox;

use crate::server::Server;

tokio::task_local! {
    /// The tools of the HTTP request that the SDK is handling. It looks up the schema of a called tool before
    /// it calls the handler, without the request.
    static OF_REQUEST: Option<RequestTools>;
}

/// Returns a stream with an item for each change of the tools that only one client has. No change after the
/// creation of the stream is missed.
pub type ToolChanges = Arc<dyn Fn() -> BoxStream<'static, ()> + Send + Sync>;

/// The tools of one HTTP request, for an application whose clients have different tools. The application adds
/// it to the extensions of the request. It replaces the toolboxes of the server, also in a session; functions
/// with `#[tool]` stay.
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestTools {
    pub tools: Arc<dyn Toolbox>,
    /// The prompts and resources of other servers.
    pub offers: Option<Arc<dyn ServerOffers>>,
    /// Identifies the client. A call that waits for a reply continues only for the same client.
    pub client: String,
    /// The maximum number of sessions of the client; `None` if only the number of all sessions is limited.
    pub max_sessions: Option<usize>,
    /// The maximum number of calls of the client that wait for its replies; `None` if only the number of all
    /// such calls is limited.
    pub max_waiting_calls: Option<usize>,
    /// The changes of tools that only this client has. Those of the server's toolboxes are for all clients.
    pub changes: Option<ToolChanges>,
}

impl RequestTools {
    pub fn new(tools: Arc<dyn Toolbox>) -> RequestTools {
        RequestTools {
            tools,
            offers: None,
            client: String::new(),
            max_sessions: None,
            max_waiting_calls: None,
            changes: None,
        }
    }

    pub(super) fn of_parts(parts: &http::Extensions) -> Option<RequestTools> {
        parts.get::<RequestTools>().cloned()
    }

    /// Returns the tools of the HTTP request that is being handled.
    pub(super) fn current() -> Option<RequestTools> {
        OF_REQUEST.try_with(Clone::clone).ok().flatten()
    }

    /// Handles an HTTP request with its tools.
    pub(super) async fn scope<T>(tools: Option<RequestTools>, handling: impl Future<Output = T>) -> T {
        OF_REQUEST.scope(tools, handling).await
    }

    /// Returns a server with these tools.
    pub(super) fn server<'s>(tools: Option<&RequestTools>, server: &'s Server) -> Cow<'s, Server> {
        match tools {
            None => Cow::Borrowed(server),
            Some(RequestTools { tools, offers, .. }) => {
                Cow::Owned(server.with_parts(tools.clone(), offers.clone()))
            }
        }
    }

    /// Returns the client of a request, if the application identifies it.
    pub(super) fn client_of(context: &RequestContext<RoleServer>) -> &str {
        RequestTools::of(context).map_or("", |tools| &tools.client)
    }

    /// Returns the tools of a request, if it has its own.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<&RequestTools> {
        context.extensions.get::<http::request::Parts>()?.extensions.get()
    }

    /// Returns the server with the tools of a request.
    pub(super) fn server_of<'s>(context: &RequestContext<RoleServer>, server: &'s Server) -> Cow<'s, Server> {
        RequestTools::server(RequestTools::of(context), server)
    }
}
