//! The one task behind a session: it holds the SDK's service and the process, and ends both.

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
use crate::transport::stdio::Process;
use crate::transport::{Ending, Link};
use crate::wire::Client;

/// How long telling a server that a call is cancelled may take.
const TELLING: Duration = Duration::from_secs(1);

pub(super) struct Keeper {
    pub(super) running: RunningService<RoleClient, Client>,
    pub(super) process: Option<Process>,
    pub(super) link: Arc<Link>,
    pub(super) abandoned: mpsc::Receiver<(RequestId, &'static str)>,
    pub(super) stop: CancellationToken,
    /// Whom to tell of changes that only a subscription brings.
    pub(super) subscriber: Option<mpsc::Sender<SessionEvent>>,
}

impl Keeper {
    pub(super) async fn keep(self) {
        let Keeper { running, process, link, mut abandoned, stop, subscriber } = self;
        let peer = running.peer().clone();
        let mut cancel = Some(running.cancellation_token());
        let mut over = std::pin::pin!(running.waiting());
        let mut ended = std::pin::pin!(link.ended());
        let mut listening = std::pin::pin!(async {
            if let Some(events) = &subscriber {
                listen(&peer, events).await;
            }
            std::future::pending::<()>().await;
        });
        let mut ending = false;
        loop {
            tokio::select! {
                _ = &mut over => break,
                () = stop.cancelled(), if !ending => {
                    ending = true;
                    // Calls that were given up before are still told of: they may be why there is an end.
                    let rest = async {
                        while let Ok((id, reason)) = abandoned.try_recv() {
                            tell(&peer, id, reason).await;
                        }
                    };
                    let _ = timeout(TELLING, rest).await;
                    link.end(Ending::Closed);
                    if let Some(cancel) = cancel.take() {
                        cancel.cancel();
                    }
                }
                _ = &mut ended, if !ending => {
                    ending = true;
                    if let Some(cancel) = cancel.take() {
                        cancel.cancel();
                    }
                }
                Some((id, reason)) = abandoned.recv(), if !ending => {
                    let _ = timeout(TELLING, tell(&peer, id, reason)).await;
                }
                () = &mut listening, if !ending => {}
            }
        }
        link.end(Ending::StreamEnded { reason: "the transport gave up".into() });
        if let Some(process) = process {
            process.stop().await;
        }
    }
}

/// Tells the server that nobody waits for an answer any more.
async fn tell(peer: &Peer<RoleClient>, id: RequestId, reason: &str) {
    let params = CancelledNotificationParam::new(Some(id), Some(reason.into()));
    // The caller has long gone on; all that is lost is a hint.
    let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
}

/// Subscribes to changes of the tools, for as long as the server lets us. Returns when it does not know how.
async fn listen(peer: &Peer<RoleClient>, events: &mpsc::Sender<SessionEvent>) {
    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(60);
    let mut pause = SHORTEST;
    let mut missed = false;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                // What changed while nobody listened is not told again.
                if std::mem::take(&mut missed) {
                    let _ = events.try_send(SessionEvent::ToolsChanged);
                }
                while let Ok(Some(notification)) = subscription.next().await {
                    pause = SHORTEST;
                    if let ServerNotification::ToolListChangedNotification(_) = notification {
                        let _ = events.try_send(SessionEvent::ToolsChanged);
                    }
                }
            }
            Err(rmcp::ServiceError::McpError(_)) => return,
            Err(_) => {}
        }
        missed = true;
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}
