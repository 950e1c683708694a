//! Requests with our headers and tokens.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Method, Response, StatusCode, Url};

use crate::Secret;
use crate::auth::{AuthError, TokenProvider};
use crate::transport::{Failure, Link, Target};

/// How long a server may take to accept a connection.
const CONNECTING: Duration = Duration::from_secs(10);

const MOST_REDIRECTS: usize = 10;

/// A way to one server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    inner: reqwest::Client,
    url: Arc<Url>,
    headers: HeaderMap,
    bearer: Option<Arc<dyn TokenProvider>>,
}

impl Client {
    pub(crate) fn new(target: &Target, bearer: Option<Arc<dyn TokenProvider>>) -> Result<Client, String> {
        let Target::Http { url, headers: given, .. } = target else {
            return Err("it is a command".into());
        };
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err("it does not begin with `http://` or `https://`".into());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let (Ok(name), Ok(mut value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(value.expose()))
            else {
                return Err(format!("the header `{name}` cannot be sent"));
            };
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let inner = reqwest::Client::builder()
            .user_agent(concat!("toolwire/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECTING)
            .redirect(redirects())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Client { inner, url: Arc::new(url), headers, bearer })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// As [`send`](Client::send), with the time that a person takes to log in noted on the link: it is not the server's.
    pub(crate) async fn send_for(
        &self,
        link: &Arc<Link>,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        patience: Option<Duration>,
    ) -> Result<Response, Failure> {
        let mut sending = std::pin::pin!(self.send(method, url, headers, body, patience));
        let Some(mut asking) = self.bearer.as_ref().and_then(|bearer| bearer.login_in_progress()) else {
            return sending.await;
        };
        loop {
            let _asked = asking.borrow_and_update().then(|| link.application_answers());
            tokio::select! {
                sent = &mut sending => return sent,
                changed = asking.changed() => {
                    if changed.is_err() {
                        return sending.await;
                    }
                }
            }
        }
    }

    /// Sends a request, with a token if there is one; a second time if the server does not take the token and there is
    /// a better one. `patience` is how long the server may take to answer, beside the time that tokens take.
    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        patience: Option<Duration>,
    ) -> Result<Response, Failure> {
        let token = match &self.bearer {
            Some(bearer) => bearer.token(None).await.map_err(no_token)?,
            None => None,
        };
        let first = self
            .send_once(method.clone(), url, headers.clone(), body.clone(), token.as_ref(), patience)
            .await?;
        let Some(challenge) = challenge(&first) else { return Ok(first) };
        let refused =
            |status: StatusCode, challenge| Failure::Unauthorized { status: status.as_u16(), challenge };
        let better = match &self.bearer {
            Some(bearer) => bearer.replace(token.as_ref(), &challenge).await.map_err(no_token)?,
            None => None,
        };
        if better.is_none() {
            return Err(refused(first.status(), challenge));
        }
        let second = self.send_once(method, url, headers, body, better.as_ref(), patience).await?;
        match self::challenge(&second) {
            Some(challenge) => Err(refused(second.status(), challenge)),
            None => Ok(second),
        }
    }

    async fn send_once(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
        token: Option<&Secret>,
        patience: Option<Duration>,
    ) -> Result<Response, Failure> {
        let mut all = self.headers.clone();
        for (name, value) in &headers {
            all.insert(name, value.clone());
        }
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value =
                value.map_err(|_| Failure::NoToken { reason: "it is no header value".into(), hint: None })?;
            value.set_sensitive(true);
            all.insert(AUTHORIZATION, value);
        }
        let mut request = self.inner.request(method, url.clone()).headers(all);
        if let Some(body) = body {
            request = request.body(body);
        }
        let sending = request.send();
        let sent = match patience {
            None => sending.await,
            Some(patience) => tokio::time::timeout(patience, sending)
                .await
                .map_err(|_| Failure::Broken { reason: format!("no answer within {patience:?}") })?,
        };
        sent.map_err(|error| {
            let reason = reason(&error);
            if error.is_connect() { Failure::Unreachable { reason } } else { Failure::Broken { reason } }
        })
    }
}

fn no_token(error: AuthError) -> Failure {
    Failure::NoToken { reason: error.to_string(), hint: error.hint() }
}

/// Reads a body of at most `longest` bytes.
pub(in crate::transport) async fn read(response: Response, longest: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Failure::Broken { reason: reason(&error) })?;
        if body.len() + chunk.len() > longest {
            return Err(Failure::TooLong { limit: longest });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The beginning of a body, for an error. A server that does not finish it is not waited for.
pub(in crate::transport) async fn excerpt(response: Response) -> String {
    const LONG_ENOUGH: usize = 1024;
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    let reading = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            body.extend_from_slice(&chunk);
            if body.len() > LONG_ENOUGH {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, reading).await;
    shorten(&body)
}

/// One short line of a text.
pub(super) fn shorten(text: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

pub(in crate::transport) fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
}

/// What a server that wants (another) authorization says about it.
fn challenge(response: &Response) -> Option<String> {
    let said = response.headers().get(WWW_AUTHENTICATE);
    let said = said.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(said.unwrap_or_default()),
        // Without a challenge, 403 is no question of the token.
        StatusCode::FORBIDDEN => said,
        _ => None,
    }
}

/// Only redirects that keep the method and the body, and only within the origin: another one is to see neither the
/// session nor the headers that are meant for this server.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let keeps_body =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let stays = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("too many redirects")
        } else if keeps_body && stays {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// What went wrong at the bottom of it: `connection refused` rather than `error sending request`.
fn reason(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    source.to_string()
}
