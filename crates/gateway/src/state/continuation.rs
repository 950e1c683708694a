//! A request that continues a stored response (`previous_response_id`) or a conversation (`conversation`).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwire_contract::{Block, Message};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ErrorKind, read_client_request};

use super::conversations::LockedConversation;
use super::input::{NewInput, expanded};
use super::record::{ModelState, ResponseFields, StoredItem, StoredResponse, with_output};
use super::{StoredPause, response_key};
use crate::gateway::Inner;
use crate::hidden_rounds::ShownId;
use crate::large_bodies::is_large;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The conversation that a request continues.
pub(crate) struct Continuation {
    pub(super) source: Source,
    /// The items of the conversation before the request.
    pub(super) earlier: Vec<StoredItem>,
    /// The number of these items, also after a recording has taken them.
    earlier_count: usize,
    /// Whether the gateway has written some of the items, so that the provider does not know their ids.
    pub(crate) has_own_items: bool,
    /// The messages of the conversation, if they contain more than the items.
    messages: Option<CompleteMessages>,
    /// The run, if it waits for approvals.
    pub(super) paused: Option<StoredPause>,
}

/// How a request refers to the conversation.
pub(super) enum Source {
    Response(String),
    Conversation(String, Option<Box<LockedConversation>>),
}

struct CompleteMessages {
    messages: Vec<Arc<Message>>,
    client_calls: Vec<ShownId>,
    /// The number of blocks of each message that is read from the items.
    blocks: Vec<usize>,
}

const PREVIOUS: &str = "previous_response_id";
const CONVERSATION: &str = "conversation";

/// Why a conversation is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The response will be added, so no other request may change the conversation until then.
    Respond,
    /// The conversation does not change.
    Read,
}

impl Inner {
    /// Finds what a request continues, and returns the request with the items of the whole conversation. The
    /// provider never gets the id.
    pub(crate) async fn continue_conversation(
        &self,
        principal: &Principal,
        body: RequestBody,
        purpose: Purpose,
    ) -> Result<(RequestBody, Option<Continuation>), Failure> {
        let found = match (body.sets(PREVIOUS), body.sets(CONVERSATION)) {
            (false, false) => return Ok((body, None)),
            (true, true) => {
                let message = "`previous_response_id` and `conversation` cannot be used together";
                return Err(Failure::invalid(PREVIOUS, message));
            }
            (true, false) => self.previous_response(principal, &body).await?,
            // Without a store, the request is refused later.
            (false, true) if self.settings.responses.is_none() => return Ok((body, None)),
            (false, true) => self.named_conversation(principal, &body, purpose).await?,
        };
        let new = NewInput::of(&body)?;
        let (source, items, model) = found;
        let known: usize = items.iter().map(|item| item.item.get().len()).sum();
        let size = known + body.len();
        if size > self.settings.limits.body_bytes {
            let maximum = self.settings.limits.body_bytes;
            let message = format!("the conversation has {size} bytes, and the maximum is {maximum}");
            return Err(Failure::new(ErrorKind::TooLarge, message));
        }
        let read = move || {
            let continuation = Continuation::new(source, items, model)?;
            let body = RequestBody::read(expanded(&body, &continuation.earlier, &new))?;
            Ok::<_, Failure>((body, Some(continuation)))
        };
        if is_large(size) { self.large_bodies.run(read).await? } else { read() }
    }

    async fn previous_response(
        &self,
        principal: &Principal,
        body: &RequestBody,
    ) -> Result<(Source, Vec<StoredItem>, ModelState), Failure> {
        let id: Result<String, _> = serde_json::from_slice(body.raw(PREVIOUS).unwrap_or_default());
        let id = id.map_err(|_| Failure::invalid(PREVIOUS, "`previous_response_id` must be a string"))?;
        let stored: Option<StoredResponse> = match (&self.settings.responses, response_key(principal, &id)) {
            (Some(storage), Some(key)) => storage.find(&self.large_bodies, &key).await?,
            _ => None,
        };
        let StoredResponse { response, input, model, .. } = stored.ok_or_else(|| not_found(&id))?;
        let fields = ResponseFields::read(&response).map_err(|error| damaged(&error.to_string()))?;
        if !matches!(fields.status.as_deref(), Some("completed" | "incomplete")) {
            let status = fields.status.unwrap_or_default();
            let message = format!("the response `{id}` cannot be continued: its status is `{status}`");
            return Err(Failure::invalid(PREVIOUS, message));
        }
        Ok((Source::Response(id), with_output(input, fields), model))
    }

    async fn named_conversation(
        &self,
        principal: &Principal,
        body: &RequestBody,
        purpose: Purpose,
    ) -> Result<(Source, Vec<StoredItem>, ModelState), Failure> {
        let value: Value = serde_json::from_slice(body.raw(CONVERSATION).unwrap_or_default())
            .map_err(|error| Failure::invalid(CONVERSATION, error.to_string()))?;
        let id = value.as_str().or_else(|| value.get("id")?.as_str()).ok_or_else(|| {
            Failure::invalid(
                CONVERSATION,
                "`conversation` must be the id of a conversation, or an object with it",
            )
        })?;
        if purpose == Purpose::Read {
            let (_, stored) = self.find_conversation(principal, id).await?;
            return Ok((Source::Conversation(id.to_owned(), None), stored.items, stored.model));
        }
        let limits = &self.settings.limits;
        let duration = match body.sets("background") {
            true => limits.background_timeout.max(limits.run_timeout),
            false => limits.run_timeout,
        };
        let mut locked = self.lock_conversation(principal, id, duration).await?;
        let items = std::mem::take(&mut locked.stored.items);
        let model = std::mem::take(&mut locked.stored.model);
        Ok((Source::Conversation(id.to_owned(), Some(Box::new(locked))), items, model))
    }
}

