//! A response as it is stored.

use std::collections::HashSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolwire_contract::Message;
use toolwire_contract::state::StateKey;

use super::background::StoredBackground;
use super::{ResponseStorage, StoredPause, unavailable};
use crate::hidden_rounds::ShownId;
use crate::large_bodies::{LargeBodies, is_large};
use crate::response::Failure;

/// A response, and everything that a request needs to continue it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredResponse {
    /// The response, as the client got it.
    pub(super) response: Box<RawValue>,
    /// The items of the conversation before the response.
    pub(super) input: Vec<StoredItem>,
    /// What the model has seen, including the response.
    pub(super) model: ModelState,
    /// Present until a response in the background is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) background: Option<StoredBackground>,
}

impl StoredResponse {
    /// Returns a response without its conversation.
    pub(super) fn of(response: Box<RawValue>) -> StoredResponse {
        StoredResponse { response, input: Vec::new(), model: ModelState::default(), background: None }
    }

    /// Whether the response is not complete.
    pub(super) fn is_running(&self) -> bool {
        let status = ResponseFields::read(&self.response).ok().and_then(|fields| fields.status);
        matches!(status.as_deref(), Some("queued" | "in_progress"))
    }

    /// Removes this gateway from the number of takeovers, because it hands the response over and has not
    /// died. Returns the changed document; `None` if this gateway was not counted.
    pub(super) fn without_takeover(&mut self) -> Option<String> {
        let background = self.background.as_mut()?;
        background.takeovers = background.takeovers.checked_sub(1)?;
        serde_json::to_string(self).ok()
    }

    /// Whether the response was requested with `background: true`.
    pub(super) fn is_background(&self) -> bool {
        ResponseFields::read(&self.response).is_ok_and(|fields| fields.background == Some(true))
    }
}

/// What the items of a conversation do not contain.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelState {
    /// The messages of the conversation, if the model has seen more than the items contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<Vec<Arc<Message>>>,
    /// Whether the gateway has written some of the output items, so that the provider does not know their
    /// ids.
    #[serde(default)]
    pub(super) has_own_items: bool,
    /// The calls at the end of the messages that the client runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) client_calls: Vec<ShownId>,
    /// The run, if it waits for approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<StoredPause>,
}

/// An item as the client sent or got it, and the id under which it is listed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredItem {
    pub(super) id: String,
    pub(super) item: Box<RawValue>,
}

/// The fields of a response that the gateway reads.
#[derive(Debug, Deserialize)]
pub(super) struct ResponseFields {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) background: Option<bool>,
    #[serde(default)]
    pub(super) output: Vec<Box<RawValue>>,
}

impl ResponseFields {
    pub(super) fn read(response: &RawValue) -> Result<ResponseFields, serde_json::Error> {
        serde_json::from_str(response.get())
    }
}

/// Assigns ids to items: their own ids, unless another item has the same one.
pub(super) struct ItemIds {
    known: HashSet<String>,
    /// The random part of new ids.
    random: String,
}

impl ItemIds {
    pub(super) fn new(earlier: &[StoredItem], random: String) -> ItemIds {
        ItemIds { known: earlier.iter().map(|item| item.id.clone()).collect(), random }
    }

    pub(super) fn assign(&mut self, item: Box<RawValue>) -> StoredItem {
        #[derive(Deserialize)]
        struct Fields<'t> {
            #[serde(default)]
            id: Option<Value>,
            #[serde(borrow, default, rename = "type")]
            type_name: Option<std::borrow::Cow<'t, str>>,
        }
        let fields: Option<Fields<'_>> = serde_json::from_str(item.get()).ok();
        let (id, type_name) = fields.map_or((None, None), |fields| (fields.id, fields.type_name));
        let own =
            id.as_ref().and_then(Value::as_str).filter(|id| !id.is_empty() && !self.known.contains(*id));
        let id = match own {
            Some(id) => id.to_owned(),
            None => {
                let prefix = match type_name.as_deref().unwrap_or("message") {
                    "message" => "msg",
                    "function_call" => "fc",
                    "function_call_output" => "fco",
                    "reasoning" => "rs",
                    "mcp_approval_response" => "mcpa",
                    _ => "item",
                };
                format!("{prefix}_{}i{}", self.random, self.known.len())
            }
        };
        self.known.insert(id.clone());
        StoredItem { id, item }
    }
}

/// Adds the output of a response to the items before it.
pub(super) fn with_output(mut items: Vec<StoredItem>, response: ResponseFields) -> Vec<StoredItem> {
    let mut ids = ItemIds::new(&items, random_part(response.id.as_deref().unwrap_or_default()));
    items.extend(response.output.into_iter().map(|item| ids.assign(item)));
    items
}

/// Returns the random part of the id of a response or a conversation.
pub(super) fn random_part(id: &str) -> String {
    id.split_once('_').map_or(id, |(_, random)| random).to_owned()
}

/// The maximum size of a document: a response with its conversation.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Checks that a document can be stored.
pub(super) fn check_size(content: &str) -> Result<(), String> {
    match content.len() > MAX_BYTES {
        true => Err(format!("it has {} bytes, and the maximum is {MAX_BYTES}", content.len())),
        false => Ok(()),
    }
}

impl ResponseStorage {
    /// Stores a document, or returns the problem.
    pub(super) async fn put(&self, key: &StateKey, content: String) -> Result<(), String> {
        check_size(&content)?;
        self.store.put(key, content, self.retention).await.map_err(|error| error.to_string())
    }

    /// Finds a document of the owner of its key.
    pub(super) async fn find<T: DeserializeOwned + Send + 'static>(
        &self,
        large_bodies: &LargeBodies,
        key: &StateKey,
    ) -> Result<Option<T>, Failure> {
        let found = self.store.get(key).await.map_err(|error| unavailable(&error))?;
        let Some(text) = found else { return Ok(None) };
        let is_large = is_large(text.len());
        let read = move || serde_json::from_str::<T>(&text);
        let read = if is_large { large_bodies.run(read).await? } else { read() };
        Ok(match read {
            Ok(stored) => Some(stored),
            Err(error) => {
                tracing::error!(%error, %key, "a stored document cannot be read");
                None
            }
        })
    }
}
