//! Starts and ends sessions.

use std::net::IpAddr;
use std::time::Instant;

use http::StatusCode;
use http::request::Parts;
use toolwire_page::link::Link;
use toolwire_page::shell::Role;

use super::failure::PageFailure;
use super::reply::Reply;
use super::request::{PageRequest, accepts_html, theme};
use super::{Page, sessions};
use crate::access::unauthenticated;
use crate::gateway::Inner;
use crate::keys::AuthenticationError;
use crate::principal::Principal;
use crate::response::HttpResponse;

/// Returns the page with the field for a key.
pub(super) fn form(request: &PageRequest) -> Reply {
    let next = request.query("next").unwrap_or_default();
    Reply::html(toolwire_page::sign_in::document(theme(&request.head.headers), own_path(&next), None))
}

/// Starts a session with a key of the gateway, or with a token for an administrator.
pub(super) async fn sign_in(
    page: &Page,
    inner: &Inner,
    request: &PageRequest,
    client: IpAddr,
    cookie: &str,
) -> Result<Reply, PageFailure> {
    let key = request.field("key")?.unwrap_or_default();
    let next = request.field("next")?.unwrap_or_default();
    let Some((principal, role)) = authenticate(page, inner, key.trim()).await? else {
        if let Some(failure) = inner.failed_keys.record(client, Instant::now()) {
            return Err(failure.into());
        }
        let problem = "this is not a valid key, or the token was already used";
        if !accepts_html(&request.head.headers) {
            return Err(PageFailure::new(StatusCode::UNAUTHORIZED, "Sign in", problem).with_field("key"));
        }
        let theme = theme(&request.head.headers);
        return Ok(Reply::html(toolwire_page::sign_in::document(theme, own_path(&next), Some(problem))));
    };
    let secret = page.sessions.start(principal, role).ok_or_else(|| {
        PageFailure::new(StatusCode::INTERNAL_SERVER_ERROR, "Sign in", "the system provides no random bytes")
    })?;
    page.sessions.end(&request.head.headers, cookie);
    let mut header = sessions::set_cookie(cookie, &secret);
    if inner.settings.tls.is_some() {
        header.push_str("; Secure");
    }
    Ok(Reply::redirect(own_path(&next)).with_cookie(&header))
}

/// Returns the visitor with a key; `None` if the key is not valid.
async fn authenticate(
    page: &Page,
    inner: &Inner,
    key: &str,
) -> Result<Option<(Principal, Role)>, PageFailure> {
    if page.sessions.take_admin_token(key) {
        return Ok(Some((Principal::without_key(), Role::Admin)));
    }
    match inner.settings.keys.find(key.as_bytes()).await {
        Ok(principal) => {
            let role = if principal.is_admin() { Role::Admin } else { Role::User };
            Ok(Some((principal, role)))
        }
        Err(AuthenticationError::Unauthenticated | AuthenticationError::DifferentKeys) => Ok(None),
        Err(error @ AuthenticationError::Unavailable) => Err(unauthenticated(&error).into()),
    }
}

/// Ends the session.
pub(super) fn sign_out(page: &Page, request: &PageRequest, cookie: &str) -> Reply {
    page.sessions.end(&request.head.headers, cookie);
    Reply::redirect("/").with_cookie(&sessions::set_cookie(cookie, ""))
}

/// Returns the response to a visitor who must sign in first.
pub(super) fn required(head: &Parts) -> HttpResponse {
    let next = head.uri.path_and_query().map_or("/", |path| path.as_str());
    match accepts_html(&head.headers) {
        true => {
            match Reply::redirect(Link::to(&["sign-in"]).with("next", next).as_str()).respond(&head.headers) {
                Ok(response) => response,
                Err(failure) => failure.respond(true, None),
            }
        }
        false => PageFailure::new(StatusCode::UNAUTHORIZED, "Sign in", "sign in first")
            .with_hint("open `/sign-in` in a browser")
            .respond(false, None),
    }
}

/// Returns the path if it belongs to this page. A link may contain any text.
fn own_path(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(['\\', '\n', '\r', '\t'])
        && !next.starts_with("/sign-in");
    if is_own { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn only_paths_of_the_page_are_followed() {
        for next in ["/", "/tools?q=a", "/chat/x#m4"] {
            assert_eq!(own_path(next), next);
        }
        for next in ["", "//host", "https://host", "/\\host", "javascript:1", "/\t/host", "/sign-in"] {
            assert_eq!(own_path(next), "/", "{next}");
        }
    }
}
