//! Requests that need nothing from the gateway. The provider gets the client's bytes unchanged except for the
//! name of the model, and the client gets the provider's response.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value};
use tokio::time::timeout_at;
use toolwire_contract::model::ModelError;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ErrorKind, has_programmatic_calls, runs_at_provider};
use toolwire_dialect::request::ApiSupport;

use crate::body_scan::BodyFacts;
use crate::catalog::{ForwardedBody, ForwardedRequest, Upstream};
use crate::complete::bounded_list;
use crate::forwarded_events::{Events, pass_on, run_timeout_error};
use crate::forwarded_usage;
use crate::gateway::{Caller, Inner};
use crate::principal::Principal;
use crate::request_options::RequestOptions;
use crate::response::{Failure, HttpResponse, ResponseBody, json, model_error};
use crate::spans::ForwardedSpan;
use crate::top_level::{InvalidBody, MAX_VALUES, TopLevel};
use crate::traffic::RequestRecorder;

/// Headers of Anthropic's clients that the provider gets.
const SENT_HEADERS: [&str; 2] = ["anthropic-version", BETA];

/// The header with the names of Anthropic's features in development that a request uses. A request can have it
/// several times.
pub(crate) const BETA: &str = "anthropic-beta";

/// Response headers of the provider that the client gets, in addition to those for rate limits.
const RETURNED_HEADERS: [&str; 6] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "openai-processing-ms",
    "openai-version",
];
const RETURNED_HEADER_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// The response header with the type of the client's tool because of which the servers' tools were not added.
const SERVERS_OMITTED: &str = "x-toolwire-servers-omitted";

/// If a body has more values and keys than this, the memory of the parsed values is counted.
const MANY_VALUES: usize = 10_000;

/// A body, and the positions of its top-level fields.
pub(crate) struct Body {
    bytes: Bytes,
    fields: TopLevel,
}

impl Body {
    pub(crate) fn read(bytes: Bytes) -> Result<Body, Failure> {
        let fields = TopLevel::scan(&bytes, MAX_VALUES).map_err(invalid_body)?;
        Ok(Body { bytes, fields })
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Estimates the memory for the body and for what is parsed from it.
    pub(crate) fn estimated_bytes(&self) -> usize {
        let values = self.fields.values();
        let parsed = if values > MANY_VALUES { values.saturating_mul(size_of::<Value>()) } else { 0 };
        self.len().max(parsed)
    }

    /// Returns the JSON text.
    pub(crate) fn text(&self) -> &str {
        // The text was checked when the fields were found.
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    pub(crate) fn to_object(&self) -> Result<Map<String, Value>, Failure> {
        let parsed = serde_json::from_slice(&self.bytes);
        parsed.map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))
    }

    fn facts(&self) -> Result<BodyFacts, Failure> {
        BodyFacts::of(&self.bytes).map_err(|error| invalid_body(InvalidBody::Syntax(error.to_string())))
    }

    fn raw(&self, key: &str) -> Option<&[u8]> {
        self.fields.get(key).map(|field| &self.bytes[field.value.clone()])
    }

    /// Whether a field is set. `null` means absent, and `false` is the default of the fields that are
    /// switches.
    fn sets(&self, key: &str) -> bool {
        self.raw(key).is_some_and(|value| !matches!(value, b"null" | b"false"))
    }

    /// Returns the output limit.
    pub(crate) fn output_limit(&self) -> Option<u64> {
        let keys = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
        keys.into_iter().find_map(|key| serde_json::from_slice(self.raw(key)?).ok())
    }

    /// Returns the name of the model.
    pub(crate) fn model(&self) -> Option<String> {
        serde_json::from_slice(self.raw("model")?).ok()
    }

    /// Returns the body with the provider's name of the model, and of the output limit if it has only a part
    /// of the API. All other bytes stay as they are.
    pub(crate) fn for_provider(&self, model: &str, api_support: ApiSupport) -> Bytes {
        let name = Value::from(model).to_string();
        let model = self.fields.get("model").map(|field| (field.value.clone(), name.as_str()));
        let mut edits: Vec<_> = model.into_iter().collect();
        if api_support == ApiSupport::Partial {
            edits.extend(self.limit_edits());
        }
        edits.retain(|(range, text)| self.bytes[range.clone()] != *text.as_bytes());
        edits.sort_by_key(|(range, _)| range.start);
        if edits.is_empty() {
            return self.bytes.clone();
        }
        let mut body = BytesMut::with_capacity(self.bytes.len() + name.len());
        let mut position = 0;
        for (range, text) in edits {
            body.extend_from_slice(&self.bytes[position..range.start]);
            body.extend_from_slice(text.as_bytes());
            position = range.end;
        }
        body.extend_from_slice(&self.bytes[position..]);
        body.freeze()
    }

