//! The responses of a fake provider, and the delivery of their bytes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{ModelOutput, ReceivedRequest};

/// The responses of a provider in order, one for each request that is not rejected.
#[derive(Default)]
pub struct Script {
    pub(super) queue: VecDeque<ScriptedResponse>,
    pub(super) fallback: Option<Fallback>,
    pub(super) embeddings_queue: VecDeque<ScriptedResponse>,
    pub(super) window: Option<u64>,
    pub(super) states_window: bool,
}

pub(super) type Fallback = Box<dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync>;

impl Script {
    /// Plays these responses; a request after the last one gets an error with status 500.
    pub fn new(responses: impl IntoIterator<Item = ScriptedResponse>) -> Script {
        Script { queue: responses.into_iter().collect(), ..Script::default() }
    }

    /// Computes each response from the request, for requests without a fixed order.
    pub fn from_fn(respond: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static) -> Script {
        Script { fallback: Some(Box::new(respond)), ..Script::default() }
    }

    /// Plays these responses before those of [`Script::from_fn`].
    pub fn starting_with(mut self, responses: impl IntoIterator<Item = ScriptedResponse>) -> Script {
        self.queue.extend(responses);
        self
    }

    /// Plays these responses to the first requests for embeddings. The following ones get vectors.
    pub fn with_embeddings(mut self, responses: impl IntoIterator<Item = ScriptedResponse>) -> Script {
        self.embeddings_queue.extend(responses);
        self
    }

    /// Refuses requests that are longer than this context window, in tokens. If `is_stated`, the provider
    /// also states the window to clients that ask for it, where the API has a way to do so.
    pub fn with_window(mut self, tokens: u64, is_stated: bool) -> Script {
        self.window = Some(tokens);
        self.states_window = is_stated;
        self
    }
}

impl<const COUNT: usize> From<[ModelOutput; COUNT]> for Script {
    fn from(outputs: [ModelOutput; COUNT]) -> Script {
        Script::new(outputs.map(ScriptedResponse::Output))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Script").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The response to one request.
#[derive(Clone, Debug)]
pub enum ScriptedResponse {
    /// An output in the API's own JSON, complete or streamed as requested.
    Output(ModelOutput),
    /// An output whose bytes are delivered in a certain way.
    Delivered(ModelOutput, Delivery),
    /// An error of the provider.
    Error { status: u16, headers: Vec<(String, String)>, body: Value },
    /// Any response, such as that of a proxy in front of the provider.
    Raw { status: u16, headers: Vec<(String, String)>, body: Vec<Vec<u8>>, delivery: Delivery },
    /// Closes the connection before the first byte of a response.
    CloseBeforeHeaders,
    /// Sends nothing and leaves the connection open until the client or the provider closes it.
    Hang,
}

impl ScriptedResponse {
    /// An error without extra headers.
    pub fn error(status: u16, body: Value) -> ScriptedResponse {
        ScriptedResponse::Error { status, headers: Vec::new(), body }
    }
}

/// Options for sending the bytes of a response. Each piece is one HTTP chunk, so that a client receives it
/// separately.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    pub split: BodySplit,
    /// Breaks the connection after this many events.
    pub cut_after_events: Option<usize>,
    /// Breaks the connection after this many bytes of the body.
    pub cut_after_bytes: Option<usize>,
    /// Waits before the status and the headers.
    pub before_headers: Option<Gate>,
    /// Waits before the events with these numbers, counted from 0; the number after the last event is the
    /// end.
    pub gates: Vec<(usize, Gate)>,
}

/// Where a body is split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodySplit {
    /// Between events.
    #[default]
    None,
    EveryByte,
    /// Into pieces of these sizes, repeated, regardless of events.
    Sizes(Vec<usize>),
}

/// A point at which a response waits until a test opens the gate.
#[derive(Clone, Debug)]
pub struct Gate {
    reached: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { reached: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Waits until a response waits at this gate.
    pub async fn reached(&self) {
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
        }
    }

    /// Lets one response pass.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        if let Ok(permit) = self.opened.acquire().await {
            permit.forget();
        }
    }
}

/// One step in the delivery of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeliveryStep {
    Pass(usize),
    Send(Vec<u8>),
    Break,
}

impl Delivery {
    pub(super) fn steps(&self, events: &[Vec<u8>]) -> VecDeque<DeliveryStep> {
        let mut steps = VecDeque::new();
        let mut bytes_left = self.cut_after_bytes.unwrap_or(usize::MAX);
        let mut sizes = PieceSizes { split: &self.split, next_index: 0, left: 0 };
        for (number, event) in events.iter().enumerate() {
            self.gates_before(number, &mut steps);
            if self.cut_after_events == Some(number) || bytes_left == 0 {
                steps.push_back(DeliveryStep::Break);
                return steps;
            }
            let mut rest = &event[..event.len().min(bytes_left)];
            bytes_left -= rest.len();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(sizes.next(rest.len()));
                steps.push_back(DeliveryStep::Send(piece.to_vec()));
                rest = after;
            }
        }
        self.gates_before(events.len(), &mut steps);
        if self.cut_after_events == Some(events.len()) || bytes_left == 0 {
            steps.push_back(DeliveryStep::Break);
        }
        steps
    }

    fn gates_before(&self, number: usize, steps: &mut VecDeque<DeliveryStep>) {
        let gates = self.gates.iter().enumerate().filter(|(_, (event, _))| *event == number);
        steps.extend(gates.map(|(index, _)| DeliveryStep::Pass(index)));
    }
}

/// Computes the size of each piece.
struct PieceSizes<'delivery> {
    split: &'delivery BodySplit,
    next_index: usize,
    /// The unused part of the current size, if an event ended before it was used up.
    left: usize,
}

impl PieceSizes<'_> {
    fn next(&mut self, available: usize) -> usize {
        match self.split {
            BodySplit::None => available,
            BodySplit::EveryByte => 1,
            BodySplit::Sizes(sizes) => {
                if self.left == 0 {
                    let size = sizes.get(self.next_index % sizes.len().max(1));
                    self.left = size.copied().unwrap_or(available).max(1);
                    self.next_index += 1;
                }
                let size = self.left.min(available);
                self.left -= size;
                size
            }
        }
    }
}
