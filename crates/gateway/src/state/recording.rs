//! Stores a response when it is complete.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::{JoinHandle, spawn_blocking};
use toolwire_contract::Message;
use toolwire_dialect::Family;

use super::continuation::Source;
use super::conversations::LockedConversation;
use super::input::NewInput;
use super::record::{
    ItemIds, ModelState, ResponseFields, StoredItem, StoredResponse, check_size, random_part, with_output,
};
use super::{Continuation, HeldClaim, ResponseStorage, StoredPause, Unstored, response_key};
use crate::gateway::Inner;
use crate::hidden_rounds::ShownId;
use crate::items::Items;
use crate::large_bodies::is_large;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The messages of a conversation at the end of a response.
pub(crate) struct KeptMessages {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) client_calls: Vec<ShownId>,
    pub(crate) pause: Option<StoredPause>,
}

/// What is known of a response before it is complete, if it will be stored.
pub(crate) struct Recording {
    storage: ResponseStorage,
    principal: Principal,
    /// The items that the request may refer to.
    items: Arc<Items>,
    /// The field of the response that repeats what the request continues.
    pub(super) echo: Option<(&'static str, Value)>,
    /// The conversation that gets the items.
    conversation: Option<Box<LockedConversation>>,
    /// Whether the response itself is stored.
    pub(crate) stores_response: bool,
    earlier: Vec<StoredItem>,
    has_own_items: bool,
    new: NewInput,
}

/// What is written at the end of a response.
pub(super) struct Records {
    /// The document with the response, if it is stored.
    pub(super) response: Option<String>,
    /// The document with the conversation, if it changes.
    pub(super) conversation: Option<String>,
    /// The lock of the conversation.
    pub(super) lock: Option<HeldClaim>,
}

impl Inner {
    /// Returns what is needed to store the response to a request; `None` if it will not be stored. `body` is
    /// the request as the client sent it.
    pub(crate) fn recording(
        &self,
        family: Family,
        principal: &Principal,
        body: &RequestBody,
    ) -> Result<Option<Recording>, Failure> {
        let is_refused = body.raw("store").is_some_and(|value| value == b"false");
        let storage = self.settings.responses.as_ref();
        let is_needed = !is_refused || body.sets("conversation");
        let Some(storage) = storage.filter(|_| family == Family::OpenAiResponses && is_needed) else {
            return Ok(None);
        };
        Ok(Some(Recording {
            storage: storage.clone(),
            principal: principal.clone(),
            items: self.items.clone(),
            echo: None,
            conversation: None,
            stores_response: !is_refused,
            earlier: Vec::new(),
            has_own_items: false,
            new: NewInput::of(body)?,
        }))
    }
}

/// Returns the id of a response; an empty text if it has none.
fn id_of(response: &str) -> String {
    let fields: Option<ResponseFields> = serde_json::from_str(response).ok();
    fields.and_then(|fields| fields.id).unwrap_or_default()
}

impl Recording {
    /// Adds the conversation that the request continues.
    #[must_use]
    pub(crate) fn continuing(self, continuation: &mut Continuation) -> Recording {
        let (echo, has_own_items) = (Some(continuation.echo()), continuation.has_own_items);
        let earlier = std::mem::take(&mut continuation.earlier);
        let conversation = match &mut continuation.source {
            Source::Response(_) => None,
            Source::Conversation(_, locked) => locked.take(),
        };
        Recording { echo, conversation, earlier, has_own_items, ..self }
    }

    /// Creates the recording of a response that another gateway has begun.
    pub(super) fn resumed(
        storage: ResponseStorage,
        principal: Principal,
        items: Arc<Items>,
        input: Vec<StoredItem>,
        conversation: Option<LockedConversation>,
    ) -> Recording {
        Recording {
            storage,
            principal,
            items,
            echo: None,
            conversation: conversation.map(Box::new),
            stores_response: true,
            earlier: input,
            has_own_items: true,
            new: NewInput::default(),
        }
    }

    pub(super) fn storage(&self) -> &ResponseStorage {
        &self.storage
    }

    /// Returns the size of the conversation before the response.
    pub(super) fn len(&self) -> usize {
        self.earlier.iter().map(|item| item.item.get().len()).sum::<usize>() + self.new.len()
    }

    /// Returns the id of the conversation that gets the items, and the holder of its lock.
    pub(super) fn conversation_lock(&self) -> Option<(String, String)> {
        let locked = self.conversation.as_ref()?;
        Some((locked.key.id().to_owned(), locked.lock.as_ref()?.holder()?.to_owned()))
    }

