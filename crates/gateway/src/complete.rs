//! Requests to models: reads the request, runs it, and writes the response.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{FutureExt, stream};
use http::header::HeaderValue;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant, interval_at, timeout};
use toolwire_agent::{Agent, AgentSettings, Run};
use toolwire_contract::{ModelRequest, Role, ToolChoice};
use toolwire_dialect::{
    ClientError, ClientEvent, ClientRequest, ErrorKind, Family, ResponseHead, ResponseWriter, StreamEvent,
    dropped_parameters, read_client_request,
};

use crate::catalog::ServedModel;
use crate::exchange::{Exchange, ExchangeContext};
use crate::gateway::Inner;
use crate::hosted;
use crate::ids::random_id;
use crate::keys::Principal;
use crate::request_options::RequestOptions;
use crate::response::{Failure, HttpResponse, Interrupted, ResponseBody, events, json as json_response};

/// A stream begins after this time, even if the model has not responded. Before, an error has its own status.
const START_DELAY: Duration = Duration::from_secs(5);

/// A complete response begins with white space after this time, so that the client does not give up.
const PADDING_DELAY: Duration = Duration::from_secs(30);

/// Events that are ready at the same time are sent together, up to this size.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// A comment, which all clients ignore.
const HEARTBEAT: &[u8] = b": keep-alive\n\n";

/// Parameters whose loss changes the meaning of the response.
const ESSENTIAL: [&str; 6] =
    ["logprobs", "top_logprobs", "modalities", "audio", "web_search_options", "prediction"];

/// A request, ready to run.
struct Prepared {
    client: ClientRequest,
    options: RequestOptions,
    head: ResponseHead,
    served: ServedModel,
    dropped: Vec<String>,
    /// The servers whose tools the history lists already.
    listed_servers: Vec<String>,
}

