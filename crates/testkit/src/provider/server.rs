//! The server: judges each request, then plays the next reply.

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

use super::judge::Target;
use super::script::Step;
use super::{Api, Delivery, Refusal, Reply, Script, bedrock, judge, render};

/// A scripted provider on a port of this machine; dropping it ends it and every connection to it.
pub struct Provider {
    state: Arc<State>,
    address: SocketAddr,
    listening: JoinHandle<()>,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Without the `?`; empty for none.
    pub query: String,
    pub headers: HeaderMap,
    /// `null` when it is no JSON.
    pub body: Value,
    /// The body as its bytes came.
    pub bytes: Bytes,
    /// Why it was not taken, if it was not.
    pub refused: Option<Refusal>,
}

impl Provider {
    /// Listens, and plays the script.
    ///
    /// # Panics
    ///
    /// When this machine has no free port.
    pub async fn start(api: Api, script: Script) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let state = Arc::new(State {
            api,
            script: Mutex::new(script),
            received: Mutex::default(),
            abandoned: Semaphore::new(0),
        });
        let listening = tokio::spawn(listen(listener, state.clone()));
        Provider { state, address, listening }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What one writes as the base URL of this API; see the table of the module.
    pub fn base_url(&self) -> String {
        let path = match self.state.api {
            Api::OpenAiChat | Api::Responses | Api::Mistral | Api::Xai | Api::Vllm | Api::LlamaCpp => "/v1",
            Api::Groq => "/openai/v1",
            _ => "",
        };
        format!("{}{path}", self.origin())
    }

    /// Every request so far, in the order in which they came, the refused ones too.
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.state.received).clone()
    }

    /// The refusals so far; a client that speaks the API right has none.
    pub fn refusals(&self) -> Vec<Refusal> {
        lock(&self.state.received).iter().filter_map(|received| received.refused.clone()).collect()
    }

    /// How many replies have not been played.
    pub fn replies_left(&self) -> usize {
        lock(&self.state.script).queue.len()
    }

    /// Waits until a client has left a reply before its end.
    pub async fn abandoned(&self) {
        if let Ok(permit) = self.state.abandoned.acquire().await {
            permit.forget();
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

struct State {
    api: Api,
    script: Mutex<Script>,
    received: Mutex<Vec<Received>>,
    abandoned: Semaphore,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes connections; they end with it, since the set owns them.
async fn listen(listener: TcpListener, state: Arc<State>) {
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

async fn serve(stream: TcpStream, state: Arc<State>) {
    // Small pieces are to arrive as they were sent.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, state.clone()));
    // An error here is a client that went, or a reply that breaks off: both are meant.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: http::Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Delivered>, io::Error> {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut received = Received {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        bytes,
        refused: None,
    };
    received.refused = received.judged(state.api).err();
    lock(&state.received).push(received.clone());
    let reply = match &received.refused {
        Some(refusal) => Reply::Error {
            status: refusal.status,
            headers: refusal.headers.clone(),
            body: refusal.body.clone(),
        },
        None => state.next(&received),
    };
    state.play(reply, &received).await
}

impl State {
    fn next(&self, received: &Received) -> Reply {
        let mut script = lock(&self.script);
        if let Some(reply) = script.queue.pop_front() {
            return reply;
        }
        match &script.fallback {
            Some(answer) => answer(received),
            None => {
                let asked = lock(&self.received).len();
                let message = format!("the script of this provider has run out at request {asked}");
                Reply::error(500, json!({"error": {"message": message, "type": "script_ran_out"}}))
            }
        }
    }

    async fn play(
        self: Arc<Self>,
        reply: Reply,
        received: &Received,
    ) -> Result<Response<Delivered>, io::Error> {
        let said = |said, delivery| {
            let (kind, events) = render::answer(self.api, &said, received);
            (200, vec![("content-type".to_owned(), kind.to_owned())], events, delivery)
        };
        let (status, headers, events, delivery) = match reply {
            Reply::Answer(answer) => said(answer, Delivery::default()),
            Reply::Delivered(answer, delivery) => said(answer, delivery),
            Reply::Error { status, mut headers, body } => {
                headers.push(("content-type".into(), "application/json".into()));
                (status, headers, vec![body.to_string().into_bytes()], Delivery::default())
            }
            Reply::Raw { status, headers, body, delivery } => (status, headers, body, delivery),
            Reply::CloseBeforeHeaders => return Err(io::Error::other("the script closes here")),
            Reply::Hang => {
                let _unfinished = Unfinished { state: self, is_over: false };
                match std::future::pending::<Infallible>().await {}
            }
        };
        let unfinished = Unfinished { state: self, is_over: false };
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
            .body(Delivered { steps, delivery, passing: None, is_written: false, unfinished })
            .map_err(io::Error::other)
    }
}

impl Received {
    /// The path with its query.
    pub fn target(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }

    /// A value of the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        Target::of(&self.target()).query(name).map(str::to_owned)
    }

    fn judged(&self, api: Api) -> Result<(), Refusal> {
        if self.method != "POST" {
            let message = format!("the providers of this testkit take `POST` only, not `{}`", self.method);
            return Err(Refusal::new(405, json!({"error": {"message": message}})));
        }
        judge(api, &self.headers, &self.target(), &self.body)?;
        match api {
            Api::Bedrock => {
                bedrock::verify(&self.method, &self.path, &self.query, &self.headers, &self.bytes)
            }
            _ => Ok(()),
        }
    }
}

/// A reply under way; one that is dropped before its end was abandoned by the client.
struct Unfinished {
    state: Arc<State>,
    is_over: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.abandoned.add_permits(1);
        }
    }
}

type Passing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body that goes out step by step.
struct Delivered {
    steps: VecDeque<Step>,
    delivery: Delivery,
    passing: Option<Passing>,
    is_written: bool,
    unfinished: Unfinished,
}

impl Body for Delivered {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        // The server writes out what it has when there is no more at once. So each piece goes its own way, and those before
        // a break are not lost with it.
        if !std::mem::replace(&mut this.is_written, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(passing) = &mut this.passing {
                std::task::ready!(passing.as_mut().poll(context));
                this.passing = None;
            }
            return Poll::Ready(match this.steps.pop_front() {
                Some(Step::Pass(index)) => {
                    let gate = this.delivery.gates[index].1.clone();
                    this.passing = Some(Box::pin(async move { gate.pass().await }));
                    continue;
                }
                Some(Step::Send(piece)) => {
                    this.is_written = false;
                    Some(Ok(Frame::data(piece.into())))
                }
                Some(Step::Break) => {
                    this.unfinished.is_over = true;
                    Some(Err(io::Error::other("the script breaks off here")))
                }
                None => {
                    this.unfinished.is_over = true;
                    None
                }
            });
        }
    }
}
