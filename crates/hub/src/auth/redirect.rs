//! The local page a browser comes back to after a login (RFC 8252 section 7.3).
//!
//! Anything on the machine, and any page in the browser, can connect to it, so it believes only a request that
//! brings the `state` of this login, and nothing else ends the wait. It listens on the loopback address alone.

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
/// Browsers open connections in advance and leave them silent: they must not block the one that counts.
const CONNECTIONS: usize = 32;
const REQUEST_LIMIT: usize = 16 * 1024;
const REQUEST_TIME: Duration = Duration::from_secs(10);

pub(super) struct Redirect {
    listener: TcpListener,
    port: u16,
}

/// What the authorization server sent the browser back with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Callback {
    pub(super) answer: Result<Secret, Refusal>,
    /// `iss` (RFC 9207), not yet compared with anything.
    pub(super) issuer: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) error: String,
    pub(super) description: Option<String>,
}

impl Redirect {
    pub(super) async fn bind(port: Option<u16>) -> io::Result<Redirect> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Redirect { listener, port })
    }

    pub(super) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the request that brings `state`. The caller sets the deadline.
    pub(super) async fn wait(&self, state: &str) -> io::Result<Callback> {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => connections.push(timeout(REQUEST_TIME, answer(stream, state))),
                        // The peer left between the handshake and here: not our listener's failure.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(error) => return Err(error),
                    }
                }
                Some(answered) = connections.next() => {
                    if let Ok(Ok(Some(callback))) = answered {
                        return Ok(callback);
                    }
                }
            }
        }
    }
}

/// Reads one request, tells the browser what to show, and returns the callback if this was it.
async fn answer(mut stream: TcpStream, state: &str) -> io::Result<Option<Callback>> {
    let Some(target) = read_target(&mut stream).await? else {
        return respond(&mut stream, "400 Bad Request", "This is not the end of a login.")
            .await
            .map(|()| None);
    };
    let (status, text, callback) = match read_callback(&target, state) {
        Ok(callback) if callback.answer.is_ok() => {
            ("200 OK", "Logged in. You can close this page and go back to Toolwire.", Some(callback))
        }
        Ok(callback) => {
            ("200 OK", "The login was refused. You can close this page; Toolwire says why.", Some(callback))
        }
        Err(NotFound) => ("404 Not Found", "There is nothing here but the end of a login.", None),
    };
    // What matters has arrived, whether or not the browser waits for the page.
    match (respond(&mut stream, status, text).await, callback) {
        (_, Some(callback)) => Ok(Some(callback)),
        (written, None) => written.map(|()| None),
    }
}

/// The target of a GET, once its whole head is here.
async fn read_target(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > REQUEST_LIMIT || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = std::str::from_utf8(line).unwrap_or_default().split(' ');
    Ok(match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => Some(target.to_owned()),
        _ => None,
    })
}

struct NotFound;

fn read_callback(target: &str, state: &str) -> Result<Callback, NotFound> {
    let base = Url::parse("http://127.0.0.1/").map_err(|_| NotFound)?;
    let url = base.join(target).map_err(|_| NotFound)?;
    // A parameter that comes twice makes the answer ambiguous, and OAuth forbids it (RFC 6749 section 3.1).
    let parameter = |name: &str| {
        let mut values = url.query_pairs().filter(|(key, _)| key == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Ok(Some(value.into_owned())),
            (None, _) => Ok(None),
            _ => Err(NotFound),
        }
    };
    if url.path() != PATH || parameter("state")?.as_deref() != Some(state) {
        return Err(NotFound);
    }
    let answer = match (parameter("code")?, parameter("error")?) {
        (Some(code), None) => Ok(Secret::new(code)),
        (None, Some(error)) => Err(Refusal { error, description: parameter("error_description")? }),
        _ => return Err(NotFound),
    };
    Ok(Callback { answer, issuer: parameter("iss")? })
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let page = format!("<!doctype html><meta charset=utf-8><title>Toolwire</title><p>{text}</p>\n");
    let length = page.len();
    // The address holds the code: it is kept from caches, referrers and scripts.
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

    fn read(target: &str) -> Option<Callback> {
        read_callback(target, "s 1").ok()
    }

    #[test]
    fn only_the_state_of_this_login_is_believed() {
        let code = |issuer: Option<&str>| {
            Some(Callback { answer: Ok(Secret::new("c/1")), issuer: issuer.map(str::to_owned) })
        };
        assert_eq!(read("/callback?code=c%2F1&state=s+1"), code(None));
        assert_eq!(
            read("/callback?state=s%201&code=c%2F1&iss=https%3A%2F%2Fi.example"),
            code(Some("https://i.example"))
        );
        let refused =
            Refusal { error: "access_denied".to_owned(), description: Some("not today".to_owned()) };
        assert_eq!(
            read("/callback?error=access_denied&error_description=not+today&state=s+1"),
            Some(Callback { answer: Err(refused), issuer: None })
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
            assert_eq!(read(target), None, "{target}");
        }
    }

    #[tokio::test]
    async fn strangers_and_silent_connections_do_not_end_the_wait() {
        let redirect = Redirect::bind(None).await.expect("a port");
        let (uri, port) = (redirect.uri(), redirect.port);
        let visit = async {
            let mut silent = Vec::new();
            for _ in 0..8 {
                silent.push(TcpStream::connect(("127.0.0.1", port)).await.expect("connected"));
            }
            let mut garbage = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
            garbage.write_all(b"\x16\x03\x01 hello\r\n\r\n").await.expect("written");
            let client = reqwest::Client::new();
            let get = |url: String| client.get(url).send();
            assert_eq!(get(format!("{uri}?code=evil&state=guess")).await.expect("answered").status(), 404);
            assert_eq!(client.post(&uri).send().await.expect("answered").status(), 400);
            let response = get(format!("{uri}?code=good&state=right")).await.expect("answered");
            assert_eq!(response.headers()["referrer-policy"], "no-referrer");
            assert!(response.text().await.expect("a page").contains("Logged in"));
        };
        let (callback, ()) = futures::join!(redirect.wait("right"), visit);
        assert_eq!(callback.expect("it came"), Callback { answer: Ok(Secret::new("good")), issuer: None });
    }
}
