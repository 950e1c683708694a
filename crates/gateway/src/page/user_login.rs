//! Logins of users at servers that have credentials of their users.
//!
//! A user proves with a key, or with a session of this page, who gets the tokens. The browser gets a secret
//! as a cookie, and the redirect at the end of the login is accepted only with it: nobody can complete the
//! login of somebody else. The login itself is a matter of [`UserServers`](crate::UserServers).

use std::net::IpAddr;
use std::time::Instant;

use http::{StatusCode, Uri};
use toolwire_contract::Secret;
use toolwire_page::link::Link;
use toolwire_page::user_login::{User, done, form, proceed};

use super::failure::PageFailure;
use super::login_starts::{LoginStarts, MAX_STARTS};
use super::reply::Reply;
use super::request::{PageRequest, cookie, segments, theme};
use crate::access::unauthenticated;
use crate::gateway::Inner;
use crate::ids::random_id;
use crate::keys::AuthenticationError;
use crate::principal::Principal;
use crate::user_servers::{UserLogin, UserLoginError};

/// The path to which authorization servers redirect the browser.
const CALLBACK: &str = "logged-in";

/// The start of the name of the cookie with the secret of the browser.
const COOKIE: &str = "toolwire-login";

/// The time for a login.
const MAX_AGE_SECONDS: u32 = 600;

/// The cookie with the secret of the browser. It depends on the address that logins return to, not on the
/// address of this process, because the redirect may arrive at any gateway.
struct LoginCookie {
    name: String,
    is_secure: bool,
}

impl LoginCookie {
    /// Ports share cookies, so the name contains the port. Over HTTPS, its prefix has the browser refuse the
    /// cookie from any other host, and from a page without encryption.
    fn new(address: &str) -> LoginCookie {
        let is_secure = address.starts_with("https://");
        let port = address.parse::<Uri>().ok().and_then(|uri| uri.port_u16());
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        let prefix = if is_secure { "__Host-" } else { "" };
        LoginCookie { name: format!("{prefix}{COOKIE}-{port}"), is_secure }
    }

    /// Returns the header that sets the cookie. `Lax`, because the redirect comes from another site.
    fn set(&self, value: &str, age: u32) -> String {
        // Cookies with the prefix `__Host-` must have this path.
        let place = if self.is_secure { "Path=/; Secure" } else { "Path=/-/logged-in" };
        format!("{}={value}; {place}; HttpOnly; SameSite=Lax; Max-Age={age}", self.name)
    }
}

/// Whether a path is one of these pages.
pub(crate) fn has_path(uri: &Uri) -> bool {
    page(uri).is_some()
}

enum LoginPage {
    /// The login at the server with this name.
    Server(String),
    Callback,
}

fn page(uri: &Uri) -> Option<LoginPage> {
    let mut segments = segments(uri).into_iter();
    let (first, second) = (segments.next()?, segments.next()?);
    match (first.as_str(), second.as_str(), segments.next(), segments.next()) {
        ("-", CALLBACK, None, None) => Some(LoginPage::Callback),
        ("-", "login", Some(server), None) => Some(LoginPage::Server(server)),
        _ => None,
    }
}

/// Responds to a request for one of these pages. `signed_in` is the visitor's session on the page.
pub(super) async fn respond(
    inner: &Inner,
    starts: &LoginStarts,
    request: &PageRequest,
    signed_in: Option<Principal>,
    client: IpAddr,
) -> Result<Reply, PageFailure> {
    match page(&request.head.uri) {
        Some(LoginPage::Callback) if !request.is_post() => complete(inner, request).await,
        Some(LoginPage::Callback) => Err(PageFailure::method("GET")),
        Some(LoginPage::Server(server)) => {
            let known = match signed_in {
                None if !inner.settings.keys.is_needed().await => Some(Principal::without_key()),
                signed_in => signed_in,
            };
            match request.is_post() {
                true => start(inner, starts, request, &server, known, client).await,
                false => {
                    Ok(Reply::html(form(theme(&request.head.headers), &server, user(known.as_ref()), None)))
                }
            }
        }
        None => Err(PageFailure::not_found("unknown path")),
    }
}

fn user(known: Option<&Principal>) -> User<'_> {
    known.map_or(User::Unknown, |principal| User::Known(principal.name()))
}

