//! Conversations: items that several responses share, and the paths below `/v1/conversations`.
//!
//! One request at a time changes a conversation. The lock is a claim in the store, which expires after the
//! longest time that a request can take.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwire_contract::state::{Claim, StateKey};
use toolwire_dialect::client::ErrorKind;

use super::continuation::{Source, read_items};
use super::endpoints::{Page, Query, list, shown};
use super::input::NewInput;
use super::record::{ItemIds, ModelState, StoredItem};
use super::{CONVERSATION_PREFIX, Continuation, HeldClaim, ResponseStorage, key_of, no_store, unavailable};
use crate::gateway::Inner;
use crate::ids::{random_id, random_text};
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse, json as json_response};
use crate::routes::Route;

/// The time that a lock lasts longer than a request.
const LOCK_MARGIN: Duration = Duration::from_secs(60);

/// The longest time that a request takes which changes a conversation without a model.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The limits of OpenAI's API.
const MAX_METADATA: usize = 16;
const MAX_METADATA_KEY: usize = 64;
const MAX_METADATA_VALUE: usize = 512;

/// A conversation, in the format of the store.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredConversation {
    /// Seconds since 1970-01-01 UTC.
    created: u64,
    metadata: Map<String, Value>,
    pub(super) items: Vec<StoredItem>,
    #[serde(default)]
    pub(super) model: ModelState,
}

/// A conversation that only this request changes.
pub(super) struct LockedConversation {
    pub(super) key: StateKey,
    pub(super) stored: StoredConversation,
    /// `None` after it is released.
    pub(super) lock: Option<HeldClaim>,
}

impl StoredConversation {
    fn shown(&self, key: &StateKey) -> HttpResponse {
        let body = json!({
            "id": key.id(), "object": "conversation", "created_at": self.created, "metadata": self.metadata,
        });
        json_response(StatusCode::OK, &body)
    }

    /// Adds items, and the messages that they contain.
    fn append(&mut self, new: Vec<StoredItem>) -> Result<(), Failure> {
        let earlier = std::mem::take(&mut self.items);
        let all: Vec<StoredItem> = earlier.iter().cloned().chain(new).collect();
        let read = read_items(&all).map_err(|problem| Failure::invalid("items", problem))?;
        let model = std::mem::take(&mut self.model);
        // The results of the client's calls may still come.
        let (has_own_items, client_calls) = (model.has_own_items, model.client_calls.clone());
        let continuation = Continuation::new(Source::Conversation(String::new(), None), earlier, model)?;
        if let (Some(mut messages), new) = continuation.split(read) {
            messages.extend(new);
            self.model = ModelState { messages: Some(messages), client_calls, ..ModelState::default() };
        }
        self.model.has_own_items = has_own_items;
        self.items = all;
        Ok(())
    }
}

