//! Keeps secret arguments from the SDK, which writes every message that it handles to the log.
//!
//! Below the SDK the arguments of a call are replaced for what the log may see, and laid beside the message; the call takes
//! them from there.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use crate::secret::{has_secrets, redacted};
use crate::server::Server;

/// The arguments of a call as they came. It has no `Debug`: nothing can show them by accident.
#[derive(Clone)]
pub(super) struct OriginalArguments(Arc<Map<String, Value>>);

impl OriginalArguments {
    /// What is laid beside a request, by its connection or by its own place.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Map<String, Value>> {
        let parts = context.extensions.get::<http::request::Parts>();
        let of_request = || parts.and_then(|parts| parts.extensions.get::<OriginalArguments>());
        let OriginalArguments(arguments) =
            context.extensions.get::<OriginalArguments>().or_else(of_request)?;
        Some(Map::clone(arguments))
    }
}

/// A message whose secrets are hidden, and what they were; `None` when it may be seen as it is.
pub(super) fn redact_secrets(server: &Server, message: &[u8]) -> Option<(Value, Option<OriginalArguments>)> {
    if !server.may_have_secrets() {
        return None;
    }
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method").is_none_or(|method| method != "tools/call") {
        return None;
    }
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else {
        // No call that could be made; whatever stands there is not for the log.
        message["params"] = Value::Null;
        return Some((message, None));
    };
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let schema = server.input_schema(name);
    if schema.as_ref().is_some_and(|schema| !has_secrets(schema)) {
        return None;
    }
    let arguments = params.get_mut("arguments")?;
    let seen = match &schema {
        Some(schema) => redacted(arguments, schema),
        // The secrets of a tool, perhaps, under a name that is not quite its own.
        None => Value::Object(Map::new()),
    };
    let original = match std::mem::replace(arguments, seen) {
        Value::Object(arguments) => Some(OriginalArguments(Arc::new(arguments))),
        _ => None,
    };
    Some((message, original))
}
