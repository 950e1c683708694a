//! Items about the tools of servers and their calls.

use serde_json::{Map, Value, json};
use toolwire_contract::Tool;

use super::ItemWriter;
use crate::client::{ServerCall, StreamEvent};

impl ItemWriter {
    pub(super) fn server_tools(&mut self, server: &str, tools: &[Tool]) -> Vec<StreamEvent> {
        // A client of this API fails if a description or an annotation is null.
        let entry = |tool: &Tool| {
            let mut entry = json!({"name": tool.name, "input_schema": tool.input_schema});
            if let Some(description) = &tool.description {
                entry["description"] = json!(description);
            }
            entry
        };
        let entries: Vec<Value> = tools.iter().map(entry).collect();
        let id = self.next_id("mcpl");
        let item = |tools: &[Value]| json!({"id": id, "type": "mcp_list_tools", "server_label": server, "tools": tools});
        let middle = vec![
            ("response.mcp_list_tools.in_progress", json!({})),
            ("response.mcp_list_tools.completed", json!({})),
        ];
        self.complete_item(item(&[]), middle, item(&entries))
    }

    pub(super) fn server_unavailable(&mut self, server: &str, reason: &str) -> Vec<StreamEvent> {
        let id = self.next_id("mcpl");
        let item = json!({"id": id, "type": "mcp_list_tools", "server_label": server, "tools": []});
        let middle = vec![
            ("response.mcp_list_tools.in_progress", json!({})),
            ("response.mcp_list_tools.failed", json!({})),
        ];
        let mut failed = item.clone();
        failed["error"] = json!(reason);
        self.complete_item(item, middle, failed)
    }

    pub(super) fn server_call(&mut self, call: &ServerCall) -> Vec<StreamEvent> {
        let id = self.next_id("mcp");
        let arguments = call.arguments_text();
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "mcp_call", "status": status, "server_label": call.server, "name": call.name,
                "arguments": arguments, "output": null, "error": null, "approval_request_id": call.approval_id,
            })
        };
        let has_failed = call.result.is_error();
        let mut done = item(if has_failed { "failed" } else { "completed" }, &arguments);
        if has_failed {
            let content = json!([{"type": "text", "text": call.result_text()}]);
            done["error"] = json!({"type": "mcp_tool_execution_error", "content": content});
        } else {
            done["output"] = json!(call.result_text());
        }
        let end = if has_failed { "response.mcp_call.failed" } else { "response.mcp_call.completed" };
        let middle = vec![
            ("response.mcp_call.in_progress", json!({})),
            ("response.mcp_call_arguments.delta", json!({"delta": arguments})),
            ("response.mcp_call_arguments.done", json!({"arguments": arguments})),
            (end, json!({})),
        ];
        self.complete_item(item("in_progress", ""), middle, done)
    }

    pub(super) fn approval_request(
        &mut self,
        id: &str,
        server: &str,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Vec<StreamEvent> {
        let item = json!({
            "id": id, "type": "mcp_approval_request", "server_label": server, "name": name,
            "arguments": Value::Object(arguments.clone()).to_string(),
        });
        self.complete_item(item.clone(), Vec::new(), item)
    }
}