impl Inner {
    /// Locks and returns a conversation, for at most `duration`.
    pub(super) async fn lock_conversation(
        &self,
        principal: &Principal,
        id: &str,
        duration: Duration,
    ) -> Result<LockedConversation, Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(id))?;
        let key = key_of(principal, id).ok_or_else(|| not_found(id))?;
        // Unknown ids are not locked.
        self.conversation(storage, &key).await?;
        let holder = random_text(20).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        self.lock_for(storage, key, holder, duration).await
    }

    /// Locks a conversation again, for a response that another gateway has begun.
    pub(super) async fn relock_conversation(
        &self,
        principal: &Principal,
        id: &str,
        holder: &str,
    ) -> Result<LockedConversation, Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(id))?;
        let key = key_of(principal, id).ok_or_else(|| not_found(id))?;
        self.lock_for(storage, key, holder.to_owned(), self.settings.limits.background_timeout).await
    }

    async fn lock_for(
        &self,
        storage: &ResponseStorage,
        key: StateKey,
        holder: String,
        duration: Duration,
    ) -> Result<LockedConversation, Failure> {
        let claim = Claim { key: key.clone(), holder, lifetime: duration + LOCK_MARGIN };
        if !storage.store.claim(&claim).await.map_err(|error| unavailable(&error))? {
            let message = format!("another request uses the conversation `{}`", key.id());
            let mut failure = Failure::invalid("conversation", message).with_status(StatusCode::CONFLICT);
            failure.error.code = Some("conversation_locked".to_owned());
            return Err(failure);
        }
        let lock = Some(HeldClaim::new(storage.clone(), claim));
        // Another request may have changed it before it was locked.
        let stored = self.conversation(storage, &key).await?;
        Ok(LockedConversation { key, stored, lock })
    }

    async fn conversation(
        &self,
        storage: &ResponseStorage,
        key: &StateKey,
    ) -> Result<StoredConversation, Failure> {
        // The id of a response is not that of a conversation.
        let found = match key.id().starts_with(CONVERSATION_PREFIX) {
            true => storage.find(&self.large_bodies, key).await?,
            false => None,
        };
        found.ok_or_else(|| not_found(key.id()))
    }

    /// Returns a conversation without locking it.
    pub(super) async fn find_conversation(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<(StateKey, StoredConversation), Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(id))?;
        let key = key_of(principal, id).ok_or_else(|| not_found(id))?;
        let stored = self.conversation(storage, &key).await?;
        Ok((key, stored))
    }

    /// Stores a conversation, and releases its lock.
    async fn write_conversation(&self, locked: LockedConversation) -> Result<(), Failure> {
        let LockedConversation { key, stored, lock } = locked;
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(key.id()))?;
        let content = serde_json::to_string(&stored).map_err(|error| {
            tracing::error!(%error, "a conversation cannot be written");
            Failure::new(ErrorKind::Internal, "the conversation cannot be stored")
        })?;
        if content.len() > 2 * self.settings.limits.body_bytes {
            let message = format!("the conversation has {} bytes, which is too large", content.len());
            return Err(Failure::new(ErrorKind::TooLarge, message));
        }
        match lock {
            None => {
                storage.store.put(&key, content, storage.retention).await.map_err(|error| unavailable(&error))
            }
            Some(lock) => {
                lock.write(content).await.map_err(|problem| {
                    tracing::error!(problem, "a conversation cannot be written");
                    no_store()
                })?;
                lock.release().await;
                Ok(())
            }
        }
    }

    /// Responds to requests for conversations that have no body.
    pub(crate) async fn stored_conversations(
        &self,
        principal: &Principal,
        route: &Route,
        parts: &Parts,
    ) -> Result<Option<HttpResponse>, Failure> {
        let _admitted = match route {
            Route::Conversation(_)
            | Route::DeleteConversation(_)
            | Route::Items(_)
            | Route::Item(_)
            | Route::DeleteItem(_) => self.admission.enter(principal, 1)?,
            _ => return Ok(None),
        };
        Ok(Some(match route {
            Route::DeleteConversation(id) => self.delete_conversation(principal, id).await?,
            Route::Items(id) => {
                let page = Page::read(&Query::of(parts))?;
                list(&self.find_conversation(principal, id).await?.1.items, &page)?
            }
            Route::Item(path) | Route::DeleteItem(path) => {
                let (id, item) = path.split_once("/items/").ok_or_else(|| not_found(path))?;
                match route {
                    Route::Item(_) => {
                        let (_, stored) = self.find_conversation(principal, id).await?;
                        let found = stored.items.iter().find(|stored| stored.id == item);
                        json_response(StatusCode::OK, &shown(found.ok_or_else(|| item_not_found(item))?))
                    }
                    _ => self.delete_item(principal, id, item).await?,
                }
            }
            Route::Conversation(id) => {
                let (key, stored) = self.find_conversation(principal, id).await?;
                stored.shown(&key)
            }
            _ => return Ok(None),
        }))
    }

    async fn delete_conversation(&self, principal: &Principal, id: &str) -> Result<HttpResponse, Failure> {
        let LockedConversation { key, lock, .. } =
            self.lock_conversation(principal, id, CHANGE_TIMEOUT).await?;
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(id))?;
        storage.store.remove(&key).await.map_err(|error| unavailable(&error))?;
        if let Some(lock) = lock {
            lock.release().await;
        }
        let body = json!({"id": id, "object": "conversation.deleted", "deleted": true});
        Ok(json_response(StatusCode::OK, &body))
    }

    async fn delete_item(
        &self,
        principal: &Principal,
        id: &str,
        item: &str,
    ) -> Result<HttpResponse, Failure> {
        let mut locked = self.lock_conversation(principal, id, CHANGE_TIMEOUT).await?;
        let stored = &mut locked.stored;
        let Some(position) = stored.items.iter().position(|stored| stored.id == item) else {
            if let Some(lock) = locked.lock {
                // The conversation must not stay locked for the next request.
                lock.release().await;
            }
            return Err(item_not_found(item));
        };
        stored.items.remove(position);
        if let Err(problem) = read_items(&stored.items) {
            let message = format!("the other items need the item `{item}`: {problem}");
            return Err(Failure::invalid("item_id", message));
        }
        // The messages contain the item too.
        stored.model = ModelState { has_own_items: stored.model.has_own_items, ..ModelState::default() };
        let response = stored.shown(&locked.key);
        self.write_conversation(locked).await?;
        Ok(response)
    }

    /// Responds to requests that create or change conversations.
    pub(crate) async fn change_conversation(
        &self,
        principal: &Principal,
        route: &Route,
        body: &RequestBody,
    ) -> Result<HttpResponse, Failure> {
        match route {
            Route::UpdateConversation(id) => {
                let metadata =
                    metadata(body)?.ok_or_else(|| Failure::invalid("metadata", "`metadata` is required"))?;
                let mut locked = self.lock_conversation(principal, id, CHANGE_TIMEOUT).await?;
                locked.stored.metadata = metadata;
                let response = locked.stored.shown(&locked.key);
                self.write_conversation(locked).await?;
                Ok(response)
            }
            Route::CreateItems(id) => {
                let new = NewInput::list(body, "items")?;
                let mut locked = self.lock_conversation(principal, id, CHANGE_TIMEOUT).await?;
                if locked.stored.model.paused.is_some() {
                    // The decision about the calls must come first, because the model has not seen their results.
                    let message = "the last response waits for approvals; decide about them in a request for a response first";
                    return Err(Failure::invalid("items", message));
                }
                let new = self.new_items(principal, &locked.stored.items, &new)?;
                let response = list(&new, &Page::whole())?;
                locked.stored.append(new)?;
                self.write_conversation(locked).await?;
                Ok(response)
            }
            _ => self.create_conversation(principal, body).await,
        }
    }

    async fn create_conversation(
        &self,
        principal: &Principal,
        body: &RequestBody,
    ) -> Result<HttpResponse, Failure> {
        if self.settings.responses.is_none() {
            return Err(Failure::new(ErrorKind::NotFound, "this gateway stores no conversations"));
        }
        let id = random_id(CONVERSATION_PREFIX)
            .map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        let key = key_of(principal, &id).ok_or_else(|| not_found(&id))?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        let metadata = metadata(body)?.unwrap_or_default();
        let mut stored = StoredConversation { created, metadata, ..StoredConversation::default() };
        stored.append(self.new_items(principal, &[], &NewInput::list(body, "items")?)?)?;
        let response = stored.shown(&key);
        self.write_conversation(LockedConversation { key, stored, lock: None }).await?;
        Ok(response)
    }

    /// Returns the items of a request, with their ids.
    fn new_items(
        &self,
        principal: &Principal,
        earlier: &[StoredItem],
        new: &NewInput,
    ) -> Result<Vec<StoredItem>, Failure> {
        let invalid = |problem: String| Failure::invalid("items", problem);
        let new = new.items().map_err(|error| invalid(error.to_string()))?;
        let random = random_text(20).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        let mut ids = ItemIds::new(earlier, random);
        let items: Vec<StoredItem> =
            new.into_iter().map(|item| ids.assign(self.items.resolved(principal, item))).collect();
        match items.iter().find(|item| !item.item.get().starts_with('{')) {
            None => Ok(items),
            Some(_) => Err(invalid("each of the `items` must be an object".to_owned())),
        }
    }
}

