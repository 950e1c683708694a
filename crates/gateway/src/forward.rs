//! Requests that need nothing from the gateway: their bytes reach the provider as the client wrote them, and so does the
//! response.

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value};
use toolwire_contract::ModelError;
use toolwire_dialect::{ClientError, Dialect, ErrorKind, Family};

use crate::catalog::{ForwardedRequest, ForwardedResponse, ServedModel};
use crate::gateway::Inner;
use crate::request_options::RequestOptions;
use crate::response::{Failure, HttpResponse, Interrupted, ResponseBody, json, model_error};
use crate::top_level::{InvalidBody, TopLevel};

/// The maximum size of an error of a provider.
const MAX_ERROR_BYTES: usize = 1024 * 1024;

/// Headers of the client that the provider gets.
const SENT: [&str; 2] = ["anthropic-version", "anthropic-beta"];

/// Headers of the provider that the client gets, besides those for its limits.
const RECEIVED: [&str; 6] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "openai-processing-ms",
    "openai-version",
];
const RECEIVED_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// A body whose top-level fields are known.
pub(crate) struct Body {
    bytes: Bytes,
    fields: TopLevel,
}

impl Body {
    pub(crate) fn read(bytes: Bytes) -> Result<Body, Failure> {
        let fields = TopLevel::scan(&bytes).map_err(invalid_body)?;
        Ok(Body { bytes, fields })
    }

    pub(crate) fn into_object(self) -> Result<Map<String, Value>, Failure> {
        let parsed = serde_json::from_slice(&self.bytes);
        parsed.map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))
    }

    fn raw(&self, key: &str) -> Option<&[u8]> {
        self.fields.get(key).map(|range| &self.bytes[range])
    }

    /// Returns the name of the model.
    fn model(&self) -> Option<String> {
        serde_json::from_slice(self.raw("model")?).ok()
    }

    /// Returns the body with the provider's name of the model. All other bytes stay as they are.
    fn with_model(&self, id: &str) -> Bytes {
        let name = Value::from(id).to_string();
        match self.fields.get("model") {
            Some(range) if self.bytes[range.clone()] != *name.as_bytes() => {
                let mut body = BytesMut::with_capacity(self.bytes.len() + name.len());
                body.extend_from_slice(&self.bytes[..range.start]);
                body.extend_from_slice(name.as_bytes());
                body.extend_from_slice(&self.bytes[range.end..]);
                body.freeze()
            }
            _ => self.bytes.clone(),
        }
    }
}

fn invalid_body(error: InvalidBody) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, error.to_string())
}

impl Inner {
    /// Returns the response of the provider, if the request needs nothing from the gateway.
    pub(crate) fn straight_through(
        &self,
        family: Family,
        headers: &HeaderMap,
        body: &Body,
    ) -> Result<Option<BoxFuture<'static, Result<HttpResponse, Failure>>>, Failure> {
        let Some(served) = body.model().and_then(|name| self.models.find(&name).ok()) else {
            return Ok(None);
        };
        if !has_api_of(family, &served) || self.settings.agent.instructions.is_some() {
            return Ok(None);
        }
        let contains = |key: &str, text: &[u8]| {
            body.raw(key).is_some_and(|raw| raw.windows(text.len()).any(|part| part == text))
        };
        let has_own_keys = ["toolwire", "previous_response_id", "conversation", "background"]
            .iter()
            .any(|key| body.raw(key).is_some())
            || contains("metadata", b"toolwire")
            || body.raw("mcp_servers").is_some()
            || contains("tools", b"\"mcp");
        if has_own_keys || self.hidden.is_mentioned(&body.bytes) || self.items.is_mentioned(&body.bytes) {
            return Ok(None);
        }
        let selection = RequestOptions::take(headers, &mut Map::new())?.selection;
        if !selection.is_none() && !self.agent(&served, selection)?.tools().tools().is_empty() {
            return Ok(None);
        }
        let Some(upstream) = served.upstream.clone() else { return Ok(None) };
        // The provider's parser must not find anything that this one does not.
        serde_json::from_slice::<serde::de::IgnoredAny>(&body.bytes)
            .map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))?;
        let mut request =
            ForwardedRequest { body: body.with_model(upstream.model_id()), ..ForwardedRequest::default() };
        if family == Family::Anthropic {
            let sent = |name: &'static str| Some((name, headers.get(name)?.to_str().ok()?.to_owned()));
            request.headers = SENT.into_iter().filter_map(sent).collect();
        }
        let model = served.model.name().to_owned();
        Ok(Some(async move { forwarded(family, &model, upstream.forward(request).await).await }.boxed()))
    }

    /// Sends a request to a path that only providers have.
    pub(crate) async fn pass_through(
        &self,
        path: &'static str,
        body: Bytes,
    ) -> Result<HttpResponse, Failure> {
        let body = Body::read(body)?;
        let name = body.model().ok_or_else(|| Failure::invalid("model", "`model` is required"))?;
        let served = self.find_model(&name)?;
        let upstream = served.upstream.clone().filter(|_| is_openai(&served)).ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, format!("the API of `{name}` has no path `/v1/{path}`"))
        })?;
        let request = ForwardedRequest {
            path: Some(path),
            body: body.with_model(upstream.model_id()),
            ..ForwardedRequest::default()
        };
        forwarded(Family::OpenAiChat, &name, upstream.forward(request).await).await
    }
}

