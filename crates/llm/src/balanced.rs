//! Several endpoints as one model: requests are distributed by weight, and a request that fails before its
//! response begins is sent to another endpoint.

mod member;
mod request_in_progress;

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use toolwire_contract::Content;
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, UnsupportedContent,
};
use toolwire_dialect::Dialect;
use toolwire_dialect::request::ApiSupport;

use crate::{Endpoint, RawBody, RawRequest, RawResponse};
use member::Member;
use request_in_progress::RequestInProgress;

/// The code of a failure that a provider has reported; see [`ModelError::code`].
const REFUSED: &str = "refused";

/// Several endpoints as one model. Clones share the state of the endpoints.
#[derive(Clone)]
pub struct Balanced(Arc<BalancedInner>);

struct BalancedInner {
    name: String,
    members: Vec<Member>,
    observer: Option<Arc<dyn AttemptObserver>>,
}

/// Receives a report of each attempt to send a request to an endpoint.
pub trait AttemptObserver: Send + Sync {
    /// Reports that a response began, or that the attempt failed with an error that has this code.
    fn attempted(&self, model: &str, failure: Option<&str>);

    /// Reports that the request is sent to another endpoint, because this one failed or is busy.
    fn failed_over(&self, model: &str);
}

impl Balanced {
    /// Combines endpoints, each with its weight and its maximum number of concurrent requests. At least one
    /// is required.
    pub(crate) fn new(
        name: &str,
        endpoints: impl IntoIterator<Item = (Endpoint, u32, Option<usize>)>,
    ) -> Balanced {
        let member = |(endpoint, weight, requests): (Endpoint, u32, Option<usize>)| Member {
            endpoint,
            weight,
            requests: requests.map(|count| Arc::new(Semaphore::new(count.max(1)))),
            health: Arc::default(),
        };
        let members: Vec<Member> = endpoints.into_iter().map(member).collect();
        assert!(!members.is_empty(), "a balanced model has at least one endpoint");
        Balanced(Arc::new(BalancedInner { name: name.to_owned(), members, observer: None }))
    }

    /// Sets the observer of a new model.
    pub(crate) fn with_observer(self, observer: Option<Arc<dyn AttemptObserver>>) -> Balanced {
        let Some(inner) = Arc::into_inner(self.0) else { unreachable!("a new model has no clones") };
        Balanced(Arc::new(BalancedInner { observer, ..inner }))
    }

    /// Replaces each endpoint by one for another API of the same server. The limits and the failures of the
    /// endpoints are shared.
    pub(crate) fn with_endpoints(&self, endpoints: Vec<Endpoint>) -> Balanced {
        let member = |(endpoint, known): (Endpoint, &Member)| Member {
            endpoint,
            weight: known.weight,
            requests: known.requests.clone(),
            health: known.health.clone(),
        };
        let members = endpoints.into_iter().zip(&self.0.members).map(member).collect();
        let (name, observer) = (self.0.name.clone(), self.0.observer.clone());
        Balanced(Arc::new(BalancedInner { name, members, observer }))
    }

    /// Whether all endpoints have both of OpenAI's APIs.
    pub(crate) fn has_both_apis(&self) -> bool {
        self.0.members.iter().all(|member| member.endpoint.settings.has_both_apis)
    }

