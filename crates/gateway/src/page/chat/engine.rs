//! Runs of the page. A run belongs to its conversation and not to a browser: it goes on when all pages are
//! closed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use toolwire_agent::approval::Decision;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentEvent, Ending, FinishedRun, RunError};
use toolwire_contract::conversations::ConversationId;
use toolwire_page::traffic::RequestOutcome;

use super::active::ActiveChat;
use super::live::AbnormalEnd;
use super::saved::SavedRuns;
use crate::meter::RunMeter;
use crate::response::{hint_without_address, log_unreachable};
use crate::traffic::RunRecorder;

/// Changes within this interval are published together: a screen displays about 60 images per second.
const FRAME: Duration = Duration::from_millis(16);

/// A decision of a person about a call.
pub(super) struct CallDecision {
    pub(super) call: String,
    pub(super) decision: Decision,
}

/// A run, with everything that drives it.
pub(super) struct Engine {
    pub(super) id: ConversationId,
    pub(super) agent: Agent,
    pub(super) active: Arc<ActiveChat>,
    pub(super) saved: Arc<SavedRuns>,
    pub(super) decisions: mpsc::Receiver<CallDecision>,
    /// Cancelled when a person stops the response.
    pub(super) stop: CancellationToken,
    /// Cancelled when the gateway ends.
    pub(super) closing: CancellationToken,
    /// Decisions that the run has not used yet.
    pub(super) early: Vec<CallDecision>,
    /// The record of the run in the traffic.
    pub(super) recorder: RunRecorder,
    /// Counts the run, if the key of the visitor has limits.
    pub(super) meter: Option<RunMeter>,
}

/// The reason why the engine stopped waiting for decisions.
enum WaitEnd {
    Decided,
    Stopped,
    Closing,
}

impl Engine {
    /// Drives a run to its end. A run that was saved while it waited continues with `is_waiting`.
    pub(super) async fn run(mut self, mut run: Run, mut is_waiting: bool) {
        loop {
            if is_waiting {
                match self.wait(&mut run).await {
                    WaitEnd::Decided => {}
                    WaitEnd::Stopped => run.cancel(),
                    // The run is saved, and continues with the next start.
                    WaitEnd::Closing => return,
                }
                self.saved.remove(&self.id).await;
            }
            let FinishedRun { outcome, run: finished } = self.drive(run).await;
            run = finished;
            let end = match outcome.ending {
                Ending::NeedsApproval(pending) => {
                    self.saved.save(&self.id, &run).await;
                    self.active.lock().wait(&pending);
                    is_waiting = true;
                    continue;
                }
                Ending::Finished => None,
                Ending::Cancelled => Some(AbnormalEnd::Stopped),
                Ending::Stopped(limit) => Some(AbnormalEnd::Limited(limit.to_string())),
                Ending::Failed(failure) => {
                    if let Some(RunError::Model(error)) = failure.cause.as_deref() {
                        log_unreachable(error);
                    }
                    let hint = hint_without_address(&failure);
                    Some(AbnormalEnd::Failed { message: failure.message, hint })
                }
                _ => Some(AbnormalEnd::Failed {
                    message: "the run ended for an unknown reason".to_owned(),
                    hint: None,
                }),
            };
            let (outcome, error) = match &end {
                Some(AbnormalEnd::Stopped) => (RequestOutcome::Stopped, None),
                Some(AbnormalEnd::Failed { message, .. }) => {
                    (RequestOutcome::UpstreamError, Some(message.as_str()))
                }
                Some(AbnormalEnd::Limited(_)) | None => (RequestOutcome::Ok, None),
            };
            self.recorder.end(outcome, error);
            self.active.lock().end(end);
            return;
        }
    }

    /// Waits for decisions and applies them.
    async fn wait(&mut self, run: &mut Run) -> WaitEnd {
        loop {
            let mut is_decided = false;
            while let Ok(decided) = self.decisions.try_recv() {
                self.early.push(decided);
            }
            for CallDecision { call, decision } in self.early.drain(..) {
                run.decide(&call, decision);
                is_decided = true;
            }
            if is_decided {
                return WaitEnd::Decided;
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return WaitEnd::Closing,
                () = self.stop.cancelled() => return WaitEnd::Stopped,
                decided = self.decisions.recv() => match decided {
                    Some(decided) => self.early.push(decided),
                    None => return WaitEnd::Stopped,
                },
            }
        }
    }

    /// Drives a run until it ends or needs a decision, and publishes its events.
    async fn drive(&mut self, run: Run) -> FinishedRun {
        let mut stream = self.agent.drive(run);
        let cancellation = stream.cancellation_token();
        let mut flush_at: Option<Instant> = None;
        loop {
            let flush = async move {
                match flush_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = flush => {
                    let has_postponed = self.active.lock().flush();
                    flush_at = has_postponed.then(|| Instant::now() + FRAME);
                }
                () = self.stop.cancelled(), if !cancellation.is_cancelled() => cancellation.cancel(),
                () = self.closing.cancelled(), if !cancellation.is_cancelled() => cancellation.cancel(),
                // An approved call starts at once, while others run.
                Some(CallDecision { call, decision }) = self.decisions.recv() => stream.decide(call, decision),
                event = stream.next() => match event {
                    Some(AgentEvent::Done(finished)) => {
                        self.active.lock().flush();
                        let unused = stream.take_unused_decisions().into_iter();
                        self.early.extend(unused.map(|(call, decision)| CallDecision { call, decision }));
                        return *finished;
                    }
                    Some(event) => {
                        self.recorder.observe(&event);
                        if let Some(meter) = &self.meter {
                            meter.observe(&event);
                        }
                        self.active.lock().apply(&event);
                        flush_at.get_or_insert_with(|| Instant::now() + FRAME);
                    }
                    None => unreachable!("the last event is `Done`, which returns"),
                },
            }
        }
    }
}
