//! The events of a response in the background, from its log. A client can leave and read on later, at any
//! gateway.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use toolwire_contract::state::StateKey;

use super::journal::read_events;
use crate::gateway::Inner;
use crate::principal::Principal;
use crate::response::{Failure, HEARTBEAT, HttpResponse, Interrupted, events};
use crate::state::{ResponseStorage, not_found, unavailable};

/// The time after which the log of a response that another gateway writes is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The last event of a stream is one of these.
const LAST: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

/// The events of one response for one client.
struct EventStream {
    inner: Arc<Inner>,
    storage: ResponseStorage,
    principal: Principal,
    key: StateKey,
    /// The position in the log.
    position: u64,
    /// The number of the last event that the client has.
    after: Option<u64>,
    is_complete: bool,
    /// Whether the last wait ended at once, and there was nothing to read.
    has_missed: bool,
    next_heartbeat: Instant,
    /// The time when it is checked whether another gateway still writes the response.
    next_check: Instant,
    /// What was read before the stream began.
    first: Option<String>,
}

#[derive(Deserialize)]
struct EventFields<'t> {
    #[serde(rename = "type", borrow)]
    type_name: std::borrow::Cow<'t, str>,
    #[serde(default)]
    sequence_number: u64,
}

impl Inner {
    /// Returns the events of a response after the one with a number.
    pub(in crate::state) async fn event_stream(
        self: &Arc<Inner>,
        principal: &Principal,
        key: StateKey,
        after: Option<u64>,
    ) -> Result<HttpResponse, Failure> {
        let storage = self.settings.responses.clone().ok_or_else(|| not_found(key.id()))?;
        let now = Instant::now();
        let mut stream = EventStream {
            next_heartbeat: now + self.settings.limits.heartbeat,
            next_check: now,
            inner: self.clone(),
            storage,
            principal: principal.clone(),
            key,
            position: 0,
            after,
            is_complete: false,
            has_missed: false,
            first: None,
        };
        let mut first = stream.read().await?;
        if stream.position == 0 && !stream.is_running().await? {
            // The response may have become complete in the meantime.
            first = stream.read().await?;
        }
        if stream.position == 0 && !stream.is_running().await? {
            let message = "the events of the response have expired; request the response without `stream`";
            return Err(Failure::invalid("stream", message));
        }
        stream.first = Some(first).filter(|first| !first.is_empty());
        Ok(events(stream::unfold(stream, |mut stream| async move {
            let part = stream.next().await?;
            Some((part, stream))
        })))
    }
}

impl EventStream {
    /// Returns the next events, or a comment that keeps the connection alive.
    async fn next(&mut self) -> Option<Result<Bytes, Interrupted>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first.into()));
        }
        loop {
            if self.is_complete {
                return None;
            }
            let before = self.position;
            match self.read().await {
                Ok(text) if !text.is_empty() => {
                    self.next_heartbeat = Instant::now() + self.inner.settings.limits.heartbeat;
                    self.has_missed = false;
                    return Some(Ok(text.into()));
                }
                Ok(_) if self.position > before => {
                    self.has_missed = false;
                    continue;
                }
                Ok(_) => {}
                // The client can read on at another gateway.
                Err(_) => return self.interrupted(),
            }
            if Instant::now() >= self.next_heartbeat {
                self.next_heartbeat = Instant::now() + self.inner.settings.limits.heartbeat;
                return Some(Ok(Bytes::from_static(HEARTBEAT)));
            }
            let is_stopped = self.inner.backgrounds.stop.is_cancelled();
            if self.wait().await || (!is_stopped && Instant::now() < self.next_check) {
                continue;
            }
            let is_running = match is_stopped {
                // Another gateway continues the response, and the client can read on there.
                true => Ok(false),
                false => self.is_running().await,
            };
            match is_running {
                Ok(true) => {}
                // The last event was written together with the end.
                Ok(false) => match self.read().await {
                    Ok(text) if !text.is_empty() => return Some(Ok(text.into())),
                    _ => return self.interrupted(),
                },
                Err(_) => return self.interrupted(),
            }
        }
    }

    fn interrupted(&mut self) -> Option<Result<Bytes, Interrupted>> {
        self.is_complete = true;
        Some(Err(Interrupted))
    }

    /// Waits until there may be more entries. Returns whether this process writes the response.
    async fn wait(&mut self) -> bool {
        let progress = self.inner.backgrounds.progress(&self.key);
        if let Some(mut progress) = progress
            && progress.has_changed().is_ok()
        {
            let position = self.position;
            if *progress.borrow() > position && !std::mem::replace(&mut self.has_missed, true) {
                return true;
            }
            if *progress.borrow() > position {
                // The entries have expired or were removed.
                tokio::time::sleep(POLL_INTERVAL).await;
                return false;
            }
            let has_more = progress.wait_for(|written| *written > position);
            // An error means that the response is complete.
            let _ = tokio::time::timeout_at(self.next_heartbeat, has_more).await;
            return true;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        false
    }

    /// Whether the response is not complete. If its gateway has died, this one continues it.
    async fn is_running(&mut self) -> Result<bool, Failure> {
        self.next_check = Instant::now() + self.inner.settings.limits.background_lease / 2;
        let stored = self.inner.recovered(&self.principal, &self.key).await?;
        Ok(stored.ok_or_else(|| not_found(self.key.id()))?.is_running())
    }

    /// Reads the next events that the client does not have.
    async fn read(&mut self) -> Result<String, Failure> {
        let read = read_events(&self.storage, &self.key, self.position).await;
        let (events, position) = read.map_err(|error| unavailable(&error))?;
        self.position = position;
        let mut text = String::new();
        for data in events {
            self.add(&mut text, &data);
        }
        Ok(text)
    }

    fn add(&mut self, text: &mut String, data: &RawValue) {
        let Ok(EventFields { type_name, sequence_number }) = serde_json::from_str(data.get()) else { return };
        self.is_complete |= LAST.contains(&&*type_name);
        if self.after.is_none_or(|after| sequence_number > after) {
            text.push_str(&format!("event: {type_name}\ndata: {data}\n\n"));
        }
    }
}
