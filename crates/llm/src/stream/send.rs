//! Sends a request and reads error responses.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::model::{ModelError, WaitPhase};
use toolwire_dialect::Toolset;

use super::{AttemptError, timed_out};
use crate::Endpoint;
use crate::frames::Framing;
use crate::http_clients::{root_cause, tls_error};
use crate::provider_error::provider_error;
use crate::request_url::redact_url;
use crate::retry::{AttemptFailure, is_permanent, retry_after};
use crate::settings::{Credentials, EndpointSettings};
use crate::sign::signature_headers;

/// The rest of a longer error body is discarded.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a body to the API of the model.
pub(crate) async fn send(
    endpoint: &Endpoint,
    body: Bytes,
    headers: &[(&'static str, String)],
    deadline: Instant,
) -> Result<Response, AttemptError> {
    send_to(endpoint, endpoint.settings.url.clone(), body, headers, deadline).await
}

pub(crate) async fn send_to(
    endpoint: &Endpoint,
    url: Url,
    body: Bytes,
    own_headers: &[(&'static str, String)],
    deadline: Instant,
) -> Result<Response, AttemptError> {
    let Endpoint { settings, client, clock, .. } = endpoint;
    let mut headers = headers(settings, &body, clock.now()).map_err(|problem| {
        let hint = Some(format!("check {}", settings.key_source));
        AttemptError {
            error: ModelError::Unusable { model: settings.name.clone(), problem, hint, part: None },
            failure: None,
        }
    })?;
    for (name, value) in own_headers {
        let name = HeaderName::from_static(name);
        // Several features are one list.
        let configured =
            headers.get(&name).filter(|_| name == "anthropic-beta").and_then(|known| known.to_str().ok());
        let joined = configured.map_or_else(|| value.clone(), |known| format!("{known},{value}"));
        if let Ok(value) = HeaderValue::from_str(&joined) {
            headers.insert(name, value);
        }
    }
    let request = with_login(client.post(url), settings).headers(headers).body(body).send();
    let sent =
        timeout_at(deadline, request).await.map_err(|_| timed_out(settings, WaitPhase::FirstToken, None))?;
    sent.map_err(|error| {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            return timed_out(settings, WaitPhase::Connection, Some(AttemptFailure::Connection));
        }
        let failure = match error.is_connect() {
            true => AttemptFailure::Connection,
            false => AttemptFailure::Interrupted,
        };
        let (problem, hint) = describe_connect_error(settings, &error);
        let model = settings.name.clone();
        let error = ModelError::Unreachable { model, problem, hint: Some(hint) };
        AttemptError { error, failure: Some(failure) }
    })
}

/// Adds the login of the base URL. A key that is set afterwards, in the same header, replaces it.
pub(crate) fn with_login(request: RequestBuilder, settings: &EndpointSettings) -> RequestBuilder {
    match &settings.login {
        Some((user, password)) => request.basic_auth(user, Some(password.expose())),
        None => request,
    }
}

/// Describes why the connection failed, without the address of the endpoint. Also returns a hint with its
/// scheme, host and port; the rest of the URL may be secret.
fn describe_connect_error(settings: &EndpointSettings, error: &reqwest::Error) -> (String, String) {
    let origin = settings.url.origin().ascii_serialization();
    match tls_error(error) {
        Some(rustls::Error::InvalidMessage(_)) => {
            let problem = "the server does not support TLS; its URL probably starts with `http://`";
            (problem.to_owned(), format!("check the base URL {origin}"))
        }
        // The error may contain the names of hosts.
        Some(error @ rustls::Error::InvalidCertificate(_)) => {
            let problem = "the certificate of the server is not valid";
            (problem.to_owned(), format!("check the certificate of {origin}: {error}"))
        }
        _ => (root_cause(error), format!("check the base URL {origin} and the network")),
    }
}

/// Reads an error response.
pub(crate) async fn read_error_response(
    endpoint: &Endpoint,
    response: Response,
    toolset: &Toolset,
) -> AttemptError {
    let Endpoint { settings, clock, .. } = endpoint;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let body = read_error_body(response).await;
    let delay = retry_after(header, &body, clock.now());
    let failure = AttemptFailure::Status {
        status,
        permanent: is_permanent(&body),
        retry_after: delay,
        should_retry: header("x-should-retry").and_then(|value| value.parse().ok()),
    };
    let mut error = provider_error(settings, toolset, Some(status), body);
    if let ModelError::Refused { retry_after, .. } = &mut error {
        *retry_after = delay;
    }
    if let (ModelError::Refused { hint, .. }, Some(location)) = (&mut error, header(LOCATION.as_str()))
        && (300..400).contains(&status)
    {
        *hint = Some(format!("the endpoint has moved to {}; update `baseUrl`", redact_url(location)));
    }
    AttemptError { error, failure: Some(failure) }
}

/// Reads the body of an error: JSON, or text.
pub(crate) async fn read_error_body(response: Response) -> Value {
    let text = read_body(response, MAX_ERROR_BODY_BYTES, Instant::now() + ERROR_BODY_TIMEOUT).await;
    serde_json::from_slice(&text)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&text).into_owned()))
}

pub(crate) fn headers(
    settings: &EndpointSettings,
    body: &[u8],
    now: SystemTime,
) -> Result<HeaderMap, String> {
    let mut headers = settings.headers.clone();
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let accept = match (settings.options.stream, settings.framing) {
        (true, Framing::Events) => "text/event-stream",
        (true, Framing::Lines) => "application/x-ndjson",
        (true, Framing::Aws) => "application/vnd.amazon.eventstream",
        (false, _) => "application/json",
    };
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static(accept));
    let sensitive = |text: &str| {
        let mut value =
            HeaderValue::from_str(text).map_err(|_| "the API key is not a valid header value".to_owned())?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    match &settings.credentials {
        Credentials::None => {}
        Credentials::Bearer(key) => {
            headers.entry(AUTHORIZATION).or_insert(sensitive(&format!("Bearer {}", key.expose()))?);
        }
        Credentials::Header(name, key) => {
            headers.entry(*name).or_insert(sensitive(key.expose())?);
        }
        Credentials::Aws { access_key, secret_key, session_token, region } => {
            let keys = (access_key, secret_key, session_token.as_ref());
            headers.extend(signature_headers(keys, region, &settings.url, body, now)?);
        }
    }
    Ok(headers)
}

/// Reads the body of a response, up to a size and a time. The rest is discarded.
pub(crate) async fn read_body(response: Response, max_bytes: usize, deadline: Instant) -> Vec<u8> {
    let mut text = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Ok(Some(Ok(bytes))) = timeout_at(deadline, chunks.next()).await {
        let room = max_bytes - text.len();
        text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if text.len() >= max_bytes {
            break;
        }
    }
    text
}