impl Inner {
    /// Runs a request to a model.
    pub(crate) async fn complete(
        self: &Arc<Inner>,
        family: Family,
        principal: Principal,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, Failure> {
        let deadline = Instant::now() + self.settings.limits.run_timeout;
        let body = crate::forward::Body::read(body)?;
        if let Some(forward) = self.straight_through(family, headers, &body)? {
            return forward.await;
        }
        let prepared = self.prepare(family, headers, body.into_object()?)?;
        let dropped = prepared.dropped.join(", ");
        let is_stream = prepared.client.stream;
        let writer = ResponseWriter::new(family, prepared.head.clone())
            .ok_or_else(|| Failure::new(ErrorKind::Internal, "this API has no responses"))?;
        let exchange = self.start(family, principal, prepared, deadline)?;
        let response = Responding { exchange, writer, heartbeat: self.settings.limits.heartbeat };
        let mut response = match is_stream {
            true => response.stream().await?,
            false => response.whole(family).await?,
        };
        if let Ok(value) = HeaderValue::from_str(&dropped)
            && !value.is_empty()
        {
            response.headers_mut().insert("x-toolwire-dropped", value);
        }
        Ok(response)
    }

    fn prepare(
        &self,
        family: Family,
        headers: &HeaderMap,
        mut body: Map<String, Value>,
    ) -> Result<Prepared, Failure> {
        let mut options = RequestOptions::take(headers, &mut body)?;
        reject_state(family, &body)?;
        let listed_servers = hosted::listed_servers(&body);
        let mut head = self.head(family, &body)?;
        let client = read_request(family, body)?;
        let served = self.find_model(&client.model)?;
        options.selection.taken = client.request.tools.iter().map(|tool| tool.name.clone()).collect();
        head.model.clone_from(&client.model);
        head.stream_usage = client.stream_usage;
        head.shows_server_calls = options.show_calls || !client.hosted_servers.is_empty();
        options.selection.can_approve =
            family == Family::OpenAiResponses && !client.hosted_servers.is_empty();
        options.selection.hosted = hosted::filters(&client.hosted_servers, &*self.tools, family)?;
        let mut dropped = client.ignored.clone();
        if let Some(dialect) = served.dialect {
            let lost = dropped_parameters(dialect, &client.request);
            if let Some(essential) = lost.iter().find(|name| ESSENTIAL.contains(&name.as_str())) {
                let mut error = ClientError::new(
                    ErrorKind::UnsupportedParameter,
                    format!("`{essential}` is not supported by the API of `{}`", client.model),
                );
                error.parameter = Some(essential.clone());
                return Err(error.into());
            }
            dropped.extend(lost);
        }
        Ok(Prepared { client, options, head, served, dropped, listed_servers })
    }

    /// Returns the facts about the response that the request determines.
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

    /// Starts the run of a request.
    fn start(
        &self,
        family: Family,
        principal: Principal,
        prepared: Prepared,
        deadline: Instant,
    ) -> Result<Exchange, Failure> {
        let Prepared { client, options, served, listed_servers, .. } = prepared;
        if !client.approvals.is_empty() {
            let (agent, run, approved) =
                self.paused.resume(&principal, &client.approvals, &client.request.messages)?;
            return Ok(
                Exchange::new(agent, run, self.context(family, principal, deadline)).with_approvals(approved)
            );
        }
        let filters = options.selection.hosted.clone();
        let agent = self.agent(&served, options.selection)?;
        let mut settings = self.run_settings(&agent, &client.request, options.max_steps)?;
        if !filters.is_empty() {
            hosted::add_approvals(
                &mut settings.approvals,
                &client.hosted_servers,
                &filters,
                &**agent.tools(),
            );
            if client.hosted_servers.iter().all(|server| server.defer_loading) {
                settings.search.tools = 0;
            }
        }
        let messages = self.hidden.restore(&principal, client.request.messages);
        match messages.last() {
            Some(last) if last.role == Role::User => {}
            Some(_) => return Err(Failure::invalid("messages", "the last message must be one of the user")),
            None => return Err(Failure::invalid("messages", "the request has no message to respond to")),
        }
        let run = Run::resume(settings, messages, agent.tools().tools(), agent.model().limits());
        let new_servers =
            filters.into_iter().map(|filter| filter.server).filter(|server| !listed_servers.contains(server));
        Ok(Exchange::new(agent, run, self.context(family, principal, deadline)).with_tool_lists(new_servers))
    }

    fn context(&self, family: Family, principal: Principal, deadline: Instant) -> ExchangeContext {
        ExchangeContext {
            family,
            principal,
            hidden: self.hidden.clone(),
            paused: self.paused.clone(),
            deadline,
        }
    }

    /// Returns the settings of a run: those of the gateway, restricted and extended by the request.
    fn run_settings(
        &self,
        agent: &Agent,
        request: &ModelRequest,
        max_steps: Option<u32>,
    ) -> Result<AgentSettings, Failure> {
        let mut settings = self.settings.agent.clone();
        settings.max_steps = max_steps.map_or(settings.max_steps, |steps| steps.min(settings.max_steps));
        settings.instructions = match (settings.instructions, &request.instructions) {
            (Some(own), Some(client)) => Some(format!("{own}\n\n{client}")),
            (own, client) => own.or_else(|| client.clone()),
        };
        settings.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        settings.temperature = request.temperature.or(settings.temperature);
        settings.generation = request.generation.clone();
        settings.client_tools = request.tools.clone();
        settings.output = request.output.clone();
        settings.check().map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
        settings.tool_choice = request.tool_choice.clone();
        if let ToolChoice::Tool(name) = &request.tool_choice {
            let own = agent.tools().tools();
            let names: BTreeSet<&str> =
                request.tools.iter().chain(own.iter()).map(|tool| tool.name.as_str()).collect();
            if !names.contains(name.as_str()) {
                return Err(Failure::invalid("tool_choice", format!("there is no tool named `{name}`")));
            }
        }
        Ok(settings)
    }
}

/// Refuses parameters that need stored responses.
fn reject_state(family: Family, body: &Map<String, Value>) -> Result<(), Failure> {
    const STATE: [&str; 3] = ["previous_response_id", "conversation", "background"];
    let is_set =
        |key: &&&str| body.get(**key).is_some_and(|value| !value.is_null() && *value != json!(false));
    match STATE.iter().find(is_set).filter(|_| family == Family::OpenAiResponses) {
        Some(key) => {
            let mut error = ClientError::new(
                ErrorKind::UnsupportedParameter,
                format!(
                    "`{key}` is not supported: responses are not stored; send the complete history in `input`"
                ),
            );
            error.parameter = Some((*key).to_owned());
            Err(error.into())
        }
        None => Ok(()),
    }
}

/// Reads a request in the format of the client's API.
pub(crate) fn read_request(family: Family, body: Map<String, Value>) -> Result<ClientRequest, Failure> {
    match read_client_request(family, Value::Object(body)) {
        Some(Ok(client)) => Ok(client),
        Some(Err(error)) => Err(ClientError::from(&error).into()),
        None => Err(Failure::new(ErrorKind::NotFound, "the gateway does not have this API")),
    }
}

/// Returns the fields of a request that a response of the Responses API repeats. Credentials of MCP servers are secret.
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
        .filter(|(key, _)| REPEATED.contains(&key.as_str()))
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

/// A response that is being written.
struct Responding {
    exchange: Exchange,
    writer: ResponseWriter,
    heartbeat: Duration,
}

impl Responding {
    /// Sends the events as they come. Nothing is read from the model while the client does not read.
    async fn stream(mut self) -> Result<HttpResponse, Failure> {
        let mut chunk = Vec::new();
        match timeout(START_DELAY, self.exchange.next()).await {
            Ok(Some(ClientEvent::Failed(error))) => return Err(self.failure(error)),
            Ok(Some(event)) => {
                write_all(&mut chunk, self.writer.start());
                write_all(&mut chunk, self.writer.event(&event));
            }
            Ok(None) | Err(_) => write_all(&mut chunk, self.writer.start()),
        }
        let ticks = interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        let state = (self, ticks, Some(chunk));
        Ok(events(stream::unfold(state, |(mut responding, mut ticks, first)| async move {
            let chunk = match first {
                Some(chunk) => chunk,
                None => {
                    ticks.reset();
                    tokio::select! {
                        biased;
                        chunk = responding.next_chunk() => chunk?,
                        _ = ticks.tick() => HEARTBEAT.to_vec(),
                    }
                }
            };
            Some((Ok(Bytes::from(chunk)), (responding, ticks, None)))
        })))
    }

