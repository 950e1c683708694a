//! Performs the steps of a run: queries the model and the approver, calls the tools, saves the messages.

mod call;
mod decisions;
mod persist;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolwire_contract::Message;
use toolwire_contract::model::{ModelError, ModelEvent, ModelRequest};

use crate::agent::{AgentInner, Unattended};
use crate::approval::Decision;
use crate::event::{AgentEvent, FinishedRun};
use crate::run::{Run, Step};
use decisions::Decisions;
pub(crate) use persist::persist;

/// The number of events that wait to be read before the run waits too.
const EVENT_BUFFER: usize = 64;

/// A run in progress, as the stream of its events. The last event is [`AgentEvent::Done`].
///
/// The run advances only while the stream is polled. Dropping the stream stops it immediately, like the end
/// of the process. To stop it cleanly, cancel [`RunStream::cancellation_token`] and read on until `Done`.
pub struct RunStream {
    driving: Option<BoxFuture<'static, ()>>,
    events: mpsc::Receiver<AgentEvent>,
    cancellation: CancellationToken,
    decisions: Arc<Decisions>,
}

impl RunStream {
    pub(crate) fn new(agent: Arc<AgentInner>, run: Run) -> RunStream {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let cancellation = CancellationToken::new();
        let decisions = Arc::<Decisions>::default();
        let driver = Driver {
            agent,
            run,
            events: sender,
            cancellation: cancellation.clone(),
            decisions: decisions.clone(),
        };
        RunStream { driving: Some(driver.drive().boxed()), events, cancellation, decisions }
    }

    /// Returns a token that cancels the run from anywhere. After cancelling, the text written so far stays in
    /// the history, every call gets a result, and [`AgentEvent::Done`] follows soon.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.cancellation.clone()
    }

    /// Reports the decision about a call while others run, for an agent that pauses for approvals
    /// ([`Unattended::Pause`](crate::Unattended::Pause)). An approved call starts at once. The decision is
    /// ignored if the call does not need one.
    pub fn decide(&self, id: impl Into<String>, decision: Decision) {
        self.decisions.add(id.into(), decision);
    }

    /// Returns the decisions that came too late for this stream: the run had paused. Report them to
    /// [`Run::decide`].
    pub fn take_unused_decisions(&self) -> Vec<(String, Decision)> {
        self.decisions.take()
    }

    /// Returns the events that were emitted and not yet read. The run does not advance, so this also works
    /// when it is about to be dropped.
    pub fn take_emitted(&mut self) -> Vec<AgentEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// Drives the run to its end and ignores all events before [`AgentEvent::Done`].
    pub async fn finish(mut self) -> FinishedRun {
        loop {
            match self.next().await {
                Some(AgentEvent::Done(finished)) => return *finished,
                Some(_) => {}
                None => unreachable!("the last event is `Done`, which returns"),
            }
        }
    }
}

impl Stream for RunStream {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        loop {
            if let Poll::Ready(event) = self.events.poll_recv(context) {
                return Poll::Ready(event);
            }
            // A closed channel is always ready, except when tokio makes this task yield.
            let Some(driving) = &mut self.driving else { return Poll::Pending };
            match driving.as_mut().poll(context) {
                Poll::Ready(()) => self.driving = None,
                Poll::Pending => return self.events.poll_recv(context),
            }
        }
    }
}

struct Driver {
    agent: Arc<AgentInner>,
    run: Run,
    events: mpsc::Sender<AgentEvent>,
    cancellation: CancellationToken,
    decisions: Arc<Decisions>,
}

impl Driver {
    async fn drive(mut self) {
        let mut steps = self.run.steps();
        let outcome = loop {
            self.emit_and_persist().await;
            if self.run.steps() > steps && !self.run.has_open_calls() {
                steps = self.run.steps();
                self.emit(AgentEvent::StepFinished { step: steps }).await;
            }
            if self.cancellation.is_cancelled() && !self.run.is_done() {
                self.run.cancel();
                continue;
            }
            if !self.run.is_done() && !self.prepare_model().await {
                continue;
            }
            self.agent.update_tools(&mut self.run);
            if self.run.needs_summary() {
                self.summarize().await;
                continue;
            }
            match self.run.step() {
                Step::AskModel(request) => {
                    // Decisions that are left over are discarded: a later call may have the same id.
                    self.decisions.take();
                    if let Some(reduction) = self.run.take_reduction() {
                        self.emit(AgentEvent::ContextReduced(reduction)).await;
                    }
                    self.ask_model(request).await;
                }
                Step::Review(_) if self.use_decisions() => {}
                Step::Review(calls) if self.agent.approver.is_none() => {
                    let pauses = self.agent.unattended == Unattended::Pause;
                    for call in calls {
                        self.emit(AgentEvent::ApprovalNeeded(call.clone())).await;
                        if !pauses {
                            self.run.decide(&call.id, Decision::unattended(&call));
                        }
                    }
                    if pauses {
                        break self.run.outcome();
                    }
                }
                Step::Review(_) => self.call_tools(Vec::new()).await,
                Step::CallTools(calls) => self.call_tools(calls).await,
                Step::AwaitResults(_) => break self.run.outcome(),
                Step::Done(outcome) => break outcome,
            }
        };
        let Driver { run, events, .. } = self;
        // The receiver may be gone; ignore the send error.
        let _ = events.send(AgentEvent::Done(Box::new(FinishedRun { outcome, run }))).await;
    }

