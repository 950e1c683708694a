//! Continues responses whose gateway has died.
//!
//! A call that may have taken effect is made again only if its tool declares that this is safe. The result of
//! any other one tells the model that the outcome is unknown.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use toolwire_contract::Message;
use toolwire_contract::model::Usage;
use toolwire_contract::state::StateKey;
use toolwire_dialect::Family;
use toolwire_dialect::client::{ClientError, ClientEvent, ErrorKind, ResponseWriter};

use super::CallGate;
use super::ending::stored_head;
use super::journal::{Journal, RENEWALS, SavedProgress};
use super::run::BackgroundRun;
use super::start::{SavedRequest, StoredBackground};
use crate::complete::StoredParts;
use crate::gateway::{Caller, Hold, Inner};
use crate::ids::random_text;
use crate::items::ClientItems;
use crate::keys::WorkOwner;
use crate::meter::Estimate;
use crate::principal::{Principal, now};
use crate::request_body::RequestBody;
use crate::response::Failure;
use crate::state::input::{NewInput, expanded};
use crate::state::record::StoredResponse;
use crate::state::recording::Recording;
use crate::state::{ResponseStorage, no_store, not_found, unavailable};

/// The progress of a response that another gateway has begun.
pub(crate) struct Resumed {
    /// The messages before the response, if they contain more than the request.
    pub(crate) history: Option<Vec<Arc<Message>>>,
    /// The messages of the response.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The calls of the last message that may have taken effect.
    pub(crate) started: HashSet<String>,
    pub(crate) usage: Usage,
}

/// The maximum number of gateways that continue a response, one after the other. If all of them end while
/// they write it, the response itself may be the reason.
const MAX_TAKEOVERS: u32 = 3;

/// The outcome of the attempt to continue a response.
pub(super) enum Takeover {
    /// Another gateway has the lease.
    IsHeld,
    /// The response is complete now, or was removed.
    IsComplete(Option<Box<StoredResponse>>),
    /// This gateway cannot continue the response now: the key is unknown, or there is no place.
    IsRefused,
    /// This gateway continues the response, or ends it.
    Begun,
}

impl Inner {
    /// Returns a stored response. If its gateway has died, this one continues it.
    pub(in crate::state) async fn recovered(
        self: &Arc<Inner>,
        principal: &Principal,
        key: &StateKey,
    ) -> Result<Option<StoredResponse>, Failure> {
        let storage = self.settings.responses.as_ref().ok_or_else(|| not_found(key.id()))?;
        let Some(stored) = storage.find::<StoredResponse>(&self.large_bodies, key).await? else {
            return Ok(None);
        };
        let backgrounds = &self.backgrounds;
        if !stored.is_running() || backgrounds.is_closing() || backgrounds.progress(key).is_some() {
            return Ok(Some(stored));
        }
        // Other keys of the tenant may have other rights. After the deadline, each of them ends the response.
        let is_of_other_key = |background: &StoredBackground| {
            background.key_id.as_deref() != principal.key_id() && background.deadline.0 > now().0
        };
        if stored.background.as_ref().is_some_and(is_of_other_key) {
            return Ok(Some(stored));
        }
        match self.take(storage, key, Some(principal)).await? {
            // The other gateway may have completed it in the meantime.
            Takeover::IsComplete(found) => Ok(found.map(|found| *found)),
            Takeover::IsHeld | Takeover::IsRefused | Takeover::Begun => Ok(Some(stored)),
        }
    }

