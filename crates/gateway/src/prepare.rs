//! Reads a request to a model: its options, its conversation, and the fields that the response repeats.

use std::collections::{BTreeSet, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use serde_json::{Map, Value, json};
use toolwire_dialect::Family;
use toolwire_dialect::client::{
    ClientError, ClientRequest, ErrorKind, InvalidRequest, Problem, ResponseHead, ToolReference,
    read_client_request,
};
use toolwire_dialect::request::{ApiSupport, dropped_parameters};

use crate::catalog::ServedModel;
use crate::content_check::check_content;
use crate::gateway::Inner;
use crate::hosted::{self, NamedServers};
use crate::ids::random_id;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::request_options::RequestOptions;
use crate::response::Failure;
use crate::verbatim;

/// Parameters of clients that change the meaning of the response. The request fails if the model's API does
/// not have them.
const ESSENTIAL: [(Family, &str); 3] = [
    (Family::OpenAiChat, "web_search_options"),
    (Family::OpenAiChat, "prediction"),
    (Family::Anthropic, "thread"),
];

/// Parameters that have an effect although the model's API does not have them: the text ends before a stop
/// sequence, and only one call of a response is made.
const EMULATED: [&str; 2] = ["stop", "parallel_tool_calls"];

/// The maximum number of stop sequences. If the API has none, the gateway searches each part of the text for
/// all of them.
const MAX_STOP_SEQUENCES: usize = 1_024;

/// A request, ready to run.
pub(crate) struct Prepared {
    pub(crate) client: ClientRequest,
    pub(crate) options: RequestOptions,
    pub(crate) head: ResponseHead,
    pub(crate) served: ServedModel,
    pub(crate) dropped: Vec<String>,
    /// The servers whose tools the history already lists.
    pub(crate) listed_servers: Vec<String>,
    /// The servers that the request names; not yet connected.
    pub(crate) named: NamedServers,
    /// Whether a later request may refer to the items of the response.
    pub(crate) stores_items: bool,
}

impl Inner {
    /// Reads a request whose tools and servers do not exceed the maximum.
    pub(crate) fn read_within_limits(
        &self,
        family: Family,
        body: Map<String, Value>,
    ) -> Result<ClientRequest, Failure> {
        let max = self.settings.limits.tools;
        for key in ["tools", "functions", "mcp_servers"] {
            let count = body.get(key).and_then(Value::as_array).map_or(0, Vec::len);
            if count > max {
                let message = format!("the request has {count} {key}, and the maximum is {max}");
                return Err(Failure::invalid(key, message));
            }
        }
        let client = read_request(family, body)?;
        // Items of the conversation can contain tools too.
        let count = client.request.tools.len() + client.provider_tools().count();
        if count > max {
            let message = format!("the request has {count} tools, and the maximum is {max}");
            return Err(Failure::invalid("tools", message));
        }
        let count = client.request.generation.stop.len();
        if count > MAX_STOP_SEQUENCES {
            let key = if family == Family::Anthropic { "stop_sequences" } else { "stop" };
            let message =
                format!("the request has {count} stop sequences, and the maximum is {MAX_STOP_SEQUENCES}");
            return Err(Failure::invalid(key, message));
        }
        // Each of these names is compared with the tools of the servers.
        let chosen = client.allowed_tools.as_ref().map_or(0, Vec::len);
        let of_servers = client.hosted_servers.iter().map(|server| server.named_tools.len()).sum();
        for (key, count) in [("tool_choice", chosen), ("tools", of_servers)] {
            if count > max {
                let message = format!("`{key}` contains {count} names of tools, and the maximum is {max}");
                return Err(Failure::invalid(key, message));
            }
        }
        Ok(client)
    }

    /// Reads a request to a model.
    pub(crate) fn prepare(
        &self,
        family: Family,
        principal: &Principal,
        headers: &HeaderMap,
        sent: &RequestBody,
    ) -> Result<Prepared, Failure> {
        let mut body = sent.to_object()?;
        let mut options = RequestOptions::take(headers, &mut body)?;
        if self.settings.responses.is_none() {
            reject_state(family, &body)?;
        }
        let stores_items = family == Family::OpenAiResponses && body.get("store") != Some(&json!(false));
        if family == Family::OpenAiResponses {
            self.items.resolve(principal, &mut body)?;
        }
        let listed_servers = hosted::listed_servers(&body);
        let mut head = self.head(family, &body)?;
        let mut client = self.read_within_limits(family, body)?;
        if let Some(error) = client.missing_toolset.as_ref().filter(|_| !has_older_servers(headers)) {
            return Err(ClientError::from(error).into());
        }
        let served = self.find_model(principal, &client.model)?.for_client(family);
        reject_unreturned(family, &client, &served)?;
        options.selection.taken = taken_names(&client);
        head.model.clone_from(&client.model);
        head.stream_usage = client.stream_usage;
        head.has_functions = client.has_functions;
        head.tool_forms.clone_from(&client.tool_forms);
        head.shows_server_calls = options.show_calls || !client.hosted_servers.is_empty();
        options.selection.can_approve =
            family == Family::OpenAiResponses && !client.hosted_servers.is_empty();
        options.selection.allowed = allowed_tools(&client);
        let named = NamedServers::default();
        let own_instructions = self.settings.agent.instructions.as_deref();
        verbatim::attach(&mut client, family, &served, headers, sent, own_instructions)?;
        reject_converted_tools(&client, family, &served)?;
        let parameter = if client.has_functions { "functions" } else { "tools" };
        self.checked_tools.check(&served, &client.request, parameter)?;
        let is_kept = client.request.verbatim.is_some() && served.model.keeps_verbatim(&client.request);
        if !is_kept {
            check_content(family, &client, &served)?;
        }
        let lost = if is_kept { Vec::new() } else { dropped_fields(family, &client, &served)? };
        let dropped = client.unused.iter().cloned().chain(lost).collect();
        Ok(Prepared { stores_items, client, options, head, served, dropped, listed_servers, named })
    }

    /// Returns the parts of the response that are known before the model responds.
    fn head(&self, family: Family, body: &Map<String, Value>) -> Result<ResponseHead, Failure> {
        let prefix = match family {
            Family::Anthropic => "msg_",
            Family::OpenAiResponses => "resp_",
            _ => "chatcmpl-",
        };
        let mut head = ResponseHead::default();
        head.id = random_id(prefix).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        head.created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        head.shows_thinking = match family {
            Family::Anthropic => {
                let mode =
                    body.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
                matches!(mode, Some("enabled" | "adaptive"))
            }
            Family::OpenAiResponses => body
                .get("reasoning")
                .and_then(|reasoning| reasoning.get("summary"))
                .is_some_and(|mode| !mode.is_null()),
            _ => self.settings.show_reasoning,
        };
        if family == Family::OpenAiResponses {
            head.echo = echo(body);
        }
        Ok(head)
    }
}

/// Returns the only tools that may be called; `None` if all may. A choice that names a server allows only its
/// tools.
fn allowed_tools(client: &ClientRequest) -> Option<Vec<ToolReference>> {
    match &client.required_tool {
        Some(required) if required.name.is_none() => Some(vec![required.clone()]),
        _ => client.allowed_tools.clone(),
    }
}

/// Whether a request has the older format of Anthropic's MCP servers, which has no toolsets.
fn has_older_servers(headers: &HeaderMap) -> bool {
    let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|beta| beta.trim() == "mcp-client-2025-04-04")
}

