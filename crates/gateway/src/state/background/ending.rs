//! Ends responses in the background: the client cancels them, or no gateway can continue them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolwire_contract::model::Usage;
use toolwire_contract::state::{Claim, StateKey};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientEvent, ErrorKind, ResponseHead, ResponseWriter};

use super::journal::{Journal, Lost, SavedProgress};
use crate::gateway::Inner;
use crate::principal::Principal;
use crate::response::{Failure, HttpResponse, ResponseBody};
use crate::state::record::StoredResponse;
use crate::state::{ResponseStorage, no_store, not_found, response_key, unavailable};

/// Fields of a response that are not repeated from its request.
const OWN_FIELDS: [&str; 9] =
    ["id", "object", "created_at", "status", "background", "error", "incomplete_details", "output", "usage"];

/// Returns the head of a stored response that is not complete.
pub(super) fn stored_head(stored: &StoredResponse) -> ResponseHead {
    let mut fields: Map<String, Value> = serde_json::from_str(stored.response.get()).unwrap_or_default();
    let mut head = ResponseHead::default();
    let text =
        |fields: &Map<String, Value>, key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    head.id = text(&fields, "id").unwrap_or_default();
    head.model = text(&fields, "model").unwrap_or_default();
    head.created = fields.get("created_at").and_then(Value::as_u64).unwrap_or_default();
    head.is_background = true;
    fields.retain(|key, _| !OWN_FIELDS.contains(&key.as_str()));
    head.echo = fields;
    head
}

impl Inner {
    /// Ends a response in the background, wherever it is written. Its calls end, and it has what was written
    /// until then.
    pub(in crate::state) async fn cancel_response(
        self: &Arc<Inner>,
        principal: &Principal,
        id: &str,
    ) -> Result<HttpResponse, Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(id))?;
        let key = response_key(principal, id).ok_or_else(|| not_found(id))?;
        let find = || storage.find::<StoredResponse>(&self.large_bodies, &key);
        let stored = find().await?.ok_or_else(|| not_found(id))?;
        if !stored.is_background() {
            let message = "only a response with `background: true` can be cancelled";
            return Err(Failure::invalid("response_id", message));
        }
        if !stored.is_running() {
            return Ok(whole(&stored.response));
        }
        let claim = self.new_lease(&key)?;
        storage.store.seize(&claim).await.map_err(|error| unavailable(&error))?;
        let journal = Journal::new(storage.clone(), claim);
        // The response may have become complete, or the client may have deleted it.
        let stored = match find().await {
            Ok(Some(stored)) if stored.is_running() => stored,
            // Its task is not ended: it may still add the items to the conversation.
            Ok(found) => {
                journal.finish().await;
                return Ok(whole(&found.ok_or_else(|| not_found(id))?.response));
            }
            Err(failure) => {
                journal.hand_over(None, Duration::ZERO).await;
                return Err(failure);
            }
        };
        self.backgrounds.end(&key);
        let response = self.end_response(journal, stored, &ClientEvent::Cancelled).await?;
        Ok(whole(&response))
    }

    /// Ends the run of a response that is about to be removed. Returns whether the response was not complete.
    pub(in crate::state) async fn stop_background(
        &self,
        storage: &ResponseStorage,
        key: &StateKey,
        stored: StoredResponse,
    ) -> Result<bool, Failure> {
        if !stored.is_running() {
            return Ok(false);
        }
        // The claim expires: no other gateway may continue until the document is removed.
        let claim = self.new_lease(key)?;
        storage.store.seize(&claim).await.map_err(|error| unavailable(&error))?;
        self.backgrounds.end(key);
        let lock = stored.background.and_then(|background| background.conversation);
        self.unlock_conversation(storage, key, lock).await;
        Ok(true)
    }

    /// Releases the lock of a conversation whose response does not continue.
    async fn unlock_conversation(
        &self,
        storage: &ResponseStorage,
        response: &StateKey,
        lock: Option<(String, String)>,
    ) {
        let Some((id, holder)) = lock else { return };
        let Ok(key) = StateKey::new(response.owner(), id) else { return };
        let claim = Claim { key, holder, lifetime: self.settings.limits.background_lease };
        if let Err(error) = storage.store.release(&claim).await {
            tracing::warn!(%error, "a conversation stays locked until its lock expires");
        }
    }

    /// Writes the end of a response of which this gateway has the lease.
    pub(super) async fn end_response(
        &self,
        mut journal: Journal,
        mut stored: StoredResponse,
        end: &ClientEvent,
    ) -> Result<Box<RawValue>, Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(no_store)?;
        let read = SavedProgress::read(storage, journal.key()).await;
        let SavedProgress { length, written, usage, .. } = read.map_err(|error| unavailable(&error))?;
        let mut head = stored_head(&stored);
        head.written = Some(written);
        let internal = |problem: String| Failure::new(ErrorKind::Internal, problem);
        let mut writer = ResponseWriter::new(Family::OpenAiResponses, head)
            .ok_or_else(|| internal("the gateway cannot write responses of this API".to_owned()))?;
        journal.start_at(length);
        let start = writer.start();
        journal.events(&start);
        if usage != Usage::default() {
            writer.event(&ClientEvent::Usage(usage));
        }
        let events = writer.event(end);
        journal.events(&events);
        let text = writer.body().to_string();
        stored.response = RawValue::from_string(text).map_err(|error| internal(error.to_string()))?;
        let lock = stored.background.take().and_then(|background| background.conversation);
        let key = journal.key().clone();
        let document = serde_json::to_string(&stored).map_err(|error| internal(error.to_string()))?;
        journal.write_end(Some(document)).await.map_err(|Lost| no_store())?;
        journal.finish().await;
        self.unlock_conversation(storage, &key, lock).await;
        Ok(stored.response)
    }
}

/// Returns a stored response.
pub(in crate::state) fn whole(response: &RawValue) -> HttpResponse {
    let mut whole = HttpResponse::new(ResponseBody::Whole(Bytes::from(response.get().to_owned())));
    whole.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    whole
}
