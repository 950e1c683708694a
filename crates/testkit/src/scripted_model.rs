//! A model that plays a script, rejects what a real provider would reject, and records its requests.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, ModelResponse, StopReason, Usage,
};
use toolwire_contract::{Block, Content, Message, Role, ToolCall};

/// The response of a [`ScriptedModel`] to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedTurn {
    /// Events that are streamed first, one at a time.
    pub events: Vec<ModelEvent>,
    /// The end of the stream; `None` hangs until the stream is dropped.
    pub end: Option<Result<ModelResponse, ModelError>>,
}

/// A model that plays a script and records its requests.
///
/// A request that a provider would reject (see [`check_messages`]; too many tools; two tools with one name)
/// gets an error with the reason.
pub struct ScriptedModel {
    name: String,
    limits: ModelLimits,
    play: Box<dyn Fn(&ModelRequest) -> ScriptedTurn + Send + Sync>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl ScriptedTurn {
    /// A response with no events before it.
    pub fn response(response: ModelResponse) -> ScriptedTurn {
        ScriptedTurn { events: Vec::new(), end: Some(Ok(response)) }
    }

    /// A text, streamed in chunks of `chunk_chars` characters.
    pub fn text_in_chunks(text: &str, chunk_chars: usize) -> ScriptedTurn {
        let chars: Vec<char> = text.chars().collect();
        let events = chars.chunks(chunk_chars.max(1)).map(|chunk| ModelEvent::Text(chunk.iter().collect()));
        ScriptedTurn { events: events.collect(), ..ScriptedTurn::text(text) }
    }

    /// A text in one response, with a usage of ten input tokens and five output tokens.
    pub fn text(text: &str) -> ScriptedTurn {
        ScriptedTurn::response(response(Message::assistant(text), StopReason::End))
    }

    /// Tool calls, each given as id, name and arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> ScriptedTurn {
        let block = |(id, name, arguments): (&str, &str, Value)| Block::Call {
            id: id.to_owned(),
            call: ToolCall::new(name, arguments.as_object().cloned().expect("arguments are an object")),
        };
        let content: Vec<Block> = calls.into_iter().map(block).collect();
        let events = content.iter().filter_map(|block| match block {
            Block::Call { id, call } => {
                Some(ModelEvent::CallAnnounced { id: id.clone(), name: call.name.clone() })
            }
            _ => None,
        });
        ScriptedTurn {
            events: events.collect(),
            ..ScriptedTurn::response(response(Message::new(Role::Assistant, content), StopReason::Calls))
        }
    }

    /// An error and no response.
    pub fn error(error: ModelError) -> ScriptedTurn {
        ScriptedTurn { events: Vec::new(), end: Some(Err(error)) }
    }
}

fn response(message: Message, stop: StopReason) -> ModelResponse {
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    ModelResponse { message, stop, usage: Some(usage), unusable: Vec::new() }
}

impl ScriptedModel {
    /// Plays these turns in order; a request after the last turn is an error.
    pub fn new(script: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
        let script: Mutex<VecDeque<ScriptedTurn>> = Mutex::new(script.into_iter().collect());
        ScriptedModel::from_fn(move |_| {
            let next = script.lock().expect("the lock is not poisoned").pop_front();
            next.unwrap_or_else(|| ScriptedTurn::error(rejected("the script has no turn left")))
        })
    }

    /// Plays the turn that the function returns for a request.
    pub fn from_fn(play: impl Fn(&ModelRequest) -> ScriptedTurn + Send + Sync + 'static) -> ScriptedModel {
        ScriptedModel {
            name: "scripted".to_owned(),
            limits: ModelLimits::default(),
            play: Box::new(play),
            requests: Arc::default(),
        }
    }

    #[must_use]
    pub fn with_name(self, name: &str) -> ScriptedModel {
        ScriptedModel { name: name.to_owned(), ..self }
    }

    #[must_use]
    pub fn with_limits(self, limits: ModelLimits) -> ScriptedModel {
        ScriptedModel { limits, ..self }
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("the lock is not poisoned").clone()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let turn = stream::once(async move {
            let turn = match check(&request, self.limits) {
                Ok(()) => (self.play)(&request),
                Err(problem) => ScriptedTurn::error(rejected(&problem)),
            };
            self.requests.lock().expect("the lock is not poisoned").push(request);
            let events = stream::iter(turn.events.into_iter().map(Ok));
            match turn.end {
                Some(end) => events.chain(stream::iter([end.map(ModelEvent::Response)])).boxed(),
                None => events.chain(stream::pending()).boxed(),
            }
        });
        turn.flatten().boxed()
    }
}

fn rejected(problem: &str) -> ModelError {
    ModelError::Refused {
        model: "scripted".to_owned(),
        status: Some(400),
        message: problem.to_owned(),
        hint: None,
        retry_after: None,
        body: Value::Null,
    }
}

fn check(request: &ModelRequest, limits: ModelLimits) -> Result<(), String> {
    check_messages(&request.messages)?;
    if request.messages.last().is_none_or(|last| last.role != Role::User) {
        return Err("the last message is not a user message".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(duplicate) = request.tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(format!("two tools are named `{}`", duplicate.name));
    }
    match limits.tools {
        Some(max) if request.tools.len() > max => {
            Err(format!("too many tools: {}, the limit is {max}", request.tools.len()))
        }
        _ => Ok(()),
    }
}

/// Checks a history by the rules of the strictest provider.
///
/// The first message is the user's, and the roles alternate. No message is empty. Call ids are unique within
/// a message. The results of a message's calls are at the beginning of the next message, in the order of the
/// calls, once each.
///
/// # Errors
///
/// The first violation.
pub fn check_messages(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut expected: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = if index % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != role {
            return Err(format!("message {index} does not have the role `{}`", role.name()));
        }
        let is_blank =
            |block: &Block| matches!(block, Block::Content(Content::Text { text, .. }) if text.is_empty());
        if message.content.iter().all(is_blank) {
            return Err(format!("message {index} is empty"));
        }
        let results: Vec<&str> = message
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Result { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        let first = message.content.iter().take(results.len());
        if results != expected || !first.clone().all(|block| matches!(block, Block::Result { .. })) {
            return Err(format!("message {index} has results for {results:?}, expected {expected:?} first"));
        }
        expected = message.calls().map(|(id, _)| id).collect();
        if expected.iter().collect::<BTreeSet<_>>().len() < expected.len() {
            return Err(format!("message {index} has duplicate call ids: {expected:?}"));
        }
        if role == Role::User && !expected.is_empty() {
            return Err(format!("message {index} is a user message with calls"));
        }
    }
    if expected.is_empty() { Ok(()) } else { Err(format!("the last calls have no results: {expected:?}")) }
}
