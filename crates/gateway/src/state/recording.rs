//! Stores a response when it is complete.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::{JoinHandle, spawn_blocking};
use toolwire_contract::Message;
use toolwire_contract::state::StateKey;
use toolwire_dialect::Family;

use super::input::NewInput;
use super::record::{ItemIds, ResponseFields, StoredItem, StoredResponse};
use super::{Continuation, ResponseStorage, StoredPause, key_of};
use crate::gateway::Inner;
use crate::hidden_rounds::ShownId;
use crate::items::Items;
use crate::large_bodies::is_large;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The maximum size of a stored response, with its conversation.
const MAX_BYTES: usize = 64 * 1024 * 1024;

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
    /// The response that the request continues.
    pub(crate) previous_id: Option<String>,
    earlier: Vec<StoredItem>,
    has_own_items: bool,
    new: NewInput,
}

/// A response in the format of the store.
struct Record {
    key: StateKey,
    content: String,
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
        let Some(storage) = storage.filter(|_| family == Family::OpenAiResponses && !is_refused) else {
            return Ok(None);
        };
        Ok(Some(Recording {
            storage: storage.clone(),
            principal: principal.clone(),
            items: self.items.clone(),
            previous_id: None,
            earlier: Vec::new(),
            has_own_items: false,
            new: NewInput::of(body)?,
        }))
    }
}

impl Recording {
    /// Adds the conversation that the request continues.
    #[must_use]
    pub(crate) fn continuing(self, continuation: &mut Continuation) -> Recording {
        let previous_id = Some(continuation.response_id.clone());
        let earlier = std::mem::take(&mut continuation.earlier);
        Recording { previous_id, earlier, has_own_items: continuation.has_own_items, ..self }
    }

    /// Stores a response that the gateway has written. The work continues if the client disconnects. If it
    /// fails, the client still gets its response, which nothing can continue.
    pub(crate) fn commit(self, response: String, kept: Option<KeptMessages>) -> JoinHandle<()> {
        Recording { has_own_items: true, ..self }.store(response, kept)
    }

    /// Stores a response that the provider has written.
    pub(super) fn commit_forwarded(self, response: String) -> JoinHandle<()> {
        self.store(response, None)
    }

    fn store(self, response: String, kept: Option<KeptMessages>) -> JoinHandle<()> {
        let storage = self.storage.clone();
        let known: usize = self.earlier.iter().map(|item| item.item.get().len()).sum();
        let size = known + self.new.len() + response.len();
        tokio::spawn(async move {
            let write = move || self.write(response, kept);
            let written = match is_large(size) {
                true => spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string())),
                false => write(),
            };
            let stored = match written {
                Ok(Record { content, .. }) if content.len() > MAX_BYTES => {
                    Err(format!("it has {} bytes, and the maximum is {MAX_BYTES}", content.len()))
                }
                Ok(Record { key, content }) => {
                    let stored = storage.store.put(&key, content, storage.retention).await;
                    stored.map_err(|error| error.to_string())
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = stored {
                tracing::error!(problem, "a response is not stored");
            }
        })
    }

    fn write(self, response: String, kept: Option<KeptMessages>) -> Result<Record, String> {
        let problem = |error: serde_json::Error| error.to_string();
        let response = RawValue::from_string(response).map_err(problem)?;
        let id = ResponseFields::read(&response).map_err(problem)?.id.unwrap_or_default();
        let key = key_of(&self.principal, &id).ok_or("its id has unexpected characters")?;
        let random = id.strip_prefix("resp_").unwrap_or(&id).to_owned();
        let mut ids = ItemIds::new(&self.earlier, random);
        let new = self.new.items().map_err(problem)?;
        let new: Vec<StoredItem> = new.into_iter().map(|item| ids.assign(self.resolved(item))).collect();
        let has_own_items = self.has_own_items;
        let mut input = self.earlier;
        input.extend(new);
        let (messages, client_calls, paused) = match kept {
            Some(KeptMessages { messages, client_calls, pause }) => (Some(messages), client_calls, pause),
            None => (None, Vec::new(), None),
        };
        let record = StoredResponse { response, input, messages, has_own_items, client_calls, paused };
        Ok(Record { key, content: serde_json::to_string(&record).map_err(problem)? })
    }

    /// Replaces a reference by its item, which is not kept as long as the response.
    fn resolved(&self, item: Box<RawValue>) -> Box<RawValue> {
        let found = || {
            let value: Value = serde_json::from_str(item.get()).ok()?;
            RawValue::from_string(self.items.referenced(&self.principal, &value)?.to_string()).ok()
        };
        found().unwrap_or(item)
    }
}
