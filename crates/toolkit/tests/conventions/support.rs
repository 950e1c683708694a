//! How the tests reach a server.

use serde_json::{Map, Value};
use toolwire_contract::{CallError, Tool};
use toolwire_toolkit::{Context, Server, ServerBuilder, ToolResult};

/// A builder that no variable of the machine reaches, without prefix.
pub(crate) fn plain() -> ServerBuilder {
    Server::builder("test").prefix("").environment::<&str, &str>([])
}

pub(crate) fn list(server: &Server) -> Vec<Tool> {
    server.tools().to_vec()
}

pub(crate) fn try_call(server: &Server, tool: &str, arguments: Value) -> Result<ToolResult, CallError> {
    let arguments: Option<Map<String, Value>> = serde_json::from_value(arguments).unwrap();
    let context = Context::alone();
    runtime().block_on(server.call(tool, arguments, &context))
}

pub(crate) fn call(server: &Server, tool: &str, arguments: Value) -> ToolResult {
    try_call(server, tool, arguments).unwrap()
}

/// What the call said, as JSON; the text must say the same, and `isError` must follow `success`.
#[track_caller]
pub(crate) fn said(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments);
    let structured = result.structured_content.clone().expect("an outcome is structured");
    let [toolwire_toolkit::Content::Text { text, .. }] = result.blocks() else {
        panic!("an outcome is one text: {result:?}")
    };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structured);
    assert_eq!(result.failed(), structured["success"] == false);
    structured
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
