//! The background task of a session: it owns the SDK's service and the process, and ends both.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, RequestId, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{Peer, RunningService};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

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
    pub(super) subscriber: Option<mpsc::Sender<SessionEvent>>,
}

impl SessionTask {
    pub(super) async fn run(self) {
        let SessionTask { service, process, connection, mut abandoned, stop, subscriber } = self;
        let peer = service.peer().clone();
        let cancel = service.cancellation_token();
        let mut service_ended = std::pin::pin!(service.waiting());
        let mut connection_ended = std::pin::pin!(connection.ended());
        let mut listening = std::pin::pin!(async {
            if let Some(events) = &subscriber {
                subscribe(&peer, events).await;
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

/// Subscribes to changes of the tools, and renews the subscription. Returns if the server does not support
/// it.
async fn subscribe(peer: &Peer<RoleClient>, events: &mpsc::Sender<SessionEvent>) {
    let mut delay = MIN_RESUBSCRIBE_DELAY;
    let mut was_interrupted = false;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                // Changes during the interruption are not reported again.
                if std::mem::take(&mut was_interrupted) {
                    let _ = events.try_send(SessionEvent::ToolsChanged);
                }
                while let Ok(Some(notification)) = subscription.next().await {
                    delay = MIN_RESUBSCRIBE_DELAY;
                    if let ServerNotification::ToolListChangedNotification(_) = notification {
                        let _ = events.try_send(SessionEvent::ToolsChanged);
                    }
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
