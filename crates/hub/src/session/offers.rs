//! Lists prompts and resources of a server, and requests them.

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older servers still use it")]

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{
    CancelTaskRequest, ClientRequest, CompleteRequest, GetPromptRequest, GetTaskRequest, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest,
    SubscribeRequest, SubscribeRequestParams, UpdateTaskRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolwire_contract::offers::{OfferKind, OfferMethod};

use super::{ProtocolEra, Session, SessionCall, SessionError};
use crate::client_service;

/// More than any real server has.
const MAX_OFFERS: usize = 10_000;
const MAX_PAGES: usize = 100;

/// A client waits for the lists of all servers, so it does not wait longer for one of them.
const MAX_LIST_TIME: Duration = Duration::from_secs(10);

const MAX_WATCHED: usize = 1_024;

impl Session {
    /// Whether the server has declared that it offers something of this kind.
    pub(crate) fn offers(&self, kind: OfferKind) -> bool {
        let capability = match kind {
            OfferKind::Prompt => "prompts",
            OfferKind::Resource | OfferKind::ResourceTemplate => "resources",
        };
        self.info.capabilities.get(capability).is_some_and(Value::is_object)
    }

    /// Lists what the server offers, page by page. An incomplete list is returned as it is.
    pub(crate) async fn list_offers(&self, kind: OfferKind) -> Result<Vec<Map<String, Value>>, SessionError> {
        let call = self.offer_call(self.list_timeout.min(MAX_LIST_TIME));
        let until = Instant::now() + call.max_total;
        let (mut offers, mut cursors) = (Vec::new(), HashSet::new());
        let mut cursor: Option<String> = None;
        let key = match kind {
            OfferKind::Prompt => "prompts",
            OfferKind::Resource => "resources",
            OfferKind::ResourceTemplate => "resourceTemplates",
        };
        loop {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = match kind {
                OfferKind::Prompt => {
                    ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..Default::default() })
                }
                OfferKind::Resource => {
                    ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..Default::default() })
                }
                OfferKind::ResourceTemplate => {
                    ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                        params,
                        ..Default::default()
                    })
                }
            };
            let (mut page, _) = self.request(request, &call, until).await?;
            let Some(listed) = page.get_mut(key).and_then(Value::as_array_mut).map(std::mem::take) else {
                return Err(SessionError::Malformed { reason: format!("`{key}` is not an array") });
            };
            offers.extend(listed.into_iter().filter_map(|offer| match offer {
                Value::Object(fields) => Some(fields),
                _ => None,
            }));
            let next = page.get("nextCursor").and_then(Value::as_str);
            match next {
                Some(next) if offers.len() < MAX_OFFERS && cursors.len() < MAX_PAGES => {
                    if !cursors.insert(next.to_owned()) {
                        return Ok(offers);
                    }
                    cursor = Some(next.to_owned());
                }
                _ => {
                    offers.truncate(MAX_OFFERS);
                    return Ok(offers);
                }
            }
        }
    }

    /// Sends a request about a prompt, a resource or a task, and returns the result as the server sent it. It
    /// may have questions (`input_required`), which the caller answers by another request.
    pub(crate) async fn request_offer(
        &self,
        method: OfferMethod,
        params: Map<String, Value>,
    ) -> Result<Map<String, Value>, SessionError> {
        let request = match method {
            OfferMethod::GetPrompt => ClientRequest::GetPromptRequest(GetPromptRequest::new(parse(params)?)),
            OfferMethod::ReadResource => {
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(parse(params)?))
            }
            OfferMethod::Complete => ClientRequest::CompleteRequest(CompleteRequest::new(parse(params)?)),
            OfferMethod::GetTask => ClientRequest::GetTaskRequest(GetTaskRequest::new(parse(params)?)),
            OfferMethod::UpdateTask => {
                ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(parse(params)?))
            }
            OfferMethod::CancelTask => {
                ClientRequest::CancelTaskRequest(CancelTaskRequest::new(parse(params)?))
            }
            OfferMethod::Subscribe => {
                let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
                return self.watch_resource(uri).await.map(|()| Map::new());
            }
        };
        let is_about_task =
            matches!(method, OfferMethod::GetTask | OfferMethod::UpdateTask | OfferMethod::CancelTask);
        let call = SessionCall { accepts_task: is_about_task, ..self.offer_call(self.list_timeout) };
        let (result, _) = self.request(request, &call, Instant::now() + call.max_total).await?;
        match result {
            Value::Object(fields) if method == OfferMethod::GetTask => self.answer_roots(fields).await,
            Value::Object(fields) => Ok(fields),
            _ => Err(SessionError::Malformed { reason: "the result is not an object".into() }),
        }
    }

    /// Answers the questions of a task about folders, as for every other request of the server, and removes
    /// them from its status.
    async fn answer_roots(&self, mut status: Map<String, Value>) -> Result<Map<String, Value>, SessionError> {
        let Some(questions) = status.get_mut("inputRequests").and_then(Value::as_object_mut) else {
            return Ok(status);
        };
        let is_about_roots =
            |question: &Value| question.get("method").and_then(Value::as_str) == Some("roots/list");
        let mut replies = Map::new();
        questions.retain(|key, question| {
            let is_answered = is_about_roots(question);
            if is_answered {
                replies.insert(key.clone(), client_service::roots(&*self.host, &self.server));
            }
            !is_answered
        });
        if replies.is_empty() {
            return Ok(status);
        }
        if questions.is_empty() {
            status.remove("inputRequests");
            status.insert("status".to_owned(), "working".into());
        }
        let mut params = Map::new();
        params.insert("taskId".to_owned(), status.get("taskId").cloned().unwrap_or_default());
        params.insert("inputResponses".to_owned(), Value::Object(replies));
        Box::pin(self.request_offer(OfferMethod::UpdateTask, params)).await?;
        Ok(status)
    }

    /// Has the server report the changes of a resource. Nothing ends it before the session, because other
    /// clients may be interested in the same resource.
    pub(crate) async fn watch_resource(&self, uri: &str) -> Result<(), SessionError> {
        let is_new = self.watched.send_if_modified(|watched| {
            let is_new = watched.len() < MAX_WATCHED && !watched.iter().any(|known| known == uri);
            if is_new {
                watched.push(uri.to_owned());
            }
            is_new
        });
        // Since the newer era, the subscription contains the URIs.
        if !is_new || self.info.era == ProtocolEra::Modern {
            return Ok(());
        }
        let call = self.offer_call(self.list_timeout);
        let request = SubscribeRequest::new(SubscribeRequestParams::new(uri));
        let request = ClientRequest::SubscribeRequest(request);
        self.request(request, &call, Instant::now() + call.max_total).await.map(drop)
    }

    pub(super) fn offer_call(&self, timeout: Duration) -> SessionCall {
        SessionCall {
            timeout,
            max_total: timeout,
            progress: None,
            trace: None,
            elicitation: None,
            sampling: None,
            log: None,
            owner: None,
            accepts_task: false,
        }
    }
}

fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, SessionError> {
    serde_json::from_value(Value::Object(params)).map_err(|error| SessionError::Rejected {
        code: i64::from(rmcp::model::ErrorCode::INVALID_PARAMS.0),
        message: format!("invalid parameters: {error}"),
    })
}
