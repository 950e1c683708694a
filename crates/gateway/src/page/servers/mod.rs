//! The servers view, and the changes that a user can make there.

mod edit;
mod feed;

use std::error::Error;
use std::fmt;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Method, StatusCode};
use serde_json::Value;
use toolwire_page::link::Link;
use toolwire_page::servers::file_change::FileChange;
use toolwire_page::servers::form::{ConfigFile, Draft, ServerCheck};
use toolwire_page::servers::{self, Server};
use toolwire_page::shell::{Role, View};

use super::events::Event;
use super::failure::PageFailure;
use super::reply::Reply;
use super::request::{Format, PageRequest, accepts_html};
use super::{Content, Context};
use edit::Action;
pub(super) use feed::ServersFeed;

/// The topic of the changes for all visitors.
pub(super) const TOPIC: &str = "servers";

/// The topic of the changes for administrators, whose controls are enabled.
pub(super) const ADMIN_TOPIC: &str = "servers.admin";

/// The MCP servers of the gateway, as the page displays and changes them.
pub trait PageServers: Send + Sync {
    /// Returns all configured servers with their current state.
    fn servers(&self) -> Vec<Server>;

    /// Reports that the state of a server has changed.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// Connects to a server that does not work.
    fn retry(&self, server: &str);

    /// Ends the connection to a server and connects again.
    fn restart(&self, server: &str);

    /// Accepts the changed definition of a tool, if it is still the one with this fingerprint.
    fn accept<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        fingerprint: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>>;

    /// Blocks a tool until its changed definition is accepted.
    fn block<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        fingerprint: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>>;

    /// Starts the login of a server that requires one, and returns the login page of the provider as soon as
    /// it is known. Returns `None` if the server is ready without a login.
    fn sign_in<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<Link>, ServerChangeError>>;

    /// Returns the configuration file that [`write`](PageServers::write) changes.
    fn target(&self) -> ConfigFile;

    /// Returns the form of a configured server, or of a new one.
    fn draft(&self, server: Option<&str>) -> Result<Draft, ServerChangeError>;

    /// Starts a server as it would be configured, and stops it again.
    fn check<'a>(&'a self, draft: &'a Draft) -> BoxFuture<'a, Result<ServerCheck, ServerChangeError>>;

    /// Returns what [`write`](PageServers::write) would change in the configuration file.
    fn preview(&self, draft: &Draft) -> Result<FileChange, ServerChangeError>;

    /// Writes a server to the configuration file, and uses it from now on.
    fn write<'a>(&'a self, draft: &'a Draft) -> BoxFuture<'a, Result<(), ServerChangeError>>;

    /// Returns what [`remove`](PageServers::remove) would change in the configuration file, and a text that
    /// identifies the file as it is now.
    fn removal(&self, server: &str) -> Result<(FileChange, String), ServerChangeError>;

    /// Removes a server from the configuration file, if the file is still the same, and closes its
    /// connection.
    fn remove<'a>(
        &'a self,
        server: &'a str,
        file_hash: &'a str,
    ) -> BoxFuture<'a, Result<(), ServerChangeError>>;
}

/// The reason why a change of a server was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerChangeError {
    pub kind: ServerChangeErrorKind,
    pub message: String,
    pub hint: Option<String>,
    /// The field of the form that is wrong.
    pub field: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerChangeErrorKind {
    /// There is no such server or tool.
    NotFound,
    /// Something has changed since it was displayed.
    Conflict,
    /// The input is not valid.
    Invalid,
    /// The change could not be stored.
    Failed,
}

impl ServerChangeError {
    pub fn new(kind: ServerChangeErrorKind, message: impl Into<String>) -> ServerChangeError {
        ServerChangeError { kind, message: message.into(), hint: None, field: None }
    }

    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> ServerChangeError {
        ServerChangeError { hint: Some(hint.into()), ..self }
    }

    #[must_use]
    pub fn with_field(self, field: impl Into<String>) -> ServerChangeError {
        ServerChangeError { field: Some(field.into()), ..self }
    }
}

impl fmt::Display for ServerChangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for ServerChangeError {}

impl From<ServerChangeError> for PageFailure {
    fn from(error: ServerChangeError) -> PageFailure {
        let (status, title) = match error.kind {
            ServerChangeErrorKind::NotFound => (StatusCode::NOT_FOUND, "Not found"),
            ServerChangeErrorKind::Conflict => (StatusCode::CONFLICT, "Changed meanwhile"),
            ServerChangeErrorKind::Invalid => (StatusCode::BAD_REQUEST, "Invalid request"),
            ServerChangeErrorKind::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "Failed"),
        };
        let mut failure = PageFailure::new(status, title, error.message);
        if let Some(hint) = error.hint {
            failure = failure.with_hint(hint);
        }
        if let Some(field) = error.field {
            failure = failure.with_field(field);
        }
        failure
    }
}

/// Handles a request below `/servers`.
pub(super) async fn view(
    context: &Context<'_>,
    request: &PageRequest,
    path: &[&str],
) -> Result<Reply, PageFailure> {
    context.require_all_servers()?;
    let source = source(context)?;
    let servers = context.page.servers.refresh(context.page, source);
    match path {
        [] => match request.format {
            Format::Json => Ok(Reply::json(servers.iter().map(servers::data).collect::<Vec<Value>>().into())),
            _ => Ok(page(context, &servers, None)),
        },
        ["new"] => edit::add(context, request, source, &servers),
        [name, "edit"] => edit::change(context, source, &servers, name),
        [name, "remove"] => edit::removal(context, source, &servers, name),
        [name, "sign-in"] => sign_in(context, request, source, &servers, name).await,
        [name] => {
            let server = servers.iter().find(|server| server.name == *name);
            let server = server.ok_or_else(|| unknown(&servers, name))?;
            match request.format {
                Format::Json => Ok(Reply::json(servers::data(server))),
                _ => Ok(page(context, &servers, Some(server))),
            }
        }
        _ => Err(PageFailure::not_found(format!("there is no page `{}`", request.head.uri.path()))),
    }
}

