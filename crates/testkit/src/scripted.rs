//! A model that plays a script, takes nothing that a real one would refuse, and remembers what it was asked.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use toolwire_contract::{
    Block, Content, Message, Model, ModelError, ModelEvent, ModelLimits, ModelRequest, ModelResponse, Role,
    StopReason, ToolCall, Usage,
};

/// What a [`ScriptedModel`] does when it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    /// Events that come first, one at a time.
    pub pieces: Vec<ModelEvent>,
    /// How it ends; `None` hangs until the stream is dropped.
    pub end: Option<Result<ModelResponse, ModelError>>,
}

/// A model that plays a script and remembers what it was asked.
///
/// A request that a provider would refuse (see [`check_messages`]; too many tools; two of the same name) is answered with
/// an error that says why.
pub struct ScriptedModel {
    name: String,
    limits: ModelLimits,
    play: Box<dyn Fn(&ModelRequest) -> Scripted + Send + Sync>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Scripted {
    /// This answer and nothing before it.
    pub fn answer(answer: ModelResponse) -> Scripted {
        Scripted { pieces: Vec::new(), end: Some(Ok(answer)) }
    }

    /// A text, streamed in pieces of so many characters.
    pub fn says_in_pieces(text: &str, characters: usize) -> Scripted {
        let characters_of: Vec<char> = text.chars().collect();
        let pieces =
            characters_of.chunks(characters.max(1)).map(|piece| ModelEvent::Text(piece.iter().collect()));
        Scripted { pieces: pieces.collect(), ..Scripted::says(text) }
    }

    /// A text, whole, at the cost of ten tokens in and five out.
    pub fn says(text: &str) -> Scripted {
        Scripted::answer(ModelResponse {
            message: Message::assistant(text),
            stop: StopReason::End,
            usage: Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
            unusable: Vec::new(),
        })
    }

    /// Calls: id, name, arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Scripted {
        let block = |(id, name, arguments): (&str, &str, Value)| Block::Call {
            id: id.to_owned(),
            call: ToolCall::new(name, arguments.as_object().cloned().expect("arguments are an object")),
        };
        let content: Vec<Block> = calls.into_iter().map(block).collect();
        let begins = content.iter().filter_map(|block| match block {
            Block::Call { id, call } => {
                Some(ModelEvent::CallAnnounced { id: id.clone(), name: call.name.clone() })
            }
            _ => None,
        });
        Scripted {
            pieces: begins.collect(),
            end: Some(Ok(ModelResponse {
                message: Message::new(Role::Assistant, content),
                stop: StopReason::Calls,
                usage: Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }),
                unusable: Vec::new(),
            })),
        }
    }

    /// No answer but this error.
    pub fn fails(error: ModelError) -> Scripted {
        Scripted { pieces: Vec::new(), end: Some(Err(error)) }
    }

    /// The same pieces, and then nothing until the stream is dropped.
    #[must_use]
    pub fn hanging(self) -> Scripted {
        Scripted { end: None, ..self }
    }
}

impl ScriptedModel {
    /// Plays this script, and fails when it is asked once more.
    pub fn new(script: impl IntoIterator<Item = Scripted>) -> ScriptedModel {
        let script: Mutex<VecDeque<Scripted>> = Mutex::new(script.into_iter().collect());
        ScriptedModel::by(move |_| {
            let next = script.lock().expect("no test panics in here").pop_front();
            next.unwrap_or_else(|| Scripted::fails(refused("the script is over")))
        })
    }

    /// Plays whatever the function says to a request.
    pub fn by(play: impl Fn(&ModelRequest) -> Scripted + Send + Sync + 'static) -> ScriptedModel {
        ScriptedModel {
            name: "scripted".to_owned(),
            limits: ModelLimits::default(),
            play: Box::new(play),
            requests: Arc::default(),
        }
    }

    #[must_use]
    pub fn with_limits(self, limits: ModelLimits) -> ScriptedModel {
        ScriptedModel { limits, ..self }
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no test panics in here").clone()
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
        let scripted = stream::once(async move {
            let checked = check(&request, self.limits);
            let scripted = match checked {
                Ok(()) => (self.play)(&request),
                Err(problem) => Scripted::fails(refused(&problem)),
            };
            self.requests.lock().expect("no test panics in here").push(request);
            let pieces = stream::iter(scripted.pieces.into_iter().map(Ok));
            match scripted.end {
                Some(end) => pieces.chain(stream::iter([end.map(ModelEvent::Response)])).boxed(),
                None => pieces.chain(stream::pending()).boxed(),
            }
        });
        scripted.flatten().boxed()
    }
}

fn refused(problem: &str) -> ModelError {
    ModelError::Refused {
        model: "scripted".to_owned(),
        status: Some(400),
        message: problem.to_owned(),
        hint: None,
        body: Value::Null,
    }
}

fn check(request: &ModelRequest, limits: ModelLimits) -> Result<(), String> {
    check_messages(&request.messages)?;
    if request.messages.last().is_none_or(|last| last.role != Role::User) {
        return Err("there is nothing to answer: the last message is not the user's".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = request.tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(format!("two tools are named `{}`", twice.name));
    }
    match limits.tools {
        Some(most) if request.tools.len() > most => {
            Err(format!("{} tools, {most} allowed", request.tools.len()))
        }
        _ => Ok(()),
    }
}

/// Says what a strict provider would refuse in a history: it begins with the user, the roles take turns, no message is
/// empty, ids are not used twice in a message, and the results of a message's calls stand at the beginning of the next, in
/// the order of the calls, each once, and nowhere else.
pub fn check_messages(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut due: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let role = if place % 2 == 0 { Role::User } else { Role::Assistant };
        if message.role != role {
            return Err(format!("message {place} is not the {}'s", role.name()));
        }
        let is_blank =
            |block: &Block| matches!(block, Block::Content(Content::Text { text, .. }) if text.is_empty());
        if message.content.iter().all(is_blank) {
            return Err(format!("message {place} is empty"));
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
        if results != due || !first.clone().all(|block| matches!(block, Block::Result { .. })) {
            return Err(format!("message {place} has results for {results:?}, due are {due:?}"));
        }
        due = message.calls().map(|(id, _)| id).collect();
        if due.iter().collect::<BTreeSet<_>>().len() < due.len() {
            return Err(format!("message {place} uses an id twice: {due:?}"));
        }
        if role == Role::User && !due.is_empty() {
            return Err(format!("message {place} is the user's and has calls"));
        }
    }
    if due.is_empty() { Ok(()) } else { Err(format!("the last calls have no results: {due:?}")) }
}
