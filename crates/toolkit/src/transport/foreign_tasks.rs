//! Tasks of other servers. The id that a client sees is signed and belongs to this client, so that nothing
//! has to be stored, and a process with the same key accepts it too.

use rmcp::model::SealOptions;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwire_contract::ToolResult;
use toolwire_contract::offers::OfferMethod;

use super::connection::Connection;
use super::request_tools::RequestTools;

const TASK_ID: &str = "taskId";

impl Connection {
    /// Replaces the id of a task in the result of a call.
    pub(super) fn seal_task(&self, client: &str, mut result: ToolResult) -> Result<ToolResult, ErrorData> {
        if let Some(id) = result.extra.get(TASK_ID).filter(|_| result.is_task()) {
            let bound = binding(client);
            let options = SealOptions::new().associated_data(&bound);
            let sealed = self.shared.foreign_signature.seal_json_with(&json!({"task": id}), &options);
            let sealed = sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            result.extra.insert(TASK_ID.to_owned(), sealed.into());
        }
        Ok(result)
    }

    /// Sends a request about a task to the server that runs it.
    pub(super) async fn request_foreign_task(
        &self,
        method: OfferMethod,
        id: &str,
        mut params: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Map<String, Value>, ErrorData> {
        let unknown = || ErrorData::invalid_params("unknown or expired task", None);
        let foreign = self.foreign(context).ok_or_else(unknown)?;
        let opened: Result<Value, _> =
            self.shared.foreign_signature.open_json_with(id, &binding(RequestTools::client_of(context)));
        let own_id = opened.ok().and_then(|state| state.get("task").cloned()).ok_or_else(unknown)?;
        params.insert(TASK_ID.to_owned(), own_id);
        let mut result = self.request_foreign(&*foreign, method, Value::Object(params), context).await?;
        if result.contains_key(TASK_ID) {
            result.insert(TASK_ID.to_owned(), id.into());
        }
        Ok(result)
    }
}

fn binding(client: &str) -> Vec<u8> {
    format!("task\n{client}").into_bytes()
}
