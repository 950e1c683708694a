//! Sends a request, retries it if that may help, and reads the response as a stream of events.
//!
//! This module does the waiting. Other modules make the decisions: `retry` decides about retries, `frames`
//! decodes bytes, the `dialect` crate reads the JSON of each API, and `provider_error` explains errors.

mod response_reader;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use tokio::time::Instant;
use toolwire_contract::Tool;
use toolwire_contract::model::{ModelError, ModelEvent, ModelRequest, RequestPart, WaitPhase};
use toolwire_dialect::Toolset;
use toolwire_dialect::request::{BoundOutput, verbatim_request, write_request_text};

use crate::Endpoint;
use crate::frames::Framing;
use crate::retry::{AttemptFailure, Attempts, RetryDecision};
use crate::settings::EndpointSettings;
use response_reader::{ReadStep, ResponseReader};
pub(crate) use send::{headers, read_body, read_error_body, read_error_response, send, send_to, with_login};

/// The problem when a login page or a proxy responds instead of the API.
pub(crate) const WEB_PAGE: &str = "received a web page";

/// The events of one request.
pub(crate) struct EventStream<'e> {
    endpoint: &'e Endpoint,
    state: StreamState,
    /// Events that were read and not yet returned.
    ready: VecDeque<ModelEvent>,
}

enum StreamState {
    New(Box<ModelRequest>),
    /// To be sent after the delay.
    Unsent(Box<PreparedRequest>, Option<Duration>),
    Reading(Box<ResponseReader>),
    Done,
}

