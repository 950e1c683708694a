//! Sends a request, and reads what an endpoint says when it is no answer.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use reqwest::Response;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::{ModelError, WaitPhase};
use toolwire_dialect::Toolset;

use super::{Trouble, timed_out};
use crate::client::reason;
use crate::refusal::refused;
use crate::retry::{Failure, asked_wait, is_lasting};
use crate::settings::{Credentials, Settings};
use crate::sign::signature;
use crate::{Endpoint, Framing};

/// More of an error is not kept, and not waited for.
const LONGEST_ERROR: usize = 1 << 20;
const READING_AN_ERROR: Duration = Duration::from_secs(10);

pub(super) async fn send(endpoint: &Endpoint, body: Bytes, deadline: Instant) -> Result<Response, Trouble> {
    let Endpoint { settings, client, pacing, .. } = endpoint;
    let headers = headers(settings, &body, pacing.now()).map_err(|problem| {
        let hint = Some(format!("check {}", settings.key_place));
        Trouble { error: ModelError::Unusable { model: settings.name.clone(), problem, hint }, failure: None }
    })?;
    let sending = client.post(settings.url.clone()).headers(headers).body(body).send();
    let sent =
        timeout_at(deadline, sending).await.map_err(|_| timed_out(settings, WaitPhase::FirstToken, None))?;
    sent.map_err(|error| {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            return timed_out(settings, WaitPhase::Connection, Some(Failure::Connection));
        }
        let error =
            ModelError::Unreachable { model: settings.name.clone(), problem: unreached(settings, &error) };
        Trouble { error, failure: Some(Failure::Connection) }
    })
}

/// Why nobody was reached, and where; of the address only what is never secret.
fn unreached(settings: &Settings, error: &reqwest::Error) -> String {
    let place = settings.url.origin().ascii_serialization();
    match reason(error) {
        // What the TLS library makes of an answer in plain text.
        why if why.contains("InvalidContentType") => {
            format!("what answers at {place} speaks no TLS; perhaps its address begins with `http://`")
        }
        why => format!("{why}, at {place}"),
    }
}

/// What a response that is no answer says.
pub(super) async fn refusal(endpoint: &Endpoint, response: Response, toolset: &Toolset) -> Trouble {
    let Endpoint { settings, pacing, .. } = endpoint;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let text = read_error(response).await;
    let body = serde_json::from_slice(&text)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&text).into_owned()));
    let failure = Failure::Status {
        status,
        lasting: is_lasting(&body),
        wait: asked_wait(header, &body, pacing.now()),
        again: header("x-should-retry").and_then(|word| word.parse().ok()),
    };
    let mut error = refused(settings, toolset, Some(status), body);
    if let (ModelError::Refused { hint, .. }, Some(moved)) = (&mut error, header(LOCATION.as_str()))
        && (300..400).contains(&status)
    {
        *hint = Some(format!("it has moved to {moved}; set its `baseUrl`"));
    }
    Trouble { error, failure: Some(failure) }
}

fn headers(settings: &Settings, body: &[u8], now: SystemTime) -> Result<HeaderMap, String> {
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
        let mut value = HeaderValue::from_str(text).map_err(|_| "its key is no header value".to_owned())?;
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
            headers.extend(signature(keys, region, &settings.url, body, now)?);
        }
    }
    Ok(headers)
}

/// The body of an error, as far as it comes in time and is not too long.
async fn read_error(response: Response) -> Vec<u8> {
    let deadline = Instant::now() + READING_AN_ERROR;
    let mut text = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Ok(Some(Ok(bytes))) = timeout_at(deadline, chunks.next()).await {
        let room = LONGEST_ERROR - text.len();
        text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if text.len() >= LONGEST_ERROR {
            break;
        }
    }
    text
}
