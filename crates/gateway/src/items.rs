//! Stores the output items of the Responses API, because clients may send references to them in later
//! requests.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::principal::Principal;
use crate::recent::{Recent, StateLimits};
use crate::response::Failure;
use crate::settings::GatewayLimits;

/// The maximum number of responses with stored items.
const MAX_RESPONSES: usize = 20_000;

/// The output items of recent responses.
pub(crate) struct Items(Recent<Vec<Value>>);

/// Stores the items of one response for its client.
pub(crate) struct ClientItems {
    pub(crate) items: Arc<Items>,
    pub(crate) principal: Principal,
}

impl ClientItems {
    /// Stores the output of a response.
    pub(crate) fn store(&self, response: &Value) {
        let Some(Value::Array(output)) = response.get("output") else { return };
        let ids = output.iter().filter_map(|item| item.get("id")?.as_str().map(str::to_owned)).collect();
        let bytes = output.iter().map(|item| item.to_string().len()).sum();
        if let Err(error) = self.items.0.store(&self.principal, ids, output.clone(), bytes) {
            tracing::warn!(%error, "the items of a response are not stored");
        }
    }
}

impl Items {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> Items {
        Items(Recent::new(StateLimits::new(limits, has_several_keys, MAX_RESPONSES)))
    }

    /// Replaces references to items in the input of a request.
    pub(crate) fn resolve(
        &self,
        principal: &Principal,
        body: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        let Some(Value::Array(input)) = body.get_mut("input") else { return Ok(()) };
        let mut known = HashSet::new();
        for (index, item) in input.iter_mut().enumerate() {
            let Some(id) = referenced(item) else { continue };
            // A small request with many references to one item could otherwise become very large.
            if !known.insert(id.to_owned()) {
                let message = format!("item with id `{id}` is already in the input");
                return Err(Failure::invalid(&format!("input[{index}].id"), message));
            }
            let stored = self.0.find(principal, id);
            let found = stored.iter().flat_map(|items| items.iter()).find(|item| item["id"] == id);
            let Some(found) = found else {
                let message = format!(
                    "item with id `{id}` not found: items are kept in memory for up to 24 hours; hint: send the complete \
                     items, as clients do with `store: false`"
                );
                return Err(Failure::invalid(&format!("input[{index}].id"), message));
            };
            *item = found.clone();
        }
        Ok(())
    }

    /// Replaces a reference by its item, which is not kept as long as a conversation.
    pub(crate) fn resolved(&self, principal: &Principal, item: Box<RawValue>) -> Box<RawValue> {
        let found = || {
            let value: Value = serde_json::from_str(item.get()).ok()?;
            let id = referenced(&value)?;
            let found = self.0.find(principal, id)?;
            let found = found.iter().find(|item| item["id"] == id)?;
            RawValue::from_string(found.to_string()).ok()
        };
        found().unwrap_or(item)
    }

    /// Whether a body refers to one of the items of its client.
    pub(crate) fn is_mentioned(&self, principal: &Principal, body: &[u8]) -> bool {
        self.0.is_mentioned(principal, body, &["msg_", "rs_", "fc_", "ctc_", "mcp_", "mcpl_", "mcpr_"])
    }
}

/// Returns the id of an item that is a reference. A reference may have no `type`.
fn referenced(item: &Value) -> Option<&str> {
    let fields = item.as_object()?;
    let is_reference = match fields.get("type") {
        Some(kind) => kind == "item_reference",
        None => fields.len() == 1,
    };
    fields.get("id")?.as_str().filter(|_| is_reference)
}
