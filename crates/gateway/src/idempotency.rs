//! Requests with an `Idempotency-Key`: the gateway runs such a request once. A client that repeats it after a
//! timeout or a lost connection gets the response of the first attempt.
//!
//! The first attempt continues when its client disconnects, so that the repeated request gets the response.
//! Errors are not stored, so a request that failed is run again, unless a tool of a server was called.

mod response;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwire_dialect::Family;
use toolwire_dialect::client::ErrorKind;
use tracing::Instrument as _;

use crate::principal::Principal;
use crate::recent::{Recent, StateLimits};
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse};
use crate::routes::Route;
use crate::settings::GatewayLimits;
use response::{Collected, Progress, StoredResponse, collect, wait};

const HEADER: &str = "idempotency-key";

/// The maximum length of a key.
const MAX_KEY_CHARS: usize = 255;

/// The maximum number of responses that are stored.
const MAX_RESPONSES: usize = 10_000;

/// A request whose response is stored.
pub(crate) struct KeyedRequest {
    principal: Principal,
    /// Identifies the caller and its key.
    id: String,
    /// The hash of what the response depends on.
    fingerprint: [u8; 32],
}

impl KeyedRequest {
    /// Returns the key of a request; `None` if it has none. Streams are not stored, so they ignore it.
    pub(crate) fn of(
        principal: &Principal,
        route: &Route,
        parts: &Parts,
        body: &bytes::Bytes,
    ) -> Result<Option<KeyedRequest>, Failure> {
        let mut keys = parts.headers.get_all(HEADER).iter();
        let Some(key) = keys.next().filter(|_| matches!(route, Route::Complete(_))) else { return Ok(None) };
        let key = key.to_str().ok().map(str::trim);
        let key = key.filter(|key| !key.is_empty() && key.len() <= MAX_KEY_CHARS);
        let Some(key) = key.filter(|_| keys.next().is_none()) else {
            let message =
                format!("the header `{HEADER}` must occur once and have 1 to {MAX_KEY_CHARS} characters");
            return Err(Failure::new(ErrorKind::InvalidRequest, message));
        };
        // An invalid body is reported later.
        if RequestBody::read(body.clone()).is_ok_and(|body| body.sets("stream")) {
            return Ok(None);
        }
        let caller = principal.key_id().unwrap_or_default();
        let id = Sha256::digest(format!("{}\n{caller}\n{key}", caller.len()).as_bytes());
        let mut content = Sha256::new();
        content.update(parts.uri.path().as_bytes());
        let is_read = |name: &str| {
            ["x-toolwire-", "anthropic-", "openai-"].iter().any(|prefix| name.starts_with(prefix))
        };
        let headers = parts.headers.iter().filter(|(name, _)| is_read(name.as_str()));
        let mut headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        headers.sort_unstable();
        for (name, value) in headers {
            content.update(format!("\n{name}\n{}\n", value.len()).as_bytes());
            content.update(value);
        }
        // Users of one key can have accounts of their own at servers.
        for (name, value) in principal.credentials() {
            content.update(format!("\n{name}\n{}\n", value.expose().len()).as_bytes());
            content.update(value.expose());
        }
        content.update(b"\n\n");
        content.update(body);
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(KeyedRequest { principal: principal.clone(), id, fingerprint: content.finalize().into() }))
    }
}

/// The running requests with keys, and the responses to those that have ended.
pub(crate) struct Idempotency {
    running: Mutex<HashMap<String, Running>>,
    responses: Recent<StoredResponse>,
    tasks: TaskTracker,
    /// Ends all requests.
    stop: CancellationToken,
}

struct Running {
    fingerprint: [u8; 32],
    progress: watch::Receiver<Progress>,
}

/// Removes a request from the list of running requests when it is dropped.
struct Listed {
    idempotency: Arc<Idempotency>,
    id: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.idempotency.lock().remove(&self.id);
    }
}

/// The state of a key when a request with it arrives.
enum Found {
    Response(Arc<StoredResponse>),
    Running(watch::Receiver<Progress>),
    Nothing(Listed, watch::Sender<Progress>),
}