    /// Returns the edits after which `max_tokens` has the output limit. At most one of the two fields is set.
    fn limit_edits(&self) -> Vec<(Range<usize>, &'static str)> {
        let key = |name: &str| self.fields.get(name).map(|field| field.key.clone());
        match (key("max_completion_tokens"), key("max_tokens")) {
            (Some(limit), None) => vec![(limit, "max_tokens")],
            (Some(limit), Some(null)) if self.sets("max_completion_tokens") => {
                vec![(limit, "max_tokens"), (null, "max_completion_tokens")]
            }
            _ => Vec::new(),
        }
    }
}

fn invalid_body(error: InvalidBody) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, error.to_string())
}

impl Inner {
    /// Returns the response of the provider, if the request needs nothing from the gateway.
    pub(crate) fn forward_unchanged(
        &self,
        family: Family,
        caller: &Caller,
        headers: &HeaderMap,
        body: &Body,
    ) -> Result<Option<BoxFuture<'static, Result<HttpResponse, Failure>>>, Failure> {
        let principal = &caller.principal;
        let Some(served) = body.model().and_then(|name| self.find_model(principal, &name).ok()) else {
            return Ok(None);
        };
        let served = served.for_client(family);
        if !served.has_format_of(family) || self.settings.agent.instructions.is_some() {
            return Ok(None);
        }
        let own_keys = ["previous_response_id", "conversation", "background", "mcp_servers"];
        let is_ours = self.hidden.is_mentioned(principal, &body.bytes)
            || self.items.is_mentioned(principal, &body.bytes);
        if is_ours || body.raw("toolwire").is_some() || own_keys.iter().any(|key| body.sets(key)) {
            return Ok(None);
        }
        let has_both_limits = body.sets("max_completion_tokens") && body.sets("max_tokens");
        if has_both_limits && served.api_support == ApiSupport::Partial {
            return Ok(None);
        }
        let selection = RequestOptions::take(headers, &mut Map::new())?.selection;
        let mut omitted = None;
        if !selection.is_none() {
            // The model and the client are informed about unavailable servers, which a forwarded request
            // cannot do. If the server is starting, the request waits for it.
            let mut missing = self.tools_for(principal).missing_servers().into_iter();
            if missing.any(|missing| selection.includes_server(&missing.server))
                || !self.agent(principal, &served, selection)?.tools().tools().is_empty()
            {
                let of_provider = provider_tools(family, body.raw("tools").unwrap_or_default());
                let has_api = served.has_api_of(family);
                match of_provider.filter(|tools| !(tools.can_be_joined && has_api)) {
                    Some(tools) => omitted = Some(tools.first),
                    None => return Ok(None),
                }
            }
        }
        let Some(upstream) = served.upstream.clone() else { return Ok(None) };
        // The scan of the top level compares bytes. This one parses the whole body, so it finds escaped and
        // nested keys too.
        let facts = body.facts()?;
        // Clients that share the account could read each other's reasoning; the tool loop does not send it.
        let has_foreign_reasoning =
            facts.has_stored_reasoning && !self.settings.allows_provider_state(principal);
        let has_gateway_blocks = family == Family::Anthropic && facts.has_gateway_blocks;
        if facts.names_servers || facts.has_options || has_foreign_reasoning || has_gateway_blocks {
            return Ok(None);
        }
        let mut request = ForwardedRequest {
            body: body.for_provider(upstream.model_id(), served.api_support),
            retry_until: Some(caller.end()),
            ..ForwardedRequest::default()
        };
        request.headers = sent_headers(family, headers);
        let span = caller.span.as_ref().map(|span| ForwardedSpan::new(span, "chat", served.model.name()));
        request.headers.extend(span.iter().flat_map(ForwardedSpan::headers));
        let choices = body.raw("n").and_then(|count| serde_json::from_slice(count).ok());
        let forward = Forward {
            choices: choices.unwrap_or(1),
            family,
            model: served.model.name().to_owned(),
            request_id: caller.request_id.clone(),
            deadline: caller.deadline,
            span,
            recorder: caller.recorder.clone(),
        };
        let forwarded = forward.send(upstream, request);
        Ok(Some(match omitted {
            None => forwarded.boxed(),
            Some(type_name) => {
                let reason = HeaderValue::from_str(&bounded_list(&[type_name]));
                forwarded.map_ok(|response| with_header(response, SERVERS_OMITTED, reason.ok())).boxed()
            }
        }))
    }

    /// Rejects references to data that the provider has stored, if clients with different keys share one
    /// account.
    pub(crate) fn check_provider_state(&self, principal: &Principal, body: &Body) -> Result<(), Failure> {
        if self.settings.allows_provider_state(principal) {
            return Ok(());
        }
        let facts = body.facts()?;
        let is_foreign_item = facts.has_item_references && !self.items.is_mentioned(principal, &body.bytes);
        let Some(key) = facts.provider_state.or(is_foreign_item.then_some("item_reference")) else {
            return Ok(());
        };
        Err(shared_state_error(key))
    }
}

