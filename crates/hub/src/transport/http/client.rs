//! HTTP requests with the configured headers and tokens.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use reqwest::redirect::Policy;
use reqwest::{Method, Response, StatusCode, Url};

use super::send_failure::{root_cause, send_failure};
use crate::Secret;
use crate::allowed_hosts::{AllowedHosts, CheckedResolver};
use crate::auth::{AuthError, TokenProvider};
use crate::config::{SentSecrets, redact_url};
use crate::excerpt::excerpt;
use crate::raw_capture::MAX_MESSAGE_BYTES;
use crate::transport::failure::Credentials;
use crate::transport::{Connection, TransportFailure, install_tls_provider};

const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_REDIRECTS: usize = 10;

/// The maximum size of a message of a server that is not trusted.
const MAX_UNTRUSTED_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// Returns the maximum size of a message of a server. Its list of tools has the same limit, over all pages.
pub(crate) const fn max_message_bytes(is_untrusted: bool) -> usize {
    if is_untrusted { MAX_UNTRUSTED_MESSAGE_BYTES } else { MAX_MESSAGE_BYTES }
}

const MAX_RETRY_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An HTTP client for one server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct HttpClient {
    inner: reqwest::Client,
    url: Arc<Url>,
    headers: HeaderMap,
    token_provider: Option<Arc<dyn TokenProvider>>,
    /// Whether the URL comes from an untrusted source.
    is_untrusted: bool,
    /// Removed from excerpts of responses.
    pub(super) secrets: SentSecrets,
}

pub(in crate::transport) struct HttpRequest<'a> {
    pub(in crate::transport) method: Method,
    pub(in crate::transport) url: &'a Url,
    pub(in crate::transport) headers: HeaderMap,
    pub(in crate::transport) body: Option<Vec<u8>>,
    /// The maximum time that the server may take to respond; the time to get tokens does not count.
    pub(in crate::transport) timeout: Option<Duration>,
}

