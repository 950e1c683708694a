//! What happens in a run, as it happens.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolwire_contract::{ConversationId, Message, Progress, ToolResult, Usage};

use crate::approval::PendingCall;
use crate::outcome::Outcome;
use crate::run::Run;

/// What happens in a run, as it happens.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The model is asked; steps are counted from 1 for each message of the person.
    StepBegan { step: u32 },
    /// The next piece of the model's text.
    Text(String),
    /// The next piece of what the model lets be seen of its thinking.
    Thinking(String),
    /// The model has begun to write a call. Its arguments are not known yet, and whether it will run is not either.
    CallAnnounced { id: String, name: String },
    /// A person must decide about this call.
    ApprovalNeeded(PendingCall),
    /// A call is being made. Not every call is: one that is denied or cannot be read is only finished.
    CallStarted { id: String, name: String, arguments: Map<String, Value> },
    /// How far a call is. One may be left out when there are more of them than are taken.
    CallProgress { id: String, progress: Progress },
    /// A call has its result, which the model will read. There is exactly one for each call.
    CallFinished {
        id: String,
        name: String,
        result: ToolResult,
        /// Nothing for a call that was not made.
        elapsed: Option<Duration>,
    },
    /// What one answer cost, where the provider says, and all answers to this message of the person.
    Usage { step: Option<Usage>, total: Usage, context: ContextUse },
    /// A message is complete and part of the history. Results come as they are known: the messages of one step are one
    /// message for the model (see [`mend`](crate::mend)).
    MessageAdded(Arc<Message>),
    /// All messages added so far are kept: they survive the end of the process.
    Saved { conversation: ConversationId, position: u64 },
    /// The model has answered and all its calls have their results.
    StepDone { step: u32 },
    /// The last event.
    Done(Box<Finished>),
}

/// How full the context window is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextUse {
    /// What the last request took, as the provider counted, else as we estimate.
    pub used: u64,
    /// `None` when nobody knows it.
    pub size: Option<u64>,
}

/// A run that came to its end, or to a pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub outcome: Outcome,
    /// With its history; it can be asked more ([`Run::say`]), saved ([`Run::to_json`]), or resumed when it was paused.
    pub run: Run,
}
