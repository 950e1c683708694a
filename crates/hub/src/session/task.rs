//! The background task of a session: it owns the SDK's service and the process, and ends both.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, RequestId, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{Peer, RunningService};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolwire_contract::offers::OfferChange;

use super::SessionEvent;
use crate::client_service::ClientService;
use crate::transport::stdio::ServerProcess;
use crate::transport::{Connection, ConnectionEnd};

/// The maximum time for notifying a server of cancelled calls.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The pauses before a subscription is renewed.
const MIN_RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);
const MAX_RESUBSCRIBE_DELAY: Duration = Duration::from_secs(60);

pub(super) struct SessionTask {
    pub(super) service: RunningService<RoleClient, ClientService>,
    pub(super) process: Option<ServerProcess>,
    pub(super) connection: Arc<Connection>,
    pub(super) abandoned: mpsc::Receiver<(RequestId, &'static str)>,
    pub(super) stop: CancellationToken,
    /// Receives the changes that the server reports only to subscribers.
    pub(super) subscriber: Option<Subscriber>,
}

/// The receiver of changes, for servers of the newer era.
pub(super) struct Subscriber {
    pub(super) events: mpsc::Sender<SessionEvent>,
    pub(super) capabilities: Value,
    /// The URIs of the resources whose changes are of interest.
    pub(super) watched: watch::Receiver<Vec<String>>,
}

impl Subscriber {
    fn filter(&mut self) -> Option<SubscriptionFilter> {
        let reports = |list: &str| {
            self.capabilities.pointer(&format!("/{list}/listChanged")).and_then(Value::as_bool) == Some(true)
        };
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = reports("tools").then_some(true);
        filter.prompts_list_changed = reports("prompts").then_some(true);
        filter.resources_list_changed = reports("resources").then_some(true);
        let watched = self.watched.borrow_and_update().clone();
        filter.resource_subscriptions = (!watched.is_empty()).then_some(watched);
        (filter != SubscriptionFilter::new()).then_some(filter)
    }

    /// Reports everything that may have changed while nothing was reported.
    fn report_interruption(&self) {
        let events = [
            SessionEvent::ToolsChanged,
            SessionEvent::OffersChanged(OfferChange::Prompts),
            SessionEvent::OffersChanged(OfferChange::Resources),
        ];
        for event in events {
            let _ = self.events.try_send(event);
        }
    }
}

impl SessionTask {
    pub(super) async fn run(self) {
        let SessionTask { service, process, connection, mut abandoned, stop, mut subscriber } = self;
        let peer = service.peer().clone();
        let cancel = service.cancellation_token();
        let mut service_ended = std::pin::pin!(service.waiting());
        let mut connection_ended = std::pin::pin!(connection.ended());
        let mut listening = std::pin::pin!(async {
            if let Some(subscriber) = &mut subscriber {
                subscribe(&peer, subscriber).await;
            }
            std::future::pending::<()>().await;
        });
        let is_service_running = loop {
            tokio::select! {
                _ = &mut service_ended => break false,
                () = stop.cancelled() => {
                    // Calls that were abandoned before are still reported to the server.
                    let rest = async {
                        while let Ok((id, reason)) = abandoned.try_recv() {
                            notify_cancelled(&peer, id, reason).await;
                        }
                    };
                    let _ = timeout(NOTIFY_TIMEOUT, rest).await;
                    connection.set_ended(ConnectionEnd::Closed);
                    break true;
                }
                _ = &mut connection_ended => break true,
                Some((id, reason)) = abandoned.recv() => {
                    let _ = timeout(NOTIFY_TIMEOUT, notify_cancelled(&peer, id, reason)).await;
                }
                () = &mut listening => {}
            }
        };
        if is_service_running {
            cancel.cancel();
            let _ = service_ended.await;
        }
        connection.set_ended(ConnectionEnd::StreamEnded { reason: "the transport stopped".into() });
        if let Some(process) = process {
            process.stop().await;
        }
    }
}

/// Notifies the server that the client no longer waits for a response.
async fn notify_cancelled(peer: &Peer<RoleClient>, id: RequestId, reason: &str) {
    let params = CancelledNotificationParam::new(Some(id), Some(reason.into()));
    // The notification is optional, and the caller does not wait for it.
    let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
}

/// Returns the event of a notification about a change.
pub(crate) fn change_event(notification: &ServerNotification) -> Option<SessionEvent> {
    match notification {
        ServerNotification::ToolListChangedNotification(_) => Some(SessionEvent::ToolsChanged),
        ServerNotification::PromptListChangedNotification(_) => {
            Some(SessionEvent::OffersChanged(OfferChange::Prompts))
        }
        ServerNotification::ResourceListChangedNotification(_) => {
            Some(SessionEvent::OffersChanged(OfferChange::Resources))
        }
        ServerNotification::ResourceUpdatedNotification(updated) => {
            Some(SessionEvent::OffersChanged(OfferChange::Resource(updated.params.uri.clone())))
        }
        _ => None,
    }
}

/// Subscribes to changes, and renews the subscription. Returns if the server does not support it.
async fn subscribe(peer: &Peer<RoleClient>, subscriber: &mut Subscriber) {
    let mut delay = MIN_RESUBSCRIBE_DELAY;
    let mut was_interrupted = false;
    loop {
        let Some(filter) = subscriber.filter() else {
            if subscriber.watched.changed().await.is_err() {
                return;
            }
            continue;
        };
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                // Changes during the interruption are not reported again.
                if std::mem::take(&mut was_interrupted) {
                    subscriber.report_interruption();
                }
                let has_other_filter = loop {
                    tokio::select! {
                        next = subscription.next() => match next {
                            Ok(Some(notification)) => {
                                delay = MIN_RESUBSCRIBE_DELAY;
                                if let Some(event) = change_event(&notification) {
                                    let _ = subscriber.events.try_send(event);
                                }
                            }
                            _ => break false,
                        },
                        changed = subscriber.watched.changed() => break changed.is_ok(),
                    }
                };
                if has_other_filter {
                    continue;
                }
            }
            Err(rmcp::ServiceError::McpError(_)) => return,
            Err(_) => {}
        }
        was_interrupted = true;
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RESUBSCRIBE_DELAY);
    }
}