    #[cfg(test)]
    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.members.iter().map(|member| member.endpoint.url().to_owned()).collect()
    }

    fn first(&self) -> &Endpoint {
        &self.0.members[0].endpoint
    }

    /// The dialect of all endpoints, if they have the same one.
    pub fn dialect(&self) -> Option<Dialect> {
        let dialect = self.first().dialect();
        self.0.members.iter().all(|member| member.endpoint.dialect() == dialect).then_some(dialect)
    }

    /// The dialect and the support of each endpoint.
    pub fn apis(&self) -> Vec<(Dialect, ApiSupport)> {
        let endpoints = self.0.members.iter().map(|member| &member.endpoint);
        endpoints.map(|endpoint| (endpoint.dialect(), endpoint.api_support())).collect()
    }

    /// How much of the dialect's API all endpoints support.
    pub fn api_support(&self) -> ApiSupport {
        let supports = self.0.members.iter().map(|member| member.endpoint.api_support());
        supports.min().unwrap_or_default()
    }

    /// Removes the keys of all endpoints from a body.
    pub fn redact(&self, body: Value) -> Value {
        self.0.members.iter().fold(body, |body, member| member.endpoint.redact(body))
    }

    /// Whether all endpoints accept a request in the provider's format unchanged, with the same model id.
    pub fn accepts_raw_requests(&self) -> bool {
        let id = self.first().model_id();
        self.0
            .members
            .iter()
            .all(|member| member.endpoint.accepts_raw_requests() && member.endpoint.model_id() == id)
    }

    /// Returns the name that the providers use for the model.
    pub fn model_id(&self) -> &str {
        self.first().model_id()
    }

    /// Like [`Endpoint::forward`]. A request that fails before its response begins is sent to another
    /// endpoint. If all fail, the last error that a provider has sent is returned: it says more than that
    /// another endpoint could not be reached.
    pub async fn forward(&self, request: RawRequest) -> Result<RawResponse, ModelError> {
        // Trying another endpoint is faster than waiting for a retry.
        let without_retry = RawRequest { retry_until: Some(Instant::now()), ..request.clone() };
        let order = self.0.order(fastrand::f64());
        let last = order.len() - 1;
        let mut refused = None;
        for (position, index) in order.into_iter().enumerate() {
            let member = &self.0.members[index];
            let Some(permit) = member.enter(position == last).await else {
                self.0.failed_over();
                continue;
            };
            let response =
                member.endpoint.forward(if position == last { &request } else { &without_retry }).await;
            let has_failed = match &response {
                Ok(response) => is_status_worth_another(response.status),
                Err(error) => may_succeed_elsewhere(error),
            };
            // The client may have caused these statuses, so they do not count as failures of the endpoint.
            let is_client_error = matches!(&response, Ok(response) if matches!(response.status, 404 | 409));
            member.record(!has_failed || is_client_error);
            self.0.attempted(match &response {
                Ok(_) if !has_failed => None,
                Ok(_) => Some(REFUSED),
                Err(error) => Some(error.code()),
            });
            let is_response = response.is_ok();
            let response = response.map(|response| hold(response, permit));
            if !has_failed || position == last {
                return if is_response { response } else { refused.unwrap_or(response) };
            }
            if is_response {
                refused = Some(response);
            }
            self.0.failed_over();
        }
        Err(self.0.busy())
    }
}

/// Keeps the permit until the end of the body.
fn hold(mut response: RawResponse, permit: Option<OwnedSemaphorePermit>) -> RawResponse {
    if let (Some(permit), RawBody::Parts(parts)) = (permit, &mut response.body) {
        let mut permit = Some(permit);
        let end = stream::poll_fn(move |_| {
            drop(permit.take());
            std::task::Poll::Ready(None)
        });
        let body = std::mem::replace(parts, stream::empty().boxed());
        *parts = body.chain(end).boxed();
    }
    response
}

impl BalancedInner {
    /// Returns the order in which the endpoints are tried: a random one by weight first, and paused ones
    /// last. `random` is a number from 0 to 1.
    fn order(&self, random: f64) -> Vec<usize> {
        let now = Instant::now();
        let (mut order, paused): (Vec<usize>, Vec<usize>) =
            (0..self.members.len()).partition(|index| !self.members[*index].is_paused(now));
        // As floats, because the sum of large weights exceeds their own type.
        let total: f64 = order.iter().map(|index| f64::from(self.members[*index].weight)).sum();
        let mut rest = total * random;
        let chosen = order.iter().position(|index| {
            rest -= f64::from(self.members[*index].weight);
            rest < 0.0
        });
        order.rotate_left(chosen.unwrap_or(0));
        order.extend(paused);
        order
    }

    fn attempted(&self, failure: Option<&str>) {
        if let Some(observer) = &self.observer {
            observer.attempted(&self.name, failure);
        }
    }

    fn failed_over(&self) {
        if let Some(observer) = &self.observer {
            observer.failed_over(&self.name);
        }
    }

    fn busy(&self) -> ModelError {
        ModelError::Unreachable {
            model: self.name.clone(),
            problem: "all its endpoints are busy".to_owned(),
            hint: Some("retry, or increase `concurrentRequests`".to_owned()),
        }
    }
}

/// Whether another endpoint may succeed where this one failed.
fn may_succeed_elsewhere(error: &ModelError) -> bool {
    match error {
        ModelError::Unreachable { .. } | ModelError::TimedOut { .. } | ModelError::Malformed { .. } => true,
        ModelError::Refused { status, .. } => status.is_none_or(is_status_worth_another),
        // A request that is unusable or too long fails everywhere, and a response that began cannot be
        // repeated.
        _ => false,
    }
}

fn is_status_worth_another(status: u16) -> bool {
    matches!(status, 401 | 403 | 404 | 408 | 409 | 429 | 500..)
}

impl Model for Balanced {
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the smallest limits, because any endpoint may get the request.
    fn limits(&self) -> ModelLimits {
        let limits = self.0.members.iter().map(|member| member.endpoint.limits());
        limits.fold(ModelLimits::default(), |all, one| ModelLimits {
            context_tokens: min(all.context_tokens, one.context_tokens),
            tools: min(all.tools, one.tools),
            separate_output: all.separate_output || one.separate_output,
        })
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            futures::future::join_all(self.0.members.iter().map(|member| member.endpoint.prepare())).await;
        })
    }

    fn keeps_verbatim(&self, request: &ModelRequest) -> bool {
        self.0.members.iter().all(|member| member.endpoint.keeps_verbatim(request))
    }

    fn check_content(&self, content: &Content) -> Result<(), UnsupportedContent> {
        self.0.members.iter().try_for_each(|member| member.endpoint.check_content(content))
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let order = self.0.order(fastrand::f64());
        let in_progress = RequestInProgress::new(&self.0, request, order);
        stream::unfold(in_progress, |mut in_progress| async move {
            let event = in_progress.next().await?;
            Some((event, in_progress))
        })
        .boxed()
    }
}