/// The error for a field that refers to stored data which the clients would share.
pub(crate) fn shared_state_error(key: &str) -> Failure {
    let message = format!(
        "`{key}` refers to data that the provider has stored, which the clients of this gateway would share; send the data itself"
    );
    let mut error = ClientError::new(ErrorKind::UnsupportedParameter, message);
    error.parameter = Some(key.to_owned());
    error.into()
}

/// Returns the client's headers that are sent to a provider with the same API.
pub(crate) fn sent_headers(family: Family, headers: &HeaderMap) -> Vec<(&'static str, String)> {
    let sent = |name: &'static str| {
        let values: Vec<&str> =
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        (!values.is_empty()).then(|| (name, values.join(",")))
    };
    SENT_HEADERS.into_iter().filter(|_| family == Family::Anthropic).filter_map(sent).collect()
}

/// The tools of a client that the provider runs itself.
struct ProviderTools {
    /// The type of the first one.
    first: String,
    /// Whether the gateway can add tools to them.
    can_be_joined: bool,
}

/// Finds the tools that the provider runs itself. Chat Completions has no format for their calls, and calls
/// by programs are not supported.
fn provider_tools(family: Family, tools: &[u8]) -> Option<ProviderTools> {
    let tools: Vec<Value> = serde_json::from_slice(tools).ok()?;
    let mut types = tools.iter().filter_map(|tool| tool.get("type")?.as_str());
    let first = types.find(|type_name| runs_at_provider(family, type_name))?.to_owned();
    let can_be_joined = family != Family::OpenAiChat && !tools.iter().any(has_programmatic_calls);
    Some(ProviderTools { first, can_be_joined })
}

fn with_header(mut response: HttpResponse, name: &'static str, value: Option<HeaderValue>) -> HttpResponse {
    response.headers_mut().extend(value.map(|value| (HeaderName::from_static(name), value)));
    response
}

/// A request on its way to the provider.
pub(crate) struct Forward {
    /// The number of alternatives that the request asks for.
    pub(crate) choices: u64,
    pub(crate) family: Family,
    pub(crate) model: String,
    pub(crate) request_id: String,
    pub(crate) deadline: tokio::time::Instant,
    /// The part of a distributed trace that the request is.
    pub(crate) span: Option<ForwardedSpan>,
    /// The record of the request.
    pub(crate) recorder: Option<RequestRecorder>,
}

impl Forward {
    pub(crate) async fn send(
        mut self,
        upstream: Arc<dyn Upstream>,
        request: ForwardedRequest,
    ) -> Result<HttpResponse, Failure> {
        let mut span = self.span.take();
        let response = self.send_request(upstream, request).await;
        if let Some(span) = &mut span {
            span.set_error(match &response {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(response.status().as_u16().to_string()),
                Err(failure) => Some(format!("{:?}", failure.error.kind)),
            });
        }
        response.map(|response| response.map(|body| body.holding(span)))
    }

