//! The end of a run.

use std::mem;
use std::sync::Arc;

use serde_json::json;
use toolwire_contract::Message;

use super::{Run, RunState};
use crate::outcome::{Ending, RunError, RunFailure, RunLimit};

impl Run {
    /// Cancels the run. The text written so far stays as an interrupted message; each open call gets a
    /// result.
    pub fn cancel(&mut self) {
        if self.state == RunState::Working {
            self.abort(Ending::Cancelled);
        }
    }

    /// Ends the run with an error. The history is as consistent as after [`Run::cancel`].
    pub fn fail(&mut self, error: impl Into<RunError>) {
        let failure = RunFailure::from(error.into());
        if self.state == RunState::Working {
            self.abort(Ending::Failed(failure));
        } else {
            self.end(Ending::Failed(failure));
        }
    }

    /// Ends the run at a limit, unless the caller still has calls to run.
    pub(super) fn end_at_limit(&mut self, limit: Option<RunLimit>) {
        if let Some(limit) = limit
            && self.calls.is_empty()
        {
            self.end(Ending::Stopped(limit));
        }
    }

    /// Ends the run.
    pub(super) fn end(&mut self, ending: Ending) {
        self.state = RunState::Done(ending);
    }

    /// Ends the run before the model has finished. No text is lost, and each open call gets a result.
    fn abort(&mut self, ending: Ending) {
        let partial = mem::take(&mut self.turn.partial);
        if !partial.trim().is_empty() {
            let mut message = Message::assistant(&*partial);
            message.extra.insert("_meta".to_owned(), json!({"toolwire/interrupted": true}));
            self.turn.text = partial;
            self.add_response(message);
        } else if let Some(message) = self.turn.output.take_rejected() {
            self.add_response(Arc::unwrap_or_clone(message));
        }
        for call in &mut self.calls {
            call.abort();
        }
        self.record_results();
        self.end(ending);
    }
}
