//! Change notifications and subscriptions.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rmcp::model::{
    ResourceUpdatedNotificationParam, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::SubscriptionContext;
use rmcp::{ErrorData, Peer, RoleServer};
use tokio::sync::broadcast::{self, error::RecvError};

use super::connection::Connection;
use crate::changes::Change;

/// The maximum number of subscriptions between acknowledgement and start.
const MAX_PENDING_SUBSCRIPTIONS: usize = 16;

/// The maximum number of resources that one client can subscribe to.
const MAX_SUBSCRIPTIONS: usize = 1024;

pub(super) type Subscribed = Arc<Mutex<HashSet<String>>>;

impl Connection {
    pub(super) fn forward_changes(&self, peer: Peer<RoleServer>) {
        let mut changes = self.client_changes();
        let ended = self.ended.clone();
        let subscribed = self.subscribed.clone();
        let offered = self.shared.info.capabilities.clone();
        tokio::spawn(async move {
            while let Some(news) = tokio::select! {
                news = changes.next() => news,
                () = ended.cancelled() => None,
            } {
                for change in news {
                    let sent = match change {
                        Change::Tools if offered.tools.is_some() => peer.notify_tool_list_changed().await,
                        Change::Prompts if offered.prompts.is_some() => {
                            peer.notify_prompt_list_changed().await
                        }
                        Change::Resources if offered.resources.is_some() => {
                            peer.notify_resource_list_changed().await
                        }
                        Change::Resource(uri) if is_in(&subscribed, &uri) => {
                            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                        }
                        _ => Ok(()),
                    };
                    if let Err(error) = sent {
                        tracing::debug!(%error, "a change notification was not sent");
                    }
                }
            }
        });
    }

    pub(super) fn add_subscription(&self, request: SubscribeRequestParams) -> Result<(), ErrorData> {
        let resources = self.shared.info.capabilities.resources.as_ref();
        if resources.is_none_or(|resources| resources.subscribe.is_none()) {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            let text = format!("too many subscriptions; the limit is {MAX_SUBSCRIPTIONS}");
            return Err(ErrorData::invalid_request(text, None));
        }
        subscribed.insert(request.uri);
        Ok(())
    }

    pub(super) fn end_subscription(&self, request: UnsubscribeRequestParams) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    pub(super) fn subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let offered = &self.shared.info.capabilities;
        let can_change = [
            offered.tools.as_ref().and_then(|tools| tools.list_changed),
            offered.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            offered.resources.as_ref().and_then(|resources| resources.list_changed),
        ];
        if can_change.iter().all(Option::is_none) {
            return None;
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.len() < MAX_PENDING_SUBSCRIPTIONS {
            opened.push_back(self.client_changes());
        }
        // The SDK restricts the filter to the capabilities of the server.
        Some(requested.clone())
    }

    pub(super) async fn send_changes(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut changes = opened.unwrap_or_else(|| self.client_changes());
        loop {
            let news = tokio::select! {
                news = changes.next() => news,
                () = context.cancelled() => None,
                () = self.shared.closing.cancelled() => None,
            };
            let Some(news) = news else { return Ok(()) };
            for change in news {
                let sink = context.sink();
                // The sink rejects notifications that the client did not request; ignore the error.
                let _ = match change {
                    Change::Tools => sink.notify_tool_list_changed().await,
                    Change::Prompts => sink.notify_prompt_list_changed().await,
                    Change::Resources => sink.notify_resource_list_changed().await,
                    Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                };
            }
        }
    }
}

fn is_in(subscribed: &Subscribed, uri: &str) -> bool {
    subscribed.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
}

/// The changes that concern one client.
pub(super) struct ClientChanges {
    of_server: broadcast::Receiver<Change>,
    /// The changes of tools that only this client has.
    own: Option<BoxStream<'static, ()>>,
}

impl ClientChanges {
    pub(super) fn new(
        of_server: broadcast::Receiver<Change>,
        own: Option<BoxStream<'static, ()>>,
    ) -> ClientChanges {
        ClientChanges { of_server, own }
    }

    /// Returns the next changes; `None` at the end.
    async fn next(&mut self) -> Option<Vec<Change>> {
        loop {
            let own = async {
                match &mut self.own {
                    Some(own) => own.next().await,
                    None => std::future::pending().await,
                }
            };
            return tokio::select! {
                change = self.of_server.recv() => match change {
                    Ok(change) => Some(vec![change]),
                    Err(RecvError::Lagged(_)) => Some(vec![Change::Tools, Change::Prompts, Change::Resources]),
                    Err(RecvError::Closed) => None,
                },
                change = own => match change {
                    Some(()) => Some(vec![Change::Tools]),
                    None => {
                        self.own = None;
                        continue;
                    }
                },
            };
        }
    }
}
