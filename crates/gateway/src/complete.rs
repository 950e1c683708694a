//! Handles a request to a model: forwards it, or runs the tool loop.

mod history;
mod respond;
mod settings;
mod start;

use std::sync::Arc;

use futures::future::BoxFuture;
use http::HeaderMap;
use tokio::time::Instant;
use toolwire_dialect::Family;

use crate::gateway::{Caller, Inner};
use crate::large_bodies::is_large;
use crate::prepare::Prepared;
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse};
use crate::state::{Purpose, SavedRequest, record_forwarded};
use respond::Storage;
pub(crate) use start::StoredParts;

/// How a request is handled.
enum Plan {
    /// The provider gets it.
    Forward(BoxFuture<'static, Result<HttpResponse, Failure>>),
    /// The gateway runs it.
    Run(Box<Prepared>),
}

impl Inner {
    /// Handles a request to a model.
    pub(crate) async fn complete(
        self: &Arc<Inner>,
        family: Family,
        mut caller: Caller,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        let recording = self.recording(family, &caller.principal, &body)?;
        let is_background = self.is_background(family, &body, recording.as_ref())?;
        if is_background {
            caller.hold.keep(self.admission.enter_background(&caller.principal)?);
            caller.deadline = Instant::now() + self.settings.limits.background_timeout;
            caller.client_deadline = None;
        }
        let (body, mut continuation) = match family {
            Family::OpenAiResponses => {
                self.continue_conversation(&caller.principal, body, Purpose::Respond).await?
            }
            _ => (body, None),
        };
        let recording = match &mut continuation {
            Some(continuation) => recording.map(|recording| recording.continuing(continuation)),
            None => recording,
        };
        let (body, saved) = match is_background {
            true => {
                let body = RequestBody::read(body.without("background"))?;
                let saved = SavedRequest::new(&caller.request_id, headers, &body);
                (body, saved.filter(|_| !caller.principal.has_credentials()))
            }
            false => (body, None),
        };
        // The provider does not know the ids of items that the gateway has written.
        let may_forward =
            !is_background && continuation.as_ref().is_none_or(|continuation| !continuation.has_own_items);
        let (caller, plan) = match is_large(body.len()) {
            false => {
                let plan = self.plan(family, &caller, headers, &body, may_forward);
                (caller, plan)
            }
            true => {
                let (inner, headers) = (self.clone(), headers.clone());
                let read = move || {
                    let plan = inner.plan(family, &caller, &headers, &body, may_forward);
                    (caller, plan)
                };
                self.large_bodies.run(read).await?
            }
        };
        let plan = match &continuation {
            Some(continuation) => plan.map_err(|failure| continuation.own_positions_in(failure)),
            None => plan,
        };
        match plan? {
            Plan::Forward(forward) => {
                let response = forward.await?;
                Ok(match recording {
                    Some(recording) => record_forwarded(response, recording).await,
                    None => response,
                })
            }
            Plan::Run(prepared) => {
                let storage = Storage { continuation, recording, request: saved };
                // On the heap: without optimizations, the states of all steps together are too large for the stack.
                Box::pin(self.run_prepared(family, caller, *prepared, is_background, storage)).await
            }
        }
    }

    /// Reads a request, and decides how it is handled. `may_forward`: whether the provider may get it unchanged.
    fn plan(
        &self,
        family: Family,
        caller: &Caller,
        headers: &HeaderMap,
        body: &RequestBody,
        may_forward: bool,
    ) -> Result<Plan, Failure> {
        self.check_provider_state(&caller.principal, body)?;
        let forward = match may_forward {
            true => self.forward_unchanged(family, caller, headers, body)?,
            false => None,
        };
        Ok(match forward {
            Some(forward) => Plan::Forward(forward),
            None => Plan::Run(Box::new(self.prepare(family, &caller.principal, headers, body)?)),
        })
    }
}
