//! One answer, from the message to the end: shown as it comes, stopped when a person says so.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use toolwire_agent::{AgentEvent, Decision, Ending, FinishedRun, PendingCall, RunError, RunStream};
use toolwire_contract::{StopReason, StoreError};
use toolwire_hub::{ElicitKind, ElicitReply, Phase};

use super::Chat;
use super::approval;
use super::editor::{Line, Purpose};
use super::form;
use super::person::Question;
use super::quiet::Quiet;
use super::view::View;
use crate::command_error::{ERROR, NOTE, REFUSED};
use crate::terminal_text::sanitize;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(80);
/// How long a message waits for servers that are still connecting.
const PATIENCE: Duration = Duration::from_secs(30);

/// What comes after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Prompt,
    /// The person stopped it: once more means to leave.
    Stopped,
    /// The person has had enough.
    Leave,
}

impl Chat {
    /// Answers what the run has been told.
    pub(crate) async fn answer(&mut self) -> io::Result<After> {
        let _quiet = self.input.is_terminal().then(Quiet::begin);
        self.interrupts.forget();
        loop {
            let idle = self.session.agent.new_run();
            let run = std::mem::replace(&mut self.session.run, idle);
            let Some(FinishedRun { outcome, run }) = self.drive(run).await? else { return Ok(After::Leave) };
            self.session.run = run;
            self.view.settle()?;
            let is_refused = outcome.is_finished() && outcome.stop == Some(StopReason::Refusal);
            self.has_failed = is_refused || !outcome.is_finished();
            let after = if outcome.ending == Ending::Cancelled { After::Stopped } else { After::Prompt };
            match outcome.ending {
                Ending::Finished if is_refused => self.view.note("refused:", NOTE, REFUSED)?,
                Ending::Finished => {}
                Ending::Cancelled => self.view.note("stopped", NOTE, "· Ctrl-C again exits")?,
                Ending::Stopped(limit) => {
                    self.view.note("stopped:", NOTE, &limit.to_string())?;
                    self.view.hint(
                        "type a message to continue; `toolwire.agent` in the configuration sets the limits",
                    )?;
                }
                Ending::Failed(failure) if is_about_place(&failure) => {
                    self.view.note("error:", ERROR, &failure.message)?;
                    match self.session.keep_anew().await {
                        Ok(()) => self.view.hint(
                            "this conversation is now stored separately with all its messages; `/retry` sends the message again",
                        )?,
                        Err(error) => {
                            self.view.hint(&format!("it cannot be stored separately either: {error}"))?;
                        }
                    }
                }
                Ending::Failed(failure) => {
                    self.view.note("error:", ERROR, &failure.message)?;
                    match &failure.hint {
                        Some(hint) => self.view.hint(hint)?,
                        None => self.view.hint("`/retry` sends the message again")?,
                    }
                }
                Ending::NeedsApproval(_) => {
                    // Looked at anew for each: an "always" decides about the tool's other calls too.
                    while let Some(call) = self.session.run.pending_calls().into_iter().next() {
                        let Some(decision) = self.review(&call).await? else {
                            self.session.run.cancel();
                            break;
                        };
                        self.session.run.decide(&call.id, decision);
                    }
                    continue;
                }
                _ => self.view.note("stopped:", NOTE, "the run ended for an unknown reason")?,
            }
            return Ok(after);
        }
    }

