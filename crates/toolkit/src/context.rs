//! The context of a tool call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::{Client, NoClient};

/// State shared by the tools of a server, by type.
pub(crate) type States = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Information about the call that a tool is running for. It is injected and never part of the tool's schema.
#[derive(Clone)]
pub struct Context {
    /// The id of the request, for the log.
    pub request: String,
    /// Cancelled when the client cancels the call or disconnects.
    pub cancelled: CancellationToken,
    pub client: Arc<dyn Client>,
    pub(crate) states: Arc<States>,
}

impl Context {
    /// Creates the context of a call by a client. The server adds the shared state.
    pub fn new(request: impl Into<String>, client: Arc<dyn Client>, cancelled: CancellationToken) -> Context {
        Context { request: request.into(), cancelled, client, states: Arc::default() }
    }

    /// Creates the context of an in-process call without a client.
    pub fn alone() -> Context {
        Context::new("in-process", Arc::new(NoClient), CancellationToken::new())
    }

    /// Returns the value of this type that was passed to the builder's `state`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }
}
