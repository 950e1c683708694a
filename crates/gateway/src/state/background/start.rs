//! Starts responses in the background.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use toolwire_contract::Message;
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::state::{Claim, StateKey};
use toolwire_dialect::Family;
use toolwire_dialect::client::{ErrorKind, ResponseWriter};

use super::journal::{Journal, Lost};
use super::run::BackgroundRun;
use super::{Backgrounds, CallGate};
use crate::exchange::Exchange;
use crate::gateway::{Hold, Inner};
use crate::ids::random_text;
use crate::items::ClientItems;
use crate::large_bodies::is_large;
use crate::principal::{Principal, SavedToken, now};
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse, json};
use crate::state::record::{ModelState, StoredResponse, check_size};
use crate::state::recording::Recording;
use crate::state::{no_store, response_key, unavailable};

/// What is stored about a response in the background until it is complete.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::state) struct StoredBackground {
    /// The end of the gateway's `backgroundTimeout`.
    pub(super) deadline: Timestamp,
    /// The id of the key of the request, with whose rights and limits the response is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key_id: Option<String>,
    /// The owner of the token, if the request has a token instead of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<SavedToken>,
    /// The id of the conversation that gets the items, and the holder of its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) conversation: Option<(String, String)>,
    /// What another gateway needs to continue; `None` if it cannot continue the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<SavedRequest>,
    /// The number of gateways that have continued the response, without those that have handed it over.
    #[serde(default)]
    pub(in crate::state) takeovers: u32,
}

/// A request, without anything that other gateways do not have.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedRequest {
    pub(super) request_id: String,
    /// The body without `input`: the items are stored with the response.
    pub(super) body: Box<RawValue>,
    /// The headers of the gateway's options.
    pub(super) headers: Vec<(String, String)>,
    /// The messages before the response, if they contain more than the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<Vec<Arc<Message>>>,
}

/// The start of the names of headers with options of the gateway.
const OPTION_HEADERS: &str = "x-toolwire-";

impl SavedRequest {
    /// Returns what another gateway needs to continue a response; `None` if it could not, because credentials
    /// of servers are not stored.
    pub(crate) fn new(request_id: &str, headers: &HeaderMap, body: &RequestBody) -> Option<SavedRequest> {
        if has_credentials(body) {
            return None;
        }
        let options = headers.iter().filter(|(name, _)| name.as_str().starts_with(OPTION_HEADERS));
        let options =
            options.map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
        let text = String::from_utf8(body.without("input").to_vec()).ok()?;
        Some(SavedRequest {
            request_id: request_id.to_owned(),
            body: RawValue::from_string(text).ok()?,
            headers: options.collect::<Option<_>>()?,
            history: None,
        })
    }
}

/// Whether tools of the request have credentials for their servers.
fn has_credentials(body: &RequestBody) -> bool {
    let tools: Vec<Value> =
        body.raw("tools").and_then(|tools| serde_json::from_slice(tools).ok()).unwrap_or_default();
    let is_secret = |tool: &Value| ["authorization", "headers"].iter().any(|key| !tool[*key].is_null());
    tools.iter().any(is_secret)
}

/// A response that continues in the background.
pub(crate) struct BackgroundResponse {
    pub(crate) exchange: Exchange,
    pub(crate) writer: ResponseWriter,
    pub(crate) id: String,
    pub(crate) recording: Recording,
    pub(crate) items: Option<ClientItems>,
    pub(crate) gate: CallGate,
    pub(crate) hold: Hold,
    pub(crate) request: Option<SavedRequest>,
    pub(crate) is_stream: bool,
}

impl Inner {
    /// Whether a response is requested in the background.
    pub(crate) fn is_background(
        &self,
        family: Family,
        body: &RequestBody,
        recording: Option<&Recording>,
    ) -> Result<bool, Failure> {
        const BACKGROUND: &str = "background";
        // Without a store, the request is refused later.
        if family != Family::OpenAiResponses || self.settings.responses.is_none() || !body.sets(BACKGROUND) {
            return Ok(false);
        }
        if body.raw(BACKGROUND) != Some(b"true") {
            return Err(Failure::invalid(BACKGROUND, "`background` must be `true` or `false`"));
        }
        match recording {
            Some(recording) if recording.stores_response => Ok(true),
            _ => Err(Failure::invalid(
                BACKGROUND,
                "`background` requires a stored response, and `store` is `false`",
            )),
        }
    }

    /// Returns a claim with a new holder, which is the fencing token of the lease.
    pub(super) fn new_lease(&self, key: &StateKey) -> Result<Claim, Failure> {
        let holder = random_text(20).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?;
        Ok(Claim { key: key.clone(), holder, lifetime: self.settings.limits.background_lease })
    }