/// Rejects parameters of features that the gateway does not have.
fn reject_state(family: Family, body: &Map<String, Value>) -> Result<(), Failure> {
    const STATE: [&str; 2] = ["conversation", "background"];
    let is_set =
        |key: &&&str| body.get(**key).is_some_and(|value| !value.is_null() && *value != json!(false));
    match STATE.iter().find(is_set).filter(|_| family == Family::OpenAiResponses) {
        Some(key) => {
            let mut error = ClientError::new(
                ErrorKind::UnsupportedParameter,
                format!(
                    "`{key}` is not supported; a request can continue a response with `previous_response_id`"
                ),
            );
            error.parameter = Some((*key).to_owned());
            Err(error.into())
        }
        None => Ok(()),
    }
}

/// Refuses parameters that request a part of the response that is not passed on.
fn reject_unreturned(family: Family, client: &ClientRequest, served: &ServedModel) -> Result<(), Failure> {
    let Some(parameter) = unreturned(client) else { return Ok(()) };
    let hint = match served.has_format_of(family) {
        true => "; with the header `x-toolwire-servers: none`, the provider gets the request unchanged",
        false => "",
    };
    let message = format!("`{parameter}` is not supported in a response that the gateway writes{hint}");
    let mut error = ClientError::new(ErrorKind::UnsupportedParameter, message);
    error.parameter = Some(parameter.to_owned());
    Err(error.into())
}

