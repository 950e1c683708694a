//! Responds to a request that the gateway runs.

use std::sync::Arc;

use http::header::HeaderValue;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ErrorKind, ResponseWriter};

use super::start::StoredParts;
use crate::gateway::{Caller, Inner};
use crate::items::ClientItems;
use crate::paused_runs::missing_decision;
use crate::prepare::Prepared;
use crate::response::{DROPPED, Failure, HttpResponse, UNAVAILABLE, bounded_list};
use crate::response_in_progress::ResponseInProgress;
use crate::state::{BackgroundResponse, CallGate, Continuation, Recording, SavedRequest};

/// What is stored before and after a response.
pub(super) struct Storage {
    /// The response that the request continues.
    pub(super) continuation: Option<Continuation>,
    /// Stores the response.
    pub(super) recording: Option<Recording>,
    /// The request, from which another gateway can continue a response in the background.
    pub(super) request: Option<SavedRequest>,
}

impl Inner {
    /// Runs a request, and responds to it.
    pub(super) async fn run_prepared(
        self: &Arc<Inner>,
        family: Family,
        caller: Caller,
        mut prepared: Prepared,
        is_background: bool,
        storage: Storage,
    ) -> Result<HttpResponse, Failure> {
        let Storage { continuation, recording, request } = storage;
        use_own_positions(&mut prepared, continuation.as_ref())?;
        let head = &mut prepared.head;
        head.request_id.clone_from(&caller.request_id);
        head.is_background = is_background;
        if let Some(continuation) = &continuation {
            let (key, value) = continuation.echo();
            head.echo.insert(key.to_owned(), value);
        }
        if let Some(recording) = &recording {
            head.echo.insert("store".to_owned(), recording.stores_response.into());
        }
        let decisions = &prepared.client.approvals;
        let pause = match decisions.is_empty() && continuation.is_none() {
            true => None,
            false => self.claim_pause(&caller.principal, decisions, continuation.as_ref()).await?,
        };
        // Decisions apply once, so another gateway cannot continue a response with decisions.
        let request = request.filter(|_| prepared.client.approvals.is_empty());
        self.connect_servers(family, &caller, &mut prepared).await?;
        let dropped = bounded_list(&prepared.dropped);
        let is_stream = prepared.client.stream;
        let writer = ResponseWriter::new(family, prepared.head.clone()).ok_or_else(|| {
            Failure::new(ErrorKind::Internal, "the gateway cannot write responses of this API")
        })?;
        let items = prepared
            .stores_items
            .then(|| ClientItems { items: self.items.clone(), principal: caller.principal.clone() });
        let request_id = caller.request_id.clone();
        let (gate, calls) = match is_background {
            true => Some(CallGate::new()).unzip(),
            false => (None, None),
        };
        let response_id = recording.as_ref().map(|_| prepared.head.id.clone());
        let parts = StoredParts { response_id, continuation, pause, gate, resumed: None };
        let (principal, hold, id) = (caller.principal.clone(), caller.hold.clone(), prepared.head.id.clone());
        let exchange = self.start(family, caller, prepared, parts)?;
        let unavailable = bounded_list(&exchange.unavailable_servers());
        let mut response = match (calls, recording) {
            (Some(gate), Some(recording)) => {
                let recording = recording.of_gateway();
                let parts = BackgroundResponse {
                    exchange,
                    writer,
                    id,
                    recording,
                    items,
                    gate,
                    hold,
                    request,
                    is_stream,
                };
                self.begin_background(&principal, parts).await?
            }
            (_, recording) => {
                let heartbeat = self.settings.limits.heartbeat;
                let response =
                    ResponseInProgress::new(exchange, writer, heartbeat, request_id, items, recording);
                match is_stream {
                    true => response.stream().await?,
                    false => response.whole(family).await?,
                }
            }
        };
        add_lists(&mut response, &dropped, unavailable);
        Ok(response)
    }

    /// Waits for the servers of a request, and connects those that it names.
    pub(crate) async fn connect_servers(
        &self,
        family: Family,
        caller: &Caller,
        prepared: &mut Prepared,
    ) -> Result<(), Failure> {
        self.wait_for_servers(caller, &prepared.client, &prepared.options.selection).await;
        prepared.named =
            self.name_servers(family, caller, &prepared.client, &prepared.options.selection).await?;
        let servers = &prepared.client.hosted_servers;
        self.check_selection(&caller.principal, &prepared.options, servers, &prepared.named)?;
        prepared.dropped.append(&mut prepared.named.ignored);
        Ok(())
    }
}

/// Changes the positions of decisions to those in the request itself, because it was read together with the
/// items that it continues. Fails if a decision is missing.
fn use_own_positions(prepared: &mut Prepared, continuation: Option<&Continuation>) -> Result<(), Failure> {
    let own = |position: &str| match continuation {
        Some(continuation) => continuation.own_position(position),
        None => position.to_owned(),
    };
    for approval in &mut prepared.client.approvals {
        approval.parameter = own(&approval.parameter);
    }
    match &prepared.client.open_approval {
        Some(open) => Err(missing_decision(&open.request_id, &own(&open.parameter))),
        None => Ok(()),
    }
}

/// Adds the headers that list what could not be converted, and which servers are unavailable.
fn add_lists(response: &mut HttpResponse, dropped: &str, unavailable: String) {
    let of_response = response.headers().get(DROPPED).and_then(|names| names.to_str().ok());
    let dropped = [Some(dropped).filter(|names| !names.is_empty()), of_response];
    let dropped = dropped.into_iter().flatten().collect::<Vec<_>>().join(", ");
    for (name, list) in [(DROPPED, dropped), (UNAVAILABLE, unavailable)] {
        if let Ok(value) = HeaderValue::from_str(&list)
            && !value.is_empty()
        {
            response.headers_mut().insert(name, value);
        }
    }
}