    /// Drives a run until it ends or pauses; nothing when the person leaves before.
    async fn drive(&mut self, run: toolwire_agent::Run) -> io::Result<Option<FinishedRun>> {
        let mut running = self.session.agent.drive(run);
        let stop = running.cancellation_token();
        let mut held: VecDeque<AgentEvent> = VecDeque::new();
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.view.wait("saving the message")?;
        loop {
            if let Some(event) = held.pop_front() {
                if let Some(finished) = tell(&mut self.view, event)? {
                    return Ok(Some(finished));
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if stop.is_cancelled() {
                        self.view.settle()?;
                        return Ok(None);
                    }
                    stop.cancel();
                    self.view.wait("stopping · Ctrl-C again exits")?;
                }
                event = running.next() => match event {
                    Some(event) => {
                        if let Some(finished) = tell(&mut self.view, event)? {
                            return Ok(Some(finished));
                        }
                    }
                    None => return Err(io::Error::other("the run ended without an outcome")),
                },
                Some(question) = self.questions.recv() => {
                    self.pass_on(question, &mut running, &mut held).await?;
                }
                _ = turns.tick() => self.view.tick()?,
            }
        }
    }

    /// Asks whether a call may run; nothing when the person would rather stop.
    async fn review(&mut self, call: &PendingCall) -> io::Result<Option<Decision>> {
        if !self.input.is_terminal() {
            self.view.note("denied:", NOTE, &approval::question(call))?;
            self.view.hint(&format!("allow it in the configuration: \"toolwire\": {{\"agent\": {{\"approvals\": {{\"allow\": [\"{}\"]}}}}}}", call.name))?;
            return Ok(Some(Decision::unattended(call)));
        }
        self.view.note("approve:", NOTE, &approval::question(call))?;
        self.view.lines(&approval::arguments(call))?;
        self.input.put_aside();
        loop {
            let prompt = approval::PROMPT.to_owned();
            match self.input.next((prompt.clone(), format!("{NOTE}{prompt}{NOTE:#}")), Purpose::Answer).await
            {
                Line::Text(typed) => match approval::read(&typed) {
                    Some(decision) => return Ok(Some(decision)),
                    None => self.view.hint("type y, a, or n; a reason after n is passed to the model")?,
                },
                Line::Interrupted { .. } | Line::Failed(_) => return Ok(None),
                Line::Ended => return Ok(Some(Decision::No { because: None })),
            }
        }
    }

    /// Passes a server's question on to the person. What happens meanwhile is told afterwards.
    async fn pass_on(
        &mut self,
        question: Question,
        running: &mut RunStream,
        held: &mut VecDeque<AgentEvent>,
    ) -> io::Result<()> {
        self.view.settle()?;
        let Question { server, request, reply } = question;
        let asking = self.elicit(&server, &request);
        tokio::pin!(asking);
        let answer = loop {
            tokio::select! {
                answer = &mut asking => break answer?,
                Some(event) = running.next() => {
                    let is_last = matches!(event, AgentEvent::Done(_));
                    held.push_back(event);
                    if is_last {
                        break asking.await?;
                    }
                }
            }
        };
        // A server that no longer waits is told nothing.
        let _ = reply.send(answer);
        Ok(())
    }

    async fn elicit(
        &mut self,
        server: &str,
        request: &toolwire_hub::ElicitRequest,
    ) -> io::Result<ElicitReply> {
        let words = format!("server `{}` asks: {}", sanitize(server), request.message);
        self.view.note("question:", NOTE, &words)?;
        if !self.input.is_terminal() {
            self.view.hint("no interactive terminal: declined")?;
            return Ok(ElicitReply::Decline);
        }
        self.input.put_aside();
        match &request.kind {
            ElicitKind::Url { url, .. } => {
                self.view.lines(&[format!("  {}", sanitize(url))])?;
                let agreed = self.question("open this page yourself; done? y or n: ").await;
                Ok(match agreed.as_deref().map(str::trim) {
                    Some("y" | "yes") => ElicitReply::Accept(None),
                    Some(_) => ElicitReply::Decline,
                    None => ElicitReply::Cancel,
                })
            }
            ElicitKind::Form { schema } => {
                self.view.hint("`/decline` declines")?;
                let mut values = Vec::new();
                for field in form::fields(schema) {
                    self.view.lines(&field.about())?;
                    loop {
                        let Some(typed) = self.question(&field.prompt()).await else {
                            return Ok(ElicitReply::Cancel);
                        };
                        if typed.trim() == "/decline" {
                            return Ok(ElicitReply::Decline);
                        }
                        match field.read(&typed) {
                            Ok(value) => {
                                values.extend(value.map(|value| (field.name.clone(), value)));
                                break;
                            }
                            Err(problem) => self.view.hint(&problem)?,
                        }
                    }
                }
                Ok(ElicitReply::Accept(Some(form::answer(values))))
            }
        }
    }

