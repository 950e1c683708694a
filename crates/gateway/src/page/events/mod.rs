//! Changes of the page that are sent to open browsers.
//!
//! A change is published under a topic. Each topic keeps its last changes, so that a browser that was
//! disconnected gets what it missed. A browser that missed more gets `reset` and loads the view again.

mod change;
mod stream;
mod topics;

pub(super) use change::Event;
pub(super) use stream::stream;
pub(super) use topics::Events;
