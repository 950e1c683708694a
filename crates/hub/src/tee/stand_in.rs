//! What the SDK sees in place of an answer: the least that it can always read.

use rmcp::model::ServerCapabilities;
use serde_json::{Value, json};

/// Whether the SDK needs the tools' schemas: over HTTP it makes headers of the arguments that a schema marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schemas {
    Needed,
    Unused,
}

pub(super) fn initialize(result: &Value) -> Value {
    let text = |pointer: &str, otherwise: &str| {
        result.pointer(pointer).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
    };
    json!({
        "protocolVersion": text("/protocolVersion", "2024-11-05"),
        "capabilities": capabilities(result),
        "serverInfo": { "name": text("/serverInfo/name", ""), "version": text("/serverInfo/version", "") },
    })
}

/// Whether this is an answer to `server/discover` at all: there are old servers that answer anything with `{}`.
pub(super) fn is_discovery(result: &Value) -> bool {
    result.get("supportedVersions").is_some_and(Value::is_array)
}

pub(super) fn discover(result: &Value) -> Value {
    let versions: Vec<&Value> = result
        .get("supportedVersions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|v| v.is_string())
        .collect();
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities(result),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

pub(super) fn tools(result: &Value, schemas: Schemas) -> Value {
    let tools: Vec<Value> = match schemas {
        Schemas::Unused => Vec::new(),
        Schemas::Needed => {
            let tools = result.get("tools").and_then(Value::as_array).into_iter().flatten();
            tools.filter_map(tool).collect()
        }
    };
    json!({ "tools": tools })
}

pub(super) fn error(error: &Value) -> Value {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str);
    let mut shown = json!({
        "code": code.unwrap_or(-32603),
        "message": message.map_or_else(|| error.to_string(), str::to_owned),
    });
    // The SDK reads the supported versions from it.
    if let Some(data) = error.get("data") {
        shown["data"] = data.clone();
    }
    shown
}

fn tool(tool: &Value) -> Option<Value> {
    let name = tool.get("name").filter(|name| name.is_string())?;
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object())?;
    Some(json!({ "name": name, "inputSchema": schema }))
}

fn capabilities(result: &Value) -> Value {
    let capabilities = result.get("capabilities").cloned().unwrap_or_default();
    match serde_json::from_value::<ServerCapabilities>(capabilities.clone()) {
        Ok(_) => capabilities,
        Err(_) => json!({}),
    }
}
