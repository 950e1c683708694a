//! The HTTP server: checks each request, then plays the next response.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::check::RequestTarget;
use super::script::DeliveryStep;
use super::{
    Api, Delivery, Rejection, Script, ScriptedResponse, bedrock, check_request, embeddings, render, window,
};

/// A fake provider on a local port; dropping it closes it and every connection to it.
pub struct FakeProvider {
    state: Arc<ProviderState>,
    address: SocketAddr,
    listening: JoinHandle<()>,
}

/// A request as the provider received it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    /// The query without the `?`; empty when there is none.
    pub query: String,
    pub headers: HeaderMap,
    /// The parsed body; `null` when it is not JSON.
    pub body: Value,
    /// The unparsed body.
    pub bytes: Bytes,
    /// Set if the request was rejected.
    pub rejection: Option<Rejection>,
}

impl FakeProvider {
    /// Starts to listen and plays the script.
    ///
    /// # Panics
    ///
    /// When this machine has no free port.
    pub async fn start(api: Api, script: Script) -> FakeProvider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let state = Arc::new(ProviderState {
            api,
            script: Mutex::new(script),
            received: Mutex::default(),
            lookups: Mutex::default(),
            abandoned: Semaphore::new(0),
        });
        let listening = tokio::spawn(listen(listener, state.clone()));
        FakeProvider { state, address, listening }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL that a client of this API is configured with; see the table of the module.
    pub fn base_url(&self) -> String {
        let path = match self.state.api {
            Api::OpenAiChat | Api::Responses | Api::Mistral | Api::Xai | Api::Vllm | Api::LlamaCpp => "/v1",
            Api::Groq => "/openai/v1",
            _ => "",
        };
        format!("{}{path}", self.origin())
    }

