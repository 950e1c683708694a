//! What may run longer than the connection of its request.
//!
//! In a session of MCP, a call continues when its connection is lost. So the call has a place in the limits
//! too, not only the response, and it ends when the key becomes invalid.

use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, Shared};
use serde_json::Value;
use toolwire_contract::ToolResult;
use toolwire_contract::toolbox::{CallError, CallOptions, Toolbox, ToolboxDecorator};

use crate::admission::{Admission, Admitted};
use crate::principal::Principal;

/// Ends when the key of a request becomes invalid.
pub(crate) type Invalidation = Shared<BoxFuture<'static, ()>>;

/// The place of the requests in a session.
#[derive(Clone)]
pub(crate) struct Place {
    /// Weak, because a session keeps the tools of the request that opened it.
    pub(crate) admitted: Weak<Admitted>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) principal: Principal,
}

impl Place {
    /// Returns the place of the request; if its client is already gone, another one.
    fn take(&self) -> Option<Arc<Admitted>> {
        let known = self.admitted.upgrade();
        known.or_else(|| self.admission.enter(&self.principal, 1).ok().map(Arc::new))
    }
}

/// The lifetime of what a request has begun.
#[derive(Clone, Default)]
pub(crate) struct Lifetime {
    /// `None` outside of a session: what the request has begun ends with its connection, or waits for a reply
    /// of the client, whose next request has a place of its own.
    pub(crate) place: Option<Place>,
    pub(crate) invalidation: Option<Invalidation>,
}

impl Lifetime {
    /// Runs a part of the request. Returns `None` if the key becomes invalid, or if there is no place.
    pub(crate) async fn run<T>(&self, part: impl Future<Output = T>) -> Option<T> {
        let _place = match &self.place {
            Some(place) => Some(place.take()?),
            None => None,
        };
        match self.invalidation.clone() {
            None => Some(part.await),
            Some(invalidation) => tokio::select! {
                biased;
                () = invalidation => None,
                output = part => Some(output),
            },
        }
    }
}

/// The tools of one request.
pub(crate) struct RunningTools {
    pub(crate) tools: Arc<dyn Toolbox>,
    pub(crate) lifetime: Lifetime,
}

impl ToolboxDecorator for RunningTools {
    fn inner(&self) -> &dyn Toolbox {
        &*self.tools
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a Value,
        options: CallOptions,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let outcome = self.lifetime.run(self.tools.call(tool, arguments, options)).await;
            outcome.unwrap_or_else(|| Err(CallError::Cancelled { tool: tool.to_owned() }))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;
    use crate::principal::tests::principals;
    use crate::settings::GatewayLimits;

    #[tokio::test]
    async fn a_call_has_the_place_of_its_request() {
        let limits = GatewayLimits { requests: 1, ..GatewayLimits::default() };
        let admission = Arc::new(Admission::new(&limits, true));
        let [principal, ..] = principals();
        let admitted =
            Arc::new(admission.enter(&principal, 1).unwrap_or_else(|_| panic!("there is a place")));
        let place = Place {
            admitted: Arc::downgrade(&admitted),
            admission: admission.clone(),
            principal: principal.clone(),
        };
        let lifetime = Lifetime { place: Some(place), invalidation: None };
        let (end, ended) = oneshot::channel::<()>();
        let mut call = Box::pin(lifetime.run(ended));
        assert!(call.as_mut().now_or_never().is_none());
        drop(admitted);
        assert!(admission.enter(&principal, 1).is_err(), "the call has the place");
        assert_eq!(lifetime.run(async {}).await, Some(()), "the same one");
        end.send(()).expect("the call runs");
        assert_eq!(call.await, Some(Ok(())));
        let other = admission.enter(&principal, 1);
        assert!(other.is_ok(), "the call has ended");
        assert_eq!(lifetime.run(async {}).await, None, "the client is gone, and there is no place");
        drop(other);
        assert_eq!(lifetime.run(async {}).await, Some(()));
    }

    #[tokio::test]
    async fn a_call_ends_with_its_key() {
        let (revoke, revoked) = oneshot::channel::<()>();
        let invalidation = revoked.map(drop).boxed().shared();
        let lifetime = Lifetime { place: None, invalidation: Some(invalidation) };
        let mut call = Box::pin(lifetime.run(std::future::pending::<()>()));
        assert!(call.as_mut().now_or_never().is_none());
        assert_eq!(lifetime.run(async {}).await, Some(()));
        revoke.send(()).expect("the call runs");
        assert_eq!(call.await, None);
        assert_eq!(lifetime.run(async {}).await, None, "no further call begins");
    }
}
