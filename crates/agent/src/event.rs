//! The events of a run.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::model::{Citation, ModelError, ProviderPart, ResponseDetails, Usage};
use toolwire_contract::toolbox::Progress;
use toolwire_contract::{Content, Message, ToolResult};

use crate::approval::PendingCall;
use crate::outcome::{Ending, RunOutcome};
use crate::run::Run;

/// An event of a run. Events are emitted in the order in which they happen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A request is sent to the model. Steps are counted from 1 for each user message.
    StepStarted { step: u32 },
    /// The next fragment of the model's text.
    Text(String),
    /// The next text is a new part of the message. Only some APIs divide the text.
    TextPart,
    /// A source of the current part of the text.
    Citation(Citation),
    /// An image or audio that the model has generated.
    Media(Content),
    /// A part that only the model's API has, such as a web search that the provider has made.
    ProviderPart(ProviderPart),
    /// What the provider reports about the current response, as far as it is known. A later event replaces
    /// it.
    Details(ResponseDetails),
    /// The next fragment of the model's visible reasoning.
    Thinking(String),
    /// The next fragment of the model's refusal, where the provider marks it as one.
    Refusal(String),
    /// The model has started to write a call. Its arguments are incomplete, and it may not be allowed to run.
    CallAnnounced { id: String, name: String },
    /// The request failed, and is sent again after a delay.
    Retrying { after: Duration, retry: u32, max_retries: u32, error: ModelError },
    /// A call needs approval.
    ApprovalNeeded(PendingCall),
    /// A call is being made. A call that does not run, for example because it was denied, has no such event.
    CallStarted { id: String, name: String, arguments: Map<String, Value> },
    /// The progress of a call. Some reports are dropped if they arrive faster than they are read.
    CallProgress { id: String, progress: Progress },
    /// The result of a call, as the model will read it. There is exactly one for each call.
    CallFinished {
        id: String,
        name: String,
        result: ToolResult,
        /// `None` for a call that was not made.
        elapsed: Option<Duration>,
    },
    /// The usage of one response, if the provider reports it, and of all responses to this user message.
    Usage { step: Option<Usage>, total: Usage, context: ContextUse },
    /// A complete message was added. Results are added as they arrive, so one step can add several messages;
    /// [`normalize`](crate::run::normalize) combines them.
    MessageAdded(Arc<Message>),
    /// All messages added so far are stored.
    Saved { conversation: ConversationId, position: u64 },
    /// The next request lacks parts of the history, so that it fits into the context window.
    ContextReduced(ContextReduction),
    /// In requests, this many messages at the start of the history are replaced with a summary. The history
    /// itself is unchanged.
    ContextSummarized { messages: usize },
    /// The tool search compares only the words of tools and queries, not their meaning. An agent emits it
    /// once for each kind of failure.
    EmbeddingsUnavailable(EmbeddingFailure),
    /// The model has responded, and all its calls have results.
    StepFinished { step: u32 },
    /// The last event.
    Done(Box<FinishedRun>),
}

/// The use of the context window, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextUse {
    /// The size of the last request: the provider's count or an estimate, whichever is larger.
    pub used: u64,
    /// The size of the window; `None` if it is unknown.
    pub size: Option<u64>,
}

/// The parts of the history that requests omit or shorten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextReduction {
    /// The number of results of which only the start and the end are sent.
    pub results_shortened: usize,
    /// The number of messages that are not sent, and not part of a summary.
    pub messages_omitted: usize,
}

/// The reason why a search has no embeddings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EmbeddingFailure {
    /// The tools are still being embedded by this model.
    Pending {
        model: String,
    },
    Failed(ModelError),
}

/// A run that ended or paused.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    pub outcome: RunOutcome,
    /// The run with its history. Continue it with [`Run::say`], save it with [`Run::to_json`], or approve its
    /// pending calls with [`Run::decide`].
    pub run: Run,
}

/// A run without a final response of the required format.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct NoOutput {
    pub problem: String,
    pub finished: Box<FinishedRun>,
}

impl FinishedRun {
    /// Returns the final response as a value of a type. The settings must require JSON
    /// ([`AgentSettings::output`](crate::AgentSettings::output)).
    pub fn output_as<T: DeserializeOwned>(mut self) -> Result<T, NoOutput> {
        let problem = match (self.outcome.output.take(), &self.outcome.ending) {
            (Some(value), _) => match serde_json::from_value(value.clone()) {
                Ok(output) => return Ok(output),
                Err(error) => {
                    self.outcome.output = Some(value);
                    format!("the response cannot be converted to the requested type: {error}")
                }
            },
            (None, Ending::Failed(failure)) => failure.message.clone(),
            (None, Ending::Stopped(limit)) => limit.to_string(),
            (None, _) => "the run ended without a response of the required format".to_owned(),
        };
        Err(NoOutput { problem, finished: Box::new(self) })
    }
}