    /// Ends when the key of a caller is revoked. The expiry of a token does not end a response that continues
    /// without its client.
    pub(super) fn revocation(&self, principal: &Principal) -> BoxFuture<'static, ()> {
        let revocation = match principal.is_token() {
            true => None,
            false => self.settings.keys.invalidation(principal),
        };
        revocation.unwrap_or_else(|| Box::pin(std::future::pending()))
    }

    /// Stores a response that has not begun, and writes it in the background. Returns the response as it is
    /// now, or the stream of its events.
    pub(crate) async fn begin_background(
        self: &Arc<Inner>,
        principal: &Principal,
        response: BackgroundResponse,
    ) -> Result<HttpResponse, Failure> {
        let BackgroundResponse { exchange, writer, id, mut recording, items, gate, hold, .. } = response;
        let key = response_key(principal, &id)
            .ok_or_else(|| Failure::new(ErrorKind::Internal, "the id of the response is invalid"))?;
        let body = writer.body();
        let mut request = response.request;
        if let Some(request) = &mut request {
            request.history = exchange.hidden_history();
        }
        let text = body.to_string();
        let is_large = is_large(recording.len() + text.len());
        let storage = recording.storage().clone();
        let conversation = recording.conversation_lock();
        let timeout = u64::try_from(self.settings.limits.background_timeout.as_millis()).unwrap_or(u64::MAX);
        let deadline = Timestamp(now().0.saturating_add(timeout));
        let (key_id, token) = (principal.key_id().map(str::to_owned), principal.saved_token());
        let write = move || {
            let input = recording.resolve_input(&id)?;
            let response = RawValue::from_string(text).map_err(|error| error.to_string())?;
            let background =
                Some(StoredBackground { deadline, key_id, token, conversation, request, takeovers: 0 });
            let stored = StoredResponse { response, input, model: ModelState::default(), background };
            let document = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
            Ok::<_, String>((recording, stored, document))
        };
        let written = match is_large {
            true => spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string())),
            false => write(),
        };
        let (recording, stored, document) = written.map_err(|problem| Failure::invalid("input", problem))?;
        check_size(&document).map_err(|problem| {
            Failure::new(ErrorKind::TooLarge, format!("the conversation cannot be stored: {problem}"))
        })?;
        let claim = self.new_lease(&key)?;
        if !storage.store.claim(&claim).await.map_err(|error| unavailable(&error))? {
            return Err(Failure::new(ErrorKind::Internal, "the id of the response is in use"));
        }
        let mut journal = Journal::new(storage.clone(), claim);
        journal.set_deadline(deadline);
        // Before the document, so that each document is in the list. An entry without a document is removed.
        if !journal.list().await {
            return Err(no_store());
        }
        journal.write(Some(document)).await.map_err(|Lost| no_store())?;
        let revocation = self.revocation(principal);
        let recording = Some(recording);
        hold.begin_background();
        let run =
            BackgroundRun { journal, exchange, writer, recording, items, gate, revocation, stored, hold };
        self.backgrounds.start(run);
        match response.is_stream {
            true => self.event_stream(principal, key, None).await,
            false => Ok(json(StatusCode::OK, &body)),
        }
    }
}

impl Backgrounds {
    fn start(self: &Arc<Backgrounds>, run: BackgroundRun) {
        let (key, progress) = (run.journal.key().clone(), run.journal.progress());
        self.spawn(key, progress, run.drive(self.stop.clone()));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_with_credentials_is_not_saved() {
        let saved = |body: &str| {
            let body = RequestBody::read(Bytes::from(body.to_owned())).expect("a body");
            let mut headers = HeaderMap::new();
            headers.insert("authorization", HeaderValue::from_static("Bearer secret"));
            headers.insert("x-toolwire-servers", HeaderValue::from_static("a"));
            SavedRequest::new("req_1", &headers, &body)
        };
        let body =
            r#"{"tools":[{"type":"mcp","server_label":"a"},{"type":"function","name":"b"}],"input":"x"}"#;
        let request = saved(body).expect("a request");
        let without = body.replace(r#","input":"x""#, "");
        assert_eq!((request.body.get(), request.headers.len()), (without.as_str(), 1));
        assert!(!serde_json::to_string(&request).expect("JSON").contains("secret"));
        for secret in [r#""authorization":"x""#, r#""headers":{"x-key":"y"}"#] {
            assert!(saved(&format!(r#"{{"tools":[{{"type":"mcp",{secret}}}]}}"#)).is_none(), "{secret}");
        }
    }
}
