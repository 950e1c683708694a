//! The placeholders that the SDK receives instead of results: the minimum that it can always parse.

use rmcp::model::ServerCapabilities;
use serde_json::{Value, json};

/// Whether the SDK needs the tools' schemas. Over HTTP it sends the arguments that a schema marks as headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SdkSchemas {
    Needed,
    Unused,
}

pub(super) fn initialize(result: &Value) -> Value {
    let text = |pointer: &str, default: &str| {
        result.pointer(pointer).and_then(Value::as_str).unwrap_or(default).to_owned()
    };
    json!({
        "protocolVersion": text("/protocolVersion", "2024-11-05"),
        "capabilities": capabilities(result),
        "serverInfo": { "name": text("/serverInfo/name", ""), "version": text("/serverInfo/version", "") },
    })
}

/// Whether this is a result of `server/discover`. Some old servers respond to any request with `{}`.
pub(super) fn is_discovery(result: &Value) -> bool {
    result.get("supportedVersions").is_some_and(Value::is_array)
}

pub(super) fn discover(result: &Value) -> Value {
    let versions: Vec<&Value> = result
        .get("supportedVersions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|version| version.is_string())
        .collect();
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities(result),
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

pub(super) fn tools(result: &Value, schemas: SdkSchemas) -> Value {
    let tools: Vec<Value> = match schemas {
        SdkSchemas::Unused => Vec::new(),
        SdkSchemas::Needed => {
            let tools = result.get("tools").and_then(Value::as_array).into_iter().flatten();
            tools.filter_map(tool).collect()
        }
    };
    json!({ "tools": tools })
}

pub(super) fn error(error: &Value) -> Value {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = error.get("message").and_then(Value::as_str);
    let mut sdk_error = json!({
        "code": code.unwrap_or(-32603),
        "message": message.map_or_else(|| error.to_string(), str::to_owned),
    });
    // The SDK reads the supported versions from it.
    if let Some(data) = error.get("data") {
        sdk_error["data"] = data.clone();
    }
    sdk_error
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
