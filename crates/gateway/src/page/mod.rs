//! The web page: HTML for people, on the same address as the APIs.
//!
//! The HTML is created by `toolwire-page`. The modules here read requests, check who sends them, and connect
//! the views to the models, tools and conversations.

mod admin;
mod assets;
mod chat;
mod events;
mod failure;
mod headers;
mod login_starts;
pub(crate) mod paths;
mod reply;
mod request;
mod servers;
mod sessions;
mod sign_in;
pub(crate) mod user_login;
mod views;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Body;
use toolwire_contract::conversations::Conversations;
use toolwire_contract::toolbox::Toolbox;
use toolwire_page::Markup;
use toolwire_page::shell::{Role, Shell, View, Visitor};

use crate::access::unauthenticated;
use crate::gateway::Inner;
use crate::keys::AuthenticationError;
use crate::principal::Principal;
use crate::response::HttpResponse;
use crate::traffic::Traffic;
use chat::Chats;
pub use chat::RunStorage;
use events::Events;
use failure::PageFailure;
use login_starts::LoginStarts;
use reply::Reply;
use request::PageRequest;
use servers::ServersFeed;
pub use servers::{PageServers, ServerChangeError, ServerChangeErrorKind};
use sessions::{Session, Sessions};
use views::{CachedIndex, CallHistory};

/// The parts of the page besides the models and tools of the gateway.
#[derive(Clone)]
#[non_exhaustive]
pub struct PageParts {
    /// The stored conversations. The page displays them and adds to them.
    pub conversations: Arc<dyn Conversations>,
    /// Stores runs that wait for a decision. Without it, they do not survive the process.
    pub waiting_runs: Option<Arc<dyn RunStorage>>,
    /// The servers that the page displays and changes.
    pub servers: Option<Arc<dyn PageServers>>,
}

impl PageParts {
    pub fn new(conversations: Arc<dyn Conversations>) -> PageParts {
        PageParts { conversations, waiting_runs: None, servers: None }
    }

    /// Sets the storage of runs that wait for a decision.
    #[must_use]
    pub fn with_waiting_runs(self, storage: Arc<dyn RunStorage>) -> PageParts {
        PageParts { waiting_runs: Some(storage), ..self }
    }

    /// Adds the view of the servers.
    #[must_use]
    pub fn with_servers(self, servers: Arc<dyn PageServers>) -> PageParts {
        PageParts { servers: Some(servers), ..self }
    }
}

/// The state of the page.
pub(crate) struct Page {
    parts: PageParts,
    chats: Chats,
    sessions: Sessions,
    login_starts: LoginStarts,
    events: Arc<Events>,
    servers: ServersFeed,
    index: CachedIndex,
    calls: CallHistory,
    pub(crate) traffic: Arc<Traffic>,
    /// Whether a task publishes the changes of the traffic.
    is_publishing: AtomicBool,
}

/// A request of a visitor who may use the page.
struct Context<'a> {
    inner: &'a Arc<Inner>,
    page: &'a Arc<Page>,
    visitor: Visitor,
    principal: Principal,
    /// The tools that the visitor may use.
    tools: Arc<dyn Toolbox>,
}

/// The content of a view.
struct Content<'a> {
    view: View,
    title: &'a str,
    topics: &'a [String],
    has_item: bool,
    list: Option<Markup>,
    main: Markup,
}

impl Page {
    pub(crate) fn new(parts: PageParts, traffic: Arc<Traffic>) -> Page {
        Page {
            chats: Chats::new(parts.waiting_runs.clone()),
            parts,
            sessions: Sessions::default(),
            login_starts: LoginStarts::default(),
            events: Arc::default(),
            servers: ServersFeed::default(),
            index: CachedIndex::default(),
            calls: CallHistory::default(),
            traffic,
            is_publishing: AtomicBool::new(false),
        }
    }

    /// Stops the responses of the chat view, and waits until what they wrote is stored.
    pub(crate) async fn close(&self) {
        self.chats.close().await;
        self.events.close();
    }

    /// Returns a token that makes its first user an administrator.
    pub(crate) fn new_admin_token(&self) -> Option<String> {
        self.sessions.new_admin_token()
    }

    /// Whether a path belongs to the page. All other paths belong to the APIs.
    pub(crate) fn has_path(path: &str) -> bool {
        let Some(first) = path.strip_prefix('/').and_then(|path| path.split('/').next()) else {
            return false;
        };
        // A client whose base URL lacks `/v1` gets the error of the API, which says so.
        if path == "/chat/completions" {
            return false;
        }
        let name = first.strip_suffix(".json").unwrap_or(first);
        ["", "-", "sign-in", "chat", "servers", "tools", "dialects", "traffic"].contains(&name)
    }