    /// Keeps the conversation locked for the gateway that continues the response.
    pub(super) fn keep_lock(self) {
        if let Some(lock) = self.conversation.and_then(|locked| locked.lock) {
            lock.keep();
        }
    }

    /// Returns the items before the response. `id` is that of the response.
    pub(super) fn resolve_input(&mut self, id: &str) -> Result<Vec<StoredItem>, String> {
        let new = std::mem::take(&mut self.new).items().map_err(|error| error.to_string())?;
        let mut ids = ItemIds::new(&self.earlier, random_part(id));
        let new: Vec<StoredItem> =
            new.into_iter().map(|item| ids.assign(self.items.resolved(&self.principal, item))).collect();
        self.earlier.extend(new);
        Ok(self.earlier.clone())
    }

    /// Stores a response that the gateway has written. The work continues if the client disconnects. If it
    /// fails, the client still gets its response, which nothing can continue.
    pub(crate) fn commit(self, response: String, kept: Option<KeptMessages>) -> JoinHandle<Unstored> {
        self.of_gateway().store(response, kept)
    }

    /// Records that the gateway has written the response.
    #[must_use]
    pub(crate) fn of_gateway(self) -> Recording {
        Recording { has_own_items: true, ..self }
    }

    /// Stores a response that the provider has written.
    pub(super) fn commit_forwarded(self, response: String) -> JoinHandle<Unstored> {
        self.store(response, None)
    }

    fn store(self, response: String, kept: Option<KeptMessages>) -> JoinHandle<Unstored> {
        let storage = self.storage.clone();
        let size = self.len() + response.len();
        let principal = self.principal.clone();
        tokio::spawn(async move {
            let id = id_of(&response);
            let all = Unstored { response: self.stores_response, conversation: self.conversation.is_some() };
            let write = move || self.write(response, kept);
            let written = match is_large(size) {
                true => spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string())),
                false => write(),
            };
            let mut unstored = Unstored::default();
            let stored = match written {
                Ok(Records { response, conversation, lock }) => {
                    let mut stored = match (response, response_key(&principal, &id)) {
                        (None, _) => Ok(()),
                        (Some(_), None) => Err("its id has unexpected characters".to_owned()),
                        (Some(response), Some(key)) => storage.put(&key, response).await,
                    };
                    unstored.response = stored.is_err();
                    if let (Some(content), Some(lock)) = (conversation, &lock) {
                        let changed = lock.write(content).await;
                        unstored.conversation = changed.is_err();
                        stored = stored.and(changed);
                    }
                    if let Some(lock) = lock {
                        // The next request must find the conversation free.
                        lock.release().await;
                    }
                    stored
                }
                Err(problem) => {
                    unstored = all;
                    Err(problem)
                }
            };
            if let Err(problem) = stored {
                tracing::error!(problem, "a response is not stored");
            }
            unstored
        })
    }

    /// Returns what is to be stored.
    pub(super) fn write(mut self, response: String, kept: Option<KeptMessages>) -> Result<Records, String> {
        let problem = |error: serde_json::Error| error.to_string();
        let response = RawValue::from_string(response).map_err(problem)?;
        let fields = ResponseFields::read(&response).map_err(problem)?;
        self.resolve_input(fields.id.as_deref().unwrap_or_default())?;
        let input = std::mem::take(&mut self.earlier);
        let (messages, client_calls, paused) = match kept {
            Some(KeptMessages { messages, client_calls, pause }) => (Some(messages), client_calls, pause),
            None => (None, Vec::new(), None),
        };
        let model = ModelState { messages, has_own_items: self.has_own_items, client_calls, paused };
        let stored = StoredResponse { model, input, ..StoredResponse::of(response) };
        let response = match self.stores_response {
            true => Some(serde_json::to_string(&stored).map_err(problem)?),
            false => None,
        };
        response.as_deref().map_or(Ok(()), check_size)?;
        let StoredResponse { input, model, .. } = stored;
        let Some(locked) = self.conversation else {
            return Ok(Records { response, conversation: None, lock: None });
        };
        let LockedConversation { stored: mut conversation, lock, .. } = *locked;
        // The conversation stays as it was if the response has failed.
        let is_complete = matches!(fields.status.as_deref(), Some("completed" | "incomplete"));
        let content = match is_complete {
            true => {
                conversation.items = with_output(input, fields);
                conversation.model = model;
                Some(serde_json::to_string(&conversation).map_err(problem)?)
            }
            false => None,
        };
        content.as_deref().map_or(Ok(()), check_size)?;
        Ok(Records { response, conversation: content, lock })
    }
}