impl Idempotency {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> Idempotency {
        Idempotency {
            running: Mutex::default(),
            responses: Recent::new(StateLimits::new(limits, has_several_keys, MAX_RESPONSES)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns the response to an earlier request with the same key, or waits for it, or runs the request.
    /// `family` and `request_id` are for errors that are stored.
    pub(crate) async fn respond(
        self: &Arc<Idempotency>,
        request: KeyedRequest,
        (family, request_id): (Family, String),
        heartbeat: Duration,
        run: impl Future<Output = Result<HttpResponse, Failure>> + Send + 'static,
    ) -> Result<HttpResponse, Failure> {
        let (progress, is_first) = match self.find(&request)? {
            Found::Response(stored) => return Ok(stored.respond(false)),
            Found::Running(progress) => (progress, false),
            Found::Nothing(listed, sender) => {
                let progress = sender.subscribe();
                let idempotency = self.clone();
                let task = async move {
                    let (response, is_final) = match run.await {
                        Ok(response) => {
                            let is_success = response.status().is_success();
                            (Ok(response), is_success)
                        }
                        // A tool must not be called again, so this error is the response.
                        Err(failure) if failure.has_called => {
                            (Ok(failure.respond(family, &request_id)), true)
                        }
                        Err(failure) => (Err(failure), false),
                    };
                    let end = collect(response, (request.fingerprint, is_final), &sender).await;
                    let is_stored = idempotency.store(&request, &end);
                    // After this, a request with the key finds what was stored.
                    drop(listed);
                    end.publish(is_stored, &sender);
                };
                let stop = self.stop.clone();
                let task = task.instrument(tracing::Span::current());
                self.tasks.spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = task => {}
                    }
                });
                (progress, true)
            }
        };
        wait(progress, heartbeat, is_first).await
    }

    fn find(self: &Arc<Idempotency>, request: &KeyedRequest) -> Result<Found, Failure> {
        let mut running = self.lock();
        let (found, fingerprint) = match running.get(&request.id) {
            Some(running) => (Found::Running(running.progress.clone()), running.fingerprint),
            None => match self.responses.find(&request.principal, &request.id) {
                Some(stored) => (Found::Response(stored.clone()), stored.fingerprint),
                None => {
                    let (sender, progress) = watch::channel(Progress::Waiting);
                    let entry = Running { fingerprint: request.fingerprint, progress };
                    running.insert(request.id.clone(), entry);
                    let listed = Listed { idempotency: self.clone(), id: request.id.clone() };
                    return Ok(Found::Nothing(listed, sender));
                }
            },
        };
        match fingerprint == request.fingerprint {
            true => Ok(found),
            false => {
                let message =
                    format!("another request has used this `{HEADER}`; send this one with a new key");
                let mut failure = Failure::new(ErrorKind::InvalidRequest, message);
                failure.error.code = Some("idempotency_key_reused".to_owned());
                Err(failure.with_status(StatusCode::UNPROCESSABLE_ENTITY))
            }
        }
    }

