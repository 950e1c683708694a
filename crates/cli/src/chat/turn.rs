//! One turn: displays the response while it streams, asks for approvals, and stops on Ctrl-C.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use toolwire_agent::approval::{Decision, PendingCall};
use toolwire_agent::{AgentEvent, Ending, FinishedRun, RunError, RunStream};
use toolwire_contract::conversations::StoreError;
use toolwire_contract::model::StopReason;
use toolwire_hub::Phase;
use toolwire_hub::host::{ElicitKind, ElicitReply, ElicitRequest};

use super::Chat;
use super::approval;
use super::editor::InputLine;
use super::form;
use super::questions::Question;
use super::terminal_modes::NoEcho;
use crate::command_error::{CommandError, ERROR, NOTE, REFUSED};
use crate::display::view::{SPINNER_INTERVAL, terminal_size};
use crate::output;
use crate::terminal_text::{sanitize, wrapped};

/// The longest time that a message waits for servers to connect.
const MAX_CONNECT_WAIT: Duration = Duration::from_secs(30);

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    Completed,
    /// The user pressed Ctrl-C; pressing it again exits.
    Stopped,
    /// The user pressed Ctrl-C twice.
    Exit,
}

/// The consequence of an answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Done,
    /// The user stops the response.
    Stop,
}

