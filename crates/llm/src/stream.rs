//! Asks an endpoint: sends the request, again if that may help, and reads the answer as it comes.
//!
//! Awaiting lives here. What is decided is decided elsewhere: whether to ask again in `retry`, what bytes mean in
//! `frames`, what an API says in `dialect`, what an error means in `refusal`.

mod reading;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use tokio::time::Instant;
use toolwire_contract::{Block, Content, ModelError, ModelEvent, ModelRequest, ModelResponse, WaitPhase};
use toolwire_dialect::{Toolset, write_request};

use crate::retry::{Attempts, Failure, Next};
use crate::settings::Settings;
use crate::{Endpoint, Framing};
use reading::{Part, Reading};
use send::{refusal, send};

/// What a login page or a proxy answers with.
const WEB_PAGE: &str = "it is a web page";

/// One request on its way.
pub(crate) struct Asking<'e> {
    endpoint: &'e Endpoint,
    state: State,
    /// Read, and not yet given to the caller.
    ready: VecDeque<ModelEvent>,
}

enum State {
    Asked(Box<ModelRequest>),
    Reading(Box<Reading>),
    Over,
}

/// Why there is no answer, and whether asking again may help.
struct Trouble {
    error: ModelError,
    failure: Option<Failure>,
}

impl<'e> Asking<'e> {
    pub(crate) fn new(endpoint: &'e Endpoint, request: ModelRequest) -> Asking<'e> {
        Asking { endpoint, state: State::Asked(Box::new(request)), ready: VecDeque::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return None,
                State::Asked(request) => match self.begin(*request).await {
                    Ok(state) => self.state = state,
                    Err(error) => return Some(Err(error)),
                },
                State::Reading(mut reading) => match reading.next().await {
                    Ok(Part::Events(events)) => {
                        self.ready.extend(events);
                        self.state = State::Reading(reading);
                    }
                    Ok(Part::Whole(answer)) => self.ready.push_back(ModelEvent::Response(answer)),
                    Err(trouble) => return Some(Err(trouble.error)),
                },
            }
        }
    }

    /// Asks until an answer begins, or there is no hope.
    async fn begin(&mut self, mut request: ModelRequest) -> Result<State, ModelError> {
        let endpoint = self.endpoint;
        let settings = &endpoint.settings;
        let unusable = |problem: String, hint: String| ModelError::Unusable {
            model: settings.name.clone(),
            problem,
            hint: Some(hint),
        };
        request.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        let toolset = endpoint.toolsets.bind(&request.tools, settings.dialect).await;
        let offered = toolset.definitions().len();
        if let Some(most) = settings.limits.tools.filter(|most| offered > *most) {
            let problem = format!("it takes {most} tools in one request, and {offered} are offered");
            return Err(unusable(problem, "offer fewer tools, or let the model search for them".to_owned()));
        }
        let body = write_request(settings.dialect, &request, &toolset, &settings.options)
            .map_err(|error| unusable(error.to_string(), error.hint()))?;
        let body = serde_json::to_vec(&body).expect("a JSON value can be written");
        let body = Bytes::from(body);
        // Where an API names no calls, what came before makes their names unlike those of other answers.
        let seed = request.messages.len().to_string();
        drop(request);

        let mut attempts = Attempts::new(settings.retries);
        loop {
            let trouble = match self.attempt(&toolset, &seed, body.clone()).await {
                Ok(state) => return Ok(state),
                Err(trouble) => trouble,
            };
            let Some(failure) = trouble.failure else { return Err(trouble.error) };
            match attempts.after(failure, endpoint.pacing.chance()) {
                Next::GiveUp => return Err(trouble.error),
                Next::AskAfter(wait) => {
                    tracing::debug!(model = settings.name, problem = %trouble.error, ?wait, "asking again");
                    endpoint.pacing.wait(wait).await;
                }
            }
        }
    }

    /// Asks once, and reads until the first event can be given to the caller: until then asking again is no harm.
    async fn attempt(&mut self, toolset: &Arc<Toolset>, seed: &str, body: Bytes) -> Result<State, Trouble> {
        let settings = &self.endpoint.settings;
        let deadline = Instant::now() + settings.first_token;
        let response = send(self.endpoint, body, deadline).await?;
        if !response.status().is_success() {
            return Err(refusal(self.endpoint, response, toolset).await);
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/html") {
            let problem = WEB_PAGE.to_owned();
            let error = ModelError::Malformed { model: settings.name.clone(), problem };
            return Err(Trouble { error, failure: None });
        }
        // Some gateways do not stream, whatever they are asked.
        let is_whole = !settings.options.stream
            || (settings.framing == Framing::Events && kind.starts_with("application/json"));
        let mut reading = Reading::new(settings, toolset, response, seed, deadline);
        if is_whole {
            let answer = reading.whole(seed).await?;
            self.ready.extend(shown(&answer));
            self.ready.push_back(ModelEvent::Response(answer));
            return Ok(State::Over);
        }
        match reading.next().await? {
            Part::Events(events) => {
                self.ready.extend(events);
                Ok(State::Reading(Box::new(reading)))
            }
            Part::Whole(answer) => {
                self.ready.push_back(ModelEvent::Response(answer));
                Ok(State::Over)
            }
        }
    }
}

fn timed_out(settings: &Settings, waiting_for: WaitPhase, failure: Option<Failure>) -> Trouble {
    let after = match waiting_for {
        WaitPhase::Connection => settings.connect,
        WaitPhase::FirstToken => settings.first_token,
        WaitPhase::NextToken => settings.silence,
    };
    Trouble { error: ModelError::TimedOut { model: settings.name.clone(), waiting_for, after }, failure }
}

/// What a stream would have shown of an answer that came whole.
fn shown(answer: &ModelResponse) -> Vec<ModelEvent> {
    let event = |block: &Block| match block {
        Block::Content(Content::Text { text, .. }) => Some(ModelEvent::Text(text.clone())),
        Block::Content(Content::Other(other)) if other["type"] == "thinking" => {
            Some(ModelEvent::Thinking(other["text"].as_str()?.to_owned()))
        }
        Block::Call { id, call } => {
            Some(ModelEvent::CallAnnounced { id: id.clone(), name: call.name.clone() })
        }
        _ => None,
    };
    let is_something = |event: &ModelEvent| match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => !text.is_empty(),
        _ => true,
    };
    answer.message.content.iter().filter_map(event).filter(is_something).collect()
}