    /// Continues a response if its gateway has died. `reader` is the caller who asks for it, if there is one.
    pub(super) async fn take(
        self: &Arc<Inner>,
        storage: &ResponseStorage,
        key: &StateKey,
        reader: Option<&Principal>,
    ) -> Result<Takeover, Failure> {
        let claim = self.new_lease(key)?;
        let lease = claim.lifetime;
        if !storage.store.claim(&claim).await.map_err(|error| unavailable(&error))? {
            return Ok(Takeover::IsHeld);
        }
        let mut journal = Journal::new(storage.clone(), claim);
        let mut stored = match storage.find::<StoredResponse>(&self.large_bodies, key).await {
            Ok(Some(stored)) if stored.is_running() => stored,
            Ok(Some(stored)) => {
                journal.finish().await;
                return Ok(Takeover::IsComplete(Some(stored.into())));
            }
            Ok(None) => {
                match storage.store.get(key).await {
                    Ok(None) => journal.finish().await,
                    // A gateway of another version may be able to read it.
                    _ => journal.hand_over(None, lease).await,
                }
                return Ok(Takeover::IsComplete(None));
            }
            Err(failure) => {
                journal.hand_over(None, lease).await;
                return Err(failure);
            }
        };
        if let Some(end) = end_without_takeover(stored.background.as_ref()) {
            self.end_in_background(journal, stored, end);
            return Ok(Takeover::Begun);
        }
        let owner = match (&stored.background, reader) {
            (Some(background), Some(reader)) if background.key_id.as_deref() == reader.key_id() => {
                // The credentials of the reader may be those of another user of the key.
                WorkOwner::Known(self.with_user_headers(reader.clone(), &HeaderMap::new()))
            }
            (Some(StoredBackground { key_id, token, .. }), _) => {
                let keys = &self.settings.keys;
                match keys.work_owner(key_id.as_deref(), token.as_ref(), key.owner()).await {
                    WorkOwner::Known(owner) => {
                        WorkOwner::Known(self.with_user_headers(owner, &HeaderMap::new()))
                    }
                    other => other,
                }
            }
            (None, _) => WorkOwner::Unknown,
        };
        let principal = match owner {
            WorkOwner::Known(principal) => principal,
            WorkOwner::Invalid => {
                self.end_in_background(journal, stored, ClientEvent::Cancelled);
                return Ok(Takeover::Begun);
            }
            WorkOwner::Unknown => {
                journal.hand_over(None, lease).await;
                return Ok(Takeover::IsRefused);
            }
        };
        let hold = Hold::default();
        match self.admission.continue_background(&principal) {
            Some(place) => hold.keep(place),
            None => {
                match reader {
                    // Its time stays as it is, so that a gateway with free places continues it.
                    Some(_) => journal.release().await,
                    None => journal.hand_over(None, self.retry_pause()).await,
                }
                return Ok(Takeover::IsRefused);
            }
        }
        if let Some(background) = &mut stored.background {
            journal.set_deadline(background.deadline);
            background.takeovers += 1;
        }
        let (inner, progress) = (self.clone(), journal.progress());
        self.backgrounds.spawn(key.clone(), progress, async move {
            inner.take_over(principal, journal, stored, hold).await;
        });
        Ok(Takeover::Begun)
    }

    /// The time until a gateway looks again at a response that it cannot continue now.
    pub(super) fn retry_pause(&self) -> Duration {
        self.settings.limits.background_lease / RENEWALS
    }

    /// Ends a response that no gateway continues.
    fn end_in_background(self: &Arc<Inner>, journal: Journal, stored: StoredResponse, end: ClientEvent) {
        let (inner, key, progress) = (self.clone(), journal.key().clone(), journal.progress());
        self.backgrounds.spawn(key, progress, async move { inner.end_now(journal, stored, &end).await });
    }

    async fn end_now(self: &Arc<Inner>, journal: Journal, stored: StoredResponse, end: &ClientEvent) {
        if let Err(failure) = self.end_response(journal, stored, end).await {
            tracing::warn!(problem = failure.error.message, "a response cannot be ended");
        }
    }

    async fn take_over(
        self: Arc<Inner>,
        principal: Principal,
        mut journal: Journal,
        mut stored: StoredResponse,
        hold: Hold,
    ) {
        tracing::info!(key = %journal.key(), "this gateway continues a response whose gateway has died");
        // Before anything else, so that the attempt counts if this gateway ends too.
        let Ok(document) = serde_json::to_string(&stored) else { return };
        if journal.write(Some(document)).await.is_err() {
            return;
        }
        let background = stored.background.take();
        let rebuilt =
            self.rebuilt(&principal, &mut journal, &stored, background.as_ref(), hold.clone()).await;
        stored.background = background;
        match rebuilt {
            Ok(Rebuilt { exchange, writer, recording, items, gate }) => {
                let revocation = self.revocation(&principal);
                let recording = Some(recording);
                let run = BackgroundRun {
                    journal,
                    exchange,
                    writer,
                    recording,
                    items,
                    gate,
                    revocation,
                    stored,
                    hold,
                };
                run.drive(self.backgrounds.stop.clone()).await;
            }
            Err(Refusal::Later) => {
                let lease = journal.lease();
                journal.hand_over(stored.without_takeover(), lease).await;
            }
            Err(Refusal::Final(error)) => {
                self.end_now(journal, stored, &ClientEvent::Failed(error)).await;
            }
        }
    }

