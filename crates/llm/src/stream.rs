//! Asks an endpoint: sends the request, again if that may help, and reads the answer as it comes.
//!
//! Awaiting lives here. What is decided is decided elsewhere: whether to ask again in `retry`, what bytes mean in
//! `frames`, what an API says in `dialect`, what an error means in `refusal`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::{Answer, Block, Content, ModelError, ModelEvent, ModelRequest, Wait};
use toolwire_dialect::{AnswerError, AnswerStream, Toolset, read_answer, write_request};

use crate::client::reason;
use crate::frames::{FrameError, Frames, LONGEST_FRAME, LONGEST_STREAM, is_last};
use crate::refusal::{refused, status_of};
use crate::retry::{Attempts, Failure, Next, asked_wait, is_lasting};
use crate::settings::{Credentials, Settings};
use crate::sign::signature;
use crate::{Endpoint, Framing};

/// More of an error is not kept, and not waited for.
const LONGEST_ERROR: usize = 1 << 20;
const READING_AN_ERROR: Duration = Duration::from_secs(10);

/// How long bytes may go on after the last word of an answer.
const LINGERING: Duration = Duration::from_secs(1);

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

/// What came next of an answer.
enum Part {
    Events(Vec<ModelEvent>),
    Whole(Answer),
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
                    Ok(Part::Whole(answer)) => self.ready.push_back(ModelEvent::Answer(answer)),
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
            let problem = "it is a web page".to_owned();
            let error = ModelError::Malformed { model: settings.name.clone(), problem };
            return Err(Trouble { error, failure: None });
        }
        // Some gateways do not stream, whatever they are asked.
        let is_whole = !settings.options.stream
            || (settings.framing == Framing::Events && kind.starts_with("application/json"));
        let mut reading = Reading {
            settings: settings.clone(),
            toolset: toolset.clone(),
            body: response.bytes_stream().boxed(),
            frames: Frames::new(settings.framing),
            received: 0,
            answer: Some(AnswerStream::new(settings.dialect, toolset.clone()).with_seed(seed)),
            last: Value::Null,
            deadline,
            waiting_for: Wait::FirstToken,
            end: None,
        };
        if is_whole {
            let answer = reading.whole(seed).await?;
            self.ready.extend(shown(&answer));
            self.ready.push_back(ModelEvent::Answer(answer));
            return Ok(State::Over);
        }
        match reading.next().await? {
            Part::Events(events) => {
                self.ready.extend(events);
                Ok(State::Reading(Box::new(reading)))
            }
            Part::Whole(answer) => {
                self.ready.push_back(ModelEvent::Answer(answer));
                Ok(State::Over)
            }
        }
    }
}

