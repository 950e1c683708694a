//! Prompts and resources of other servers, which are passed on as they are.

use std::sync::Arc;

use rmcp::model::{CompleteResult, ErrorCode, SubscribeRequestParams};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use toolwire_contract::offers::{OfferKind, OfferMethod, OfferRequest, OfferRequestError, ServerOffers};

use super::connection::{Connection, is_modern, request_cancelled};
use super::foreign_rounds::round_binding;

impl Connection {
    /// Returns the prompts and resources of other servers that a request may use.
    pub(super) fn foreign(&self, context: &RequestContext<RoleServer>) -> Option<Arc<dyn ServerOffers>> {
        self.server_for(context).offers.foreign.clone()
    }

    /// Lists what other servers offer.
    pub(super) async fn list_foreign(
        &self,
        kind: OfferKind,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<Value>, ErrorData> {
        let server = self.server_for(context);
        let Some(foreign) = &server.offers.foreign else { return Ok(Vec::new()) };
        let listing = async {
            server.wait_until_started().await;
            foreign.list(kind, &every).await
        };
        let listed = tokio::select! {
            listed = listing => listed,
            () = context.ct.cancelled() => return Err(request_cancelled()),
        };
        Ok(listed.into_iter().map(|offer| Value::Object(offer.definition)).collect())
    }

    /// Requests a prompt, a resource or a completion of another server, and returns its result.
    pub(super) async fn request_foreign(
        &self,
        foreign: &dyn ServerOffers,
        method: OfferMethod,
        params: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Map<String, Value>, ErrorData> {
        let Value::Object(mut params) = params else {
            return Err(ErrorData::invalid_params("the parameters are not an object", None));
        };
        // The keys of this request mean nothing to the other server.
        params.shift_remove("_meta");
        let bound = round_binding(method, &params, context);
        self.open_round(&mut params, &bound)?;
        let request = OfferRequest { method, params };
        let outcome = tokio::select! {
            outcome = foreign.request(request, &every) => outcome,
            () = context.ct.cancelled() => return Err(request_cancelled()),
        };
        let mut result = outcome.map_err(offer_request_error)?;
        // They belong to the connection with the other server.
        match result.shift_remove("resultType") {
            Some(kind) if kind == "input_required" => self.seal_round(&mut result, &bound, context)?,
            _ => {}
        }
        // A task has a `ttlMs` of its own.
        if method != OfferMethod::GetTask {
            result.shift_remove("ttlMs");
            result.shift_remove("cacheScope");
        }
        let is_complete = !result.contains_key("resultType");
        if method == OfferMethod::ReadResource && is_modern(context) && is_complete {
            self.add_caching(&mut result);
        }
        Ok(result)
    }

    /// Responds with the completions of another server.
    pub(super) async fn complete_foreign(
        &self,
        foreign: &dyn ServerOffers,
        params: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let result = self.request_foreign(foreign, OfferMethod::Complete, params, context).await?;
        self.respond(context, result);
        Ok(CompleteResult::default())
    }

    /// Has the other servers report the changes of a resource.
    pub(super) async fn subscribe_to_foreign(
        &self,
        request: &SubscribeRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let resources = &self.shared.server.offers.resources;
        let is_own = resources.iter().flat_map(|own| own.list()).any(|own| own.uri == request.uri);
        match self.foreign(context).filter(|_| !is_own) {
            Some(foreign) => {
                let params = json!({"uri": request.uri});
                self.request_foreign(&*foreign, OfferMethod::Subscribe, params, context).await.map(drop)
            }
            None => Ok(()),
        }
    }
}

/// Permits every server: the application has restricted the offers before.
fn every(_server: &str) -> bool {
    true
}

fn offer_request_error(error: OfferRequestError) -> ErrorData {
    match error {
        OfferRequestError::UnknownResource { uri } => {
            ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "resource not found", Some(json!({"uri": uri})))
        }
        OfferRequestError::Refused { code, message, .. } => {
            let code = i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
            ErrorData::new(ErrorCode(code), message, None)
        }
        OfferRequestError::UnknownPrompt { .. } | OfferRequestError::InvalidParameters { .. } => {
            ErrorData::invalid_params(error.to_string(), None)
        }
        _ => ErrorData::internal_error(error.to_string(), None),
    }
}