    /// Creates the run again, as it was at the last entry of the log.
    async fn rebuilt(
        self: &Arc<Inner>,
        principal: &Principal,
        journal: &mut Journal,
        stored: &StoredResponse,
        background: Option<&StoredBackground>,
        hold: Hold,
    ) -> Result<Rebuilt, Refusal> {
        let family = Family::OpenAiResponses;
        let storage = self.settings.responses.as_ref().ok_or_else(no_store)?;
        let Some(StoredBackground { deadline, conversation, request: Some(request), .. }) = background else {
            return Err(Refusal::Final(not_continuable()));
        };
        let left = Duration::from_millis(deadline.0.saturating_sub(now().0));
        let progress = SavedProgress::read(storage, journal.key()).await.map_err(|_| Refusal::Later)?;
        let SavedProgress { length, written, messages, started, usage } = progress;
        journal.start_at(length);
        let body = RequestBody::read(Bytes::from(request.body.get().to_owned()))?;
        let body = RequestBody::read(expanded(&body, &stored.input, &NewInput::default()))?;
        let estimate = || Estimate::of(body.text().as_bytes(), body.output_limit());
        let keys = &self.settings.keys;
        // The other gateway may have counted its part, and each id is counted once.
        let meter_id =
            random_text(20).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        let meter = self.meters.begin(keys, principal, &meter_id, left, estimate).await;
        let caller = Caller {
            principal: principal.clone(),
            request_id: request.request_id.clone(),
            deadline: Instant::now() + left,
            client_deadline: None,
            // The key has reached a limit, which a later request may find free again.
            meter: meter.map_err(|_| Refusal::Later)?,
            recorder: None,
            span: None,
            hold,
        };
        let headers = headers_of(request);
        let mut prepared = {
            let (inner, principal, headers) = (self.clone(), principal.clone(), headers.clone());
            let read = move || inner.prepare(family, &principal, &headers, &body);
            self.large_bodies.run(read).await??
        };
        let mut head = stored_head(stored);
        head.shows_thinking = prepared.head.shows_thinking;
        head.shows_server_calls = prepared.head.shows_server_calls;
        head.tool_forms = std::mem::take(&mut prepared.head.tool_forms);
        let shown = written.items().iter().filter(|item| item["type"] == "mcp_list_tools");
        let shown = shown.filter_map(|item| item["server_label"].as_str().map(str::to_owned));
        prepared.listed_servers.extend(shown);
        head.written = Some(written);
        prepared.head = head;
        self.connect_servers(family, &caller, &mut prepared).await?;
        let writer = ResponseWriter::new(family, prepared.head.clone()).ok_or_else(|| {
            Failure::new(ErrorKind::Internal, "the gateway cannot write responses of this API")
        })?;
        let items = Some(ClientItems { items: self.items.clone(), principal: principal.clone() });
        let conversation = match conversation {
            Some((id, holder)) => Some(self.relock_conversation(principal, id, holder).await?),
            None => None,
        };
        let recording = Recording::resumed(
            storage.clone(),
            principal.clone(),
            self.items.clone(),
            stored.input.clone(),
            conversation,
        );
        let (sender, gate) = CallGate::new();
        let resumed = Resumed { history: request.history.clone(), messages, started, usage };
        let parts = StoredParts {
            response_id: Some(prepared.head.id.clone()),
            continuation: None,
            pause: None,
            gate: Some(sender),
            resumed: Some(resumed),
        };
        let exchange = self.start(family, caller, prepared, parts)?;
        Ok(Rebuilt { exchange, writer, recording, items, gate })
    }
}

/// Returns the end of a response that no gateway continues.
fn end_without_takeover(background: Option<&StoredBackground>) -> Option<ClientEvent> {
    let Some(StoredBackground { deadline, request: Some(_), takeovers, .. }) = background else {
        return Some(ClientEvent::Failed(not_continuable()));
    };
    if deadline.0 <= now().0 {
        let error = ClientError::new(ErrorKind::TimedOut, "the response took too long");
        return Some(ClientEvent::Failed(error));
    }
    if *takeovers >= MAX_TAKEOVERS {
        let message = format!(
            "{} gateways have ended while they wrote this response, so it is not continued; it is unknown \
             which calls took effect",
            takeovers + 1
        );
        return Some(ClientEvent::Failed(ClientError::new(ErrorKind::Internal, message)));
    }
    None
}

fn not_continuable() -> ClientError {
    let message = "the gateway that wrote this response has ended, and others cannot continue it: the \
                   request contains credentials for servers or decisions about calls; it is unknown which \
                   calls took effect";
    ClientError::new(ErrorKind::Internal, message)
}

struct Rebuilt {
    exchange: crate::exchange::Exchange,
    writer: ResponseWriter,
    recording: Recording,
    items: Option<ClientItems>,
    gate: CallGate,
}

/// The reason why a response is not continued.
enum Refusal {
    /// A later request may succeed.
    Later,
    Final(ClientError),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure.error.kind {
            // The store may work again.
            ErrorKind::Overloaded => Refusal::Later,
            _ => Refusal::Final(failure.error),
        }
    }
}

fn headers_of(request: &SavedRequest) -> HeaderMap {
    let header = |(name, value): &(String, String)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    };
    request.headers.iter().filter_map(header).collect()
}