    /// One line from the person; nothing when they would rather not.
    async fn question(&mut self, prompt: &str) -> Option<String> {
        let styled = format!("{NOTE}{prompt}{NOTE:#}");
        match self.input.next((prompt.to_owned(), styled), Purpose::Answer).await {
            Line::Text(typed) => Some(typed),
            Line::Interrupted { .. } | Line::Ended | Line::Failed(_) => None,
        }
    }

    /// Waits for servers that are still connecting; a message sent before they are there would not know their
    /// tools. `false` when the person would rather not send it.
    pub(crate) async fn wait_for_servers(&mut self) -> io::Result<bool> {
        let connecting = |chat: &Chat| -> Vec<String> {
            let servers = chat.session.hub.status().into_iter();
            servers
                .filter(|server| server.phase == Phase::Connecting)
                .map(|server| sanitize(&server.name))
                .collect()
        };
        if connecting(self).is_empty() {
            // A server is ready a moment before its tools are offered; this comes back at once, with them.
            self.session.hub.settled().await;
            return Ok(true);
        }
        let _quiet = self.input.is_terminal().then(Quiet::begin);
        self.interrupts.forget();
        let hub = self.session.hub.clone();
        let settled = timeout_at(Instant::now() + PATIENCE, hub.settled());
        tokio::pin!(settled);
        let mut turns = interval(TURN);
        let is_sent = loop {
            tokio::select! {
                outcome = &mut settled => {
                    if outcome.is_err() {
                        let names = connecting(self).join(", ");
                        let words = format!("continuing without {names}: still connecting after {PATIENCE:?}");
                        self.view.note("note:", NOTE, &words)?;
                    }
                    break true;
                }
                () = self.interrupts.next() => {
                    self.view.settle()?;
                    self.view.note("stopped:", NOTE, "the message was not sent")?;
                    break false;
                }
                _ = turns.tick() => {
                    let names = connecting(self).join(", ");
                    self.view.wait(&format!("waiting for {names} · Ctrl-C stops"))?;
                }
            }
        };
        self.view.settle()?;
        self.tell_of_servers(true)?;
        Ok(is_sent)
    }
}

/// Whether the conversation is no longer where it was kept, or no longer as it was left.
fn is_about_place(failure: &toolwire_agent::RunFailure) -> bool {
    let cause = failure.cause.as_deref();
    matches!(
        cause,
        Some(RunError::Store(StoreError::Conflict { .. } | StoreError::UnknownConversation { .. }))
    )
}

/// Shows an event; gives the run when it was the last.
fn tell(view: &mut View, event: AgentEvent) -> io::Result<Option<FinishedRun>> {
    match event {
        AgentEvent::StepStarted { .. } => view.wait("waiting for the model")?,
        AgentEvent::Text(piece) => view.text(&piece)?,
        AgentEvent::Thinking(piece) => view.thinking(&piece)?,
        AgentEvent::CallAnnounced { id, name } => view.call_began(&id, &name)?,
        AgentEvent::CallStarted { id, name, arguments } => view.call_started(&id, &name, &arguments)?,
        AgentEvent::CallProgress { id, progress } => view.call_progressed(&id, &progress)?,
        AgentEvent::CallFinished { id, name, result, elapsed } => {
            view.call_finished(&id, &name, &result, elapsed)?;
        }
        AgentEvent::Done(finished) => return Ok(Some(*finished)),
        // A call that must be approved is asked about when the run pauses.
        _ => {}
    }
    Ok(None)
}
