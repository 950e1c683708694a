//! The form that adds or changes a server.

use toolwire_page::link::Link;
use toolwire_page::servers::file_change::file_change;
use toolwire_page::servers::form::{self, Draft, FormResponse, ServerKind};
use toolwire_page::servers::{self, Server};
use toolwire_page::shell::View;

use super::{PageServers, ServerChangeError, is_admin};
use crate::page::events::Event;
use crate::page::failure::PageFailure;
use crate::page::reply::Reply;
use crate::page::request::{PageRequest, accepts_html};
use crate::page::{Content, Context};

/// Returns the form of a new server. A link can fill it in, but not submit it.
pub(super) fn add(
    context: &Context<'_>,
    request: &PageRequest,
    source: &dyn PageServers,
    servers: &[Server],
) -> Result<Reply, PageFailure> {
    let mut draft = source.draft(None)?;
    for (name, field) in [
        ("name", &mut draft.name),
        ("command", &mut draft.command),
        ("arguments", &mut draft.arguments),
        ("url", &mut draft.url),
    ] {
        if let Some(value) = request.query(name) {
            *field = value;
        }
    }
    if request.query("url").is_some() {
        draft.kind = ServerKind::Url;
    }
    Ok(page(context, source, servers, &draft, None))
}

/// Returns the form of a configured server.
pub(super) fn change(
    context: &Context<'_>,
    source: &dyn PageServers,
    servers: &[Server],
    name: &str,
) -> Result<Reply, PageFailure> {
    // The form contains arguments, which may be secret.
    context.require_admin()?;
    let draft = source.draft(Some(name))?;
    Ok(page(context, source, servers, &draft, None))
}

/// Returns the page that asks whether a server is removed.
pub(super) fn removal(
    context: &Context<'_>,
    source: &dyn PageServers,
    servers: &[Server],
    name: &str,
) -> Result<Reply, PageFailure> {
    // The difference contains arguments, which may be secret.
    context.require_admin()?;
    removal_page(context, source, servers, name, None)
}

/// Removes a server.
pub(super) async fn remove(
    context: &Context<'_>,
    request: &PageRequest,
    source: &dyn PageServers,
    name: &str,
) -> Result<Reply, PageFailure> {
    let file_hash = request.field("file")?.unwrap_or_default();
    match source.remove(name, &file_hash).await {
        Ok(()) => {
            context.page.servers.refresh(context.page, source);
            Ok(Reply::redirect(Link::to(&["servers"]).as_str()))
        }
        // The page displays the current difference again.
        Err(error) if accepts_html(&request.head.headers) => {
            removal_page(context, source, &source.servers(), name, Some(&error))
        }
        Err(error) => Err(error.into()),
    }
}

fn removal_page(
    context: &Context<'_>,
    source: &dyn PageServers,
    servers: &[Server],
    name: &str,
    error: Option<&ServerChangeError>,
) -> Result<Reply, PageFailure> {
    let (change, file_hash) = source.removal(name)?;
    let problem = error.map(|error| (error.message.as_str(), error.hint.as_deref()));
    Ok(context.page(Content {
        view: View::Servers,
        title: name,
        topics: &[],
        has_item: true,
        list: Some(servers::list(servers, Some(name))),
        main: servers::removal(name, &change, &file_hash, problem),
    }))
}

/// The action of a button of the form.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Starts the server, and stops it again.
    Check,
    /// Displays the change of the file.
    Preview,
    Write,
}

/// Carries out the action of a button of the form.
pub(super) async fn submit(
    context: &Context<'_>,
    request: &PageRequest,
    source: &dyn PageServers,
    action: Action,
) -> Result<Reply, PageFailure> {
    let draft = read(request)?;
    let is_navigation = accepts_html(&request.head.headers);
    let form_again =
        |response: FormResponse<'_>| Ok(page(context, source, &source.servers(), &draft, Some(response)));
    let error = match action {
        Action::Check => match source.check(&draft).await {
            Ok(checked) if is_navigation => return form_again(FormResponse::Checked(&checked)),
            Ok(checked) => {
                let html = form::checked(&draft, &checked);
                return Ok(Reply::changes(&[Event::put("server-check", html)]));
            }
            Err(error) => error,
        },
        Action::Preview => match source.preview(&draft) {
            Ok(change) if is_navigation => return form_again(FormResponse::Change(&change)),
            Ok(change) => return Ok(Reply::changes(&[Event::put("file-change", file_change(&change))])),
            Err(error) => error,
        },
        Action::Write => match source.write(&draft).await {
            Ok(()) => {
                context.page.servers.refresh(context.page, source);
                return Ok(Reply::redirect(Link::to(&["servers", draft.name.trim()]).as_str()));
            }
            Err(error) => error,
        },
    };
    match is_navigation {
        // The typed text stays in the form.
        true => form_again(FormResponse::Problem { message: &error.message, hint: error.hint.as_deref() }),
        false => Err(error.into()),
    }
}

fn read(request: &PageRequest) -> Result<Draft, PageFailure> {
    let fields = request.fields()?;
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.replace("\r\n", "\n")).unwrap_or_default()
    };
    let kind = field("kind");
    let kind =
        ServerKind::from_name(&kind).ok_or_else(|| PageFailure::invalid(format!("unknown kind `{kind}`")))?;
    Ok(Draft {
        name: field("name"),
        is_configured: field("configured") == "yes",
        kind,
        command: field("command"),
        arguments: field("arguments"),
        environment: field("environment"),
        url: field("url"),
        headers: field("headers"),
        file_hash: field("file"),
    })
}

fn page(
    context: &Context<'_>,
    source: &dyn PageServers,
    servers: &[Server],
    draft: &Draft,
    response: Option<FormResponse<'_>>,
) -> Reply {
    let may_change = is_admin(context);
    let current = draft.is_configured.then_some(draft.name.as_str());
    context.page(Content {
        view: View::Servers,
        title: if draft.is_configured { &draft.name } else { "Add a server" },
        // The text that a person types must not be replaced.
        topics: &[],
        has_item: true,
        list: Some(servers::list(servers, current)),
        main: form::form(draft, &source.target(), may_change, response),
    })
}
