//! The prompts and resources that a key may use: those of its servers.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_contract::keys::KeyRights;
use toolwire_contract::offers::{
    Offer, OfferChange, OfferKind, OfferMethod, OfferRequest, OfferRequestError, ServerFilter, ServerOffers,
    TaskTool,
};
use toolwire_contract::toolbox::Toolbox;

use super::running::Lifetime;
use crate::screened_tools::screen;

pub(crate) struct PermittedOffers {
    pub(crate) offers: Arc<dyn ServerOffers>,
    pub(crate) rights: Option<Arc<KeyRights>>,
    pub(crate) lifetime: Lifetime,
    /// Whether the results of tools are screened, also those of tasks.
    pub(crate) screens_tasks: bool,
    /// The tools that the client may use now; `None` if the rules cannot change while the process runs.
    pub(crate) tools: Option<Arc<dyn Toolbox>>,
}

impl PermittedOffers {
    fn permits(&self, server: &str) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.permits_server(server))
    }

    /// Checks that the client may still use the tool of a task. The rules may have changed since the call.
    fn check_task(&self, request: &OfferRequest) -> Result<(), OfferRequestError> {
        let Some(tools) = self.tools.as_ref().filter(|_| is_about_task(request.method)) else {
            return Ok(());
        };
        let id = request.params.get("taskId").and_then(Value::as_str);
        let unknown =
            || OfferRequestError::InvalidParameters { problem: "unknown or expired task".to_owned() };
        let TaskTool { server, name } = id.and_then(|id| self.offers.tool_of_task(id)).ok_or_else(unknown)?;
        let is_tool = |listed: &Tool| {
            tools.server_of(&listed.name).is_some_and(|of| of.name == server)
                && tools.original_name(&listed.name).unwrap_or_else(|| listed.name.clone()) == name
        };
        if tools.tools().iter().any(is_tool) {
            return Ok(());
        }
        // The tools of a server that is not connected may not be listed, and the task may still exist.
        let mut missing = tools.missing_servers().into_iter();
        match missing.find(|missing| missing.server == server && self.permits(&server)) {
            Some(missing) => Err(OfferRequestError::Failed { server, reason: missing.reason }),
            None => Err(unknown()),
        }
    }
}

fn is_about_task(method: OfferMethod) -> bool {
    matches!(method, OfferMethod::GetTask | OfferMethod::UpdateTask | OfferMethod::CancelTask)
}

impl ServerOffers for PermittedOffers {
    fn list<'a>(&'a self, kind: OfferKind, permits: &'a ServerFilter<'a>) -> BoxFuture<'a, Vec<Offer>> {
        Box::pin(async move {
            let both = |server: &str| self.permits(server) && permits(server);
            self.offers.list(kind, &both).await
        })
    }

    fn request<'a>(
        &'a self,
        request: OfferRequest,
        permits: &'a ServerFilter<'a>,
    ) -> BoxFuture<'a, Result<Map<String, Value>, OfferRequestError>> {
        Box::pin(async move {
            self.check_task(&request)?;
            let both = |server: &str| self.permits(server) && permits(server);
            let is_screened = self.screens_tasks && request.method == OfferMethod::GetTask;
            let outcome = self.lifetime.run(self.offers.request(request, &both)).await;
            let outcome = outcome.unwrap_or_else(|| {
                let problem = "the client is gone, or its key is no longer valid".to_owned();
                Err(OfferRequestError::InvalidParameters { problem })
            });
            let mut result = outcome?;
            if is_screened {
                result.values_mut().for_each(|value| {
                    screen(value);
                });
            }
            Ok(result)
        })
    }

    fn tool_of_task(&self, id: &str) -> Option<TaskTool> {
        self.offers.tool_of_task(id)
    }

    fn changes(&self) -> BoxStream<'static, OfferChange> {
        self.offers.changes()
    }
}
