//! The paths of the page.

mod dialects;
mod first_start;
mod palette;
mod tools;
mod traffic;

use super::chat;
use super::events::stream;
use super::failure::PageFailure;
use super::reply::Reply;
use super::request::{PageRequest, THEME_COOKIE};
use super::{Context, paths, servers, sign_in};
use crate::response::ResponseBody;
pub(super) use first_start::small_matrix;
pub(super) use tools::{CachedIndex, CallHistory};

/// The maximum number of topics of one stream.
const MAX_TOPICS: usize = 16;

/// Calls the view that a path belongs to.
pub(super) async fn respond(
    context: &Context<'_>,
    request: &PageRequest,
    cookie: &str,
) -> Result<Reply, PageFailure> {
    let unknown = || PageFailure::not_found(format!("there is no page `{}`", request.head.uri.path()));
    if !paths::is_known(&request.path()) {
        return Err(unknown());
    }
    match request.path().as_slice() {
        ["-", "events"] => events(context, request),
        ["-", "palette"] => Ok(palette::respond(context, request)),
        ["-", "theme"] => theme(request),
        ["-", "csp"] => csp(request),
        ["-", "sign-out"] => {
            request.require_post()?;
            Ok(sign_in::sign_out(context.page, request, cookie))
        }
        ["dialects", ..] | ["-", "dialects", ..] => dialects::respond(context, request),
        ["traffic", ..] => traffic::respond(context, request),
        ["servers", path @ ..] => servers::view(context, request, path).await,
        ["-", "servers", path @ ..] => servers::change(context, request, path).await,
        ["tools", ..] | ["-", "tools", ..] => tools::respond(context, request).await,
        [] | ["chat", ..] | ["-", "chat" | "attachments" | "media" | "pulse", ..] => {
            chat::respond(context, request).await
        }
        _ => Err(unknown()),
    }
}

/// Streams the changes of the topics of a page.
fn events(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    let topics: Vec<String> = request
        .query("topics")
        .unwrap_or_default()
        .split([' ', ','])
        .filter(|topic| !topic.is_empty())
        .map(str::to_owned)
        .collect();
    if topics.len() > MAX_TOPICS {
        return Err(PageFailure::invalid(format!("more than {MAX_TOPICS} topics")));
    }
    for topic in &topics {
        let Some((view, _)) = topic.split_once('.').or(Some((topic, ""))) else { continue };
        match view {
            "chat" => context.require_conversations()?,
            "servers" if topic == servers::ADMIN_TOPIC => context.require_admin()?,
            "servers" => context.require_all_servers()?,
            "traffic" => traffic::subscribe(context)?,
            _ => return Err(PageFailure::invalid(format!("unknown topic `{topic}`"))),
        }
    }
    let header = request.head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = header.map(str::to_owned).or_else(|| request.query("after")).filter(|id| !id.is_empty());
    let events = stream(context.page.events.clone(), topics, after.as_deref());
    Ok(Reply::stream(ResponseBody::stream(events)))
}

/// Stores the colors that the visitor chose.
fn theme(request: &PageRequest) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let name = request.field("theme")?.unwrap_or_default();
    let known = toolwire_page::shell::Theme::from_name(&name);
    let (value, age) = known.map_or(("", 0), |theme| (theme.name(), 365 * 24 * 60 * 60));
    Ok(Reply::redirect("/")
        .with_cookie(&format!("{THEME_COOKIE}={value}; Path=/; SameSite=Strict; HttpOnly; Max-Age={age}")))
}

/// Logs a violation of the content security policy that a browser reports.
fn csp(request: &PageRequest) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let report = String::from_utf8_lossy(&request.body);
    let report: String = report.chars().take(1_000).collect();
    tracing::warn!(%report, "the page violated its content security policy");
    Ok(Reply::empty())
}