async fn send(endpoint: &Endpoint, body: Bytes, deadline: Instant) -> Result<Response, Trouble> {
    let Endpoint { settings, client, pacing, .. } = endpoint;
    let headers = headers(settings, &body, pacing.now()).map_err(|problem| {
        let hint = Some(format!("check {}", settings.key_place));
        Trouble { error: ModelError::Unusable { model: settings.name.clone(), problem, hint }, failure: None }
    })?;
    let sending = client.post(settings.url.clone()).headers(headers).body(body).send();
    let sent =
        timeout_at(deadline, sending).await.map_err(|_| timed_out(settings, Wait::FirstToken, None))?;
    sent.map_err(|error| {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            return timed_out(settings, Wait::Connection, Some(Failure::Connection));
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
async fn refusal(endpoint: &Endpoint, response: Response, toolset: &Toolset) -> Trouble {
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

/// One answer on its way.
struct Reading {
    settings: Arc<Settings>,
    toolset: Arc<Toolset>,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    frames: Frames,
    /// How many bytes have come.
    received: usize,
    /// `None` once it is over.
    answer: Option<AnswerStream>,
    /// What the provider sent last.
    last: Value,
    deadline: Instant,
    waiting_for: Wait,
    /// How it ended, while events that came before are given.
    end: Option<Result<Answer, Trouble>>,
}

impl Reading {
    /// Reads until something can be shown, or the answer is over.
    async fn next(&mut self) -> Result<Part, Trouble> {
        if let Some(end) = self.end.take() {
            return end.map(Part::Whole);
        }
        loop {
            let values = match timeout_at(self.deadline, self.body.next()).await {
                Err(_) => return self.cut(timed_out(&self.settings, self.waiting_for, None)),
                Ok(Some(Err(error))) => {
                    let trouble = self.broken(reason(&error.without_url()));
                    return self.cut(trouble);
                }
                Ok(None) => {
                    let rest = match self.frames.finish() {
                        Ok(rest) => rest,
                        Err(error) => {
                            let trouble = self.broken(error.to_string());
                            return self.cut(trouble);
                        }
                    };
                    let events = self.push(rest)?;
                    let end = self.end.take().unwrap_or_else(|| self.finish());
                    if events.is_empty() {
                        return end.map(Part::Whole);
                    }
                    self.end = Some(end);
                    return Ok(Part::Events(events));
                }
                Ok(Some(Ok(bytes))) => {
                    self.received += bytes.len();
                    if self.received > LONGEST_STREAM {
                        return Err(self.misframed(&FrameError::Endless));
                    }
                    self.frames.push(&bytes).map_err(|error| self.misframed(&error))?
                }
            };
            if values.is_empty() {
                continue;
            }
            // After its last word only the end of the bytes is waited for, so that the connection can be used again.
            let patience = if values.iter().any(is_last) { LINGERING } else { self.settings.silence };
            self.deadline = Instant::now() + patience;
            self.waiting_for = Wait::NextToken;
            let events = self.push(values)?;
            if !events.is_empty() {
                return Ok(Part::Events(events));
            }
        }
    }

    /// What can be shown of these values. Trouble that comes after something to show waits its turn.
    fn push(&mut self, values: Vec<Value>) -> Result<Vec<ModelEvent>, Trouble> {
        let mut events = Vec::new();
        for value in values {
            let Some(answer) = &mut self.answer else { break };
            let pushed = answer.push(&value);
            self.last = value;
            match pushed {
                Ok(more) => events.extend(more),
                Err(error) => {
                    self.answer = None;
                    let trouble = self.unanswered(error);
                    if events.is_empty() {
                        return Err(trouble);
                    }
                    self.end = Some(Err(trouble));
                    break;
                }
            }
        }
        Ok(events)
    }

    /// The bytes stopped coming. If the answer was over by then, nothing is lost.
    fn cut(&mut self, trouble: Trouble) -> Result<Part, Trouble> {
        self.finish().map(Part::Whole).map_err(|_| trouble)
    }

    fn finish(&mut self) -> Result<Answer, Trouble> {
        let Some(answer) = self.answer.take() else {
            return Err(self.broken("it is over".to_owned()));
        };
        let answer = answer.finish().map_err(|error| self.unanswered(error))?;
        Ok(self.priced(answer))
    }

    /// The answer of a body that comes in one piece.
    async fn whole(&mut self, seed: &str) -> Result<Answer, Trouble> {
        let mut text = Vec::new();
        loop {
            match timeout_at(self.deadline, self.body.next()).await {
                Err(_) => return Err(timed_out(&self.settings, self.waiting_for, None)),
                Ok(Some(Err(error))) => return Err(self.broken(reason(&error.without_url()))),
                Ok(None) => break,
                Ok(Some(Ok(bytes))) if text.len() + bytes.len() > LONGEST_FRAME => {
                    return Err(self.misframed(&FrameError::TooLong));
                }
                Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
            }
            self.deadline = Instant::now() + self.settings.silence;
            self.waiting_for = Wait::NextToken;
        }
        let body: Value = serde_json::from_slice(&text)
            .map_err(|error| self.misframed(&FrameError::NotJson(error.to_string())))?;
        let answer = read_answer(self.settings.dialect, &body, &self.toolset, seed);
        self.last = body;
        let answer = answer.map_err(|error| self.unanswered(error))?;
        Ok(self.priced(answer))
    }

    fn priced(&self, mut answer: Answer) -> Answer {
        if let (Some(usage), Some(price)) = (&mut answer.usage, &self.settings.price) {
            usage.cost_nanodollars = usage.cost_nanodollars.or_else(|| Some(price.of(usage)));
        }
        answer
    }

    fn unanswered(&self, error: AnswerError) -> Trouble {
        let model = self.settings.name.clone();
        match error {
            AnswerError::Provider { body, .. } => {
                let status = status_of(&body);
                let failure = status.map(|status| Failure::Status {
                    status,
                    lasting: is_lasting(&body),
                    wait: None,
                    again: None,
                });
                Trouble { error: refused(&self.settings, &self.toolset, status, body), failure }
            }
            AnswerError::Cut { .. } => self.broken(error.to_string()),
            AnswerError::Failed { ref message, .. } => {
                let message = match message {
                    Some(why) => format!("{error}: {why}"),
                    None => error.to_string(),
                };
                let (hint, body) = (Some(error.hint().to_owned()), self.last.clone());
                Trouble {
                    error: ModelError::Refused { model, status: None, message, hint, body },
                    failure: None,
                }
            }
            AnswerError::Malformed { .. } => {
                Trouble { error: ModelError::Malformed { model, problem: error.to_string() }, failure: None }
            }
        }
    }

    fn broken(&self, problem: String) -> Trouble {
        let error = ModelError::Broken { model: self.settings.name.clone(), problem };
        Trouble { error, failure: Some(Failure::Connection) }
    }

    fn misframed(&self, error: &FrameError) -> Trouble {
        let error = ModelError::Malformed { model: self.settings.name.clone(), problem: error.to_string() };
        Trouble { error, failure: None }
    }
}

fn timed_out(settings: &Settings, waiting_for: Wait, failure: Option<Failure>) -> Trouble {
    let after = match waiting_for {
        Wait::Connection => settings.connect,
        Wait::FirstToken => settings.first_token,
        Wait::NextToken => settings.silence,
    };
    Trouble { error: ModelError::TimedOut { model: settings.name.clone(), waiting_for, after }, failure }
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

/// What a stream would have shown of an answer that came whole.
fn shown(answer: &Answer) -> Vec<ModelEvent> {
    let event = |block: &Block| match block {
        Block::Content(Content::Text { text, .. }) => Some(ModelEvent::Text(text.clone())),
        Block::Content(Content::Other(other)) if other["type"] == "thinking" => {
            Some(ModelEvent::Thinking(other["text"].as_str()?.to_owned()))
        }
        Block::Call { id, call } => Some(ModelEvent::CallBegan { id: id.clone(), name: call.name.clone() }),
        _ => None,
    };
    let is_something = |event: &ModelEvent| match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => !text.is_empty(),
        _ => true,
    };
    answer.message.content.iter().filter_map(event).filter(is_something).collect()
}
