//! Calls of tools.

use std::sync::Arc;

use rmcp::model::{CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use toolwire_contract::ToolResult;

use super::caller::End;
use super::connection::{Bound, Connection, given_up, is_modern};
use crate::wire::{self, Outgoing};

impl Connection {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.tools.is_none() {
            return Err(ErrorData::method_not_found::<CallToolRequestMethod>());
        }
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        // Kept for the questions: the tool takes the arguments themselves.
        let kept = is_modern(&context).then(|| arguments.clone()).flatten();
        let bound = Bound { method: "tools/call", name: &name, arguments: kept.as_ref() };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let result = match desk.run(self.shared.server.call(&name, arguments, &ours)).await {
            End::Done(Ok(result)) => result,
            End::Done(Err(error)) => wire::call_error(&error)?,
            End::Asked => {
                self.answer(&context, self.questions(&desk, &bound));
                return Ok(CallToolResult::default().into());
            }
            End::GivenUp => return Err(given_up()),
            End::Panicked => {
                tracing::error!(tool = %name, "the tool panicked");
                ToolResult::error(format!("the tool `{name}` failed unexpectedly"))
            }
        };
        if let Some(lacking) = desk.lacking().filter(|_| result.failed() && desk.is_modern()) {
            return Err(ErrorData::missing_required_client_capability(lacking));
        }
        let result = match result.needs_input() && !desk.is_modern() {
            true => ToolResult::error(format!("the tool `{name}` needs input that this client cannot give")),
            false => result,
        };
        let typed = match wire::result_out(result) {
            Outgoing::Typed(typed) => typed,
            Outgoing::Raw(raw) => {
                self.answer(&context, raw);
                CallToolResult::default()
            }
        };
        Ok(typed.into())
    }
}