/// A request in the format of the API.
struct PreparedRequest {
    toolset: Arc<Toolset>,
    output: Option<Arc<BoundOutput>>,
    body: Bytes,
    /// Headers of the client.
    headers: Vec<(&'static str, String)>,
    /// For APIs without call ids: it makes generated ids differ from those of other responses.
    seed: String,
    /// The stop sequences of the request.
    stop: Vec<String>,
    attempts: Attempts,
    /// The estimated size, if the window is unknown.
    estimated_tokens: Option<u64>,
    /// The window that Ollama allocates for the request.
    allocated: Option<Allocated>,
}

/// A request to Ollama, in case that it needs a larger window than the one that was allocated for it.
struct Allocated {
    window: u64,
    estimated_tokens: u64,
    request: Box<ModelRequest>,
}

/// A failed attempt.
pub(crate) struct AttemptError {
    pub(crate) error: ModelError,
    /// The input for the retry decision; `None` means no retry.
    pub(crate) failure: Option<AttemptFailure>,
}

impl<'e> EventStream<'e> {
    pub(crate) fn new(endpoint: &'e Endpoint, request: ModelRequest) -> EventStream<'e> {
        EventStream { endpoint, state: StreamState::New(Box::new(request)), ready: VecDeque::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let next = match std::mem::replace(&mut self.state, StreamState::Done) {
                StreamState::Done => return None,
                StreamState::New(request) => prepare(self.endpoint, *request).await,
                StreamState::Unsent(request, delay) => {
                    if let Some(delay) = delay {
                        self.endpoint.clock.sleep(delay).await;
                    }
                    self.send(request).await
                }
                StreamState::Reading(mut reader) => match reader.next().await {
                    Ok(ReadStep::Events(events)) => {
                        self.ready.extend(events);
                        Ok(StreamState::Reading(reader))
                    }
                    Ok(ReadStep::Complete(response)) => {
                        self.ready.push_back(ModelEvent::Response(response));
                        Ok(StreamState::Done)
                    }
                    Err(failed) => Err(failed.error),
                },
            };
            match next {
                Ok(state) => self.state = state,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Sends the request. If that fails and a retry may help, the next state sends it again.
    async fn send(&mut self, mut request: Box<PreparedRequest>) -> Result<StreamState, ModelError> {
        let failed = match self.attempt(&request).await {
            Ok(state) => {
                if let Some(tokens) = request.estimated_tokens {
                    self.endpoint.learned.record_accepted(tokens);
                }
                return Ok(state);
            }
            Err(failed) => failed,
        };
        if let ModelError::ContextExceeded { window, .. } = failed.error {
            if let Some(larger) = self.with_larger_window(&mut request, window) {
                return Ok(larger);
            }
            match (window, request.estimated_tokens) {
                (Some(window), _) => self.endpoint.learned.record_window(window),
                (None, Some(tokens)) => self.endpoint.learned.record_refusal(tokens),
                (None, None) => {}
            }
        }
        let Some(failure) = failed.failure else { return Err(failed.error) };
        match request.attempts.after_failure(failure, self.endpoint.clock.jitter()) {
            RetryDecision::GiveUp => Err(failed.error),
            RetryDecision::RetryAfter(delay) => {
                tracing::debug!(model = self.endpoint.settings.name, problem = %failed.error, ?delay, "retrying");
                let (retry, max_retries) = request.attempts.count();
                self.ready.push_back(ModelEvent::Retrying {
                    after: delay,
                    retry,
                    max_retries,
                    error: failed.error,
                });
                Ok(StreamState::Unsent(request, Some(delay)))
            }
        }
    }

    /// Returns the state that sends a refused request to Ollama again, if a larger window may be enough for
    /// it.
    fn with_larger_window(&self, refused: &mut PreparedRequest, stated: Option<u64>) -> Option<StreamState> {
        let Allocated { window, estimated_tokens, request } = refused.allocated.take()?;
        let Endpoint { settings, learned, .. } = self.endpoint;
        let is_larger = learned.enlarge_ollama_window(settings, window, stated, estimated_tokens);
        is_larger.then_some(StreamState::New(request))
    }

    /// Sends the request once and reads until the first event. Until then, a retry does no harm.
    async fn attempt(&mut self, request: &PreparedRequest) -> Result<StreamState, AttemptError> {
        let settings = &self.endpoint.settings;
        let deadline = Instant::now() + settings.first_token_timeout;
        let response = send(self.endpoint, request.body.clone(), &request.headers, deadline).await?;
        if !response.status().is_success() {
            return Err(read_error_response(self.endpoint, response, &request.toolset).await);
        }
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if content_type.starts_with("text/html") {
            let problem = WEB_PAGE.to_owned();
            let error = ModelError::Malformed { model: settings.name.clone(), problem };
            return Err(AttemptError { error, failure: None });
        }
        // Some gateways do not stream even if requested.
        let is_complete_body = !settings.options.stream
            || (settings.framing == Framing::Events && content_type.starts_with("application/json"));
        let mut reader = ResponseReader::new(settings, request, response, deadline);
        if is_complete_body {
            let (events, response) = reader.read_complete().await?;
            self.ready.extend(events);
            self.ready.push_back(ModelEvent::Response(response));
            return Ok(StreamState::Done);
        }
        match reader.next().await? {
            ReadStep::Events(events) => {
                self.ready.extend(events);
                Ok(StreamState::Reading(Box::new(reader)))
            }
            ReadStep::Complete(response) => {
                self.ready.push_back(ModelEvent::Response(response));
                Ok(StreamState::Done)
            }
        }
    }
}

/// Converts the request to the format of the API.
async fn prepare(endpoint: &Endpoint, mut request: ModelRequest) -> Result<StreamState, ModelError> {
    let settings = &endpoint.settings;
    let unusable = |problem: String, hint: String, part: Option<RequestPart>| ModelError::Unusable {
        model: settings.name.clone(),
        problem,
        hint: Some(hint),
        part,
    };
    request.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
    let options = endpoint.learned.request_options(settings, &request);
    let has_window = endpoint.learned.known_window(settings).is_some();
    let estimated_tokens = (!has_window).then(|| request.estimated_tokens());
    let allocated = options.context_tokens.map(|window| {
        let estimated_tokens = request.estimated_tokens();
        Allocated { window, estimated_tokens, request: Box::new(request.clone()) }
    });
    let without_verbatim = |request: &mut ModelRequest| match native_tool(request) {
        Some(tool) => {
            let problem = format!(
                "the tool `{tool}` can only be sent as the client defined it, and this request must be converted"
            );
            let hint = "remove this tool, or what requires the conversion: a named tool choice, a schema for the response, or \
                        tools with similar names"
                .to_owned();
            Err(unusable(problem, hint, Some(RequestPart::Tools)))
        }
        None => {
            request.verbatim = None;
            Ok(())
        }
    };
    if verbatim_request(settings.dialect, &request, &options).is_none() {
        without_verbatim(&mut request)?;
    }
    let mut toolset = endpoint.toolset_cache.convert(&request, settings.dialect).await;
    let is_taken = |(name, _): &(String, String)| toolset.own_name(name).is_some();
    if request.verbatim.as_ref().is_some_and(|verbatim| verbatim.tools.iter().any(is_taken)) {
        // A converted name is also the name of a client's tool, so all tools are converted together.
        without_verbatim(&mut request)?;
        toolset = endpoint.toolset_cache.convert(&request, settings.dialect).await;
    }
    let own =
        request.verbatim.as_ref().map_or(0, |verbatim| verbatim.tools.len() + verbatim.provider_tools.len());
    let offered = toolset.definitions().len() + own;
    if let Some(max_tools) = settings.limits.tools.filter(|max_tools| offered > *max_tools) {
        let problem = format!("{offered} tools are offered, and the maximum is {max_tools}");
        let hint = "offer fewer tools, or let the model search for them".to_owned();
        return Err(unusable(problem, hint, Some(RequestPart::Tools)));
    }
    let output = BoundOutput::new(&request, &toolset, &options)
        .map_err(|error| unusable(error.to_string(), error.hint(), error.part()))?;
    let body = write_request_text(settings.dialect, &request, &toolset, &options)
        .map_err(|error| unusable(error.to_string(), error.hint(), error.part()))?;
    let mut headers = request.verbatim.map(|verbatim| verbatim.headers.clone()).unwrap_or_default();
    if let Some(trace) = &request.trace {
        headers.push(("traceparent", trace.parent()));
        headers.extend(trace.state().map(|state| ("tracestate", state.to_owned())));
    }
    let request = PreparedRequest {
        toolset,
        output: output.map(Arc::new),
        body: Bytes::from(body),
        headers,
        seed: request.messages.len().to_string(),
        stop: request.generation.stop,
        attempts: Attempts::new(settings.retries),
        estimated_tokens,
        allocated,
    };
    Ok(StreamState::Unsent(Box::new(request), None))
}

/// Returns a tool of the client that a request in another form cannot contain.
fn native_tool(request: &ModelRequest) -> Option<String> {
    let verbatim = request.verbatim.as_ref()?;
    if let Some(tool) = verbatim.provider_tools.first() {
        return Some(tool.name.clone());
    }
    let is_native = |tool: &&Tool| verbatim.native_tools.contains(&tool.name);
    request.tools.iter().find(is_native).map(|tool| tool.name.clone())
}

fn timed_out(
    settings: &EndpointSettings,
    waiting_for: WaitPhase,
    failure: Option<AttemptFailure>,
) -> AttemptError {
    let after = match waiting_for {
        WaitPhase::Connection => settings.connect_timeout,
        WaitPhase::FirstToken => settings.first_token_timeout,
        WaitPhase::NextToken => settings.idle_timeout,
    };
    AttemptError { error: ModelError::TimedOut { model: settings.name.clone(), waiting_for, after }, failure }
}
