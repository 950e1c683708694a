//! Hides secret arguments from the SDK, which logs every message that it handles.
//!
//! Before the SDK sees a message, its arguments are replaced by redacted ones. The originals are attached to
//! the message, and the call reads them from there.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::secret::{has_secrets, redacted};
use crate::server::Server;

/// The original arguments of a call. It has no `Debug`, so that they cannot be logged by accident.
#[derive(Clone)]
pub(super) struct OriginalArguments(Arc<Map<String, Value>>);

impl OriginalArguments {
    /// Returns the original arguments attached to a request, by its connection or by HTTP.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Map<String, Value>> {
        let parts = context.extensions.get::<http::request::Parts>();
        let of_request = || parts.and_then(|parts| parts.extensions.get::<OriginalArguments>());
        let OriginalArguments(arguments) =
            context.extensions.get::<OriginalArguments>().or_else(of_request)?;
        Some(Map::clone(arguments))
    }
}

/// Returns a redacted message and the original arguments; `None` if nothing has to be redacted.
pub(super) fn redact_secrets(server: &Server, message: &[u8]) -> Option<(Value, Option<OriginalArguments>)> {
    if !server.may_have_secrets() || is_call_without_secrets(server, message) {
        return None;
    }
    let mut message: Value = serde_json::from_slice(message).ok()?;
    if message.get("method").is_none_or(|method| method != "tools/call") {
        return None;
    }
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else {
        // Not a valid call; its parameters must not be logged.
        message["params"] = Value::Null;
        return Some((message, None));
    };
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let schema = server.input_schema(name);
    if schema.as_ref().is_some_and(|schema| !has_secrets(schema)) {
        return None;
    }
    let arguments = params.get_mut("arguments")?;
    let replacement = match &schema {
        Some(schema) => redacted(arguments, schema),
        // The name may be a misspelling of a tool with secrets.
        None => Value::Object(Map::new()),
    };
    let original = match std::mem::replace(arguments, replacement) {
        Value::Object(arguments) => Some(OriginalArguments(Arc::new(arguments))),
        _ => None,
    };
    Some((message, original))
}

/// The part of a call that names its tool.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: CalledTool<'a>,
}

#[derive(Deserialize)]
struct CalledTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Whether a message is certainly a call of a tool without secrets, as most calls are. This check costs much
/// less than reading the whole message.
fn is_call_without_secrets(server: &Server, message: &[u8]) -> bool {
    let Ok(call) = serde_json::from_slice::<Call<'_>>(message) else { return false };
    let has_none = |schema: Option<&Value>| schema.is_none_or(|schema| !has_secrets(schema));
    call.method == "tools/call" && server.with_input_schema(&call.params.name, has_none).unwrap_or(false)
}
