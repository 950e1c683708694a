//! News for clients: a list is another one now, a resource has other contents.

use tokio::sync::broadcast;

/// Tells the clients of a server what changed. Clones tell the same clients.
///
/// The builder takes it ([`crate::ServerBuilder::changes`]); tools and whatever else knows of a change keep a clone.
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

/// A client that is this far behind is told once that everything may have changed.
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

    /// The list of tools is another one.
    pub fn tools(&self) {
        self.send(Change::Tools);
    }

    /// The list of prompts is another one.
    pub fn prompts(&self) {
        self.send(Change::Prompts);
    }

    /// The list of resources, or of their templates, is another one.
    pub fn resources(&self) {
        self.send(Change::Resources);
    }

    /// The contents of a resource changed: clients that subscribed to it are told.
    pub fn resource(&self, uri: impl Into<String>) {
        self.send(Change::Resource(uri.into()));
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }

    fn send(&self, change: Change) {
        // Nobody listening is no fault.
        let _ = self.sender.send(change);
    }
}
