//! Reads the body of a response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use toolwire_contract::model::{ModelError, ModelEvent, ModelResponse, WaitPhase};
use toolwire_dialect::Toolset;
use toolwire_dialect::response::{ResponseError, ResponseStream};

use super::{AttemptError, PreparedRequest, WEB_PAGE, timed_out};
use crate::frames::{FrameError, Frames, MAX_FRAME_BYTES, MAX_STREAM_BYTES, is_done, is_last};
use crate::http_clients::root_cause;
use crate::provider_error::{provider_error, redact_secrets, status_from_error};
use crate::retry::{AttemptFailure, is_permanent};
use crate::settings::EndpointSettings;

/// The maximum wait for the end of the body after the last event of a response.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads one response.
pub(super) struct ResponseReader {
    settings: Arc<EndpointSettings>,
    toolset: Arc<Toolset>,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    frames: Frames,
    received_bytes: usize,
    /// `None` after the end of the response.
    parser: Option<ResponseStream>,
    /// The last value that was received.
    last_value: Value,
    deadline: Instant,
    waiting_for: WaitPhase,
    /// The end of the response, while the events before it are still being returned.
    end: Option<Result<ModelResponse, AttemptError>>,
}

/// The next part of a response.
pub(super) enum ReadStep {
    Events(Vec<ModelEvent>),
    Complete(ModelResponse),
}

impl ResponseReader {
    pub(super) fn new(
        settings: &Arc<EndpointSettings>,
        request: &PreparedRequest,
        response: Response,
        deadline: Instant,
    ) -> ResponseReader {
        ResponseReader {
            settings: settings.clone(),
            toolset: request.toolset.clone(),
            body: response.bytes_stream().boxed(),
            frames: Frames::new(settings.framing),
            received_bytes: 0,
            parser: Some(
                ResponseStream::new(settings.dialect, request.toolset.clone())
                    .with_seed(&*request.seed)
                    .with_stop(&request.stop)
                    .with_output(request.output.clone()),
            ),
            last_value: Value::Null,
            deadline,
            waiting_for: WaitPhase::FirstToken,
            end: None,
        }
    }

    /// Reads until there are events to return, or until the end of the response.
    pub(super) async fn next(&mut self) -> Result<ReadStep, AttemptError> {
        if let Some(end) = self.end.take() {
            return end.map(ReadStep::Complete);
        }
        loop {
            let values = match timeout_at(self.deadline, self.body.next()).await {
                Err(_) => return self.interrupted(timed_out(&self.settings, self.waiting_for, None)),
                Ok(Some(Err(error))) => {
                    let failed = self.broken(root_cause(&error.without_url()));
                    return self.interrupted(failed);
                }
                Ok(None) => {
                    let rest = match self.frames.finish() {
                        Ok(rest) => rest,
                        Err(error) => {
                            let failed = self.broken(error.to_string());
                            return self.interrupted(failed);
                        }
                    };
                    let events = self.push(rest)?;
                    let end = self.end.take().unwrap_or_else(|| self.finish());
                    if events.is_empty() {
                        return end.map(ReadStep::Complete);
                    }
                    self.end = Some(end);
                    return Ok(ReadStep::Events(events));
                }
                Ok(Some(Ok(bytes))) => {
                    if self.received_bytes == 0 && is_web_page(&bytes) {
                        return Err(self.malformed(WEB_PAGE.to_owned()));
                    }
                    self.received_bytes += bytes.len();
                    let mut values = Vec::new();
                    let mut outcome = self.frames.push(&bytes, &mut values);
                    if self.received_bytes > MAX_STREAM_BYTES {
                        outcome = Err(FrameError::StreamTooLong);
                    }
                    if let Err(error) = outcome {
                        let failed = self.malformed(error.to_string());
                        let events = self.push(values)?;
                        if events.is_empty() {
                            return Err(failed);
                        }
                        self.end.get_or_insert(Err(failed));
                        return Ok(ReadStep::Events(events));
                    }
                    values
                }
            };
            if values.is_empty() {
                continue;
            }
            // After the last event, only the end of the body is missing. Reading it lets the connection be
            // reused.
            let timeout = if values.iter().any(is_last) { CLOSE_TIMEOUT } else { self.settings.idle_timeout };
            self.deadline = Instant::now() + timeout;
            self.waiting_for = WaitPhase::NextToken;
            let events = self.push(values)?;
            if !events.is_empty() {
                return Ok(ReadStep::Events(events));
            }
            if let Some(end) = self.end.take() {
                return end.map(ReadStep::Complete);
            }
        }
    }

