//! The prompts and resources that a key may use: those of its servers.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use toolwire_contract::keys::KeyRights;
use toolwire_contract::offers::{
    Offer, OfferChange, OfferKind, OfferMethod, OfferRequest, OfferRequestError, ServerFilter, ServerOffers,
};

use super::running::Lifetime;
use crate::screened_tools::screen;

pub(crate) struct PermittedOffers {
    pub(crate) offers: Arc<dyn ServerOffers>,
    pub(crate) rights: Option<Arc<KeyRights>>,
    pub(crate) lifetime: Lifetime,
    /// Whether the results of tools are screened, also those of tasks.
    pub(crate) screens_tasks: bool,
}

impl PermittedOffers {
    fn permits(&self, server: &str) -> bool {
        self.rights.as_ref().is_none_or(|rights| rights.permits_server(server))
    }
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

    fn changes(&self) -> BoxStream<'static, OfferChange> {
        self.offers.changes()
    }
}