/// Whether the provider has exactly the API of the client. Others of the same family reject some of its fields.
fn has_api_of(family: Family, served: &ServedModel) -> bool {
    let dialects: &[Dialect] = match family {
        Family::OpenAiChat => &[Dialect::OpenAi, Dialect::OpenAiStrict],
        Family::OpenAiResponses => &[Dialect::Responses, Dialect::ResponsesStrict],
        Family::Anthropic => &[Dialect::Anthropic, Dialect::AnthropicStrict],
        _ => &[],
    };
    served.upstream.is_some() && served.dialect.is_some_and(|dialect| dialects.contains(&dialect))
}

fn is_openai(served: &ServedModel) -> bool {
    matches!(served.family(), Some(Family::OpenAiChat | Family::OpenAiResponses))
}

/// Creates the response to the client.
async fn forwarded(
    family: Family,
    model: &str,
    response: Result<ForwardedResponse, ModelError>,
) -> Result<HttpResponse, Failure> {
    let response = response.map_err(|error| model_error(&error))?;
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    if !status.is_success() {
        return refused(family, model, status, response).await;
    }
    let body = ResponseBody::stream(response.body.map(|bytes| bytes.map_err(|_| Interrupted)));
    let mut forwarded = Response::new(body);
    *forwarded.status_mut() = status;
    copy_headers(forwarded.headers_mut(), &response.headers);
    if forwarded
        .headers()
        .get("content-type")
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
    {
        forwarded.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache"));
        forwarded.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    Ok(forwarded)
}

fn copy_headers(target: &mut HeaderMap, headers: &[(String, Vec<u8>)]) {
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let is_received = RECEIVED.contains(&name.as_str())
            || RECEIVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if is_received
            && let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            target.insert(name, value);
        }
    }
}

/// Passes an error of the provider on, in the format of the client's API.
async fn refused(
    family: Family,
    model: &str,
    status: StatusCode,
    mut response: ForwardedResponse,
) -> Result<HttpResponse, Failure> {
    let refusal = |message: String| {
        let status = Some(status.as_u16());
        model_error(&ModelError::Refused {
            model: model.to_owned(),
            status,
            message,
            hint: None,
            body: Value::Null,
        })
    };
    if status.is_redirection() || matches!(status.as_u16(), 401 | 403) {
        return Err(refusal("the provider redirects the request".to_owned()).into());
    }
    let mut text = Vec::new();
    while let Some(Ok(bytes)) = response.body.next().await {
        let room = MAX_ERROR_BYTES - text.len();
        text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if text.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    let body: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    let has_message = body.get("error").and_then(|error| error.get("message")).is_some_and(Value::is_string);
    let is_known = has_message && (family != Family::Anthropic || body["type"] == "error");
    if !is_known {
        let message = String::from_utf8_lossy(&text).chars().take(500).collect();
        let error: ClientError = refusal(message);
        return Err(Failure::from(error).with_status(status));
    }
    let mut refused = json(status, &body);
    copy_headers(refused.headers_mut(), &response.headers);
    Ok(refused)
}
