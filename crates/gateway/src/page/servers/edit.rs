//! The form that adds or changes a server.

use toolwire_page::link::Link;
use toolwire_page::servers::form::{self, Checked, Draft, Kind};
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
        draft.kind = Kind::Url;
    }
    Ok(page(context, source, servers, &draft, None, None))
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
    Ok(page(context, source, servers, &draft, None, None))
}

/// Checks the server of the form, or writes it to the configuration.
pub(super) async fn submit(
    context: &Context<'_>,
    request: &PageRequest,
    source: &dyn PageServers,
    is_final: bool,
) -> Result<Reply, PageFailure> {
    let draft = read(request)?;
    let is_navigation = accepts_html(&request.head.headers);
    let form_again = |error: Option<&ServerChangeError>, result: Option<&Checked>| {
        page(context, source, &source.servers(), &draft, error, result)
    };
    let outcome = match is_final {
        true => source.write(&draft).await.map(|()| None),
        false => source.check(&draft).await.map(Some),
    };
    match outcome {
        // The typed text stays in the form.
        Err(error) if is_navigation => Ok(form_again(Some(&error), None)),
        Err(error) => Err(error.into()),
        Ok(Some(checked)) if is_navigation => Ok(form_again(None, Some(&checked))),
        Ok(Some(checked)) => {
            let html = form::checked(&draft, &checked);
            Ok(Reply::changes(&[Event::put("server-check", html)]))
        }
        Ok(None) => {
            context.page.servers.refresh(context.page, source);
            Ok(Reply::redirect(Link::to(&["servers", draft.name.trim()]).as_str()))
        }
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
        Kind::from_name(&kind).ok_or_else(|| PageFailure::invalid(format!("unknown kind `{kind}`")))?;
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
    error: Option<&ServerChangeError>,
    result: Option<&Checked>,
) -> Reply {
    let may_change = is_admin(context);
    let problem = error.map(|error| (error.message.as_str(), error.hint.as_deref()));
    let current = draft.is_configured.then_some(draft.name.as_str());
    context.page(Content {
        view: View::Servers,
        title: if draft.is_configured { &draft.name } else { "Add a server" },
        // What a person types must not be replaced.
        topics: &[],
        has_item: true,
        list: Some(servers::list(servers, current)),
        main: form::form(draft, &source.target(), may_change, problem, result),
    })
}