    /// Stores a response for later requests, and returns whether they find it.
    fn store(&self, request: &KeyedRequest, end: &Collected) -> bool {
        let Some(response) = end.to_store() else { return false };
        let (ids, bytes) = (vec![request.id.clone()], response.bytes());
        let stored = self.responses.store(&request.principal, ids, response, bytes);
        if let Err(error) = &stored {
            tracing::warn!(%error, "the response to a request with an idempotency key is not stored");
        }
        stored.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all requests have ended. Those that still run after the grace period are cancelled.
    pub(crate) async fn close(&self, grace_period: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace_period, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use http::{Method, Request};
    use toolwire_contract::Secret;

    use super::*;
    use crate::principal::tests::principals;
    use crate::response::{Interrupted, ResponseBody, json};

    fn limits(bytes: usize) -> GatewayLimits {
        GatewayLimits { state_bytes: bytes, state_bytes_per_key: Some(bytes), ..GatewayLimits::default() }
    }

    fn keyed(
        principal: &Principal,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Option<KeyedRequest>, Failure> {
        let request = Request::builder().method(Method::POST).uri("/v1/responses");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let body = Bytes::copy_from_slice(body.as_bytes());
        KeyedRequest::of(principal, &Route::Complete(Family::OpenAiResponses), &parts, &body)
    }

    async fn respond(
        idempotency: &Arc<Idempotency>,
        request: KeyedRequest,
        text: String,
    ) -> Result<String, Failure> {
        let run = async move { Ok(json(StatusCode::OK, &text.into())) };
        let context = (Family::OpenAiResponses, "req_1".to_owned());
        let response = idempotency.respond(request, context, Duration::from_secs(1), run).await?;
        let ResponseBody::Whole(bytes) = response.into_body() else { panic!("a whole body") };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn the_memory_is_bounded() {
        let [one, ..] = principals();
        let idempotency = Arc::new(Idempotency::new(&limits(20_000), true));
        for number in 0..200 {
            let key = number.to_string();
            let request = keyed(&one, &[("idempotency-key", &key)], "{}").expect("valid").expect("a key");
            respond(&idempotency, request, "x".repeat(1_000)).await.expect("a response");
        }
        assert!(idempotency.lock().is_empty());
        let found = (0..200).filter(|number| {
            let key = number.to_string();
            let request = keyed(&one, &[("idempotency-key", &key)], "{}").expect("valid").expect("a key");
            idempotency.responses.find(&one, &request.id).is_some()
        });
        let found: Vec<i32> = found.collect();
        assert!((1..=20).contains(&found.len()) && found.contains(&199), "{found:?}");
    }

    #[tokio::test]
    async fn the_headers_and_the_body_must_be_the_same() {
        let [one, two, _] = principals();
        let idempotency = Arc::new(Idempotency::new(&limits(1 << 20), true));
        let send = async |principal: &Principal, headers: &[(&str, &str)], body: &str, text: &str| {
            let headers: Vec<_> = [("idempotency-key", "k")].iter().chain(headers).copied().collect();
            let request = keyed(principal, &headers, body).expect("valid").expect("a key");
            respond(&idempotency, request, text.to_owned()).await.map_err(|failure| failure.status)
        };
        assert_eq!(send(&one, &[], "{}", "first").await, Ok("\"first\"".to_owned()));
        // SDKs count their attempts.
        let retry = [("x-stainless-retry-count", "1")];
        assert_eq!(send(&one, &retry, "{}", "second").await, Ok("\"first\"".to_owned()));
        let reused = Err(Some(StatusCode::UNPROCESSABLE_ENTITY));
        assert_eq!(send(&one, &[], "{ }", "second").await, reused);
        assert_eq!(send(&one, &[("x-toolwire-servers", "none")], "{}", "second").await, reused);
        assert_eq!(send(&two, &[], "{ }", "other").await, Ok("\"other\"".to_owned()), "keys are per caller");
        let other_user = one.clone().with_credentials(vec![("authorization".to_owned(), Secret::new("bob"))]);
        assert_eq!(send(&other_user, &[], "{}", "second").await, reused, "it has other accounts at servers");
    }

    /// Every client that waits for a response that takes long gets white space, and later ones get none.
    #[tokio::test(start_paused = true)]
    async fn a_response_that_takes_long_begins_for_all_clients() {
        let [one, ..] = principals();
        let idempotency = Arc::new(Idempotency::new(&limits(1 << 20), true));
        let run = || async {
            let parts = stream::iter([Bytes::from_static(b" \n"), Bytes::from_static(b"[1]")]);
            let parts = parts.then(|part| async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok::<_, Interrupted>(part)
            });
            let mut response = json(StatusCode::OK, &serde_json::Value::Null);
            *response.body_mut() = ResponseBody::stream(parts);
            Ok::<_, Failure>(response)
        };
        let send = async |request: KeyedRequest| {
            let context = (Family::OpenAiChat, "req_1".to_owned());
            let response = idempotency.respond(request, context, Duration::from_secs(1), run()).await;
            let ResponseBody::Stream(parts) = response.expect("a response").into_body() else {
                panic!("a stream")
            };
            let parts: Vec<Bytes> = parts.map(|part| part.expect("no interruption")).collect().await;
            parts.concat()
        };
        let request = || keyed(&one, &[("idempotency-key", "k")], "{}").expect("valid").expect("a key");
        let (first, second) = tokio::join!(send(request()), send(request()));
        for body in [first, second] {
            assert!(body.starts_with(b" \n") && body.ends_with(b" \n[1]"), "{body:?}");
        }
        let later = respond(&idempotency, request(), "another".to_owned()).await;
        assert_eq!(later.expect("a response"), "[1]");
    }

    #[test]
    fn keys_of_streams_are_ignored_and_wrong_ones_refused() {
        let [one, ..] = principals();
        let long = "k".repeat(MAX_KEY_CHARS + 1);
        for headers in [
            &[("idempotency-key", "")][..],
            &[("idempotency-key", long.as_str())],
            &[("idempotency-key", "a"), ("idempotency-key", "b")],
        ] {
            assert!(keyed(&one, headers, "{}").is_err(), "{headers:?}");
        }
        let key = [("idempotency-key", "k")];
        assert!(keyed(&one, &key, r#"{"stream":true}"#).is_ok_and(|key| key.is_none()));
        assert!(keyed(&one, &key, r#"{"stream":false}"#).is_ok_and(|key| key.is_some()));
        assert!(keyed(&one, &[], "{}").is_ok_and(|key| key.is_none()));
    }
}