    /// Returns the events in these values. An error after the first event is returned with the next call.
    fn push(&mut self, values: Vec<Value>) -> Result<Vec<ModelEvent>, AttemptError> {
        let mut events = Vec::new();
        for value in values {
            let Some(parser) = &mut self.parser else { break };
            let pushed = if is_done(&value) {
                parser.end().map(|()| Vec::new())
            } else {
                let pushed = parser.push(&value);
                self.last_value = value;
                pushed
            };
            match pushed {
                Ok(more) => events.extend(more),
                Err(error) => {
                    self.parser = None;
                    let failed = self.failed_response(error);
                    if events.is_empty() {
                        return Err(failed);
                    }
                    self.end = Some(Err(failed));
                    break;
                }
            }
            if self.parser.as_ref().is_some_and(ResponseStream::is_stopped) {
                // The rest of the response is not needed; dropping the body ends it at the provider.
                self.end = Some(self.finish());
                break;
            }
        }
        Ok(events)
    }

    /// Handles an interrupted body. If the response was already complete, nothing is lost.
    fn interrupted(&mut self, failed: AttemptError) -> Result<ReadStep, AttemptError> {
        self.finish().map(ReadStep::Complete).map_err(|_| failed)
    }

    fn finish(&mut self) -> Result<ModelResponse, AttemptError> {
        let Some(parser) = self.parser.take() else {
            return Err(self.broken("the response has already ended".to_owned()));
        };
        let response = parser.finish().map_err(|error| self.failed_response(error))?;
        Ok(self.with_cost(response))
    }

    /// Reads a response that is not streamed. Returns the events that a stream would have sent, too.
    pub(super) async fn read_complete(&mut self) -> Result<(Vec<ModelEvent>, ModelResponse), AttemptError> {
        let mut text = Vec::new();
        loop {
            match timeout_at(self.deadline, self.body.next()).await {
                Err(_) => return Err(timed_out(&self.settings, self.waiting_for, None)),
                Ok(Some(Err(error))) => return Err(self.broken(root_cause(&error.without_url()))),
                Ok(None) => break,
                Ok(Some(Ok(bytes))) if text.len() + bytes.len() > MAX_FRAME_BYTES => {
                    return Err(self.malformed(FrameError::FrameTooLong.to_string()));
                }
                Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
            }
            self.deadline = Instant::now() + self.settings.idle_timeout;
            self.waiting_for = WaitPhase::NextToken;
        }
        let body: Value = serde_json::from_slice(&text)
            .map_err(|error| self.malformed(FrameError::NotJson(error.to_string()).to_string()))?;
        let events = match &mut self.parser {
            Some(parser) => parser.push_body(&body),
            None => Ok(Vec::new()),
        };
        self.last_value = body;
        let events = events.map_err(|error| self.failed_response(error))?;
        Ok((events, self.finish()?))
    }

    fn with_cost(&self, mut response: ModelResponse) -> ModelResponse {
        if let (Some(usage), Some(price)) = (&mut response.usage, &self.settings.price) {
            usage.cost_nanodollars = usage.cost_nanodollars.or_else(|| Some(price.cost_nanodollars(usage)));
        }
        response
    }

    fn failed_response(&self, error: ResponseError) -> AttemptError {
        let model = self.settings.name.clone();
        match error {
            ResponseError::Provider { body, .. } => {
                let status = status_from_error(&body);
                let failure = status.map(|status| AttemptFailure::Status {
                    status,
                    permanent: is_permanent(&body),
                    retry_after: None,
                    should_retry: None,
                });
                AttemptError { error: provider_error(&self.settings, &self.toolset, status, body), failure }
            }
            ResponseError::Incomplete { .. } => self.broken(error.to_string()),
            ResponseError::Rejected { ref message, .. } => {
                let message = match message {
                    Some(reason) => format!("{error}: {reason}"),
                    None => error.to_string(),
                };
                // The provider's message may quote the key.
                let redacted = |value: Value| redact_secrets(value, &self.settings);
                let message = match redacted(Value::from(message)) {
                    Value::String(message) => message,
                    other => other.to_string(),
                };
                let (hint, body) = (Some(error.hint().to_owned()), redacted(self.last_value.clone()));
                AttemptError {
                    error: ModelError::Refused {
                        model,
                        status: None,
                        message,
                        hint,
                        retry_after: None,
                        body,
                    },
                    failure: None,
                }
            }
            error => AttemptError {
                error: ModelError::Malformed { model, problem: error.to_string() },
                failure: None,
            },
        }
    }

    fn broken(&self, problem: String) -> AttemptError {
        let error = ModelError::Broken { model: self.settings.name.clone(), problem };
        AttemptError { error, failure: Some(AttemptFailure::Interrupted) }
    }

    fn malformed(&self, problem: String) -> AttemptError {
        let error = ModelError::Malformed { model: self.settings.name.clone(), problem };
        AttemptError { error, failure: None }
    }
}

/// Whether the bytes are the start of a web page, whatever the content type says.
fn is_web_page(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    ["<!doctype html", "<html"].iter().any(|start| {
        bytes.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
    })
}