    /// Handles a request to a path of the page.
    pub(crate) async fn handle<B>(
        self: &Arc<Page>,
        inner: &Arc<Inner>,
        request: Request<B>,
        local: SocketAddr,
        client: IpAddr,
        has_unread_body: &mut bool,
    ) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let wants_html = request::accepts_html(request.headers());
        let theme = request::theme(request.headers());
        let response = self.respond(inner, request, local, client, has_unread_body).await;
        let mut response = response.unwrap_or_else(|failure| failure.respond(wants_html, theme));
        headers::add(response.headers_mut());
        response
    }

    async fn respond<B>(
        self: &Arc<Page>,
        inner: &Arc<Inner>,
        request: Request<B>,
        local: SocketAddr,
        client: IpAddr,
        has_unread_body: &mut bool,
    ) -> Result<HttpResponse, PageFailure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        crate::body::check_headers(&head.uri, &head.headers)?;
        if let ["-", "admin", ..] =
            request::segments(&head.uri).iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            let headers = head.headers.clone();
            let reply = admin::respond(self, inner, head, body, client, has_unread_body).await?;
            return reply.respond(&headers);
        }
        request::check_source(&head)?;
        let cookie = sessions::cookie_name(local.port());
        let session = self.sessions.find(&head.headers, &cookie);
        if let Some(reply) = assets::respond(&head) {
            return reply.respond(&head.headers);
        }
        // The keys may have changed since the session began.
        let session = match session {
            Some(session) => self.valid(inner, session, &head.headers, &cookie).await?,
            None => None,
        };
        if request::segments(&head.uri) == ["sign-in"] {
            let is_post = head.method == Method::POST;
            let request = PageRequest::read_small(inner, head, body, client).await?;
            *has_unread_body = false;
            let reply = match is_post {
                true => sign_in::sign_in(self, inner, &request, client, &cookie).await?,
                false => sign_in::form(&request),
            };
            return reply.respond(&request.head.headers);
        }
        if user_login::has_path(&head.uri) {
            let request = PageRequest::read_small(inner, head, body, client).await?;
            *has_unread_body = false;
            let signed_in = session.map(|session| session.principal);
            let reply = user_login::respond(inner, &self.login_starts, &request, signed_in, client).await?;
            return reply.respond(&request.head.headers);
        }
        let theme = request::theme(&head.headers);
        let is_signed_in = session.is_some();
        let (principal, role) = match session {
            Some(session) => (session.principal, session.role),
            None if !inner.settings.keys.is_needed().await => (Principal::without_key(), Role::User),
            None => return Ok(sign_in::required(&head)),
        };
        let visitor = Visitor { role, theme, key: principal.name().map(str::to_owned), is_signed_in };
        let request = PageRequest::read(inner, head, body, &principal, client).await?;
        *has_unread_body = false;
        let invalidation = inner.settings.keys.invalidation(&principal);
        let tools = inner.tools_for(&principal);
        let context = Context { inner, page: self, visitor, principal, tools };
        let response = views::respond(&context, &request, &cookie).await?.respond(&request.head.headers)?;
        Ok(match invalidation {
            Some(end) => response.map(|body| body.until(end)),
            None => response,
        })
    }

    /// Returns the session if its key is still valid. Otherwise the session ends.
    async fn valid(
        &self,
        inner: &Inner,
        session: Session,
        headers: &HeaderMap,
        cookie: &str,
    ) -> Result<Option<Session>, PageFailure> {
        match inner.settings.keys.check_again(&session.principal).await {
            Ok(()) => Ok(Some(session)),
            Err(AuthenticationError::Unauthenticated | AuthenticationError::DifferentKeys) => {
                self.sessions.end(headers, cookie);
                Ok(None)
            }
            Err(error @ AuthenticationError::Unavailable) => Err(unauthenticated(&error).into()),
        }
    }
}

impl Context<'_> {
    /// Returns a complete page.
    fn page(&self, content: Content<'_>) -> Reply {
        let event = self.page.events.last_id();
        let shell = Shell {
            visitor: &self.visitor,
            view: content.view,
            title: content.title,
            topics: content.topics,
            event: &event,
            has_item: content.has_item,
            list: content.list,
            main: content.main,
        };
        Reply::html(shell.document())
    }

    /// Returns an error unless the visitor is an administrator.
    fn require_admin(&self) -> Result<(), PageFailure> {
        match self.visitor.role {
            Role::Admin => Ok(()),
            Role::User => Err(PageFailure::needs_admin()),
        }
    }

    /// Whether the visitor may see the requests of all keys.
    fn sees_all_requests(&self) -> bool {
        !self.inner.settings.keys.may_be_several() || self.visitor.role == Role::Admin
    }

    /// Returns the tools that the visitor may use. Their calls are attributed to the visitor.
    fn attributed_tools(&self, request_id: &str) -> Arc<dyn Toolbox> {
        let attributed = self.inner.attributed(&self.tools, &self.principal, request_id);
        attributed.unwrap_or_else(|| self.tools.clone())
    }

    /// Returns the names of the models that the visitor may use.
    fn model_names(&self) -> Vec<String> {
        self.inner.model_names(&self.principal)
    }

    /// Returns an error if the visitor may not see all servers.
    fn require_all_servers(&self) -> Result<(), PageFailure> {
        if self.visitor.role == Role::Admin || self.principal.permits_all_tools() {
            return Ok(());
        }
        Err(PageFailure::forbidden(
            "this key may use only some servers or tools, so it cannot see the list of all servers",
            "`/tools` lists what it may use",
        ))
    }

    /// Returns an error if the visitor may not see the stored conversations. They have no owner, so with
    /// several keys only an administrator sees them.
    fn require_conversations(&self) -> Result<(), PageFailure> {
        if !self.inner.settings.keys.may_be_several() || self.visitor.role == Role::Admin {
            return Ok(());
        }
        Err(PageFailure::forbidden(
            "stored conversations have no owner, so with several keys only an administrator may see them",
            "sign in with a key that has `admin: true`",
        ))
    }
}