fn unreturned(client: &ClientRequest) -> Option<&'static str> {
    let fields = &client.request.generation.family_fields.as_ref()?.fields;
    let list = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    let is_set = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    let is_any = |name: &str, default: Value| is_set(name) && fields.get(name) != Some(&default);
    let requests = [
        ("logprobs", is_any("logprobs", json!(false))),
        ("top_logprobs", is_any("top_logprobs", json!(0))),
        ("modalities", list("modalities").any(|modality| modality != "text")),
        ("audio", is_set("audio")),
        ("include", list("include").any(|part| part == "message.output_text.logprobs")),
    ];
    requests.into_iter().find(|(_, is_requested)| *is_requested).map(|(name, _)| name)
}

/// Returns the names of the client's fields that at least one of the providers does not get. A request with a
/// field that the response depends on is rejected.
fn dropped_fields(
    family: Family,
    client: &ClientRequest,
    served: &ServedModel,
) -> Result<Vec<String>, Failure> {
    let lost = served.apis().into_iter().flat_map(|(dialect, api_support)| {
        let names = dropped_parameters(dialect, api_support, &client.request);
        client.lost_fields(dialect).into_iter().chain(names)
    });
    let mut seen = HashSet::new();
    let is_lost = |name: &String| !EMULATED.contains(&name.as_str()) && seen.insert(name.clone());
    let dropped: Vec<String> = lost.filter(is_lost).collect();
    let is_essential = |name: &&String| ESSENTIAL.contains(&(family, name.as_str()));
    let Some(essential) = dropped.iter().find(is_essential) else { return Ok(dropped) };
    let message = format!("`{essential}` is not supported by the API of `{}`", client.model);
    let mut error = ClientError::new(ErrorKind::UnsupportedParameter, message);
    error.parameter = Some(essential.clone());
    Err(error.into())
}

/// Returns the names that tools of servers cannot have.
pub(crate) fn taken_names(client: &ClientRequest) -> BTreeSet<String> {
    let own = client.request.tools.iter().map(|tool| tool.name.clone());
    own.chain(client.provider_tools().map(str::to_owned)).collect()
}

/// Rejects tools that the provider runs if an endpoint of the model gets the request in another form.
fn reject_converted_tools(
    client: &ClientRequest,
    family: Family,
    served: &ServedModel,
) -> Result<(), Failure> {
    let Some(error) = client.native_tool.as_ref().filter(|_| client.provider_tools().next().is_some()) else {
        return Ok(());
    };
    let has_api = served
        .apis()
        .into_iter()
        .all(|(dialect, support)| dialect.has_api_of(family) && support == ApiSupport::Complete);
    match has_api && served.model.keeps_verbatim(&client.request) {
        true => Ok(()),
        false => Err(invalid_request(error).into()),
    }
}

/// Converts the error of a request that cannot be read.
pub(crate) fn invalid_request(error: &InvalidRequest) -> ClientError {
    let mut refused = ClientError::from(error);
    if matches!(error.problem, Problem::ProviderTool { .. }) {
        let hint = "hint: with the header `x-toolwire-servers: none`, a provider with this API gets the request unchanged";
        refused.message = format!("{}; {hint}", refused.message);
    }
    refused
}

/// Reads a request in the format of the client's API.
fn read_request(family: Family, body: Map<String, Value>) -> Result<ClientRequest, Failure> {
    match read_client_request(family, Value::Object(body)) {
        Some(Ok(client)) => Ok(client),
        Some(Err(error)) => Err(invalid_request(&error).into()),
        None => Err(Failure::new(ErrorKind::NotFound, "the gateway does not serve this API")),
    }
}

/// Returns the fields of a request that a response of the Responses API repeats, without the credentials of
/// MCP servers. `null` means absent, and clients require some of these fields in a response.
fn echo(body: &Map<String, Value>) -> Map<String, Value> {
    const REPEATED: [&str; 16] = [
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "reasoning",
        "service_tier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_p",
        "truncation",
        "user",
    ];
    let mut echo: Map<String, Value> = body
        .iter()
        .filter(|(key, value)| REPEATED.contains(&key.as_str()) && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for tool in echo.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(tool) = tool.as_object_mut() {
            tool.shift_remove("authorization");
            tool.shift_remove("headers");
        }
    }
    echo
}