/// Handles a request below `/-/servers`. All of them change something.
pub(super) async fn change(
    context: &Context<'_>,
    request: &PageRequest,
    path: &[&str],
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    context.require_admin()?;
    let source = source(context)?;
    match path {
        ["check"] => return edit::submit(context, request, source, Action::Check).await,
        ["preview"] => return edit::submit(context, request, source, Action::Preview).await,
        ["write"] => return edit::submit(context, request, source, Action::Write).await,
        _ => {}
    }
    let [name, action] = path else {
        return Err(PageFailure::not_found(format!("there is no page `{}`", request.head.uri.path())));
    };
    let servers = source.servers();
    if !servers.iter().any(|server| server.name == *name) {
        return Err(unknown(&servers, name));
    }
    if *action == "remove" {
        return edit::remove(context, request, source, name).await;
    }
    let said = match *action {
        "retry" => {
            source.retry(name);
            format!("connecting to {name}")
        }
        "restart" => {
            source.restart(name);
            format!("restarting {name}")
        }
        "accept" => {
            let (tool, seen) = (field(request, "tool")?, field(request, "seen")?);
            source.accept(name, &tool, &seen).await?;
            format!("accepted {tool} of {name}")
        }
        "keep-off" => {
            let (tool, seen) = (field(request, "tool")?, field(request, "seen")?);
            source.block(name, &tool, &seen).await?;
            format!("blocked {tool} of {name}")
        }
        _ => return Err(PageFailure::not_found(format!("unknown action `{action}`"))),
    };
    let servers = context.page.servers.refresh(context.page, source);
    if accepts_html(&request.head.headers) {
        return Ok(Reply::redirect(Link::to(&["servers", name]).as_str()));
    }
    // The page does not apply published changes to the part with the pressed button, so the response contains
    // them.
    let server = servers.iter().filter(|server| server.name == *name);
    let parts = server.flat_map(|server| servers::parts(server, true));
    let mut events: Vec<Event> = parts.map(|part| Event::put(part.id, part.html)).collect();
    events.push(Event::Say { text: said, is_urgent: false });
    Ok(Reply::changes(&events))
}

/// Redirects to the login page of a server's provider. It is a link, because the page's policy blocks forms
/// that lead to another site. It starts a login, which changes nothing until a user completes it there; only
/// a link of this page or an address that an administrator typed starts it.
async fn sign_in(
    context: &Context<'_>,
    request: &PageRequest,
    source: &dyn PageServers,
    servers: &[Server],
    name: &str,
) -> Result<Reply, PageFailure> {
    context.require_admin()?;
    // Browsers do not send the cookie of the session with links of other sites. This check does not rely on
    // that.
    let header = |name: &str| request.head.headers.get(name).and_then(|value| value.to_str().ok());
    if request.head.method != Method::GET {
        return Err(PageFailure::method("GET"));
    }
    if header("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
        || header("sec-purpose").is_some()
    {
        return Err(PageFailure::forbidden(
            "only a link of this page starts a login",
            "open the view of the servers, and use the link there",
        ));
    }
    if !servers.iter().any(|server| server.name == name) {
        return Err(unknown(servers, name));
    }
    let page = source.sign_in(name).await?;
    let page = page.unwrap_or_else(|| Link::to(&["servers", name]));
    Ok(Reply::redirect(page.as_str()))
}

fn page(context: &Context<'_>, servers: &[Server], current: Option<&Server>) -> Reply {
    let is_admin = is_admin(context);
    context.page(Content {
        view: View::Servers,
        title: current.map_or("Servers", |server| &server.name),
        topics: &[topic(is_admin).to_owned()],
        // On a phone, the cards are more useful than the list.
        has_item: true,
        list: Some(servers::list(servers, current.map(|server| server.name.as_str()))),
        main: match current {
            Some(server) => servers::detail(server, is_admin),
            None => servers::main(servers, is_admin),
        },
    })
}

fn is_admin(context: &Context<'_>) -> bool {
    context.visitor.role == Role::Admin
}

fn topic(is_admin: bool) -> &'static str {
    if is_admin { ADMIN_TOPIC } else { TOPIC }
}

fn source<'a>(context: &Context<'a>) -> Result<&'a dyn PageServers, PageFailure> {
    let source = context.page.parts.servers.as_deref();
    source.ok_or_else(|| PageFailure::not_found("this gateway was started without a list of servers"))
}

fn unknown(servers: &[Server], name: &str) -> PageFailure {
    let names: Vec<String> = servers.iter().map(|server| format!("`{}`", server.name)).collect();
    PageFailure::not_found(format!("unknown server `{name}`"))
        .with_hint(format!("configured servers: {}", names.join(", ")))
}

fn field(request: &PageRequest, name: &str) -> Result<String, PageFailure> {
    request.field(name)?.ok_or_else(|| PageFailure::invalid(format!("missing field `{name}`")))
}