impl<'a> HttpRequest<'a> {
    pub(in crate::transport) fn new(method: Method, url: &'a Url, headers: HeaderMap) -> HttpRequest<'a> {
        HttpRequest { method, url, headers, body: None, timeout: None }
    }
}

impl HttpClient {
    /// Creates a client with the configured headers. With `allowed_hosts`, the URL comes from an untrusted
    /// source. The error is a reason why the configuration is invalid.
    pub(crate) fn new(
        url: &Url,
        configured: &[(String, Secret)],
        token_provider: Option<Arc<dyn TokenProvider>>,
        allowed_hosts: Option<Arc<AllowedHosts>>,
        secrets: SentSecrets,
    ) -> Result<HttpClient, String> {
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err("it must start with `http://` or `https://`".into());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in configured {
            let (Ok(name), Ok(mut value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(value.expose()))
            else {
                return Err(format!("the header `{name}` is invalid"));
            };
            value.set_sensitive(true);
            headers.append(name, value);
        }
        install_tls_provider();
        let is_untrusted = allowed_hosts.is_some();
        let builder = reqwest::Client::builder()
            .user_agent(concat!("toolwire/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(TCP_CONNECT_TIMEOUT);
        let builder = match allowed_hosts {
            // A proxy would resolve the name itself.
            Some(hosts) => {
                let url = hosts.check(url.as_str()).map_err(|refusal| refusal.to_string())?;
                let is_encrypted = url.scheme() == "https";
                let resolver = CheckedResolver::new(hosts, !is_encrypted);
                let builder = builder.redirect(Policy::none()).no_proxy().https_only(is_encrypted);
                builder.dns_resolver(Arc::new(resolver))
            }
            None => builder.redirect(redirect_policy()),
        };
        let inner = builder.build().map_err(|error| error.to_string())?;
        Ok(HttpClient { inner, url: Arc::new(url.clone()), headers, token_provider, is_untrusted, secrets })
    }

    /// Returns the maximum size of a message.
    pub(in crate::transport) fn max_message_bytes(&self) -> usize {
        max_message_bytes(self.is_untrusted)
    }

    /// Returns the failure for a response with an error status.
    pub(in crate::transport) async fn status_failure(&self, response: Response) -> TransportFailure {
        ResponseHead::new(&response).failure(self.body_excerpt(response).await)
    }

    /// Returns the failure for a response with an unexpected content type.
    pub(in crate::transport) async fn wrong_content(&self, response: Response) -> TransportFailure {
        let content_type = content_type(&response);
        TransportFailure::WrongContent { content_type, excerpt: self.body_excerpt(response).await }
    }

    /// Reads the beginning of a body for an error message, for a limited time.
    async fn body_excerpt(&self, response: Response) -> String {
        const EXCERPT_BYTES: usize = 1024;
        const TIMEOUT: Duration = Duration::from_secs(2);
        let response = match uncompressed(response) {
            Ok(response) => response,
            Err(compressed) => return compressed.to_string(),
        };
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        let reading = async {
            while let Some(Ok(chunk)) = chunks.next().await {
                body.extend_from_slice(&chunk);
                if body.len() > EXCERPT_BYTES {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(TIMEOUT, reading).await;
        self.secrets.excerpt(&body)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request. While a user logs in, the connection counts as waiting for the application, so that
    /// time does not count against the server's timeout.
    pub(in crate::transport) async fn send(
        &self,
        connection: &Arc<Connection>,
        request: HttpRequest<'_>,
    ) -> Result<Response, TransportFailure> {
        let mut sending = std::pin::pin!(self.send_with_token(&request));
        let Some(mut login) =
            self.token_provider.as_ref().and_then(|token_provider| token_provider.login_in_progress())
        else {
            return sending.await;
        };
        loop {
            let _login = login.borrow_and_update().then(|| connection.application_responds());
            tokio::select! {
                sent = &mut sending => return sent,
                changed = login.changed() => {
                    if changed.is_err() {
                        return sending.await;
                    }
                }
            }
        }
    }

    /// Sends a request with the current token, if any. If the server rejects the token, it is replaced and
    /// the request is sent once more.
    async fn send_with_token(&self, request: &HttpRequest<'_>) -> Result<Response, TransportFailure> {
        let token = match &self.token_provider {
            Some(token_provider) => token_provider.token(None).await.map_err(no_token)?,
            None => None,
        };
        let first = self.send_once(request, token.as_ref()).await?;
        let Some(challenge) = challenge(&first) else { return Ok(first) };
        let sent = match &self.token_provider {
            Some(_) => Credentials::OAuth,
            None if self.headers.contains_key(AUTHORIZATION) => Credentials::Header,
            None => Credentials::None,
        };
        let unauthorized = |response: &Response, challenge, sent| TransportFailure::Unauthorized {
            status: response.status().as_u16(),
            challenge,
            sent,
        };
        let replacement = match &self.token_provider {
            Some(token_provider) => {
                token_provider.replace(token.as_ref(), &challenge).await.map_err(no_token)?
            }
            None => None,
        };
        if replacement.is_none() {
            return Err(unauthorized(&first, challenge, sent));
        }
        let second = self.send_once(request, replacement.as_ref()).await?;
        match self::challenge(&second) {
            Some(challenge) => Err(unauthorized(&second, challenge, Credentials::NewToken)),
            None => Ok(second),
        }
    }

    async fn send_once(
        &self,
        request: &HttpRequest<'_>,
        token: Option<&Secret>,
    ) -> Result<Response, TransportFailure> {
        let mut headers = self.headers.clone();
        for (name, value) in &request.headers {
            headers.insert(name, value.clone());
        }
        if let Some(token) = token {
            self.secrets.set_token(token);
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| TransportFailure::NoToken {
                reason: "the token is not a valid header value".into(),
                hint: None,
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = self.inner.request(request.method.clone(), request.url.clone()).headers(headers);
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let sent = match request.timeout {
            None => builder.send().await,
            Some(timeout) => tokio::time::timeout(timeout, builder.send()).await.map_err(|_| {
                TransportFailure::Interrupted { reason: format!("no response within {timeout:?}") }
            })?,
        };
        let response = sent.map_err(|error| {
            let proxy_url = Some(request.url).filter(|_| !self.is_untrusted);
            send_failure(&error, proxy_url)
        })?;
        match redirect_target(&response) {
            Some(target) => {
                let (status, full) = (response.status().as_u16(), target.as_str());
                let target = redact_url(&target);
                let is_complete = target == full;
                Err(TransportFailure::Redirected { status, target, is_complete })
            }
            None => Ok(response),
        }
    }
}

fn no_token(error: AuthError) -> TransportFailure {
    TransportFailure::NoToken { reason: error.reason(), hint: error.hint() }
}

/// Reads a body of at most `max_bytes`.
pub(super) async fn read_body(response: Response, max_bytes: usize) -> Result<Vec<u8>, TransportFailure> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| TransportFailure::Interrupted { reason: root_cause(&error) })?;
        if body.len() + chunk.len() > max_bytes {
            return Err(TransportFailure::TooLong { limit: max_bytes });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The parts of a response with an error status that describe the failure, apart from its body.
pub(super) struct ResponseHead {
    status: StatusCode,
    retry_after: Option<Duration>,
}

impl ResponseHead {
    pub(super) fn new(response: &Response) -> ResponseHead {
        ResponseHead { status: response.status(), retry_after: retry_after(response) }
    }

    pub(super) fn failure(self, excerpt: String) -> TransportFailure {
        let ResponseHead { status, retry_after } = self;
        let is_overloaded = status == StatusCode::SERVICE_UNAVAILABLE && retry_after.is_some();
        let status_code = status.as_u16();
        match status == StatusCode::TOO_MANY_REQUESTS || is_overloaded {
            true => TransportFailure::RateLimited { status: status_code, retry_after, excerpt },
            false => TransportFailure::Status { status: status_code, excerpt },
        }
    }
}

/// Returns the delay that the server requests, in seconds or as a date; at most a day.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    let delay = seconds.or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    });
    delay.map(|delay| delay.min(MAX_RETRY_DELAY))
}

/// Fails if the body is compressed: no compression was requested, so none is decoded.
pub(in crate::transport) fn uncompressed(response: Response) -> Result<Response, TransportFailure> {
    match response.headers().get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(TransportFailure::Compressed { encoding: excerpt(encoding.as_bytes()) })
        }
        _ => Ok(response),
    }
}

pub(in crate::transport) fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
}

pub(in crate::transport) fn is_event_stream(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|content_type| content_type.starts_with("text/event-stream"))
}

/// Returns the challenge of a server that requires another token, or an empty one if it sent none.
fn challenge(response: &Response) -> Option<String> {
    let header = response.headers().get(WWW_AUTHENTICATE);
    let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(header.unwrap_or_default()),
        // Without a challenge, another token would not help against 403.
        StatusCode::FORBIDDEN => header,
        _ => None,
    }
}

/// Follows only redirects that preserve the method and the body, and only within the origin, because another
/// origin must not receive the session id and the headers for this server.
fn redirect_policy() -> Policy {
    Policy::custom(|attempt| {
        let preserves_body =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same_origin =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if preserves_body && is_same_origin {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Returns the address that a response redirects to, if the redirect was not followed.
fn redirect_target(response: &Response) -> Option<Url> {
    let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    response.url().join(location.to_str().ok()?).ok()
}