impl Chat {
    /// Runs the agent until it has responded to the last message.
    pub(crate) async fn respond(&mut self) -> io::Result<TurnEnd> {
        let _no_echo = self.input.is_terminal().then(NoEcho::enable);
        self.interrupts.discard_pending();
        loop {
            let placeholder = self.session.agent.new_run();
            let run = std::mem::replace(&mut self.session.run, placeholder);
            let Some(FinishedRun { outcome, run }) = self.drive(run).await? else { return Ok(TurnEnd::Exit) };
            self.session.run = run;
            self.view.finish_section()?;
            let is_refused = outcome.is_finished() && outcome.stop == Some(StopReason::Refusal);
            self.has_failed = is_refused || !outcome.is_finished();
            let end = if outcome.ending == Ending::Cancelled { TurnEnd::Stopped } else { TurnEnd::Completed };
            match outcome.ending {
                Ending::Finished if is_refused => self.view.note("refused:", NOTE, REFUSED)?,
                Ending::Finished => {}
                Ending::Cancelled if self.interrupts.is_recent() => {
                    self.view.note("stopped", NOTE, "· press Ctrl-C again to exit")?;
                }
                Ending::Cancelled => self.view.note("stopped", NOTE, "")?,
                Ending::Stopped(limit) => {
                    self.view.note("stopped:", NOTE, &limit.to_string())?;
                    self.view.hint(
                        "type a message to continue; `toolwire.agent` in the configuration sets the limits",
                    )?;
                }
                Ending::Failed(failure) if is_store_full(&failure) => {
                    let warning = format!("this conversation is no longer stored: {}", failure.message);
                    self.view.note("warning:", NOTE, &warning)?;
                    match self.session.store_in_memory().await.map_err(CommandError::into_parts) {
                        Ok(()) => continue,
                        Err((problem, _)) => self.view.note("error:", ERROR, &problem)?,
                    }
                }
                Ending::Failed(failure) if is_store_conflict(&failure) => {
                    self.view.note("error:", ERROR, &failure.message)?;
                    match self.session.store_separately().await {
                        Ok(()) => self.view.hint(
                            "this conversation is now stored separately with all its messages; \
                             `/retry` sends the message again",
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
                _ => self.view.note("stopped:", NOTE, "the run ended for an unknown reason")?,
            }
            return Ok(end);
        }
    }

    /// Drives a run until it ends or pauses. Returns `None` if the user exits before that.
    async fn drive(&mut self, run: toolwire_agent::run::Run) -> io::Result<Option<FinishedRun>> {
        let mut running = self.session.agent.drive(run);
        let cancellation = running.cancellation_token();
        let mut queued_events: VecDeque<AgentEvent> = VecDeque::new();
        let mut ticks = interval(SPINNER_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.view.show_waiting("saving the message")?;
        loop {
            if let Some(event) = queued_events.pop_front() {
                if let Some(finished) = self.view.show(event)? {
                    return Ok(Some(finished));
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if self.interrupts.repeats() && cancellation.is_cancelled() {
                        self.view.finish_section()?;
                        return Ok(None);
                    }
                    cancellation.cancel();
                    self.view.show_waiting("stopping · press Ctrl-C again to exit")?;
                }
                event = running.next() => match event {
                    Some(event) => {
                        if let Some(finished) = self.view.show(event)? {
                            return Ok(Some(finished));
                        }
                    }
                    None => return Err(io::Error::other("the run ended without an outcome")),
                },
                Some(question) = self.questions.recv() => {
                    let answered = self.answer_question(question, &mut running, &mut queued_events).await?;
                    if answered == Answered::Stop {
                        self.interrupts.repeats();
                        cancellation.cancel();
                    }
                }
                _ = ticks.tick() => self.view.tick()?,
            }
        }
    }

    /// Asks whether a call may run. Returns `None` if the user stops the turn instead.
    async fn ask_approval(&mut self, call: &PendingCall) -> io::Result<Option<Decision>> {
        let server = self.session.hub.origin(&call.name).map(|(server, _)| server.to_string());
        let question = approval::question(call, server.as_deref());
        if !self.input.is_terminal() {
            self.view.note("denied:", NOTE, &question)?;
            self.view.hint(&format!(
                "allow it in the configuration: \
                 \"toolwire\": {{\"agent\": {{\"approvals\": {{\"allow\": [\"{}\"]}}}}}}",
                call.name
            ))?;
            return Ok(Some(Decision::unattended(call)));
        }
        self.view.note("approve:", NOTE, &question)?;
        self.view.print_lines(&approval::argument_lines(call))?;
        self.input.save_type_ahead();
        loop {
            match self.read_answer(approval::PROMPT).await {
                InputLine::Text(answer) => match approval::parse(&answer) {
                    Some(decision) => return Ok(Some(decision)),
                    None => self.view.hint("type y, a, or n; a reason after n is passed to the model")?,
                },
                InputLine::Interrupted { .. } | InputLine::Failed(_) => return Ok(None),
                InputLine::Eof => return Ok(Some(Decision::No { because: None })),
            }
        }
    }

    /// Asks the user a question and sends the reply. The run continues meanwhile; its events are queued.
    async fn answer_question(
        &mut self,
        question: Question,
        running: &mut RunStream,
        queued_events: &mut VecDeque<AgentEvent>,
    ) -> io::Result<Answered> {
        self.view.finish_section()?;
        let end_of_run = async {
            while !matches!(queued_events.back(), Some(AgentEvent::Done(_))) {
                match running.next().await {
                    Some(event) => queued_events.push_back(event),
                    None => return,
                }
            }
        };
        // The other side may no longer wait for a reply; send errors are ignored.
        let answered = match question {
            Question::Server { server, request, reply } => tokio::select! {
                answer = self.elicit(&server, &request) => {
                    let _ = reply.send(answer?);
                    Some(Answered::Done)
                }
                () = end_of_run => {
                    let _ = reply.send(ElicitReply::Cancel);
                    None
                }
            },
            Question::Approval { call, reply } => tokio::select! {
                decision = self.ask_approval(&call) => Some(match decision? {
                    Some(decision) => {
                        let _ = reply.send(decision);
                        Answered::Done
                    }
                    None => Answered::Stop,
                }),
                () = end_of_run => None,
            },
        };
        if answered.is_none() {
            let reason = "the response ended, so no answer is needed; press Enter";
            self.input.abandon_answer(&format!("{NOTE}note:{NOTE:#} {reason}")).await;
        }
        Ok(answered.unwrap_or(Answered::Done))
    }

    async fn elicit(&mut self, server: &str, request: &ElicitRequest) -> io::Result<ElicitReply> {
        let question = format!("server `{}` asks: {}", sanitize(server), request.message);
        self.view.note("question:", NOTE, &question)?;
        if !self.input.is_terminal() {
            self.view.hint("no interactive terminal: declined")?;
            return Ok(ElicitReply::Decline);
        }
        self.input.save_type_ahead();
        match &request.kind {
            ElicitKind::Url { url, .. } => {
                self.view.print_lines(&[format!("  {}", sanitize(url))])?;
                Ok(match self.read_answer("open this page yourself; done? y or n: ").await {
                    InputLine::Text(answer) if matches!(answer.trim(), "y" | "yes") => {
                        ElicitReply::Accept(None)
                    }
                    InputLine::Text(_) => ElicitReply::Decline,
                    _ => ElicitReply::Cancel,
                })
            }
            ElicitKind::Form { schema } => {
                self.view.hint("`/decline` declines")?;
                let mut values = Map::new();
                for field in form::fields(schema) {
                    self.view.print_lines(&field.description_lines())?;
                    loop {
                        let InputLine::Text(answer) = self.read_answer(&field.prompt()).await else {
                            return Ok(ElicitReply::Cancel);
                        };
                        if answer.trim() == "/decline" {
                            return Ok(ElicitReply::Decline);
                        }
                        match field.parse(&answer) {
                            Ok(value) => {
                                values.extend(value.map(|value| (field.name.clone(), value)));
                                break;
                            }
                            Err(problem) => self.view.hint(&problem)?,
                        }
                    }
                }
                Ok(ElicitReply::Accept(Some(Value::Object(values))))
            }
            _ => {
                self.view.hint("this kind of question is not supported: declined")?;
                Ok(ElicitReply::Decline)
            }
        }
    }

    /// Reads the user's answer to a question.
    pub(super) async fn read_answer(&mut self, prompt: &str) -> InputLine {
        let mut lines = wrapped(prompt.trim_end(), terminal_size().columns.saturating_sub(1));
        let last = format!("{} ", lines.pop().unwrap_or_default());
        for line in lines {
            // The terminal may be gone; reading the answer then fails.
            let _ = output::print_styled(&format!("{NOTE}{line}{NOTE:#}\n"));
        }
        let styled = format!("{NOTE}{last}{NOTE:#}");
        self.input.answer((last, styled)).await
    }

    /// Waits for servers that are still connecting, because the model needs to know their tools. Returns
    /// `false` if the user presses Ctrl-C.
    pub(crate) async fn wait_for_servers(&mut self) -> io::Result<bool> {
        let connecting = |chat: &Chat| -> Vec<String> {
            let servers = chat.session.hub.status().into_iter();
            servers
                .filter(|server| server.phase == Phase::Connecting)
                .map(|server| sanitize(&server.name))
                .collect()
        };
        if connecting(self).is_empty() {
            // A server is ready shortly before its tools are listed. This returns when they are.
            self.session.hub.settled().await;
            self.note_server_changes()?;
            return Ok(true);
        }
        let _no_echo = self.input.is_terminal().then(NoEcho::enable);
        self.interrupts.discard_pending();
        let hub = self.session.hub.clone();
        let settled = timeout_at(Instant::now() + MAX_CONNECT_WAIT, hub.settled());
        tokio::pin!(settled);
        let mut ticks = interval(SPINNER_INTERVAL);
        let is_ready = loop {
            tokio::select! {
                outcome = &mut settled => {
                    if outcome.is_err() {
                        let names = connecting(self).join(", ");
                        let note = format!(
                            "continuing without {names}: still connecting after {MAX_CONNECT_WAIT:?}"
                        );
                        self.view.note("note:", NOTE, &note)?;
                    }
                    break true;
                }
                () = self.interrupts.next() => {
                    self.view.finish_section()?;
                    self.view.note("stopped:", NOTE, "the message was not sent")?;
                    break false;
                }
                _ = ticks.tick() => {
                    let names = connecting(self).join(", ");
                    self.view.show_waiting(&format!("waiting for {names} · Ctrl-C stops"))?;
                }
            }
        };
        self.view.finish_section()?;
        self.note_server_changes()?;
        Ok(is_ready)
    }
}

/// Whether the store has no space left.
fn is_store_full(failure: &toolwire_agent::RunFailure) -> bool {
    matches!(failure.cause.as_deref(), Some(RunError::Store(StoreError::Full { .. })))
}

/// Whether the stored conversation was deleted or changed by another process.
fn is_store_conflict(failure: &toolwire_agent::RunFailure) -> bool {
    let cause = failure.cause.as_deref();
    matches!(
        cause,
        Some(RunError::Store(StoreError::Conflict { .. } | StoreError::UnknownConversation { .. }))
    )
}
