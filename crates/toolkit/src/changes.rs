//! Notifies clients that a list or a resource has changed.

use tokio::sync::broadcast;

/// Notifies the clients of a server of changes. Clones notify the same clients.
///
/// Pass it to the builder ([`crate::ServerBuilder::changes`]) and clone it where changes are detected.
#[derive(Clone)]
pub struct Changes {
    sender: broadcast::Sender<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    /// The contents of one resource.
    Resource(String),
}

/// A client that falls further behind is notified once that every list may have changed.
const MAX_PENDING_CHANGES: usize = 256;

impl Default for Changes {
    fn default() -> Changes {
        Changes { sender: broadcast::Sender::new(MAX_PENDING_CHANGES) }
    }
}

impl Changes {
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Reports that the list of tools changed.
    pub fn tools(&self) {
        self.send(Change::Tools);
    }

    /// Reports that the list of prompts changed.
    pub fn prompts(&self) {
        self.send(Change::Prompts);
    }

    /// Reports that the list of resources or of resource templates changed.
    pub fn resources(&self) {
        self.send(Change::Resources);
    }

    /// Reports that the contents of a resource changed, to the clients that subscribed to it.
    pub fn resource(&self, uri: impl Into<String>) {
        self.send(Change::Resource(uri.into()));
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }

    fn send(&self, change: Change) {
        // There may be no receivers; ignore the send error.
        let _ = self.sender.send(change);
    }
}
