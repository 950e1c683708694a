//! Makes happen what a run decides: asks the model and the person, makes the calls, keeps the messages.

mod call;
mod keep;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwire_contract::{ModelError, ModelEvent, ModelRequest};

use crate::agent::{Unattended, World};
use crate::approval::{Decision, PendingCall};
use crate::event::{AgentEvent, Finished};
use crate::run::{Run, Step};
pub(crate) use keep::keep;

/// How many events wait for whoever reads them; then the run waits too.
const QUEUE: usize = 64;

/// A run that is under way, as the stream of its events. The last one is [`AgentEvent::Done`].
///
/// Nothing happens unless it is polled. Dropping it ends everything at once, as the end of the process would; to end it
/// in an orderly way, cancel it ([`Running::cancelled`]) and read on until it is done.
pub struct Running {
    driving: Option<BoxFuture<'static, ()>>,
    events: mpsc::Receiver<AgentEvent>,
    cancelled: CancellationToken,
}

impl Running {
    pub(crate) fn new(world: Arc<World>, run: Run) -> Running {
        let (sender, events) = mpsc::channel(QUEUE);
        let cancelled = CancellationToken::new();
        let driver = Driver { world, run, events: sender, cancelled: cancelled.clone() };
        Running { driving: Some(driver.drive().boxed()), events, cancelled }
    }

    /// Cancelling this stops the run at whatever it does. What was said stays, every call gets a result, and
    /// [`AgentEvent::Done`] comes soon. It may be cloned and used from anywhere.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Reads to the end, for whoever does not care for what happens on the way.
    pub async fn finish(mut self) -> Finished {
        loop {
            match self.next().await {
                Some(AgentEvent::Done(finished)) => return *finished,
                Some(_) => {}
                None => unreachable!("a run ends with `Done`, and `Done` ends this"),
            }
        }
    }
}

impl Stream for Running {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        loop {
            if let Poll::Ready(event) = self.events.poll_recv(context) {
                return Poll::Ready(event);
            }
            // A queue that is over says so by itself; until then it may only be that others are to have their turn.
            let Some(driving) = &mut self.driving else { return Poll::Pending };
            match driving.as_mut().poll(context) {
                Poll::Ready(()) => self.driving = None,
                Poll::Pending => return self.events.poll_recv(context),
            }
        }
    }
}

/// Never, when there is no limit.
async fn elapsed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

struct Driver {
    world: Arc<World>,
    run: Run,
    events: mpsc::Sender<AgentEvent>,
    cancelled: CancellationToken,
}

impl Driver {
    async fn drive(mut self) {
        let mut steps = self.run.steps();
        let outcome = loop {
            self.keep().await;
            if self.run.steps() > steps && !self.run.has_open_calls() {
                steps = self.run.steps();
                self.tell(AgentEvent::StepDone { step: steps }).await;
            }
            if self.cancelled.is_cancelled() && !self.run.is_done() {
                self.run.cancel();
                continue;
            }
            self.world.show_tools(&mut self.run);
            match self.run.step() {
                Step::AskModel(request) => self.ask(request).await,
                Step::Review(calls) => {
                    if self.world.person.is_none() && self.world.unattended == Unattended::Pause {
                        for call in calls {
                            self.tell(AgentEvent::ApprovalNeeded(call)).await;
                        }
                        break self.run.outcome();
                    }
                    self.review(&calls[0]).await;
                }
                Step::CallTools(calls) => self.call(calls).await,
                Step::Done(outcome) => break outcome,
            }
        };
        let Driver { run, events, .. } = self;
        // Nobody listening is nobody to tell.
        let _ = events.send(AgentEvent::Done(Box::new(Finished { outcome, run }))).await;
    }

    async fn ask(&mut self, request: ModelRequest) {
        let model = self.world.model.clone();
        self.tell(AgentEvent::StepBegan { step: self.run.steps() + 1 }).await;
        if let Some(preparation) = self.run.preparation() {
            // Whoever needs it before it is done waits for it.
            tokio::task::spawn_blocking(preparation);
        }
        let mut answer = model.ask(request);
        let cancelled = self.cancelled.clone();
        loop {
            let event = tokio::select! {
                biased;
                () = cancelled.cancelled() => return self.run.cancel(),
                event = answer.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Text(text))) => {
                    self.run.model_wrote(&text);
                    self.tell(AgentEvent::Text(text)).await;
                }
                Some(Ok(ModelEvent::Thinking(text))) => self.tell(AgentEvent::Thinking(text)).await,
                Some(Ok(ModelEvent::CallAnnounced { id, name })) => {
                    self.tell(AgentEvent::CallAnnounced { id, name }).await
                }
                Some(Ok(ModelEvent::Response(answer))) => {
                    // A tool that came meanwhile is judged by what it says of itself.
                    self.world.show_tools(&mut self.run);
                    let step = answer.usage;
                    self.run.model_said(answer);
                    let total = self.run.outcome().usage;
                    let context = self.run.context();
                    return self.tell(AgentEvent::Usage { step, total, context }).await;
                }
                Some(Err(error)) => return self.run.fail(error),
                None => {
                    let problem = "it ended without an answer".to_owned();
                    return self.run.fail(ModelError::Malformed { model: model.name().to_owned(), problem });
                }
            }
        }
    }

    async fn review(&mut self, call: &PendingCall) {
        self.tell(AgentEvent::ApprovalNeeded(call.clone())).await;
        let decision = match self.world.person.clone() {
            Some(person) => tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return self.run.cancel(),
                decision = person.review(call) => decision,
                () = elapsed(self.world.person_timeout) => {
                    Decision::Nobody { why: format!("{}, and nobody answered in time", call.why) }
                }
            },
            None => Decision::Nobody { why: format!("{}, and nobody is there to allow it", call.why) },
        };
        self.run.person_said(&call.id, decision);
    }

    async fn tell(&self, event: AgentEvent) {
        // Nobody listening is nobody to tell: whoever drops the stream drops this too.
        let _ = self.events.send(event).await;
    }
}