/// Starts a login, and returns the page with the link to it. The form does not redirect there, because the
/// policy of the page permits forms only to be sent to the page itself.
async fn start(
    inner: &Inner,
    starts: &LoginStarts,
    request: &PageRequest,
    server: &str,
    known: Option<Principal>,
    client: IpAddr,
) -> Result<Reply, PageFailure> {
    let theme = theme(&request.head.headers);
    let principal = match known {
        Some(principal) => principal,
        None => {
            let key = request.field("key")?.unwrap_or_default();
            match inner.settings.keys.find(key.trim().as_bytes()).await {
                Ok(principal) => principal,
                Err(error @ AuthenticationError::Unavailable) => return Err(unauthenticated(&error).into()),
                Err(AuthenticationError::Unauthenticated | AuthenticationError::DifferentKeys) => {
                    if let Some(failure) = inner.failed_keys.record(client, Instant::now()) {
                        return Err(failure.into());
                    }
                    let problem = Some("this is not a valid key");
                    return Ok(Reply::html(form(theme, server, User::Unknown, problem)));
                }
            }
        }
    };
    let unknown = || UserLoginError::UnknownServer { server: server.to_owned() };
    let servers = inner.user_servers.get().filter(|_| principal.permits_server(server));
    let servers = servers.ok_or_else(|| failure(&unknown()))?;
    let cookie = LoginCookie::new(&servers.login_address().ok_or_else(|| failure(&unknown()))?);
    let user = principal.server_user().id;
    if !starts.record(&user, Instant::now()) {
        let message =
            format!("this key has started {MAX_STARTS} logins in ten minutes, which is the maximum");
        let failure = PageFailure::new(StatusCode::TOO_MANY_REQUESTS, "Log in", message);
        return Err(failure.with_hint("wait, and start the login again"));
    }
    let browser = random_id("")
        .map_err(|error| PageFailure::new(StatusCode::INTERNAL_SERVER_ERROR, "Log in", error.to_string()))?;
    let login = UserLogin::new(user, server, Secret::new(browser.as_str()));
    let page = servers.start_login(login).await.map_err(|error| failure(&error))?;
    let link = Link::external(&page).ok_or_else(|| {
        failure(&UserLoginError::Failed { reason: "the login page has no valid address".to_owned() })
    })?;
    Ok(Reply::html(proceed(theme, server, &link)).with_cookie(&cookie.set(&browser, MAX_AGE_SECONDS)))
}

/// Completes a login.
async fn complete(inner: &Inner, request: &PageRequest) -> Result<Reply, PageFailure> {
    let unknown = || failure(&UserLoginError::UnknownLogin);
    let servers = inner.user_servers.get().ok_or_else(unknown)?;
    let login_cookie = LoginCookie::new(&servers.login_address().ok_or_else(unknown)?);
    let browser = cookie(&request.head.headers, &login_cookie.name).ok_or_else(unknown)?;
    let query = request.head.uri.query().unwrap_or_default().to_owned();
    let server =
        servers.complete_login(query, Secret::new(browser)).await.map_err(|error| failure(&error))?;
    Ok(Reply::html(done(theme(&request.head.headers), &server)).with_cookie(&login_cookie.set("", 0)))
}

fn failure(error: &UserLoginError) -> PageFailure {
    let message = error.to_string();
    match error {
        UserLoginError::UnknownServer { .. } => PageFailure::not_found(message),
        UserLoginError::UnknownLogin => PageFailure::new(StatusCode::BAD_REQUEST, "Log in", message)
            .with_hint("start the login again, and complete it in the same browser"),
        UserLoginError::Failed { .. } => PageFailure::new(StatusCode::BAD_GATEWAY, "Log in", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_belongs_to_one_address() {
        let set = |address: &str| LoginCookie::new(address).set("x", 600);
        assert_eq!(
            set("http://127.0.0.1:8787"),
            "toolwire-login-8787=x; Path=/-/logged-in; HttpOnly; SameSite=Lax; Max-Age=600"
        );
        assert_eq!(
            set("https://gateway.example"),
            "__Host-toolwire-login-443=x; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"
        );
        for (address, name) in [
            ("http://[::1]:8788", "toolwire-login-8788"),
            ("http://gateway.example", "toolwire-login-80"),
            ("https://gateway.example:8443", "__Host-toolwire-login-8443"),
        ] {
            assert_eq!(LoginCookie::new(address).name, name);
        }
    }

    #[test]
    fn only_these_paths_are_pages_for_logins() {
        for path in ["/-/login/github", "/-/login/a%2Fb", "/-/logged-in?code=a&state=b"] {
            assert!(has_path(&path.parse().expect("a path")), "{path}");
        }
        for path in ["/-/login", "/-/login/a/b", "/-/logged-in/x", "/login/github", "/-/admin/pins", "/"] {
            assert!(!has_path(&path.parse().expect("a path")), "{path}");
        }
    }
}
