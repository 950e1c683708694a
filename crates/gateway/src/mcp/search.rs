//! A search and a call instead of all tools, for clients that send every listed tool to their model.

use std::sync::{Arc, LazyLock};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value, json};
use toolwire_agent::search::ToolHit;
use toolwire_contract::toolbox::{CallError, CallOptions, MissingServer, ToolServer, Toolbox};
use toolwire_contract::{Content, Tool, ToolResult};

use super::tools::McpTools;

const SEARCH: &str = "search_tools";
const CALL: &str = "call_tool";

const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 50;

/// The two tools that are listed.
static LISTED: LazyLock<Arc<[Tool]>> = LazyLock::new(|| {
    let mut search = Tool::new(
        SEARCH,
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            },
            "required": ["query"],
            "additionalProperties": false,
        }),
    );
    search.description = Some(format!(
        "Find tools by what they do. Returns the best matches with their descriptions and the schemas of their \
         arguments. Call a found tool with `{CALL}`."
    ));
    search.annotations = object(json!({"readOnlyHint": true, "openWorldHint": false}));
    let mut call = Tool::new(
        CALL,
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": format!("The name of a tool that `{SEARCH}` has found")},
                "arguments": {"type": "object", "description": "Arguments that match the tool's schema"},
            },
            "required": ["name"],
            "additionalProperties": false,
        }),
    );
    call.description = Some(format!("Call a tool that `{SEARCH}` has found, and return its result."));
    Arc::new([search, call])
});

fn object(value: Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

pub(crate) struct SearchedTools {
    /// The tools that can be found.
    found: Arc<McpTools>,
    /// The same tools, traced and logged.
    called: Arc<dyn Toolbox>,
}

impl SearchedTools {
    pub(crate) fn new(found: Arc<McpTools>, called: Arc<dyn Toolbox>) -> SearchedTools {
        SearchedTools { found, called }
    }

    fn search(&self, arguments: &Value) -> ToolResult {
        let Some(query) = arguments.get("query").and_then(Value::as_str) else {
            return ToolResult::error("`query` is missing: describe in a few words what the tool should do");
        };
        let limit = arguments.get("limit").and_then(Value::as_u64);
        let limit = limit.map_or(DEFAULT_LIMIT, |limit| usize::try_from(limit).unwrap_or(MAX_LIMIT));
        let index = self.found.index();
        let hits: Vec<Value> =
            index.search(query, limit.clamp(1, MAX_LIMIT)).iter().map(definition).collect();
        let total = self.found.tools().len();
        let found = json!({"tools": hits, "searchedTools": total});
        ToolResult {
            content: Some(vec![Content::text(found.to_string())]),
            structured_content: Some(found),
            ..ToolResult::default()
        }
    }
}

/// Returns the part of a definition that a model needs for a call.
fn definition(hit: &ToolHit<'_>) -> Value {
    let mut fields = match Value::from(hit.tool.clone()) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.retain(|key, _| ["name", "title", "description", "inputSchema", "annotations"].contains(&&**key));
    if let Some(server) = hit.server {
        fields.insert("server".to_owned(), json!(server.name));
    }
    Value::Object(fields)
}

impl Toolbox for SearchedTools {
    fn tools(&self) -> Arc<[Tool]> {
        LISTED.clone()
    }

    fn server_of(&self, _tool: &str) -> Option<ToolServer> {
        None
    }

    fn missing_servers(&self) -> Vec<MissingServer> {
        self.called.missing_servers()
    }

    fn started<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        self.called.started(servers)
    }

    /// The list never changes.
    fn changes(&self) -> Option<BoxStream<'static, ()>> {
        None
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            match tool {
                SEARCH => Ok(self.search(arguments)),
                CALL => {
                    let Some(name) = arguments.get("name").and_then(Value::as_str) else {
                        return Ok(ToolResult::error("`name` is missing: the name of the tool to call"));
                    };
                    let none = json!({});
                    let arguments = arguments.get("arguments").unwrap_or(&none);
                    match self.called.call(name, arguments, options).await {
                        // The name is an argument here, so the model can correct it.
                        Err(error @ CallError::UnknownTool { .. }) => Ok(error.to_result()),
                        outcome => outcome,
                    }
                }
                _ => Err(CallError::UnknownTool {
                    tool: tool.to_owned(),
                    nearest: vec![SEARCH.to_owned(), CALL.to_owned()],
                    missing: Vec::new(),
                }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use toolwire_agent::Functions;
    use toolwire_agent::approval::ApprovalPolicy;

    use super::*;
    use crate::metrics::Metrics;

    fn tools() -> SearchedTools {
        let functions = ["send_mail", "delete_file", "secret_mail"].into_iter().fold(
            Functions::new(),
            |functions, name| {
                let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
                functions.with(Tool::new(name, schema), move |_| async move { Ok::<_, String>(name) })
            },
        );
        let policy = ApprovalPolicy::default().deny("secret_*");
        let tools = Arc::new(McpTools::new(Arc::new(functions), policy, None, Metrics::default()));
        SearchedTools::new(tools.clone(), tools)
    }

    async fn call(tool: &str, arguments: Value) -> Result<ToolResult, CallError> {
        tools().call(tool, &arguments, CallOptions::default()).await
    }

    #[tokio::test]
    async fn tools_are_found_and_called() {
        let names: Vec<String> = tools().tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, [SEARCH, CALL]);
        let found = call(SEARCH, json!({"query": "mail"})).await.expect("a result");
        let expected = json!({"tools": [{"name": "send_mail", "inputSchema": {
            "type": "object", "properties": {"to": {"type": "string"}}}}], "searchedTools": 2});
        assert_eq!(found.structured_content, Some(expected));
        let result = call(CALL, json!({"name": "send_mail", "arguments": {"to": "a"}})).await;
        assert_eq!(result, Ok(ToolResult::text("send_mail")));
        let result = call(CALL, json!({"name": "delete_file"})).await;
        assert_eq!(result, Ok(ToolResult::text("delete_file")));
    }

    #[tokio::test]
    async fn denied_tools_are_neither_found_nor_called() {
        let denied = call(CALL, json!({"name": "secret_mail"})).await.expect("a result");
        assert!(denied.is_error(), "{denied:?}");
        assert!(matches!(call("send_mail", json!({})).await, Err(CallError::UnknownTool { .. })));
        for invalid in [json!({}), json!({"query": 5}), json!({"name": 5}), json!(null)] {
            for tool in [SEARCH, CALL] {
                assert!(call(tool, invalid.clone()).await.expect("a result").is_error(), "{tool} {invalid}");
            }
        }
    }
}