/// Subtracts the number of earlier items from a position such as `input[3].content`. A position in an earlier item
/// is `input`.
fn own_position(position: &str, earlier: usize) -> String {
    let index = position.strip_prefix("input[").and_then(|rest| rest.split_once(']'));
    let Some((Ok(index), rest)) = index.map(|(index, rest)| (index.parse::<usize>(), rest)) else {
        return position.to_owned();
    };
    match index.checked_sub(earlier) {
        Some(index) => format!("input[{index}]{rest}"),
        None => "input".to_owned(),
    }
}

/// The error for an id that the caller's responses do not have.
fn not_found(id: &str) -> Failure {
    let shown: String = id.chars().take(100).collect();
    let message = format!(
        "previous response with id `{shown}` not found: responses are stored unless the request has `store: false`, and expire"
    );
    let mut failure = Failure::invalid(PREVIOUS, message);
    failure.error.code = Some("previous_response_not_found".to_owned());
    failure
}

/// The error for a document that this gateway cannot read.
fn damaged(problem: &str) -> Failure {
    tracing::error!(problem, "a stored conversation cannot be read");
    Failure::new(ErrorKind::Internal, "the stored conversation cannot be read")
}

impl Continuation {
    pub(super) fn new(
        source: Source,
        earlier: Vec<StoredItem>,
        model: ModelState,
    ) -> Result<Continuation, Failure> {
        let ModelState { messages, has_own_items, client_calls, paused } = model;
        let messages = match messages {
            None => None,
            Some(messages) => {
                let read = read_items(&earlier).map_err(|problem| damaged(&problem))?;
                let blocks = read.iter().map(|message| message.content.len()).collect();
                Some(CompleteMessages { messages, client_calls, blocks })
            }
        };
        Ok(Continuation { source, earlier_count: earlier.len(), earlier, has_own_items, messages, paused })
    }

    /// Returns the id of the response that the request continues, if it names one.
    pub(super) fn response_id(&self) -> Option<&str> {
        match &self.source {
            Source::Response(id) => Some(id),
            Source::Conversation(..) => None,
        }
    }

    /// Returns the field of the response that repeats what the request continues.
    pub(crate) fn echo(&self) -> (&'static str, Value) {
        match &self.source {
            Source::Response(id) => (PREVIOUS, id.as_str().into()),
            Source::Conversation(id, _) => (CONVERSATION, json!({"id": id})),
        }
    }

    /// Returns a position in the input of the request itself. The request is read together with the earlier
    /// items, which the client has not sent.
    pub(crate) fn own_position(&self, position: &str) -> String {
        own_position(position, self.earlier_count)
    }

    /// Changes the position in an error to that in the request itself.
    pub(crate) fn own_positions_in(&self, mut failure: Failure) -> Failure {
        if let Some(parameter) = &mut failure.error.parameter {
            *parameter = self.own_position(parameter);
        }
        failure
    }

    /// Replaces the messages that were read from the items of the conversation by the complete ones. Returns
    /// these, and the messages of the request itself; `None` for the first if the items contain everything.
    pub(crate) fn split(self, read: Vec<Arc<Message>>) -> (Option<Vec<Arc<Message>>>, Vec<Arc<Message>>) {
        let Some(CompleteMessages { messages, client_calls, blocks }) = self.messages else {
            return (None, read);
        };
        let ids = client_calls.iter().filter_map(|(shown, id)| Some((shown.as_str(), id.as_deref()?)));
        let ids: HashMap<&str, &str> = ids.collect();
        let read = read.into_iter().enumerate();
        let new = read.filter_map(|(index, message)| {
            let new = match blocks.get(index) {
                None => message,
                Some(count) if message.content.len() > *count => {
                    Arc::new(Message::new(message.role, message.content[*count..].to_vec()))
                }
                Some(_) => return None,
            };
            Some(with_ids(new, &ids))
        });
        let new = new.collect();
        (Some(messages), new)
    }
}

/// Replaces the ids of the client's results by those that the model has used.
fn with_ids(message: Arc<Message>, ids: &HashMap<&str, &str>) -> Arc<Message> {
    if !message.results().any(|(id, _)| ids.contains_key(id)) {
        return message;
    }
    let mut message = (*message).clone();
    for block in &mut message.content {
        if let Block::Result { id, .. } = block
            && let Some(original) = ids.get(id.as_str())
        {
            *id = (*original).to_owned();
        }
    }
    Arc::new(message)
}

/// Reads the messages that items contain. Later items can add blocks to them.
pub(super) fn read_items(items: &[StoredItem]) -> Result<Vec<Arc<Message>>, String> {
    let items: Vec<&RawValue> = items.iter().map(|item| &*item.item).collect();
    let input = serde_json::to_string(&items).and_then(|text| serde_json::from_str::<Value>(&text));
    let body = json!({"model": "any", "input": input.map_err(|error| error.to_string())?});
    match read_client_request(Family::OpenAiResponses, body) {
        Some(Ok(client)) => Ok(client.request.messages),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the API is unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_do_not_count_earlier_items() {
        for (position, expected) in [
            ("input[3]", "input[0]"),
            ("input[5].content[1]", "input[2].content[1]"),
            ("input[2].id", "input"),
            ("input", "input"),
            ("input[x]", "input[x]"),
            ("tools[4]", "tools[4]"),
        ] {
            assert_eq!(own_position(position, 3), expected, "{position}");
        }
    }
}