    /// Returns the bytes of all events that are ready; `None` after the last one.
    async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut chunk = Vec::new();
        let mut event = self.exchange.next().await?;
        loop {
            write_all(&mut chunk, self.writer.event(&event));
            if chunk.len() >= MAX_CHUNK_BYTES {
                return Some(chunk);
            }
            // An event may be invisible for the client; then, this chunk needs another one.
            event = match (chunk.is_empty(), self.exchange.next().now_or_never()) {
                (_, Some(Some(next))) => next,
                (true, None) => self.exchange.next().await?,
                (true, Some(None)) => return None,
                (false, _) => return Some(chunk),
            };
        }
    }

    /// Returns the response when it is complete.
    async fn whole(mut self, family: Family) -> Result<HttpResponse, Failure> {
        let Ok(end) = timeout(PADDING_DELAY, self.read_all()).await else { return Ok(self.padded(family)) };
        match end {
            Some(error) => Err(self.failure(error)),
            None => Ok(json_response(StatusCode::OK, &self.writer.body())),
        }
    }

    /// Reads all events; returns the error if the run fails. It is safe to drop the future.
    async fn read_all(&mut self) -> Option<ClientError> {
        while let Some(event) = self.exchange.next().await {
            self.writer.event(&event);
            if let ClientEvent::Failed(error) = event {
                return Some(error);
            }
        }
        None
    }

    /// Sends white space until the response is complete. An error cannot have its status any more: Responses have a form for it,
    /// and for the other APIs the connection is closed.
    fn padded(self, family: Family) -> HttpResponse {
        let ticks = interval_at(Instant::now(), self.heartbeat);
        let state = Some((self, ticks));
        let body = stream::unfold(state, move |state| async move {
            let (mut responding, mut ticks) = state?;
            let end = tokio::select! {
                biased;
                end = responding.read_all() => end,
                _ = ticks.tick() => return Some((Ok(Bytes::from_static(b" \n")), Some((responding, ticks)))),
            };
            if end.is_some() && family != Family::OpenAiResponses {
                return Some((Err(Interrupted), None));
            }
            Some((Ok(Bytes::from(responding.writer.body().to_string())), None))
        });
        let mut response = json_response(StatusCode::OK, &Value::Null);
        *response.body_mut() = ResponseBody::stream(body);
        response
    }

    fn failure(&self, error: ClientError) -> Failure {
        let mut failure = Failure::from(error);
        if self.exchange.has_called() {
            failure.should_retry = Some(false);
        }
        failure
    }
}

fn write_all(chunk: &mut Vec<u8>, events: Vec<StreamEvent>) {
    use std::io::Write as _;
    for event in events {
        // Writing to memory does not fail.
        let _ = write!(chunk, "{event}");
    }
}
