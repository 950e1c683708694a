//! What a provider answers, and how the bytes of it go out.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Received, Said};

/// The replies of a provider, one per request that is not refused, in order.
#[derive(Default)]
pub struct Script {
    pub(super) queue: VecDeque<Reply>,
    pub(super) fallback: Option<Fallback>,
}

pub(super) type Fallback = Box<dyn Fn(&Received) -> Reply + Send + Sync>;

impl Script {
    /// These replies; a request after the last of them is answered with a 500 that says so.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Script {
        Script { queue: replies.into_iter().collect(), fallback: None }
    }

    /// Replies that depend on the request; for requests that come in no fixed order.
    pub fn answering(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Script {
        Script { queue: VecDeque::new(), fallback: Some(Box::new(answer)) }
    }

    /// These replies first, then those of [`Script::answering`].
    pub fn first(mut self, replies: impl IntoIterator<Item = Reply>) -> Script {
        self.queue.extend(replies);
        self
    }
}

impl<const COUNT: usize> From<[Said; COUNT]> for Script {
    fn from(answers: [Said; COUNT]) -> Script {
        Script::new(answers.map(Reply::Answer))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Script").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// What one request gets.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer in the API's own JSON, whole or streamed as the request asks.
    Answer(Said),
    /// The same, with its bytes delivered in a certain way.
    Delivered(Said, Delivery),
    /// An error of the provider's.
    Error { status: u16, headers: Vec<(String, String)>, body: Value },
    /// Anything: what stands between a client and a provider may answer too.
    Raw { status: u16, headers: Vec<(String, String)>, body: Vec<Vec<u8>>, delivery: Delivery },
    /// The connection is closed before a byte of the answer.
    CloseBeforeHeaders,
    /// Nothing, with the connection open, until the client or the provider goes.
    Hang,
}

impl Reply {
    /// An error without headers of its own.
    pub fn error(status: u16, body: Value) -> Reply {
        Reply::Error { status, headers: Vec::new(), body }
    }
}

/// How the bytes of an answer go out. Each piece is a chunk of HTTP of its own, so that a client sees it as one.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    pub split: Split,
    /// The connection breaks after this many events.
    pub cut_after_events: Option<usize>,
    /// The connection breaks after this many bytes of the body.
    pub cut_after_bytes: Option<usize>,
    /// Waits before the status and the headers.
    pub before_headers: Option<Gate>,
    /// Waits before the events with these numbers, counted from 0; the number after the last is the end.
    pub gates: Vec<(usize, Gate)>,
}

/// Where a body is torn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Between events.
    #[default]
    None,
    EveryByte,
    /// Pieces of these sizes across events, over and over.
    Sizes(Vec<usize>),
}

/// A place where a reply waits until a test lets it go on.
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

    /// Waits until a reply stands before this gate.
    pub async fn reached(&self) {
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
        }
    }

    /// Lets one reply through.
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

/// What to do next with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Pass(usize),
    Send(Vec<u8>),
    Break,
}

impl Delivery {
    /// The way of a body, piece by piece.
    pub(super) fn steps(&self, events: &[Vec<u8>]) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        let mut left = self.cut_after_bytes.unwrap_or(usize::MAX);
        let mut sizes = Sizes { split: &self.split, at: 0, room: 0 };
        for (number, event) in events.iter().enumerate() {
            self.gates_before(number, &mut steps);
            if self.cut_after_events == Some(number) || left == 0 {
                steps.push_back(Step::Break);
                return steps;
            }
            let mut rest = &event[..event.len().min(left)];
            left -= rest.len();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(sizes.next(rest.len()));
                steps.push_back(Step::Send(piece.to_vec()));
                rest = after;
            }
        }
        self.gates_before(events.len(), &mut steps);
        if self.cut_after_events == Some(events.len()) || left == 0 {
            steps.push_back(Step::Break);
        }
        steps
    }

    fn gates_before(&self, number: usize, steps: &mut VecDeque<Step>) {
        let here = self.gates.iter().enumerate().filter(|(_, (event, _))| *event == number);
        steps.extend(here.map(|(index, _)| Step::Pass(index)));
    }
}

/// How long the next piece is.
struct Sizes<'delivery> {
    split: &'delivery Split,
    at: usize,
    room: usize,
}

impl Sizes<'_> {
    fn next(&mut self, available: usize) -> usize {
        match self.split {
            Split::None => available,
            Split::EveryByte => 1,
            Split::Sizes(sizes) => {
                if self.room == 0 {
                    self.room = sizes.get(self.at % sizes.len().max(1)).copied().unwrap_or(available).max(1);
                    self.at += 1;
                }
                let size = self.room.min(available);
                self.room -= size;
                size
            }
        }
    }
}
