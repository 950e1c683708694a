//! The local page that a login redirects to (RFC 8252 section 7.3).
//!
//! Every program on the machine and every page in the browser can connect to it. It therefore accepts only a
//! request with the `state` of this login and ignores all others. It listens on the loopback address only.

use std::{io, net::Ipv4Addr, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::Secret;

const PATH: &str = "/callback";
/// More than one, because browsers open connections in advance and may send nothing on them.
const MAX_CONNECTIONS: usize = 32;
const MAX_REQUEST_BYTES: usize = 16 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct RedirectListener {
    listener: TcpListener,
    port: u16,
}

/// The redirect of a login, and the browser that waits for a page.
pub(super) struct Redirect {
    pub(super) callback: Callback,
    browser: TcpStream,
}

/// The parameters of the redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Callback {
    /// The authorization code, or the refusal.
    pub(super) outcome: Result<Secret, LoginRefusal>,
    /// `iss` (RFC 9207), not checked yet.
    pub(super) issuer: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoginRefusal {
    pub(super) error: String,
    pub(super) description: Option<String>,
}

impl RedirectListener {
    pub(super) async fn bind(port: Option<u16>) -> io::Result<RedirectListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(RedirectListener { listener, port })
    }

    pub(super) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the request with `state`. The caller sets the timeout.
    pub(super) async fn wait(&self, state: &str) -> io::Result<Redirect> {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => connections.push(timeout(REQUEST_TIMEOUT, handle(stream, state))),
                        // The browser closed the connection; the listener still works.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(error) => return Err(error),
                    }
                }
                Some(handled) = connections.next() => {
                    if let Ok(Ok(Some(redirect))) = handled {
                        return Ok(redirect);
                    }
                }
            }
        }
    }
}

impl Redirect {
    /// Shows the user how the login ended. The browser may be closed by now, so errors are ignored.
    pub(super) async fn show_outcome(mut self, is_logged_in: bool) {
        let text = match is_logged_in {
            true => "Logged in. You can close this page and return to Toolwire.",
            false => "The login failed. You can close this page; Toolwire displays the reason.",
        };
        let _ = timeout(REQUEST_TIMEOUT, respond(&mut self.browser, "200 OK", text)).await;
    }
}

/// Handles one request, and returns it without a response if it is the redirect of this login.
async fn handle(mut browser: TcpStream, state: &str) -> io::Result<Option<Redirect>> {
    let (status, text) = match read_target(&mut browser).await? {
        Some(target) => match parse_callback(&target, state) {
            Some(callback) => return Ok(Some(Redirect { callback, browser })),
            None => ("404 Not Found", "This page is only for completing a login."),
        },
        None => ("400 Bad Request", "This is not a valid request."),
    };
    respond(&mut browser, status, text).await?;
    Ok(None)
}

/// Reads the head of a request and returns the target of a GET.
async fn read_target(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_REQUEST_BYTES || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut parts = std::str::from_utf8(line).unwrap_or_default().split(' ');
    Ok(match (parts.next(), parts.next()) {
        (Some("GET"), Some(target)) => Some(target.to_owned()),
        _ => None,
    })
}

/// Returns `None` if this is not the redirect of the login with `state`.
fn parse_callback(target: &str, state: &str) -> Option<Callback> {
    let url = Url::parse("http://127.0.0.1/").ok()?.join(target).ok()?;
    if url.path() != PATH {
        return None;
    }
    parse_query(url.query().unwrap_or_default(), state)
}

/// Parses the query of a redirect. Returns `None` if it is not that of the login with `state`.
pub(super) fn parse_query(query: &str, state: &str) -> Option<Callback> {
    // OAuth forbids duplicate parameters (RFC 6749 section 3.1), so one of them invalidates the request.
    let parameter = |name: &str| {
        let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(Some(value.into_owned())),
            (None, _) => Some(None),
            _ => None,
        }
    };
    if parameter("state")?.as_deref() != Some(state) {
        return None;
    }
    let outcome = match (parameter("code")?, parameter("error")?) {
        (Some(code), None) => Ok(Secret::new(code)),
        (None, Some(error)) => Err(LoginRefusal { error, description: parameter("error_description")? }),
        _ => return None,
    };
    Some(Callback { outcome, issuer: parameter("iss")? })
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let page = format!("<!doctype html><meta charset=utf-8><title>Toolwire</title><p>{text}</p>\n");
    let length = page.len();
    // The URL contains the code, so caches, referrers and scripts must not get it.
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\r\n{page}"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &str) -> Option<Callback> {
        parse_callback(target, "s 1")
    }

    #[test]
    fn only_a_request_with_the_state_of_this_login_is_accepted() {
        let code = |issuer: Option<&str>| {
            Some(Callback { outcome: Ok(Secret::new("c/1")), issuer: issuer.map(str::to_owned) })
        };
        assert_eq!(parse("/callback?code=c%2F1&state=s+1"), code(None));
        assert_eq!(
            parse("/callback?state=s%201&code=c%2F1&iss=https%3A%2F%2Fi.example"),
            code(Some("https://i.example"))
        );
        let refused =
            LoginRefusal { error: "access_denied".to_owned(), description: Some("not today".to_owned()) };
        assert_eq!(
            parse("/callback?error=access_denied&error_description=not+today&state=s+1"),
            Some(Callback { outcome: Err(refused), issuer: None })
        );
        for target in [
            "/",
            "/favicon.ico",
            "/callback",
            "/callback?code=c",
            "/callback?code=c&state=other",
            "/callback?error=access_denied",
            "/callback?state=s+1",
            "/callback?state=s+1&state=s+1&code=c",
            "/callback?state=s+1&code=c&code=d",
            "/callback?state=s+1&code=c&error=e",
            "/callback/more?state=s+1&code=c",
            "//[bad/callback?state=s+1&code=c",
            "",
            "*",
        ] {
            assert_eq!(parse(target), None, "{target}");
        }
    }

    #[tokio::test]
    async fn other_requests_and_idle_connections_do_not_end_the_wait() {
        let listener = RedirectListener::bind(None).await.expect("a port");
        let (uri, port) = (listener.uri(), listener.port);
        let visit = async {
            let mut idle = Vec::new();
            for _ in 0..8 {
                idle.push(TcpStream::connect(("127.0.0.1", port)).await.expect("connected"));
            }
            let mut garbage = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
            garbage.write_all(b"\x16\x03\x01 hello\r\n\r\n").await.expect("written");
            let client = toolwire_testkit::http_client();
            let get = |url: String| client.get(url).send();
            assert_eq!(get(format!("{uri}?code=evil&state=guess")).await.expect("a response").status(), 404);
            assert_eq!(client.post(&uri).send().await.expect("a response").status(), 400);
            let response = get(format!("{uri}?code=good&state=right")).await.expect("a response");
            assert_eq!(response.headers()["referrer-policy"], "no-referrer");
            assert!(response.text().await.expect("a page").contains("Logged in"));
        };
        let respond = async {
            let redirect = listener.wait("right").await.expect("received");
            assert_eq!(redirect.callback, Callback { outcome: Ok(Secret::new("good")), issuer: None });
            redirect.show_outcome(true).await;
        };
        futures::join!(respond, visit);
    }
}
