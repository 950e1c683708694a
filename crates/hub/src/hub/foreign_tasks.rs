//! Tasks of servers: calls that a server continues after its response (the tasks extension of MCP
//! 2026-07-28).
//!
//! The id of a task names its server, so that nothing has to be stored to find the task again.

use serde_json::{Map, Value};
use toolwire_contract::ToolResult;
use toolwire_contract::offers::{OfferMethod, OfferRequestError, ServerFilter};

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
        let (server, own_id) = server_of(&id).filter(|(server, _)| permits(server)).ok_or_else(unknown)?;
        let mut ready = self.ready().into_iter();
        let found = ready.find(|(known, _)| known.config.name.as_str() == server);
        let (server, session) = found.ok_or_else(|| OfferRequestError::Failed {
            server: server.to_owned(),
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

/// Adds the name of the server to the id of a task.
pub(crate) fn name_task(server: &str, mut result: ToolResult) -> ToolResult {
    if result.is_task()
        && let Some(id) = result.extra.get(TASK_ID).and_then(Value::as_str)
    {
        let id = format!("{}:{server}{id}", server.len());
        result.extra.insert(TASK_ID.to_owned(), id.into());
    }
    result
}

/// Returns the name of the server, and the id that it has given to the task.
fn server_of(id: &str) -> Option<(&str, &str)> {
    let (length, rest) = id.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_a_task_names_its_server() {
        for (server, id) in [("a", "1"), ("12:a", ":x"), ("grüße", ""), ("3", "4:5")] {
            let result = json!({"resultType": "task", "taskId": id, "status": "working"});
            let named = name_task(server, ToolResult::try_from(result).expect("a result"));
            let named = named.extra["taskId"].as_str().expect("a text");
            assert_eq!(server_of(named), Some((server, id)));
        }
        for invalid in ["", "a", ":", "x:a", "5:abc", "-1:a", "1:ü", "99999999999999999999:a"] {
            assert_eq!(server_of(invalid), None, "{invalid}");
        }
        let result = json!({"content": [], "taskId": "1"});
        let result = ToolResult::try_from(result).expect("a result");
        assert_eq!(name_task("a", result.clone()), result, "not a task");
    }
}
