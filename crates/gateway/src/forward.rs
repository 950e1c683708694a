//! Requests that need nothing from the gateway. The provider gets the client's bytes unchanged except for the
//! name of the model, and the client gets the provider's response.

mod send;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ErrorKind, has_programmatic_calls, runs_at_provider};
use toolwire_dialect::request::ApiSupport;

use crate::catalog::ForwardedRequest;
use crate::gateway::{Caller, Inner};
use crate::hosted::NamedServers;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::request_options::RequestOptions;
use crate::response::{Failure, HttpResponse, bounded_list};
use crate::spans::ForwardedSpan;
pub(crate) use send::Forward;

/// Headers of Anthropic's clients that the provider gets.
const SENT_HEADERS: [&str; 2] = ["anthropic-version", BETA];

/// The header with the names of Anthropic's features in development that a request uses. A request can have
/// it several times.
pub(crate) const BETA: &str = "anthropic-beta";

/// The response header with the type of the client's tool because of which the servers' tools were not added.
const SERVERS_OMITTED: &str = "x-toolwire-servers-omitted";

impl Inner {
    /// Returns the response of the provider, if the request needs nothing from the gateway.
    pub(crate) fn forward_unchanged(
        &self,
        family: Family,
        caller: &Caller,
        headers: &HeaderMap,
        body: &RequestBody,
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
        let is_ours = self.hidden.is_mentioned(principal, body.bytes())
            || self.items.is_mentioned(principal, body.bytes());
        if is_ours || body.raw("toolwire").is_some() || own_keys.iter().any(|key| body.sets(key)) {
            return Ok(None);
        }
        let has_both_limits = body.sets("max_completion_tokens") && body.sets("max_tokens");
        if has_both_limits && served.api_support == ApiSupport::Partial {
            return Ok(None);
        }
        let options = RequestOptions::take(headers, &mut Map::new())?;
        let selection = options.selection.clone();
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
        self.check_selection(principal, &options, &[], &NamedServers::default())?;
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
    pub(crate) fn check_provider_state(
        &self,
        principal: &Principal,
        body: &RequestBody,
    ) -> Result<(), Failure> {
        if self.settings.allows_provider_state(principal) {
            return Ok(());
        }
        let facts = body.facts()?;
        let is_foreign_item = facts.has_item_references && !self.items.is_mentioned(principal, body.bytes());
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
