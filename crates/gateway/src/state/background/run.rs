//! Writes a response in the background.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use toolwire_dialect::client::{ClientError, ClientEvent, ErrorKind, ResponseWriter};

use super::guarded_tools::{CallGate, WaitingCall};
use super::journal::{Journal, Lost, RENEWALS};
use crate::exchange::Exchange;
use crate::gateway::Hold;
use crate::items::ClientItems;
use crate::large_bodies::is_large;
use crate::state::record::StoredResponse;
use crate::state::recording::{Recording, Records};

/// Events that are ready at the same time are written together, up to this size.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// A response that is written in the background.
pub(super) struct BackgroundRun {
    pub(super) journal: Journal,
    pub(super) exchange: Exchange,
    pub(super) writer: ResponseWriter,
    /// `None` after the response is complete.
    pub(super) recording: Option<Recording>,
    /// Stores the items of the response; `None` if they are not stored.
    pub(super) items: Option<ClientItems>,
    pub(super) gate: CallGate,
    /// Ends when the key of the request is revoked.
    pub(super) revocation: BoxFuture<'static, ()>,
    /// The document until the response is complete.
    pub(super) stored: StoredResponse,
    pub(super) hold: Hold,
}

enum Next {
    Event(Option<Box<ClientEvent>>),
    Call(WaitingCall),
    Renewal,
}

impl BackgroundRun {
    /// Writes the response to its end, or until the gateway stops.
    pub(super) async fn drive(mut self, stop: CancellationToken) {
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            written = self.write() => Some(written),
        };
        let BackgroundRun { journal, mut exchange, hold, recording, mut stored, .. } = self;
        // The gateway that continues the response has the same lock of the conversation.
        if let Some(recording) = recording {
            recording.keep_lock();
        }
        match ended {
            Some(Ok(())) => {
                exchange.delivered();
                journal.finish().await;
            }
            Some(Err(Lost)) => {
                tracing::warn!(key = %journal.key(), "this gateway does not continue a response: it has lost the lease");
                exchange.end_record(Some("this gateway has lost the right to continue the response"));
            }
            None => {
                // All calls end before another gateway continues.
                drop(exchange);
                journal.hand_over(stored.without_takeover(), Duration::ZERO).await;
            }
        }
        drop(hold);
    }

    async fn write(&mut self) -> Result<(), Lost> {
        let start = self.writer.start();
        self.journal.events(&start);
        let document = self.in_progress();
        self.journal.write(document).await?;
        let interval = self.journal.lease() / RENEWALS;
        let mut renewals = interval_at(Instant::now() + interval, interval);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut self.revocation => Next::Event(Some(Box::new(ClientEvent::Cancelled))),
                Some(call) = self.gate.0.recv() => Next::Call(call),
                event = self.exchange.next() => Next::Event(event.map(Box::new)),
                _ = renewals.tick() => Next::Renewal,
            };
            match next {
                Next::Renewal => self.journal.write(None).await?,
                Next::Call(call) => {
                    // What the run has emitted before the call must be in the log before the call.
                    self.exchange.read_emitted();
                    while let Some(event) = self.exchange.take_ready() {
                        if self.read(event).await? {
                            return Ok(());
                        }
                    }
                    self.journal.records(self.exchange.take_records());
                    self.journal.write(None).await?;
                    // The call may have timed out.
                    let _ = call.send(());
                }
                Next::Event(event) => {
                    let ended = || ClientError::new(ErrorKind::Internal, "the run ended without an outcome");
                    let event = event.map_or_else(|| ClientEvent::Failed(ended()), |event| *event);
                    if self.read(event).await? || self.read_ready(MAX_WRITE_BYTES).await? {
                        return Ok(());
                    }
                    self.journal.write(None).await?;
                }
            }
        }
    }

    /// Returns the document of a response that has begun; `None` if it has not changed.
    fn in_progress(&mut self) -> Option<String> {
        let body = self.writer.body().to_string();
        self.stored.response = RawValue::from_string(body).ok()?;
        serde_json::to_string(&self.stored).ok()
    }

    /// Reads the events that are ready. Returns whether the response is complete.
    async fn read_ready(&mut self, max_bytes: usize) -> Result<bool, Lost> {
        while self.journal.unwritten_bytes() < max_bytes
            && let Some(Some(event)) = self.exchange.next().now_or_never()
        {
            if self.read(event).await? {
                return Ok(true);
            }
        }
        self.journal.records(self.exchange.take_records());
        Ok(false)
    }

    /// Adds an event to the log. Returns whether it was the last one.
    async fn read(&mut self, event: ClientEvent) -> Result<bool, Lost> {
        self.journal.records(self.exchange.take_records());
        let event = match self.journal.is_full() {
            true => ClientEvent::Failed(too_large()),
            false => event,
        };
        let events = self.writer.event(&event);
        match event {
            ClientEvent::Done { .. } => {
                if let Some(items) = &self.items {
                    items.store(&self.writer.body());
                }
                self.exchange.end_record(None);
            }
            ClientEvent::Failed(error) => self.exchange.end_record(Some(&error.message)),
            ClientEvent::Cancelled => self.exchange.end_record(Some("the key was revoked")),
            _ => {
                self.journal.events(&events);
                return Ok(false);
            }
        }
        let kept = self.exchange.take_kept();
        let body = self.writer.body().to_string();
        let Some(recording) = self.recording.take() else { return Ok(true) };
        let large = is_large(recording.len() + body.len());
        let write = move || recording.write(body, kept);
        let records = match large {
            true => spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string())),
            false => write(),
        };
        let Records { response, conversation, lock } = match records {
            Ok(records) => {
                self.journal.events(&events);
                records
            }
            Err(problem) => {
                tracing::error!(problem, "a response in the background is not stored");
                self.fail();
                Records { response: self.in_progress(), conversation: None, lock: None }
            }
        };
        if let Err(Lost) = self.journal.write_end(response).await {
            // The gateway that continues the response has the same lock of the conversation.
            if let Some(lock) = lock {
                lock.keep();
            }
            return Err(Lost);
        }
        // Only after the response: a gateway that has lost the lease must not change the conversation.
        if let (Some(content), Some(lock)) = (conversation, &lock)
            && let Err(problem) = lock.write(content).await
        {
            tracing::error!(problem, "a conversation is not stored");
        }
        if let Some(lock) = lock {
            lock.release().await;
        }
        Ok(true)
    }

    /// Ends the response with an error, because it cannot be stored.
    fn fail(&mut self) {
        let events = self.writer.event(&ClientEvent::Failed(too_large()));
        self.journal.events(&events);
        self.stored.background = None;
    }
}

fn too_large() -> ClientError {
    ClientError::new(ErrorKind::TooLarge, "the response is too large to be stored")
}
