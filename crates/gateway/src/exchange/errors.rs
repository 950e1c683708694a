//! Ends responses that fail.

use toolwire_agent::{RunError, RunFailure, RunLimit};
use toolwire_contract::model::{ModelError, RequestPart, Usage};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ClientEvent, ErrorKind};

use super::Exchange;
use crate::response::{log_unreachable, run_error};

impl Exchange {
    /// Ends the response with the error of the run.
    pub(super) fn fail_run(&mut self, failure: &RunFailure) {
        let mut error = run_error(failure);
        if let Some(RunError::Model(cause)) = failure.cause.as_deref() {
            log_unreachable(cause);
            if let ModelError::Unusable { part: Some(part), .. } = cause {
                error.parameter = self.parameter_of(*part).map(str::to_owned);
            }
        }
        self.fail(error);
    }

    /// Returns the name of a part of the request in the client's API.
    fn parameter_of(&self, part: RequestPart) -> Option<&'static str> {
        match part {
            RequestPart::Messages if self.context.family == Family::OpenAiResponses => Some("input"),
            RequestPart::Messages => Some("messages"),
            RequestPart::Tools => Some("tools"),
            RequestPart::ToolChoice => Some("tool_choice"),
            RequestPart::Output => Some(self.context.output_parameter).filter(|name| !name.is_empty()),
            _ => None,
        }
    }

    /// Ends a response that does not have its required format when a limit is reached.
    pub(super) fn fail_without_output(&mut self, limit: RunLimit) {
        let message = format!("the model has not responded in the required format: {limit}");
        self.fail(ClientError::new(ErrorKind::InvalidOutput, message));
    }

    pub(super) fn fail(&mut self, error: ClientError) {
        // The events that the run has still emitted are stored, but the client gets the error instead.
        let shown = self.ready.len();
        self.keep_approved();
        self.ready.truncate(shown);
        self.run = None;
        let usage = self.usage.plus(&self.run_usage.since(&self.earlier_usage));
        if usage != Usage::default() {
            self.ready.push_back(ClientEvent::Usage(usage));
        }
        self.ready.push_back(ClientEvent::Failed(error));
    }
}