/// Reads the metadata of a request: texts by name.
fn metadata(body: &RequestBody) -> Result<Option<Map<String, Value>>, Failure> {
    let invalid = |problem: &str| Failure::invalid("metadata", format!("`metadata` {problem}"));
    let value: Value = match body.raw("metadata") {
        None => return Ok(None),
        Some(text) => serde_json::from_slice(text).map_err(|error| invalid(&error.to_string()))?,
    };
    let metadata = match value {
        Value::Null => return Ok(None),
        Value::Object(metadata) => metadata,
        _ => return Err(invalid("must be an object")),
    };
    let is_valid = |(key, value): (&String, &Value)| {
        let value = value.as_str();
        key.chars().count() <= MAX_METADATA_KEY
            && value.is_some_and(|value| value.chars().count() <= MAX_METADATA_VALUE)
    };
    if metadata.len() > MAX_METADATA || !metadata.iter().all(is_valid) {
        return Err(invalid(&format!(
            "may have {MAX_METADATA} texts of {MAX_METADATA_VALUE} characters, with names of {MAX_METADATA_KEY} characters"
        )));
    }
    Ok(Some(metadata))
}

/// The error for an id that the caller's conversations do not have.
fn not_found(id: &str) -> Failure {
    let shown: String = id.chars().take(100).collect();
    let mut failure = Failure::new(ErrorKind::NotFound, format!("conversation with id `{shown}` not found"));
    failure.error.parameter = Some("conversation_id".to_owned());
    failure
}

fn item_not_found(id: &str) -> Failure {
    let shown: String = id.chars().take(100).collect();
    let mut failure = Failure::new(ErrorKind::NotFound, format!("item with id `{shown}` not found"));
    failure.error.parameter = Some("item_id".to_owned());
    failure
}