    /// Returns every request so far in order of arrival, including rejected ones.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.state.received).clone()
    }

    /// Returns the paths of the requests for descriptions of models. They are not part of
    /// [`FakeProvider::requests`].
    pub fn lookups(&self) -> Vec<String> {
        lock(&self.state.lookups).clone()
    }

    /// Returns the rejections so far; a correct client causes none.
    pub fn rejections(&self) -> Vec<Rejection> {
        lock(&self.state.received).iter().filter_map(|received| received.rejection.clone()).collect()
    }

    /// Returns how many scripted responses have not been played.
    pub fn responses_left(&self) -> usize {
        lock(&self.state.script).queue.len()
    }

    /// Waits until a client has closed the connection before the end of a response.
    pub async fn abandoned(&self) {
        if let Ok(permit) = self.state.abandoned.acquire().await {
            permit.forget();
        }
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

struct ProviderState {
    api: Api,
    script: Mutex<Script>,
    received: Mutex<Vec<ReceivedRequest>>,
    lookups: Mutex<Vec<String>>,
    abandoned: Semaphore,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections. The set owns them, so they end with this task.
async fn listen(listener: TcpListener, state: Arc<ProviderState>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, state.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<ProviderState>) {
    // Small pieces must arrive as they were sent.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| respond(request, state.clone()));
    // An error here means that the client closed the connection or that the script breaks it; both are
    // intended.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: http::Request<Incoming>,
    state: Arc<ProviderState>,
) -> Result<Response<DeliveredBody>, io::Error> {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut received = ReceivedRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        bytes,
        rejection: None,
    };
    if window::is_lookup(&received) {
        lock(&state.lookups).push(received.target());
        let (window, is_stated) = {
            let script = lock(&state.script);
            (script.window.unwrap_or(0), script.states_window)
        };
        let description = is_stated.then(|| window::description(state.api, &received.path, window)).flatten();
        let response = match description {
            Some(body) => ScriptedResponse::error(200, body),
            None => ScriptedResponse::error(404, json!({"error": {"message": "Not found"}})),
        };
        return state.play(response, &received).await;
    }
    if embeddings::is_request(&received) {
        received.rejection = embeddings::check(state.api, &received).err();
        lock(&state.received).push(received.clone());
        let scripted = lock(&state.script).embeddings_queue.pop_front();
        let response = match (received.rejection.clone(), scripted) {
            (Some(Rejection { status, headers, body }), _) => {
                ScriptedResponse::Error { status, headers, body }
            }
            (None, Some(response)) => response,
            (None, None) => embeddings::response(&received),
        };
        return state.play(response, &received).await;
    }
    let window = lock(&state.script).window;
    let checked = received.check(state.api);
    let checked = checked.and_then(|()| match window {
        Some(window) => window::check(state.api, window, &received),
        None => Ok(()),
    });
    received.rejection = checked.err();
    lock(&state.received).push(received.clone());
    let response = match received.rejection.clone() {
        Some(Rejection { status, headers, body }) => ScriptedResponse::Error { status, headers, body },
        None => state.next(&received),
    };
    state.play(response, &received).await
}

impl ProviderState {
    fn next(&self, received: &ReceivedRequest) -> ScriptedResponse {
        let mut script = lock(&self.script);
        if let Some(response) = script.queue.pop_front() {
            return response;
        }
        match &script.fallback {
            Some(respond) => respond(received),
            None => {
                let number = lock(&self.received).len();
                let message = format!("the script has no response left for request {number}");
                ScriptedResponse::error(500, json!({"error": {"message": message, "type": "script_ran_out"}}))
            }
        }
    }

    async fn play(
        self: Arc<Self>,
        response: ScriptedResponse,
        received: &ReceivedRequest,
    ) -> Result<Response<DeliveredBody>, io::Error> {
        let rendered = |output, delivery| {
            let (content_type, events) = render::response(self.api, &output, received);
            (200, vec![("content-type".to_owned(), content_type.to_owned())], events, delivery)
        };
        let (status, headers, events, delivery) = match response {
            ScriptedResponse::Output(output) => rendered(output, Delivery::default()),
            ScriptedResponse::Delivered(output, delivery) => rendered(output, delivery),
            ScriptedResponse::Error { status, mut headers, body } => {
                headers.push(("content-type".into(), "application/json".into()));
                (status, headers, vec![body.to_string().into_bytes()], Delivery::default())
            }
            ScriptedResponse::Raw { status, headers, body, delivery } => (status, headers, body, delivery),
            ScriptedResponse::CloseBeforeHeaders => {
                return Err(io::Error::other("the script closes the connection"));
            }
            ScriptedResponse::Hang => {
                let _guard = AbandonGuard { state: self, is_complete: false };
                match std::future::pending::<Infallible>().await {}
            }
        };
        let guard = AbandonGuard { state: self, is_complete: false };
        if let Some(gate) = &delivery.before_headers {
            gate.pass().await;
        }
        let mut response =
            Response::builder().status(StatusCode::from_u16(status).map_err(io::Error::other)?);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        let steps = delivery.steps(&events);
        response
            .body(DeliveredBody { steps, delivery, passing: None, is_flushed: false, guard })
            .map_err(io::Error::other)
    }
}

impl ReceivedRequest {
    /// Returns the path with its query.
    fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// Returns a value of the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        RequestTarget::parse(&self.target()).query(name).map(str::to_owned)
    }

    fn check(&self, api: Api) -> Result<(), Rejection> {
        if self.method != "POST" {
            let message = format!("fake providers accept only `POST`, not `{}`", self.method);
            return Err(Rejection::new(405, json!({"error": {"message": message}})));
        }
        check_request(api, &self.headers, &self.target(), &self.body)?;
        match api {
            Api::Bedrock => bedrock::verify_signature(self),
            _ => Ok(()),
        }
    }
}

/// Counts a response as abandoned when it is dropped before its end.
struct AbandonGuard {
    state: Arc<ProviderState>,
    is_complete: bool,
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        if !self.is_complete {
            self.state.abandoned.add_permits(1);
        }
    }
}

type PassingGate = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body that is sent step by step.
struct DeliveredBody {
    steps: VecDeque<DeliveryStep>,
    delivery: Delivery,
    passing: Option<PassingGate>,
    is_flushed: bool,
    guard: AbandonGuard,
}

impl Body for DeliveredBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        // hyper flushes its buffer when a body is pending. So each piece is sent separately, and a break does
        // not discard the pieces before it.
        if !std::mem::replace(&mut this.is_flushed, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(passing) = &mut this.passing {
                std::task::ready!(passing.as_mut().poll(context));
                this.passing = None;
            }
            return Poll::Ready(match this.steps.pop_front() {
                Some(DeliveryStep::Pass(index)) => {
                    let gate = this.delivery.gates[index].1.clone();
                    this.passing = Some(Box::pin(async move { gate.pass().await }));
                    continue;
                }
                Some(DeliveryStep::Send(piece)) => {
                    this.is_flushed = false;
                    Some(Ok(Frame::data(piece.into())))
                }
                Some(DeliveryStep::Break) => {
                    this.guard.is_complete = true;
                    Some(Err(io::Error::other("the script breaks the connection")))
                }
                None => {
                    this.guard.is_complete = true;
                    None
                }
            });
        }
    }
}
