//! Reads an answer as it comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::{ModelError, ModelEvent, ModelResponse, WaitPhase};
use toolwire_dialect::{ResponseError, ResponseStream, Toolset, read_response};

use super::{Trouble, WEB_PAGE, timed_out};
use crate::client::reason;
use crate::frames::{FrameError, Frames, LONGEST_FRAME, LONGEST_STREAM, is_done, is_last};
use crate::refusal::{refused, status_of};
use crate::retry::{Failure, is_lasting};
use crate::settings::Settings;

/// How long bytes may go on after the last word of an answer.
const LINGERING: Duration = Duration::from_secs(1);

/// One answer on its way.
pub(super) struct Reading {
    settings: Arc<Settings>,
    toolset: Arc<Toolset>,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    frames: Frames,
    /// How many bytes have come.
    received: usize,
    /// `None` once it is over.
    answer: Option<ResponseStream>,
    /// What the provider sent last.
    last: Value,
    deadline: Instant,
    waiting_for: WaitPhase,
    /// How it ended, while events that came before are given.
    end: Option<Result<ModelResponse, Trouble>>,
}

/// What came next of an answer.
pub(super) enum Part {
    Events(Vec<ModelEvent>),
    Whole(ModelResponse),
}

impl Reading {
    pub(super) fn new(
        settings: &Arc<Settings>,
        toolset: &Arc<Toolset>,
        response: Response,
        seed: &str,
        deadline: Instant,
    ) -> Reading {
        Reading {
            settings: settings.clone(),
            toolset: toolset.clone(),
            body: response.bytes_stream().boxed(),
            frames: Frames::new(settings.framing),
            received: 0,
            answer: Some(ResponseStream::new(settings.dialect, toolset.clone()).with_seed(seed)),
            last: Value::Null,
            deadline,
            waiting_for: WaitPhase::FirstToken,
            end: None,
        }
    }

    /// Reads until something can be shown, or the answer is over.
    pub(super) async fn next(&mut self) -> Result<Part, Trouble> {
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
                    if self.received == 0 && is_page(&bytes) {
                        return Err(self.malformed(WEB_PAGE.to_owned()));
                    }
                    self.received += bytes.len();
                    let mut values = Vec::new();
                    let mut outcome = self.frames.push(&bytes, &mut values);
                    if self.received > LONGEST_STREAM {
                        outcome = Err(FrameError::Endless);
                    }
                    if let Err(error) = outcome {
                        let trouble = self.malformed(error.to_string());
                        let events = self.push(values)?;
                        if events.is_empty() {
                            return Err(trouble);
                        }
                        self.end.get_or_insert(Err(trouble));
                        return Ok(Part::Events(events));
                    }
                    values
                }
            };
            if values.is_empty() {
                continue;
            }
            // After its last word only the end of the bytes is waited for, so that the connection can be used again.
            let patience = if values.iter().any(is_last) { LINGERING } else { self.settings.silence };
            self.deadline = Instant::now() + patience;
            self.waiting_for = WaitPhase::NextToken;
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
            let pushed = if is_done(&value) {
                answer.end().map(|()| Vec::new())
            } else {
                let pushed = answer.push(&value);
                self.last = value;
                pushed
            };
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

    fn finish(&mut self) -> Result<ModelResponse, Trouble> {
        let Some(answer) = self.answer.take() else {
            return Err(self.broken("it is over".to_owned()));
        };
        let answer = answer.finish().map_err(|error| self.unanswered(error))?;
        Ok(self.priced(answer))
    }

    /// The answer of a body that comes in one piece.
    pub(super) async fn whole(&mut self, seed: &str) -> Result<ModelResponse, Trouble> {
        let mut text = Vec::new();
        loop {
            match timeout_at(self.deadline, self.body.next()).await {
                Err(_) => return Err(timed_out(&self.settings, self.waiting_for, None)),
                Ok(Some(Err(error))) => return Err(self.broken(reason(&error.without_url()))),
                Ok(None) => break,
                Ok(Some(Ok(bytes))) if text.len() + bytes.len() > LONGEST_FRAME => {
                    return Err(self.malformed(FrameError::TooLong.to_string()));
                }
                Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
            }
            self.deadline = Instant::now() + self.settings.silence;
            self.waiting_for = WaitPhase::NextToken;
        }
        let body: Value = serde_json::from_slice(&text)
            .map_err(|error| self.malformed(FrameError::NotJson(error.to_string()).to_string()))?;
        let answer = read_response(self.settings.dialect, &body, &self.toolset, seed);
        self.last = body;
        let answer = answer.map_err(|error| self.unanswered(error))?;
        Ok(self.priced(answer))
    }

    fn priced(&self, mut answer: ModelResponse) -> ModelResponse {
        if let (Some(usage), Some(price)) = (&mut answer.usage, &self.settings.price) {
            usage.cost_nanodollars = usage.cost_nanodollars.or_else(|| Some(price.of(usage)));
        }
        answer
    }

    fn unanswered(&self, error: ResponseError) -> Trouble {
        let model = self.settings.name.clone();
        match error {
            ResponseError::Provider { body, .. } => {
                let status = status_of(&body);
                let failure = status.map(|status| Failure::Status {
                    status,
                    lasting: is_lasting(&body),
                    wait: None,
                    again: None,
                });
                Trouble { error: refused(&self.settings, &self.toolset, status, body), failure }
            }
            ResponseError::Incomplete { .. } => self.broken(error.to_string()),
            ResponseError::Rejected { ref message, .. } => {
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
            error => {
                Trouble { error: ModelError::Malformed { model, problem: error.to_string() }, failure: None }
            }
        }
    }

    fn broken(&self, problem: String) -> Trouble {
        let error = ModelError::Broken { model: self.settings.name.clone(), problem };
        Trouble { error, failure: Some(Failure::Connection) }
    }

    fn malformed(&self, problem: String) -> Trouble {
        let error = ModelError::Malformed { model: self.settings.name.clone(), problem };
        Trouble { error, failure: None }
    }
}

/// Whether bytes are the beginning of a web page, whatever they were called.
fn is_page(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    ["<!doctype html", "<html"].iter().any(|begin| {
        bytes.get(..begin.len()).is_some_and(|found| found.eq_ignore_ascii_case(begin.as_bytes()))
    })
}
