//! What a running tool knows of its call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::client::{Client, NoClient};

/// What a server's tools share, by type.
pub(crate) type States = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// What a running tool knows of its call. It is injected, never part of the tool's schema.
#[derive(Clone)]
pub struct Context {
    /// The id of the request, as a word for the log.
    pub request: String,
    /// Cancelled when the client gives the call up or goes away.
    pub cancelled: CancellationToken,
    pub client: Arc<dyn Client>,
    pub(crate) states: Arc<States>,
}

impl Context {
    /// For one call by a client. The server adds what its tools share.
    pub fn new(request: impl Into<String>, client: Arc<dyn Client>, cancelled: CancellationToken) -> Context {
        Context { request: request.into(), cancelled, client, states: Arc::default() }
    }

    /// For calls in process, with nobody at the other end.
    pub fn alone() -> Context {
        Context::new("in-process", Arc::new(NoClient), CancellationToken::new())
    }

    /// What the server's builder was given as `state`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }
}
