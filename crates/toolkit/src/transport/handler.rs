//! Dispatches MCP's requests.

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older clients still use it")]

use std::sync::PoisonError;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsRequestMethod, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwire_contract::offers::OfferMethod;

use super::connection::{Connection, is_modern, reject_cursor};
use crate::wire;

/// Methods that have parameters in every revision. If the SDK cannot parse such a request, its parameters are
/// invalid.
const WITH_PARAMETERS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

impl ServerHandler for Connection {
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if WITH_PARAMETERS.contains(&method.as_str()) {
            let message = format!("invalid parameters for `{method}`");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }

    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.forward_changes(context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = wire::level_in(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if self.shared.info.capabilities.tools.is_none() {
            return Err(ErrorData::method_not_found::<ListToolsRequestMethod>());
        }
        reject_cursor(request)?;
        let server = self.server_for(&context);
        server.wait_until_started().await;
        let tools = server.tools().iter().map(wire::listed_tool).collect();
        self.respond_cacheable(&context, "tools", Value::Array(tools));
        Ok(ListToolsResult::default())
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        if let Some(tool) = self.shared.typed_tools.get(name) {
            return Some(tool.clone());
        }
        // The SDK does not say for which request. In a session, it is the tool of the request that opened the
        // session; the call itself uses the tools of its own request.
        let server = self.server();
        let mut boxes = server.toolboxes.iter();
        boxes.find_map(|toolbox| toolbox.tools().iter().find(|tool| tool.name == name).map(wire::typed_tool))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(&request.task_id, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Ok(task) = self.shared.tasks.find(&request.task_id) {
            task.reply(request.input_responses);
            return Ok(());
        }
        let params = Map::from_iter([("inputResponses".to_owned(), json!(request.input_responses))]);
        self.request_foreign_task(OfferMethod::UpdateTask, &request.task_id, params, &context).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Ok(task) = self.shared.tasks.find(&request.task_id) {
            task.cancel();
            return Ok(());
        }
        let id = &request.task_id;
        self.request_foreign_task(OfferMethod::CancelTask, id, Map::new(), &context).await.map(drop)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.prompts(request, context).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.resources(request, context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.resource_templates(request, context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(request, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completion(request, context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribe_to_foreign(&request, &context).await?;
        self.add_subscription(request)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.end_subscription(request)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.send_changes(context).await
    }
}
