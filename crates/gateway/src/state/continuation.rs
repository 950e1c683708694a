//! A request that continues a stored response (`previous_response_id`).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolwire_contract::{Block, Message};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ErrorKind, read_client_request};

use super::input::{NewInput, expanded};
use super::record::{ResponseFields, StoredItem, StoredResponse};
use super::{StoredPause, key_of};
use crate::gateway::Inner;
use crate::hidden_rounds::ShownId;
use crate::large_bodies::is_large;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The response that a request continues.
pub(crate) struct Continuation {
    pub(crate) response_id: String,
    /// The items of the conversation before the request.
    pub(super) earlier: Vec<StoredItem>,
    /// Whether the gateway has written some of the items, so that the provider does not know their ids.
    pub(crate) has_own_items: bool,
    /// The messages of the conversation, if they contain more than the items.
    conversation: Option<Conversation>,
    /// The run, if it waits for approvals.
    pub(super) paused: Option<StoredPause>,
}

struct Conversation {
    messages: Vec<Arc<Message>>,
    client_calls: Vec<ShownId>,
    /// The number of blocks of each message that is read from the items.
    blocks: Vec<usize>,
}

const PREVIOUS: &str = "previous_response_id";

impl Inner {
    /// Finds the response that a request continues, and returns the request with the items of the whole
    /// conversation. The provider never gets the id.
    pub(crate) async fn continue_response(
        &self,
        principal: &Principal,
        body: RequestBody,
    ) -> Result<(RequestBody, Option<Continuation>), Failure> {
        if !body.sets(PREVIOUS) {
            return Ok((body, None));
        }
        if body.sets("conversation") {
            let message = "`previous_response_id` and `conversation` cannot be used together";
            return Err(Failure::invalid(PREVIOUS, message));
        }
        let id: Result<String, _> = serde_json::from_slice(body.raw(PREVIOUS).unwrap_or_default());
        let id = id.map_err(|_| Failure::invalid(PREVIOUS, "`previous_response_id` must be a string"))?;
        let stored = match (&self.settings.responses, key_of(principal, &id)) {
            (Some(storage), Some(key)) => storage.find(&self.large_bodies, &key).await?,
            _ => None,
        };
        let stored = stored.ok_or_else(|| not_found(&id))?;
        let new = NewInput::of(&body)?;
        let known: usize = stored.input.iter().map(|item| item.item.get().len()).sum();
        let size = known + stored.response.get().len() + body.len();
        if size > self.settings.limits.body_bytes {
            let maximum = self.settings.limits.body_bytes;
            let message = format!("the conversation has {size} bytes, and the maximum is {maximum}");
            return Err(Failure::new(ErrorKind::TooLarge, message));
        }
        let read = move || {
            let continuation = Continuation::of(id, stored)?;
            let body = RequestBody::read(expanded(&body, &continuation.earlier, &new))?;
            Ok::<_, Failure>((body, Some(continuation)))
        };
        if is_large(size) { self.large_bodies.run(read).await? } else { read() }
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

impl Continuation {
    fn of(response_id: String, mut stored: StoredResponse) -> Result<Continuation, Failure> {
        let damaged = |error: serde_json::Error| {
            tracing::error!(%error, "a stored response cannot be read");
            Failure::new(ErrorKind::Internal, "the stored response cannot be read")
        };
        let status = ResponseFields::read(&stored.response).map_err(damaged)?.status;
        if !matches!(status.as_deref(), Some("completed" | "incomplete")) {
            let status = status.unwrap_or_default();
            let message =
                format!("the response `{response_id}` cannot be continued: its status is `{status}`");
            return Err(Failure::invalid(PREVIOUS, message));
        }
        let (messages, paused) = (stored.messages.take(), stored.paused.take());
        let has_own_items = stored.has_own_items;
        let client_calls = std::mem::take(&mut stored.client_calls);
        let earlier = stored.into_items().map_err(damaged)?;
        let conversation = messages.map(|messages| {
            let blocks = blocks_of(&earlier)?;
            Ok::<_, Failure>(Conversation { messages, client_calls, blocks })
        });
        let conversation = conversation.transpose()?;
        Ok(Continuation { response_id, earlier, has_own_items, conversation, paused })
    }

    /// Replaces the messages that were read from the items of the conversation by the complete ones. Returns
    /// these, and the messages of the request itself; `None` for the first if the items contain everything.
    pub(crate) fn split(self, read: Vec<Arc<Message>>) -> (Option<Vec<Arc<Message>>>, Vec<Arc<Message>>) {
        let Some(Conversation { messages, client_calls, blocks }) = self.conversation else {
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

/// Returns the number of blocks of each message that the items contain. Later items can add blocks to them.
fn blocks_of(items: &[StoredItem]) -> Result<Vec<usize>, Failure> {
    let items: Vec<&RawValue> = items.iter().map(|item| &*item.item).collect();
    let internal = |problem: String| {
        tracing::error!(problem, "the items of a stored response cannot be read");
        Failure::new(ErrorKind::Internal, "the stored response cannot be read")
    };
    let input: Result<Value, _> = serde_json::to_string(&items).and_then(|text| serde_json::from_str(&text));
    let input = input.map_err(|error| internal(error.to_string()))?;
    let body = json!({"model": "any", "input": input});
    match read_client_request(Family::OpenAiResponses, body) {
        Some(Ok(client)) => Ok(client.request.messages.iter().map(|message| message.content.len()).collect()),
        Some(Err(error)) => Err(internal(error.to_string())),
        None => Err(internal("the API is unknown".to_owned())),
    }
}
