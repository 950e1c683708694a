//! One connection: what its requests have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{PaginatedRequestParams, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::caller::RunningCall;
use super::raw_responses::RawResponses;
use super::rounds::Rounds;
use super::shared::Shared;
use super::subscribed::Subscribed;
use crate::changes::Change;
use crate::client::Level;
use crate::wire;

/// One connection; over stateless HTTP, one request.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    /// The least level of log messages that the client wants, where it says so once for all.
    pub(super) level: Mutex<Level>,
    pub(super) subscribed: Subscribed,
    /// Opened before a subscription is acknowledged, so that nothing is missed from then on.
    pub(super) opened: Mutex<VecDeque<broadcast::Receiver<Change>>>,
    pub(super) ended: CancellationToken,
    _ends: DropGuard,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Connection {
        let ended = CancellationToken::new();
        Connection {
            shared,
            level: Mutex::new(Level::Info),
            subscribed: Subscribed::default(),
            opened: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }

    /// A running for a request that may lead to questions. `state` is bound to what `request` makes of it.
    pub(super) fn start_call(
        &self,
        context: &Arc<RequestContext<RoleServer>>,
        responses: Option<BTreeMap<String, Value>>,
        state: Option<&str>,
        request: &RequestBinding<'_>,
    ) -> Result<RunningCall, ErrorData> {
        let modern = is_modern(context);
        let rounds = if modern {
            let bound = state.map(|_| request.to_bytes()).unwrap_or_default();
            let rounds = Rounds::new(responses, state, &bound, &self.shared.signature);
            let refused = |_| {
                ErrorData::invalid_params(
                    "`requestState` was not issued by this server for this request",
                    None,
                )
            };
            Some(rounds.map_err(refused)?)
        } else {
            None
        };
        let level = match modern {
            true => context.meta.log_level().map(wire::level_in),
            false => Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        Ok(RunningCall::new(context, level, rounds, &self.shared))
    }

    /// RawResponses with JSON as it is. What the SDK is given then never leaves.
    pub(super) fn respond(&self, context: &RequestContext<RoleServer>, mut answer: Map<String, Value>) {
        if is_modern(context) {
            answer.entry("resultType").or_insert_with(|| json!("complete"));
        }
        let answers = RawResponses::of(context).expect("every transport here has a place for answers");
        answers.put(context.id.clone(), answer);
    }

    /// A list, or contents, that clients may keep for a while.
    pub(super) fn respond_cacheable(&self, context: &RequestContext<RoleServer>, key: &str, value: Value) {
        let mut answer = Map::from_iter([(key.to_owned(), value)]);
        if is_modern(context) {
            let caching = self.shared.server.offers.caching;
            let max_age = u64::try_from(caching.max_age.as_millis()).unwrap_or(u64::MAX);
            answer.insert("ttlMs".to_owned(), json!(max_age));
            answer.insert("cacheScope".to_owned(), json!(if caching.shared { "public" } else { "private" }));
        }
        self.respond(context, answer);
    }

    pub(super) fn input_required(
        &self,
        running: &RunningCall,
        request: &RequestBinding<'_>,
    ) -> Map<String, Value> {
        let within = self.shared.server.offers.reply_timeout;
        let rounds = running.rounds().expect("only rounds end a call with questions");
        rounds.questions(&request.to_bytes(), &self.shared.signature, within)
    }
}

/// What a `requestState` belongs to.
pub(super) struct RequestBinding<'a> {
    pub(super) method: &'static str,
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a Map<String, Value>>,
}

impl RequestBinding<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        // The order of keys is not the client's promise.
        let arguments: Option<BTreeMap<&String, &Value>> =
            self.arguments.map(|arguments| arguments.iter().collect());
        json!([self.method, self.name, arguments]).to_string().into_bytes()
    }
}

/// Whether the request is of the era without sessions and without requests to the client.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

pub(super) fn request_cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

pub(super) fn panicked() -> ErrorData {
    ErrorData::internal_error("internal server error", None)
}

/// There is one page, and no cursor leads to another.
pub(super) fn reject_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("unknown `cursor`", None)),
    }
}
