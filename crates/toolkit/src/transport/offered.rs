//! Handles requests for prompts, resources and completions.

use std::sync::Arc;

use rmcp::model::{
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ErrorCode, GetPromptRequestMethod,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, PaginatedRequestParams, ReadResourceRequestMethod, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwire_contract::offers::{OfferKind, OfferMethod};

use super::caller::CallEnd;
use super::connection::{Connection, RequestBinding, is_modern, panicked, reject_cursor, request_cancelled};
use super::foreign_rounds::add_round;
use super::request_tools::RequestTools;
use crate::resources::CompletionRequest;
use crate::wire;

impl Connection {
    pub(super) async fn prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if self.shared.info.capabilities.prompts.is_none() {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        }
        reject_cursor(request)?;
        let foreign = self.list_foreign(OfferKind::Prompt, &context).await?;
        let own = self.shared.server.offers.prompts.iter().map(|(prompt, _)| prompt.to_json());
        let prompts = own.chain(foreign).collect();
        self.respond_cacheable(&context, "prompts", Value::Array(prompts));
        Ok(ListPromptsResult::default())
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.prompts.is_none() {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let mut prompts = self.shared.server.offers.prompts.iter();
        let Some((prompt, handler)) = prompts.find(|(prompt, _)| prompt.name == name) else {
            if let Some(foreign) = self.foreign(&context) {
                let mut params = json!({"name": name, "arguments": arguments.unwrap_or_default()});
                add_round(&mut params, input_responses, request_state);
                let result = self.request_foreign(&*foreign, OfferMethod::GetPrompt, params, &context);
                self.respond(&context, result.await?);
                return Ok(GetPromptResult::new(Vec::new()).into());
            }
            return Err(ErrorData::invalid_params(format!("unknown prompt: `{name}`"), None));
        };
        let given = arguments.clone().unwrap_or_default();
        let missing: Vec<String> = prompt
            .arguments
            .iter()
            .filter(|argument| argument.required && !given.contains_key(&argument.name))
            .map(|argument| format!("`{}`", argument.name))
            .collect();
        if !missing.is_empty() {
            let text = format!("the prompt `{name}` requires {}", missing.join(" and "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let bound = RequestBinding {
            method: "prompts/get",
            name: &name,
            arguments: arguments.as_ref(),
            client: RequestTools::client_of(&context),
        };
        let mut running = self.start_call(&context, input_responses, request_state.as_deref(), &bound)?;
        let tool_context = running.context();
        let response = match running.run(handler.get(given, &tool_context)).await {
            CallEnd::Done(Ok(prompted)) => prompted.into_json(),
            CallEnd::Done(Err(error)) => {
                let lacking = running.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            CallEnd::InputRequired => self.input_required(&running, &bound),
            CallEnd::Cancelled | CallEnd::Detaching => return Err(request_cancelled()),
            CallEnd::Panicked => return Err(panicked()),
        };
        self.respond(&context, response);
        Ok(GetPromptResult::new(Vec::new()).into())
    }

    pub(super) async fn resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ListResourcesRequestMethod>());
        }
        reject_cursor(request)?;
        let foreign = self.list_foreign(OfferKind::Resource, &context).await?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.list());
        let listed = all.map(super::listed_resource).chain(foreign).collect();
        self.respond_cacheable(&context, "resources", Value::Array(listed));
        Ok(ListResourcesResult::default())
    }

    pub(super) async fn resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>());
        }
        reject_cursor(request)?;
        let foreign = self.list_foreign(OfferKind::ResourceTemplate, &context).await?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.templates());
        let listed = all.map(|template| template.to_json()).chain(foreign).collect();
        self.respond_cacheable(&context, "resourceTemplates", Value::Array(listed));
        Ok(ListResourceTemplatesResult::default())
    }

    pub(super) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let context = Arc::new(context);
        if self.shared.info.capabilities.resources.is_none() {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
        // Without resources of its own, the server has issued no state.
        let has_own = !self.shared.server.offers.resources.is_empty();
        if let Some(foreign) = self.foreign(&context).filter(|_| !has_own) {
            let mut params = json!({"uri": uri});
            add_round(&mut params, input_responses, request_state);
            let result = self.request_foreign(&*foreign, OfferMethod::ReadResource, params, &context);
            self.respond(&context, result.await?);
            return Ok(ReadResourceResult::new(Vec::new()).into());
        }
        let bound = RequestBinding {
            method: "resources/read",
            name: &uri,
            arguments: None,
            client: RequestTools::client_of(&context),
        };
        let mut running = self.start_call(&context, input_responses, request_state.as_deref(), &bound)?;
        let tool_context = running.context();
        let read = async {
            for resources in &self.shared.server.offers.resources {
                if let Some(contents) = resources.read(&uri, &tool_context).await? {
                    return Ok(Some(contents));
                }
            }
            Ok(None)
        };
        match running.run(read).await {
            CallEnd::Done(Ok(Some(contents))) => {
                let contents = contents.into_iter().map(Value::from).collect();
                self.respond_cacheable(&context, "contents", Value::Array(contents));
            }
            CallEnd::Done(Ok(None)) => {
                if let Some(foreign) = self.foreign(&context) {
                    let params = json!({"uri": uri});
                    let result = self.request_foreign(&*foreign, OfferMethod::ReadResource, params, &context);
                    self.respond(&context, result.await?);
                    return Ok(ReadResourceResult::new(Vec::new()).into());
                }
                let about = Some(json!({"uri": uri}));
                return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "resource not found", about));
            }
            CallEnd::Done(Err(error)) => {
                let lacking = running.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            CallEnd::InputRequired => {
                self.respond(&context, self.input_required(&running, &bound));
            }
            CallEnd::Cancelled | CallEnd::Detaching => return Err(request_cancelled()),
            CallEnd::Panicked => return Err(panicked()),
        }
        Ok(ReadResourceResult::new(Vec::new()).into())
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        /// The maximum number of values in one response, by MCP.
        const MAX_COMPLETIONS: usize = 100;
        if self.shared.info.capabilities.completions.is_none() {
            return Err(ErrorData::method_not_found::<CompleteRequestMethod>());
        }
        let raw = serde_json::to_value(&request).unwrap_or_default();
        let others = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let completing = CompletionRequest {
            argument: request.argument.name,
            value: request.argument.value,
            others: others.into_iter().collect(),
        };
        let offers = &self.shared.server.offers;
        let mut values = match request.r#ref {
            Reference::Prompt(reference) => {
                let mut prompts = offers.prompts.iter();
                let Some((_, handler)) = prompts.find(|(prompt, _)| prompt.name == reference.name) else {
                    if let Some(foreign) = self.foreign(&context) {
                        return self.complete_foreign(&*foreign, raw, &context).await;
                    }
                    let text = format!("unknown prompt: `{}`", reference.name);
                    return Err(ErrorData::invalid_params(text, None));
                };
                handler.complete(&completing).await
            }
            Reference::Resource(reference) => {
                let has =
                    |template: &crate::resources::ResourceTemplate| template.uri_template == reference.uri;
                let mut all = offers.resources.iter();
                let Some(resources) = all.find(|resources| resources.templates().iter().any(has)) else {
                    if let Some(foreign) = self.foreign(&context) {
                        return self.complete_foreign(&*foreign, raw, &context).await;
                    }
                    let text = format!("unknown resource template: `{}`", reference.uri);
                    return Err(ErrorData::invalid_params(text, None));
                };
                resources.complete(&reference.uri, &completing).await
            }
            _ => return Err(ErrorData::invalid_params("unknown kind of `ref`", None)),
        };
        let total = values.len();
        values.truncate(MAX_COMPLETIONS);
        let completion = json!({"values": values, "total": total, "hasMore": total > MAX_COMPLETIONS});
        self.respond(&context, Map::from_iter([("completion".to_owned(), completion)]));
        Ok(CompleteResult::default())
    }
}
