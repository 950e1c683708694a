//! A request to one endpoint after another.

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::OwnedSemaphorePermit;
use toolwire_contract::model::{Model, ModelError, ModelEvent, ModelRequest};

use super::member::Member;
use super::{BalancedInner, may_succeed_elsewhere};

/// A request, and the endpoint that currently handles it.
pub(super) struct RequestInProgress<'m> {
    inner: &'m BalancedInner,
    request: ModelRequest,
    order: Vec<usize>,
    position: usize,
    current: Option<CurrentAttempt<'m>>,
    /// The last error that a provider has sent.
    refused: Option<ModelError>,
}

struct CurrentAttempt<'m> {
    events: BoxStream<'m, Result<ModelEvent, ModelError>>,
    member: &'m Member,
    has_begun: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<'m> RequestInProgress<'m> {
    /// Starts a request to the endpoints in this order.
    pub(super) fn new(
        inner: &'m BalancedInner,
        request: ModelRequest,
        order: Vec<usize>,
    ) -> RequestInProgress<'m> {
        RequestInProgress { inner, request, order, position: 0, current: None, refused: None }
    }

    /// Returns the next event. A request that fails before its response begins continues at the next
    /// endpoint. If all fail, the error is the last one that a provider has sent.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            let is_last = self.position + 1 >= self.order.len();
            let Some(current) = &mut self.current else {
                let member = &self.inner.members[*self.order.get(self.position)?];
                match member.enter(is_last).await {
                    Some(permit) => {
                        let events = member.endpoint.ask(self.request.clone());
                        self.current =
                            Some(CurrentAttempt { events, member, has_begun: false, _permit: permit });
                    }
                    None => {
                        self.position += 1;
                        self.inner.failed_over();
                    }
                }
                continue;
            };
            let event = current.events.next().await;
            match &event {
                Some(Ok(ModelEvent::Retrying { error, .. }) | Err(error)) if !current.has_begun => {
                    self.inner.attempted(Some(error.code()));
                }
                Some(Ok(_)) if !current.has_begun => self.inner.attempted(None),
                _ => {}
            }
            match &event {
                // Trying another endpoint is faster than waiting for a retry.
                Some(Ok(ModelEvent::Retrying { error, .. })) if !is_last && !current.has_begun => {
                    current.member.record(false);
                    self.refused = last_refusal(self.refused.take(), error);
                }
                Some(Err(error)) if !current.has_begun && may_succeed_elsewhere(error) => {
                    current.member.record(false);
                    self.refused = last_refusal(self.refused.take(), error);
                    if is_last {
                        return self.refused.take().map(Err).or(event);
                    }
                }
                Some(Ok(ModelEvent::Retrying { .. })) => return event,
                Some(Ok(_)) => {
                    if !std::mem::replace(&mut current.has_begun, true) {
                        current.member.record(true);
                    }
                    return event;
                }
                Some(Err(_)) | None => return event,
            }
            self.current = None;
            self.position += 1;
            self.inner.failed_over();
        }
    }
}

/// Returns the last error that a provider has sent: this one, or an earlier one.
fn last_refusal(earlier: Option<ModelError>, error: &ModelError) -> Option<ModelError> {
    match error {
        ModelError::Refused { .. } => Some(error.clone()),
        _ => earlier,
    }
}
