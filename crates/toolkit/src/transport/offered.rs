//! What is offered beside tools: prompts, resources, and what completes their arguments.

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

use super::caller::End;
use super::connection::{Bound, Connection, given_up, is_modern, only_page, panicked};
use crate::resources::Completing;
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
        only_page(request)?;
        let prompts = self.shared.server.offers.prompts.iter().map(|(prompt, _)| prompt.to_json()).collect();
        self.keepable(&context, "prompts", Value::Array(prompts));
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
            let text = format!("the prompt `{name}` needs {}", missing.join(" and "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let bound = Bound { method: "prompts/get", name: &name, arguments: arguments.as_ref() };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let answer = match desk.run(handler.get(given, &ours)).await {
            End::Done(Ok(prompted)) => prompted.into_json(),
            End::Done(Err(error)) => {
                let lacking = desk.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            End::Asked => self.questions(&desk, &bound),
            End::GivenUp | End::Detaching => return Err(given_up()),
            End::Panicked => return Err(panicked()),
        };
        self.answer(&context, answer);
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
        only_page(request)?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.list());
        let listed = all.map(super::listed_resource).collect();
        self.keepable(&context, "resources", Value::Array(listed));
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
        only_page(request)?;
        let all = self.shared.server.offers.resources.iter().flat_map(|resources| resources.templates());
        let listed = all.map(|template| template.to_json()).collect();
        self.keepable(&context, "resourceTemplates", Value::Array(listed));
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
        let bound = Bound { method: "resources/read", name: &uri, arguments: None };
        let mut desk = self.desk(&context, input_responses, request_state.as_deref(), &bound)?;
        let ours = desk.context();
        let read = async {
            for resources in &self.shared.server.offers.resources {
                if let Some(contents) = resources.read(&uri, &ours).await? {
                    return Ok(Some(contents));
                }
            }
            Ok(None)
        };
        match desk.run(read).await {
            End::Done(Ok(Some(contents))) => {
                let contents = contents.into_iter().map(Value::from).collect();
                self.keepable(&context, "contents", Value::Array(contents));
            }
            End::Done(Ok(None)) => {
                let about = Some(json!({"uri": uri}));
                return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "resource not found", about));
            }
            End::Done(Err(error)) => {
                let lacking = desk.lacking().filter(|_| is_modern(&context));
                return Err(lacking.map_or_else(
                    || wire::offer_error(error),
                    ErrorData::missing_required_client_capability,
                ));
            }
            End::Asked => {
                self.answer(&context, self.questions(&desk, &bound));
            }
            End::GivenUp | End::Detaching => return Err(given_up()),
            End::Panicked => return Err(panicked()),
        }
        Ok(ReadResourceResult::new(Vec::new()).into())
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        /// MCP allows no more in one answer.
        const MOST: usize = 100;
        if self.shared.info.capabilities.completions.is_none() {
            return Err(ErrorData::method_not_found::<CompleteRequestMethod>());
        }
        let others = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let completing = Completing {
            argument: request.argument.name,
            value: request.argument.value,
            others: others.into_iter().collect(),
        };
        let offers = &self.shared.server.offers;
        let mut values = match request.r#ref {
            Reference::Prompt(reference) => {
                let mut prompts = offers.prompts.iter();
                let Some((_, handler)) = prompts.find(|(prompt, _)| prompt.name == reference.name) else {
                    let text = format!("unknown prompt: `{}`", reference.name);
                    return Err(ErrorData::invalid_params(text, None));
                };
                handler.complete(&completing).await
            }
            Reference::Resource(reference) => {
                let has = |template: &crate::ResourceTemplate| template.uri_template == reference.uri;
                let mut all = offers.resources.iter();
                let Some(resources) = all.find(|resources| resources.templates().iter().any(has)) else {
                    let text = format!("unknown resource template: `{}`", reference.uri);
                    return Err(ErrorData::invalid_params(text, None));
                };
                resources.complete(&reference.uri, &completing).await
            }
            _ => return Err(ErrorData::invalid_params("`ref` is of a kind that is not known here", None)),
        };
        let total = values.len();
        values.truncate(MOST);
        let completion = json!({"values": values, "total": total, "hasMore": total > MOST});
        self.answer(&context, Map::from_iter([("completion".to_owned(), completion)]));
        Ok(CompleteResult::default())
    }
}