    /// Applies the decisions that were reported to [`RunStream::decide`]. Returns whether there were any.
    fn use_decisions(&mut self) -> bool {
        let decisions = self.decisions.take();
        for (id, decision) in &decisions {
            self.run.decide(id, decision.clone());
        }
        !decisions.is_empty()
    }

    /// Requests the limits of the model. Returns false if the run was cancelled.
    async fn prepare_model(&self) -> bool {
        tokio::select! {
            biased;
            () = self.cancellation.cancelled() => false,
            () = self.agent.model.prepare() => true,
        }
    }

    /// Summarizes earlier turns. If that fails, the request is reduced instead.
    async fn summarize(&mut self) {
        let Some((task, messages)) = self.run.summary_task(None) else { return self.run.summary_failed() };
        let model = self.agent.model.clone();
        let summary = tokio::select! {
            biased;
            () = self.cancellation.cancelled() => return,
            summary = task.run(&*model) => summary,
        };
        match summary {
            Ok((text, usage)) => {
                self.run.add_summary(text, messages, usage);
                self.emit(AgentEvent::ContextSummarized { messages }).await;
            }
            Err(_) => self.run.summary_failed(),
        }
    }

    async fn ask_model(&mut self, request: ModelRequest) {
        let model = self.agent.model.clone();
        self.emit(AgentEvent::StepStarted { step: self.run.steps() + 1 }).await;
        if let Some(build_index) = self.run.pending_index_build() {
            // Runs while the model responds; a search waits until it is done.
            tokio::task::spawn_blocking(build_index);
        }
        if let (Some(embeddings), Some(catalog)) = (&self.agent.embeddings, self.run.searched_catalog()) {
            embeddings.start(catalog);
        }
        let mut response = model.ask(request);
        let cancellation = self.cancellation.clone();
        let mut has_refused = false;
        loop {
            let event = tokio::select! {
                biased;
                () = cancellation.cancelled() => return self.run.cancel(),
                event = response.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Text(text))) => {
                    self.run.model_wrote(&text);
                    if !self.run.hides_text() {
                        self.emit(AgentEvent::Text(text)).await;
                    }
                }
                Some(Ok(ModelEvent::Refusal(text))) => {
                    has_refused = true;
                    self.run.model_wrote(&text);
                    self.emit(AgentEvent::Refusal(text)).await;
                }
                Some(Ok(ModelEvent::TextPart | ModelEvent::Citation(_))) if self.run.hides_text() => {}
                Some(Ok(ModelEvent::TextPart)) => self.emit(AgentEvent::TextPart).await,
                Some(Ok(ModelEvent::Citation(citation))) => self.emit(AgentEvent::Citation(citation)).await,
                Some(Ok(ModelEvent::Media(content))) => self.emit(AgentEvent::Media(content)).await,
                Some(Ok(ModelEvent::ProviderPart(part))) => self.emit(AgentEvent::ProviderPart(part)).await,
                Some(Ok(ModelEvent::Details(details))) => self.emit(AgentEvent::Details(details)).await,
                Some(Ok(ModelEvent::Thinking(text))) => self.emit(AgentEvent::Thinking(text)).await,
                Some(Ok(ModelEvent::CallAnnounced { id, name })) => {
                    self.emit(AgentEvent::CallAnnounced { id, name }).await
                }
                Some(Ok(ModelEvent::Retrying { after, retry, max_retries, error })) => {
                    self.emit(AgentEvent::Retrying { after, retry, max_retries, error }).await;
                }
                Some(Ok(ModelEvent::Response(response))) => {
                    // A tool that appeared in the meantime is checked by its own annotations.
                    self.agent.update_tools(&mut self.run);
                    self.embed_queries(&response.message).await;
                    let step = response.usage;
                    self.run.model_responded(response);
                    if let Some(text) = self.run.hidden_text().filter(|_| !has_refused) {
                        self.emit(AgentEvent::Text(text)).await;
                    }
                    let total = self.run.outcome().usage;
                    let context = self.run.context();
                    return self.emit(AgentEvent::Usage { step, total, context }).await;
                }
                // An event of a later version of the contract, which this driver ignores.
                Some(Ok(_)) => {}
                Some(Err(ModelError::ContextExceeded { window, .. }))
                    if self.run.context_exceeded(window) =>
                {
                    return;
                }
                Some(Err(error)) => return self.run.fail(error),
                None => {
                    let problem = "the stream ended without a response".to_owned();
                    return self.run.fail(ModelError::Malformed { model: model.name().to_owned(), problem });
                }
            }
        }
    }

    /// Compares the meaning of the model's searches with that of the tools. If that fails, the searches
    /// compare words.
    async fn embed_queries(&mut self, response: &Message) {
        let agent = self.agent.clone();
        let (Some(embeddings), Some(catalog)) = (&agent.embeddings, self.run.searched_catalog()) else {
            return;
        };
        let queries = self.run.search_queries(response);
        self.run.set_similarities(HashMap::new());
        if queries.is_empty() {
            return;
        }
        let similarities = tokio::select! {
            biased;
            () = self.cancellation.cancelled() => return,
            similarities = embeddings.similarities(&catalog, &queries) => similarities,
        };
        match similarities {
            Ok(similarities) => self.run.set_similarities(queries.into_iter().zip(similarities).collect()),
            Err(failure) if embeddings.is_new(&failure) => {
                self.emit(AgentEvent::EmbeddingsUnavailable(failure)).await;
            }
            Err(_) => {}
        }
    }

    async fn emit(&self, event: AgentEvent) {
        // The receiver may be gone; ignore the send error.
        let _ = self.events.send(event).await;
    }
}