fn min<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, SystemTime};

    use super::member::MAX_FAILURES;
    use super::*;
    use crate::{Clock, EndpointConfig};

    fn balanced(weights: &[u32]) -> Balanced {
        let endpoint = |weight: &u32| {
            let config = EndpointConfig {
                base_url: Some("http://127.0.0.1:1".to_owned()),
                ..EndpointConfig::default()
            };
            (Endpoint::new("vllm/m", &config, |_| None).expect("an endpoint"), *weight, None)
        };
        Balanced::new("m", weights.iter().map(endpoint))
    }

    /// Counts how often it is waited for.
    #[derive(Default)]
    struct CountingClock(AtomicUsize);

    impl Clock for CountingClock {
        fn now(&self) -> SystemTime {
            SystemTime::now()
        }

        fn jitter(&self) -> f64 {
            1.0
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(()))
        }
    }

    /// Only the last endpoint is worth waiting for, and only until the client would no longer wait.
    #[tokio::test]
    async fn a_connection_is_retried_only_if_no_other_endpoint_is_left() {
        let clock = Arc::new(CountingClock::default());
        let endpoint = |_: u32| {
            let config = EndpointConfig {
                base_url: Some("http://127.0.0.1:1".to_owned()),
                retries: Some(2),
                ..EndpointConfig::default()
            };
            let endpoint = Endpoint::new("vllm/m", &config, |_| None).expect("an endpoint");
            (endpoint.with_clock(clock.clone()), 1, None)
        };
        let model = Balanced::new("m", (0..3).map(endpoint));
        let later = |seconds: u64| Some(Instant::now() + Duration::from_secs(seconds));
        for (retry_until, delays) in [(None, 2), (later(3_600), 2), (later(0), 0)] {
            let response = model.forward(RawRequest { retry_until, ..RawRequest::default() }).await;
            assert!(matches!(response, Err(ModelError::Unreachable { .. })));
            assert_eq!(clock.0.swap(0, Ordering::SeqCst), delays, "{retry_until:?}");
        }
    }

    #[tokio::test]
    async fn weights_determine_the_first_endpoint() {
        let model = balanced(&[1, 3]);
        assert_eq!(model.0.order(0.0), [0, 1]);
        assert_eq!(model.0.order(0.24), [0, 1]);
        assert_eq!(model.0.order(0.26), [1, 0]);
        assert_eq!(model.0.order(0.99), [1, 0]);
    }

    #[tokio::test]
    async fn weights_may_be_large_or_zero() {
        let model = balanced(&[u32::MAX, u32::MAX, 0]);
        assert_eq!(model.0.order(0.25), [0, 1, 2]);
        assert_eq!(model.0.order(0.99), [1, 2, 0]);
        assert_eq!(balanced(&[0, 0]).0.order(0.5), [0, 1]);
    }

    /// The two APIs of a server have the same limits, and fail together.
    #[tokio::test]
    async fn another_api_of_the_same_endpoints_shares_their_state() {
        let config =
            EndpointConfig { base_url: Some("http://127.0.0.1:1".to_owned()), ..EndpointConfig::default() };
        let endpoint = || Endpoint::new("vllm/m", &config, |_| None).expect("an endpoint");
        let model = Balanced::new("m", [(endpoint(), 1, Some(1)), (endpoint(), 5, None)]);
        let other = model.with_endpoints(vec![endpoint(), endpoint()]);
        assert_eq!((other.0.order(0.1), other.0.order(0.9)), (vec![0, 1], vec![1, 0]));
        for _ in 0..MAX_FAILURES {
            model.0.members[0].record(false);
        }
        assert_eq!(other.0.order(0.0), [1, 0]);
        let permit = other.0.members[0].enter(false).await;
        assert!(permit.is_some() && model.0.members[0].enter(false).await.is_none());
    }

    #[tokio::test]
    async fn an_endpoint_that_fails_often_is_tried_last() {
        let model = balanced(&[1, 1]);
        for _ in 0..MAX_FAILURES {
            assert_eq!(model.0.order(0.0), [0, 1]);
            model.0.members[0].record(false);
        }
        assert_eq!(model.0.order(0.0), [1, 0]);
        model.0.members[0].record(true);
        assert_eq!(model.0.order(0.0), [0, 1]);
    }
}
