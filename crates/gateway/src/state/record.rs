//! A response as it is stored.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolwire_contract::Message;
use toolwire_contract::state::StateKey;

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
    /// The messages of the conversation, including the response, if the model has seen more than the items
    /// contain.
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

impl StoredResponse {
    /// Returns all items of the conversation, including those of the response.
    pub(super) fn into_items(self) -> Result<Vec<StoredItem>, serde_json::Error> {
        let fields = ResponseFields::read(&self.response)?;
        let mut items = self.input;
        let random = fields.id.as_deref().unwrap_or_default().trim_start_matches("resp_").to_owned();
        let mut ids = ItemIds::new(&items, random);
        items.extend(fields.output.into_iter().map(|item| ids.assign(item)));
        Ok(items)
    }
}

impl ResponseStorage {
    /// Finds a response of the owner of its key.
    pub(super) async fn find(
        &self,
        large_bodies: &LargeBodies,
        key: &StateKey,
    ) -> Result<Option<StoredResponse>, Failure> {
        let found = self.store.get(key).await.map_err(|error| unavailable(&error))?;
        let Some(text) = found else { return Ok(None) };
        let is_large = is_large(text.len());
        let read = move || serde_json::from_str::<StoredResponse>(&text);
        let read = if is_large { large_bodies.run(read).await? } else { read() };
        Ok(match read {
            Ok(stored) => Some(stored),
            Err(error) => {
                tracing::error!(%error, %key, "a stored response cannot be read");
                None
            }
        })
    }
}