    async fn send_request(
        self,
        upstream: Arc<dyn Upstream>,
        request: ForwardedRequest,
    ) -> Result<HttpResponse, Failure> {
        let is_model_api = request.path.is_none();
        let response = timeout_at(self.deadline, upstream.forward(request)).await;
        let response = response.map_err(|_| run_timeout_error())?.map_err(|error| model_error(&error))?;
        let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
        match response.body {
            ForwardedBody::Complete(body) if !status.is_success() => {
                self.refused(status, &response.headers, &body)
            }
            ForwardedBody::Parts(_) if !status.is_success() => self.refused(status, &response.headers, b""),
            body => Ok(self.accepted(status, &response.headers, body, upstream, is_model_api)),
        }
    }

    fn accepted(
        self,
        status: StatusCode,
        headers: &[(String, Vec<u8>)],
        body: ForwardedBody,
        upstream: Arc<dyn Upstream>,
        is_model_api: bool,
    ) -> HttpResponse {
        let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
        *response.status_mut() = status;
        copy_headers(response.headers_mut(), headers);
        let content_type = response.headers().get("content-type");
        let is_events = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        if is_events {
            response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache"));
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        *response.body_mut() = match body {
            ForwardedBody::Complete(bytes) => {
                ResponseBody::Whole(read_complete(bytes, &*upstream, self.recorder.as_ref()))
            }
            ForwardedBody::Parts(parts) => {
                let (family, request_id) = (self.family, self.request_id);
                let new_events = || Events::new(family, request_id, self.model, upstream);
                let events = is_events.then(new_events).map(|mut events| {
                    events.has_known_end = is_model_api;
                    events.choices = self.choices.max(1);
                    events.recorder = self.recorder;
                    events
                });
                ResponseBody::stream(pass_on(parts, self.deadline, events))
            }
        };
        response
    }

    /// Passes on an error of the provider, in the format of the client's API.
    fn refused(
        self,
        status: StatusCode,
        headers: &[(String, Vec<u8>)],
        text: &[u8],
    ) -> Result<HttpResponse, Failure> {
        let refusal = |message: String| {
            let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
            let seconds = header.and_then(|(_, value)| str::from_utf8(value).ok()?.trim().parse().ok());
            model_error(&ModelError::Refused {
                model: self.model,
                status: Some(status.as_u16()),
                message,
                hint: None,
                retry_after: seconds.map(Duration::from_secs),
                body: Value::Null,
            })
        };
        if matches!(status.as_u16(), 401 | 403) {
            // The error describes the gateway's key, without the provider's message.
            return Err(refusal(String::new()).into());
        }
        if status.is_redirection() {
            return Err(refusal("the provider redirects the request".to_owned()).into());
        }
        let body: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
        let message = body.get("error").and_then(|error| error.get("message"));
        let is_known = message.is_some_and(Value::is_string)
            && (self.family != Family::Anthropic || body["type"] == "error");
        if !is_known {
            let message = String::from_utf8_lossy(text).chars().take(500).collect();
            return Err(Failure::from(refusal(message)).with_status(status));
        }
        let mut refused = json(status, &body);
        copy_headers(refused.headers_mut(), headers);
        Ok(refused)
    }
}

/// Records the tokens of a complete response, and removes the provider's keys from it if it is an error, or
/// contains one.
fn read_complete(body: Bytes, upstream: &dyn Upstream, recorder: Option<&RequestRecorder>) -> Bytes {
    let fields = TopLevel::scan(&body, usize::MAX).ok();
    let usage = fields.as_ref().and_then(|fields| fields.get("usage"));
    let usage = usage.and_then(|usage| serde_json::from_slice::<Value>(&body[usage.value.clone()]).ok());
    if let (Some(recorder), Some(usage)) = (recorder, usage.filter(Value::is_object)) {
        recorder.set_usage(forwarded_usage::read(&usage));
    }
    let error = fields.as_ref().and_then(|fields| fields.get("error"));
    if error.is_none_or(|error| body[error.value.clone()] == *b"null") {
        return body;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(value) => Bytes::from(upstream.redact(value).to_string()),
        Err(_) => body,
    }
}

fn copy_headers(target: &mut HeaderMap, headers: &[(String, Vec<u8>)]) {
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let is_returned = RETURNED_HEADERS.contains(&name.as_str())
            || RETURNED_HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if is_returned
            && let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            target.insert(name, value);
        }
    }
}
