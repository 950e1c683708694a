//! Tasks of servers: calls that a server continues after its response (the tasks extension of MCP
//! 2026-07-28).
//!
//! The id of a task names its server and its tool, so that nothing has to be stored to find the task again,
//! and to check whether its tool is still permitted.

use serde_json::{Map, Value};
use toolwire_contract::ToolResult;
use toolwire_contract::offers::{OfferMethod, OfferRequestError, ServerFilter, TaskTool};

use super::Hub;
use super::offers::{request, text};

const TASK_ID: &str = "taskId";

impl Hub {
    /// Sends a request about a task to its server.
    pub(super) async fn request_task(
        &self,
        method: OfferMethod,
        mut params: Map<String, Value>,
        permits: &ServerFilter<'_>,
    ) -> Result<Map<String, Value>, OfferRequestError> {
        let id = text(&params, TASK_ID)?;
        let unknown =
            || OfferRequestError::InvalidParameters { problem: "unknown or expired task".to_owned() };
        let (tool, own_id) = read_id(&id).filter(|(tool, _)| permits(&tool.server)).ok_or_else(unknown)?;
        let server = tool.server;
        let mut ready = self.ready().into_iter();
        let found = ready.find(|(known, _)| known.config.name.as_str() == server);
        let (server, session) = found.ok_or_else(|| OfferRequestError::Failed {
            server: server.clone(),
            reason: "it is not connected".to_owned(),
        })?;
        params.insert(TASK_ID.to_owned(), own_id.into());
        let mut result = request(&server, &session, method, params).await?;
        if result.contains_key(TASK_ID) {
            result.insert(TASK_ID.to_owned(), id.into());
        }
        Ok(result)
    }
}

/// Adds the names of the server and of its tool to the id of a task.
pub(crate) fn name_task(server: &str, tool: &str, mut result: ToolResult) -> ToolResult {
    if result.is_task()
        && let Some(id) = result.extra.get(TASK_ID).and_then(Value::as_str)
    {
        let id = format!("{}:{server}{}:{tool}{id}", server.len(), tool.len());
        result.extra.insert(TASK_ID.to_owned(), id.into());
    }
    result
}

/// Returns the tool of a task, and the id that the server has given to the task.
pub(super) fn read_id(id: &str) -> Option<(TaskTool, &str)> {
    fn name(text: &str) -> Option<(&str, &str)> {
        let (length, rest) = text.split_once(':')?;
        rest.split_at_checked(length.parse().ok()?)
    }
    let (server, rest) = name(id)?;
    let (tool, own_id) = name(rest)?;
    Some((TaskTool { server: server.to_owned(), name: tool.to_owned() }, own_id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_a_task_names_its_server_and_its_tool() {
        for (server, tool, id) in
            [("a", "t", "1"), ("12:a", "1:", ":x"), ("grüße", "ü", ""), ("3", "4:5", "6:7")]
        {
            let result = json!({"resultType": "task", "taskId": id, "status": "working"});
            let named = name_task(server, tool, ToolResult::try_from(result).expect("a result"));
            let named = named.extra["taskId"].as_str().expect("a text");
            let expected = TaskTool { server: server.to_owned(), name: tool.to_owned() };
            assert_eq!(read_id(named), Some((expected, id)));
        }
        for invalid in
            ["", "a", ":", "x:a", "5:abc", "-1:a", "1:ü", "99999999999999999999:a", "1:a", "1:a5:abc"]
        {
            assert_eq!(read_id(invalid), None, "{invalid}");
        }
        let result = json!({"content": [], "taskId": "1"});
        let result = ToolResult::try_from(result).expect("a result");
        assert_eq!(name_task("a", "t", result.clone()), result, "not a task");
    }
}
